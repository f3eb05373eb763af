"""PU generation: which examples are labeled, unlabeled, held out and tested in one trial of one problem.

A draw is a function of (dataset, case, setting, rate, prior, labeling, trial, salt) and of nothing else, so that every
algorithm and configuration of a trial sees the same data.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import KW_ONLY, dataclass, fields

import numpy as np
import numpy.typing as npt

from puarena.datasets.dataset import Dataset, Flags, Indices
from puarena.errors import UserError
from puarena.pu import labeling
from puarena.pu.allocation import Allocation
from puarena.pu.labeling import Candidates, Setting
from puarena.pu.posterior import logit
from puarena.pu.problem import Problem
from puarena.pu.sizes import Sizes
from puarena.utils.counts import CLOSE, mixture, rounded, stratified_test_counts, truncated


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
    setting: Setting  # its code or title will do

    def __post_init__(self) -> None:
        object.__setattr__(self, "setting", labeling.get(self.setting))
        _lock(self)


@dataclass(frozen=True)
class Bias:
    """How strong the bias of a draw came out."""

    label_strength: float  # (mean_P t - mean_+ t) / sd_+ t along the logit t of the posterior
    posterior_auc: (
        float  # of the model that the posterior comes from, on the examples it was fitted to
    )
    effective: float  # effective sample size of the weights 1 / propensity, as a share of P
    by_class: dict[str, int]  # labels of every positive class


@dataclass(frozen=True, eq=False)
class HiddenLabels:
    """True labels (``True`` = positive), for the oracle criteria, the frames and the test metrics only.

    True propensities too: only a simulator has them.
    """

    u_train: Flags
    u_val: Flags
    test: Flags
    _: KW_ONLY
    propensity_train: npt.NDArray[np.float64] | None = (
        None  # chance of a label of every member of P, where it is known
    )
    propensity_val: npt.NDArray[np.float64] | None = None
    bias: Bias | None = None  # None where labels are given at random

    def __post_init__(self) -> None:
        _lock(self)


def draw_pu_data(
    dataset: Dataset, problem: Problem, trial: int, salt: str = ""
) -> tuple[PUData, HiddenLabels]:
    """Draw the labeled, unlabeled, validation and test examples of one trial.

    The test set keeps its natural class frequencies as long as the prior is the one of the base sample (one half for
    the paper's datasets); for any other prior it is thinned to that prior like the training examples.
    """
    positive = dataset.positive(problem.case)
    prior = dataset.prior_of(problem.case) if problem.prior is None else problem.prior
    rng = _generator(dataset.name, problem, prior, trial, salt)
    pool, test = _split_test(dataset, rng)
    members = _by_class(dataset, pool)
    allocation = Allocation(
        dataset, problem, prior, positive, np.array([len(part) for part in members], np.int64)
    )
    p_counts, u_counts = allocation.counts()

    setting = labeling.get(problem.setting)
    shares = list(zip([rng.permutation(part) for part in members], p_counts, u_counts, strict=True))
    parts = [
        setting.candidates(*share) if yes else share[0][:0]
        for share, yes in zip(shares, positive, strict=True)
    ]
    candidates = Candidates(dataset, pool, positive, parts, p_counts)
    mechanism = labeling.mechanism(problem.labeling)
    chances = mechanism.propensity(candidates)
    selected = mechanism.label(candidates, chances, rng)
    labeled = candidates.index[selected]
    p = rng.permutation(labeled)
    u = rng.permutation(np.concatenate([setting.unlabeled(*share, labeled) for share in shares]))
    if abs(prior - allocation.base) > CLOSE:
        test = _thin(dataset, test, positive, prior, rng)
    truth = positive[dataset.classes]
    if not 0 < truth[test].sum() < len(test):
        side = "negatives" if len(test) and truth[test].all() else "positives"
        raise UserError(
            f"the test set of '{dataset.name}' case {problem.case} has no {side}, so nothing can be scored"
        )

    drawn = Sizes(len(p), len(u))
    if (
        shared := np.isin(u, p)
    ).any():  # a held-out positive is held out in U, too: a tenth of both
        held = np.isin(u, p[: drawn.val_p])
        u = np.concatenate([u[held], u[~shared], u[shared & ~held]])
    rate = drawn.n_p / drawn.n
    data = PUData(
        p_train=p[drawn.val_p :],
        u_train=u[drawn.val_u :],
        p_val=p[: drawn.val_p],
        u_val=u[: drawn.val_u],
        test=test,
        prior=prior,
        rate=rate,
        shifted_prior=setting.prior_in_u(prior, rate),
        setting=setting,
    )
    propensity = np.full(len(truth), np.nan)
    propensity[candidates.index] = chances
    bias = None if mechanism.name == labeling.SCAR else _bias(candidates, chances, selected)
    hidden = HiddenLabels(
        truth[data.u_train],
        truth[data.u_val],
        truth[data.test],
        propensity_train=propensity[data.p_train],
        propensity_val=propensity[data.p_val],
        bias=bias,
    )
    return data, hidden


def _bias(candidates: Candidates, chances: npt.NDArray[np.float64], selected: Flags) -> Bias:
    t = logit(candidates.posterior)
    weights = 1 / chances[selected]
    names = candidates.dataset.class_names
    return Bias(
        label_strength=label_strength(t, selected),
        posterior_auc=candidates.model.auc,
        effective=float(weights.sum() ** 2 / (weights**2).sum() / len(weights)),
        by_class={
            names[k]: int((candidates.classes[selected] == k).sum())
            for k in np.flatnonzero(candidates.positive)
        },
    )


def label_strength(t: npt.NDArray[np.float64], selected: Flags) -> float:
    """Return how far the labeled lie above all positives along ``t``, in standard deviations of these."""
    spread = float(t.std())
    return float((t[selected].mean() - t.mean()) / spread) if spread else 0.0


def _generator(
    name: str, problem: Problem, prior: float, trial: int, salt: str
) -> np.random.Generator:
    key = [
        name,
        problem.case,
        problem.setting,
        f"{problem.rate:.12g}",
        f"{prior:.12g}",
        int(trial),
        str(salt),
    ]
    key += [] if problem.labeling == labeling.SCAR else [problem.labeling]
    key += [] if problem.labeled is None else [problem.labeled, problem.unlabeled]
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
        counts = stratified_test_counts(
            dataset.classes, len(dataset.class_names), dataset.test_fraction or 0.0
        )
        parts = _by_class(dataset, everything)
        test = np.concatenate(
            [rng.permutation(part)[:n] for part, n in zip(parts, counts, strict=True)]
        )
    else:
        test = rng.permutation(everything)[
            : rounded((dataset.test_fraction or 0.0) * len(everything))
        ]
    return np.setdiff1d(everything, test), np.sort(test)


def _thin(
    dataset: Dataset, test: Indices, positive: Flags, prior: float, rng: np.random.Generator
) -> Indices:
    """Keep the largest part of the test set that has the given prior, classes of a side in natural proportion."""
    members = _by_class(dataset, test)
    counts = np.array([len(part) for part in members], np.int64)
    p, n = counts * positive, counts * ~positive
    if not (p.sum() and n.sum()):
        return test
    total = truncated(min(p.sum() / prior, n.sum() / (1 - prior)))
    keep = mixture(total, prior, p, n)
    return np.sort(
        np.concatenate([rng.permutation(part)[:m] for part, m in zip(members, keep, strict=True)])
    )


def _lock(record: PUData | HiddenLabels) -> None:
    """Give the record arrays of its own that cannot be written."""
    for item in fields(record):
        value = getattr(record, item.name)
        if isinstance(value, np.ndarray):
            own = value.copy()
            own.setflags(write=False)
            object.__setattr__(record, item.name, own)
