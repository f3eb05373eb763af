"""PU generation: which examples are labeled, unlabeled, held out and tested in one trial of one problem.

A draw is a function of (dataset, case, setting, rate, prior, trial, salt) and of nothing else, so that every
algorithm and configuration of a trial sees the same data. Per-class numbers are fixed (stratified, not Bernoulli);
chance decides only which examples of a class are taken.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from puarena.data.dataset import Dataset, Flags, Indices
from puarena.data.problem import Problem, Sizes, label_frequency, rounded, shifted_prior, sizes, truncated
from puarena.errors import UserError

Counts = npt.NDArray[np.int64]  # [classes]
CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class PUData:
    """What an algorithm may know: indices into the features, and the constants of the problem. No hidden label."""

    p_train: Indices
    u_train: Indices
    p_val: Indices
    u_val: Indices
    test: Indices
    prior: float  # pi, nominal
    rate: float  # n_P / (n_P + n_U) of this draw
    shifted_prior: float  # class prior inside U
    setting: Literal["os", "ts"]

    def __post_init__(self) -> None:
        _lock(self)


@dataclass(frozen=True, eq=False)
class HiddenLabels:
    """True labels (``True`` = positive), for the oracle criterion, the oracle baseline and the test metrics only."""

    u_train: Flags
    u_val: Flags
    test: Flags

    def __post_init__(self) -> None:
        _lock(self)


def draw(dataset: Dataset, problem: Problem, trial: int, salt: str = "") -> tuple[PUData, HiddenLabels]:
    """Draw the labeled, unlabeled, validation and test examples of one trial.

    The test set keeps its natural class frequencies as long as the prior is the one of the base sample (one half for
    the paper's datasets); for any other prior it is thinned to that prior like the training examples.
    """
    positive = dataset.positive(problem.case)
    prior = dataset.prior_of(problem.case) if problem.prior is None else problem.prior
    rng = _generator(dataset.name, problem, prior, trial, salt)
    pool, test = _split_test(dataset, rng)
    members = _by_class(dataset, pool)
    plan = _Plan(dataset, problem, prior, positive, np.array([len(part) for part in members], np.int64))
    p_counts, u_counts = plan.counts()

    taken = [rng.permutation(part) for part in members]
    p = rng.permutation(np.concatenate([part[:n] for part, n in zip(taken, p_counts, strict=True)]))
    u = rng.permutation(np.concatenate([part[n : n + m] for part, n, m in zip(taken, p_counts, u_counts, strict=True)]))
    if abs(prior - plan.base) > CLOSE:
        test = _thin(dataset, test, positive, prior, rng)
    truth = positive[dataset.classes]
    if not 0 < truth[test].sum() < len(test):
        side = "negatives" if len(test) and truth[test].all() else "positives"
        raise UserError(f"the test set of '{dataset.name}' case {problem.case} has no {side}, so nothing can be scored")

    drawn = Sizes(len(p), len(u))
    rate = drawn.n_p / drawn.n
    inside_u = shifted_prior(prior, min(1.0, label_frequency(prior, rate))) if problem.setting == "os" else prior
    data = PUData(
        p_train=p[drawn.val_p :],
        u_train=u[drawn.val_u :],
        p_val=p[: drawn.val_p],
        u_val=u[: drawn.val_u],
        test=test,
        prior=prior,
        rate=rate,
        shifted_prior=inside_u,
        setting=problem.setting,
    )
    return data, HiddenLabels(truth[data.u_train], truth[data.u_val], truth[data.test])


def spread(total: int, weights: npt.NDArray[Any]) -> Counts:
    """Share ``total`` among classes in proportion to ``weights`` by largest remainder (ties: the lower class)."""
    if total == 0:
        return np.zeros(len(weights), np.int64)
    quota = total * weights / weights.sum()
    counts = np.floor(quota + CLOSE).astype(np.int64)
    order = np.argsort(-np.round(quota - counts, 9), kind="stable")
    counts[order[: total - counts.sum()]] += 1
    return counts


class _Plan:
    """How many examples of each class go to P and to U, and what to say when the pool cannot supply them."""

    def __init__(self, dataset: Dataset, problem: Problem, prior: float, positive: Flags, available: Counts) -> None:
        self.dataset, self.problem, self.prior = dataset, problem, prior
        self.positive, self.available = positive, available
        weights = np.ones(len(available)) if dataset.balanced else available.astype(float)
        self.p_weights, self.n_weights = weights * positive, weights * ~positive
        for side, total in (("positives", self.p_weights.sum()), ("negatives", self.n_weights.sum())):
            if not total:
                raise UserError(f"{self._where()}: the training pool has no {side}")
        self.base = float(self.p_weights.sum() / weights.sum())

    def counts(self) -> tuple[Counts, Counts]:
        """Return the numbers for P and U by class."""
        self._check_sizes()
        p, u = self._wanted(self.dataset.size)
        lack = self._lack(p, u)
        if lack.any():
            raise self._shortage(p, u, lack)
        return np.minimum(p, self.available - u), u

    def _wanted(self, size: int) -> tuple[Counts, Counts]:
        n = sizes(size, self.problem.rate, self.prior, self.base)
        if self.problem.setting == "ts":
            u_positive = rounded(self.prior * n.n_u)
            u = spread(u_positive, self.p_weights) + spread(n.n_u - u_positive, self.n_weights)
            return spread(n.n_p, self.p_weights), u
        positives = rounded(self.prior * n.n)
        sample = spread(positives, self.p_weights) + spread(n.n - positives, self.n_weights)
        # Shared out by the sample's own counts, so that no class labels more than it has there.
        p = spread(min(n.n_p, positives), sample * self.positive)
        return p, sample - p

    def _lack(self, p: Counts, u: Counts) -> Counts:
        """Missing examples by class; 0 where the shortfall is one the dataset tolerates."""
        missing = np.maximum(p + u - self.available, 0)
        tolerated = self.dataset.shortfall * p + CLOSE if self.problem.setting == "ts" else np.zeros(len(p))
        return np.where(missing > tolerated, missing, 0)

    def _check_sizes(self) -> None:
        n = sizes(self.dataset.size, self.problem.rate, self.prior, self.base)
        if self.problem.setting == "os" and n.n_p > (positives := rounded(self.prior * n.n)):
            worst = int(np.argmax(self.p_weights))
            has, needs = spread(positives, self.p_weights)[worst], spread(n.n_p, self.p_weights)[worst]
            raise UserError(
                f"{self._where()}: rate {self.problem.rate:g} is above the class prior {self.prior:g}, so the label "
                f"frequency c = {label_frequency(self.prior, self.problem.rate):.3g} would exceed 1: class "
                f"'{self.dataset.class_names[worst]}' has {has} examples in the sample and lacks {needs - has} of the "
                f"{needs} to be labeled; use a rate of at most {self.prior:g}"
            )
        if not (n.val_p and n.val_u):
            raise UserError(
                f"{self._where()}: {n.n_p} labeled and {n.n_u} unlabeled examples are too few, at least 10 of each are "
                "needed to hold out 10% for validation; use more data or another rate"
            )

    def _shortage(self, p: Counts, u: Counts, lack: Counts) -> UserError:
        worst = int(np.argmax(lack))
        others = int((lack > 0).sum()) - 1
        also = f" (and {others} more {'class is' if others == 1 else 'classes are'} short)" if others else ""
        fitting = self._largest_size()
        hint = f"; a size of at most {fitting} instead of {self.dataset.size} would fit" if fitting else ""
        return UserError(
            f"{self._where()}: class '{self.dataset.class_names[worst]}' has {self.available[worst]} training examples "
            f"but {p[worst] + u[worst]} are needed ({u[worst]} unlabeled, {p[worst]} labeled), so {lack[worst]} are "
            f"missing{also}{hint}; use a lower rate or another prior"
        )

    def _largest_size(self) -> int:
        low, high = 0, self.dataset.size
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._lack(*self._wanted(middle)).any() else (middle, high)
        return low

    def _where(self) -> str:
        problem = self.problem
        return f"{self.dataset.name} case {problem.case}, setting {problem.setting}, rate {problem.rate:g}"


def _generator(name: str, problem: Problem, prior: float, trial: int, salt: str) -> np.random.Generator:
    key = [name, problem.case, problem.setting, f"{problem.rate:.12g}", f"{prior:.12g}", int(trial), str(salt)]
    digest = hashlib.sha256(json.dumps(key).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))


def _by_class(dataset: Dataset, indices: Indices) -> list[Indices]:
    classes = dataset.classes[indices]
    return [indices[classes == label] for label in range(len(dataset.class_names))]


def _split_test(dataset: Dataset, rng: np.random.Generator) -> tuple[Indices, Indices]:
    if dataset.train is not None and dataset.test is not None:
        return dataset.train, dataset.test
    everything = np.arange(len(dataset.classes), dtype=np.int64)
    if dataset.stratify:
        counts = stratified_test_counts(dataset.classes, len(dataset.class_names), dataset.test_fraction or 0.0)
        parts = _by_class(dataset, everything)
        test = np.concatenate([rng.permutation(part)[:n] for part, n in zip(parts, counts, strict=True)])
    else:
        test = rng.permutation(everything)[: rounded((dataset.test_fraction or 0.0) * len(everything))]
    return np.setdiff1d(everything, test), np.sort(test)


def stratified_test_counts(classes: npt.NDArray[np.integer], class_count: int, fraction: float) -> Counts:
    """Return how many examples of each class a random test part takes when it is drawn class by class."""
    counts = np.bincount(classes, minlength=class_count)
    return spread(rounded(fraction * len(classes)), counts)


def _thin(dataset: Dataset, test: Indices, positive: Flags, prior: float, rng: np.random.Generator) -> Indices:
    """Keep the largest part of the test set that has the given prior, classes of a side in natural proportion."""
    members = _by_class(dataset, test)
    counts = np.array([len(part) for part in members], np.int64)
    p, n = counts * positive, counts * ~positive
    if not (p.sum() and n.sum()):
        return test
    total = truncated(min(p.sum() / prior, n.sum() / (1 - prior)))
    keep = spread(rounded(prior * total), p) + spread(total - rounded(prior * total), n)
    return np.sort(np.concatenate([rng.permutation(part)[:m] for part, m in zip(members, keep, strict=True)]))


def _lock(record: PUData | HiddenLabels) -> None:
    """Give the record arrays of its own that cannot be written."""
    for item in fields(record):
        value = getattr(record, item.name)
        if isinstance(value, np.ndarray):
            own = value.copy()
            own.setflags(write=False)
            object.__setattr__(record, item.name, own)
