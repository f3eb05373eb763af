"""The draw of one split: which examples are labeled, unlabeled, held out and tested.

A draw is a function of (dataset, case, setting, rate, prior, labeling, split, salt) and of nothing
else, so that every algorithm and configuration of a split sees the same data.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import KW_ONLY, dataclass, fields

import numpy as np
import numpy.typing as npt

from puarena.datasets.base import Dataset, Flags, Indices
from puarena.errors import UserError
from puarena.pu import labeling
from puarena.pu.labeling import Candidates, Setting
from puarena.pu.labeling.base import Chances, logit
from puarena.pu.problem import Problem
from puarena.pu.sizes import Allocation, Sizes
from puarena.utils.counts import (
    CLOSE,
    Counts,
    allocate_by_prior,
    count_test_examples,
    round_half_up,
    truncate,
)

MIN_OBSERVED = 10  # labeled, and unlabeled, examples: a tenth of them is held out


@dataclass(frozen=True, eq=False)
class PUData:
    """What an algorithm may know: indices into the features, and the constants of the problem.

    No true label of an unlabeled or test example can be reached from it.
    """

    p_train: Indices
    u_train: Indices
    p_val: Indices
    u_val: Indices
    test: Indices
    prior: float  # pi, nominal
    rate: float  # n_P / (n_P + n_U) of this draw
    shifted_prior: float  # class prior inside U
    setting: Setting  # its code or title is accepted

    def __post_init__(self) -> None:
        object.__setattr__(self, "setting", labeling.get_setting(self.setting))
        _copy_read_only(self)


@dataclass(frozen=True)
class LabelingBias:
    """The strength of the labeling bias in one draw."""

    label_strength: float  # (mean_P t - mean_+ t) / sd_+ t along the logit t of the posterior
    posterior_auc: float  # of the posterior's model on the examples it was fitted to
    effective: float  # effective sample size of the weights 1 / propensity, as a share of P
    by_class: dict[str, int]  # labels of every positive class


@dataclass(frozen=True, eq=False)
class HiddenLabels:
    """True labels (``True`` = positive) for oracle criteria, reference baselines and test metrics.

    Propensities are known only if the labels are simulated, and true labels may not be if they were
    observed.
    """

    u_train: Flags | None  # None: not known
    u_val: Flags | None
    test: Flags | None
    _: KW_ONLY
    test_labeled: Flags | None = None  # which test points have an observed label
    propensity_train: npt.NDArray[np.float64] | None = None  # of a label, for every member of P
    propensity_val: npt.NDArray[np.float64] | None = None
    bias: LabelingBias | None = None  # None for labeling at random

    def __post_init__(self) -> None:
        _copy_read_only(self)


def draw_pu_data(
    dataset: Dataset, problem: Problem, split: int, salt: str = ""
) -> tuple[PUData, HiddenLabels]:
    """Draw the labeled, unlabeled, validation and test examples of one split.

    The test set keeps its natural class frequencies if the prior is the one of the base sample
    (one half for the paper's datasets); for any other prior it is thinned to it like the training
    examples.
    """
    positive = dataset.positive(problem.case)
    prior = dataset.prior_of(problem.case) if problem.prior is None else problem.prior
    if dataset.observed:
        return _draw_observed(dataset, problem, prior, split, salt)
    rng = _make_generator(dataset.name, problem, prior, split, salt)
    pool, test = _split_test(dataset, rng)
    members = _group_by_class(dataset, pool)
    available = np.array([len(part) for part in members], np.int64)
    allocation = Allocation(dataset, problem, prior, positive, available)

    # The order of the calls of `rng` below decides every draw and must stay as it is.
    shuffled = [rng.permutation(part) for part in members]
    candidates, shares = _find_candidates(dataset, problem, pool, positive, shuffled, allocation)
    mechanism = labeling.get_mechanism(problem.labeling)
    chances = mechanism.propensity(candidates)
    selected = mechanism.label(candidates, chances, rng)
    labeled = candidates.index[selected]
    setting = labeling.get_setting(problem.setting)
    p = rng.permutation(labeled)
    u = rng.permutation(np.concatenate([setting.unlabeled(*share, labeled) for share in shares]))
    if abs(prior - allocation.base) > CLOSE:
        test = _thin(dataset, test, positive, prior, rng)

    truth = positive[dataset.classes]
    _check_both_sides(dataset, problem, truth[test])
    data = _hold_out(p, u, test, prior, setting)
    propensity = np.full(len(truth), np.nan)
    propensity[candidates.index] = chances
    is_random = mechanism.name == labeling.SCAR
    hidden = HiddenLabels(
        truth[data.u_train],
        truth[data.u_val],
        truth[data.test],
        propensity_train=propensity[data.p_train],
        propensity_val=propensity[data.p_val],
        bias=None if is_random else _measure_bias(candidates, chances, selected),
    )
    return data, hidden


def _draw_observed(
    dataset: Dataset, problem: Problem, prior: float, split: int, salt: str
) -> tuple[PUData, HiddenLabels]:
    """Draw the test part, if it is not fixed, and the validation parts of observed labels."""
    if not problem.observed:
        raise UserError(
            f"the labels of '{dataset.name}' were observed, so none can be drawn by "
            f"{problem.labeling}; use labeling: observed",
            "conflict",
        )
    labels = dataset.observed[problem.case]
    rng = _make_generator(dataset.name, problem, prior, split, salt)
    p, u = rng.permutation(labels.labeled), rng.permutation(labels.unlabeled)
    test = labels.test
    if test is None:
        # Drawn by label and not by class, so that no split depends on the truth.
        share = dataset.test_fraction or 0.0
        # In two samples the labeled examples are no part of the marginal.
        one_sample = labeling.get_setting(dataset.observed_setting).one_sample
        n_p, n_u = round_half_up(share * len(p) * one_sample), round_half_up(share * len(u))
        test = np.sort(np.concatenate([p[:n_p], u[:n_u]]))
        p, u = p[n_p:], u[n_u:]
    if min(len(p), len(u)) < MIN_OBSERVED:
        raise UserError(
            f"{problem.label()}: there are {len(p)} labeled and {len(u)} unlabeled training "
            f"examples, and at least {MIN_OBSERVED} of each are needed",
            "missing-data",
        )
    if len(test):
        _check_both_sides(dataset, problem, labels.truth[test] == 1)
    data = _hold_out(p, u, test, prior, labeling.get_setting(dataset.observed_setting))

    def read_truth(index: Indices) -> Flags | None:
        return labels.truth[index] == 1 if (labels.truth[index] >= 0).all() else None

    hidden = HiddenLabels(
        read_truth(data.u_train),
        read_truth(data.u_val),
        read_truth(data.test),
        test_labeled=np.isin(data.test, labels.labeled) if labels.test is None else None,
    )
    return data, hidden


Share = tuple[Indices, int, int]  # a shuffled class, and what it gives to P and to U


def _find_candidates(
    dataset: Dataset,
    problem: Problem,
    pool: Indices,
    positive: Flags,
    shuffled: list[Indices],
    allocation: Allocation,
) -> tuple[Candidates, list[Share]]:
    """Return the positives that may be labeled, and the share of every class."""
    p_counts, u_counts = allocation.counts()
    shares: list[Share] = list(zip(shuffled, p_counts, u_counts, strict=True))
    setting = labeling.get_setting(problem.setting)
    parts = []
    for (part, p, u), is_positive in zip(shares, positive, strict=True):
        parts.append(setting.candidates(part, p, u) if is_positive else part[:0])
    return Candidates(dataset, pool, positive, parts, p_counts), shares


def _check_both_sides(dataset: Dataset, problem: Problem, test: Flags) -> None:
    if not 0 < test.sum() < len(test):
        side = "negatives" if len(test) and test.all() else "positives"
        raise UserError(
            f"the test set of '{dataset.name}' case {problem.case} has no {side}, so nothing can "
            "be scored",
            "missing-data",
        )


def _hold_out(p: Indices, u: Indices, test: Indices, prior: float, setting: Setting) -> PUData:
    """Hold out the first tenth of P and of U for validation."""
    sizes = Sizes(len(p), len(u))
    shared = np.isin(u, p)
    if shared.any():
        # A held-out positive must be held out in U, too.
        held = np.isin(u, p[: sizes.val_p])
        u = np.concatenate([u[held], u[~shared], u[shared & ~held]])
    rate = sizes.n_p / sizes.n
    return PUData(
        p_train=p[sizes.val_p :],
        u_train=u[sizes.val_u :],
        p_val=p[: sizes.val_p],
        u_val=u[: sizes.val_u],
        test=test,
        prior=prior,
        rate=rate,
        shifted_prior=setting.prior_in_u(prior, rate),
        setting=setting,
    )


def _measure_bias(candidates: Candidates, chances: Chances, selected: Flags) -> LabelingBias:
    weights = 1 / chances[selected]
    names = candidates.dataset.class_names
    labeled_classes = candidates.classes[selected]
    by_class = {}
    for label in np.flatnonzero(candidates.positive):
        by_class[names[label]] = int((labeled_classes == label).sum())
    return LabelingBias(
        label_strength=measure_label_strength(logit(candidates.posterior), selected),
        posterior_auc=candidates.model.auc,
        effective=float(weights.sum() ** 2 / (weights**2).sum() / len(weights)),
        by_class=by_class,
    )


def measure_label_strength(t: npt.NDArray[np.float64], selected: Flags) -> float:
    """Return how far the labeled are above all positives along ``t``, in standard deviations."""
    deviation = float(t.std())
    return float((t[selected].mean() - t.mean()) / deviation) if deviation else 0.0


def _make_generator(
    name: str, problem: Problem, prior: float, split: int, salt: str
) -> np.random.Generator:
    key: list[object] = [name, problem.case, problem.setting, f"{problem.rate:.12g}"]
    key += [f"{prior:.12g}", int(split), str(salt)]
    if problem.labeling != labeling.SCAR:
        key.append(problem.labeling)
    if problem.labeled is not None:
        key += [problem.labeled, problem.unlabeled]
    digest = hashlib.sha256(json.dumps(key).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))


def _group_by_class(dataset: Dataset, indices: Indices) -> list[Indices]:
    classes = dataset.classes[indices]
    return [indices[classes == label] for label in range(len(dataset.class_names))]


def _split_test(dataset: Dataset, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Return the training pool and the test part."""
    if dataset.train is not None and dataset.test is not None:
        return dataset.train, dataset.test
    everything = np.arange(len(dataset.classes), dtype=np.int64)
    fraction = dataset.test_fraction or 0.0
    if dataset.stratify:
        counts = count_test_examples(dataset.classes, len(dataset.class_names), fraction)
        test = _pick_by_class(_group_by_class(dataset, everything), counts, rng)
    else:
        test = rng.permutation(everything)[: round_half_up(fraction * len(everything))]
    return np.setdiff1d(everything, test), np.sort(test)


def _pick_by_class(members: list[Indices], counts: Counts, rng: np.random.Generator) -> Indices:
    pairs = zip(members, counts, strict=True)
    return np.concatenate([rng.permutation(part)[:count] for part, count in pairs])


def _thin(
    dataset: Dataset, test: Indices, positive: Flags, prior: float, rng: np.random.Generator
) -> Indices:
    """Keep the largest part of the test set that has the prior, classes in natural proportion."""
    members = _group_by_class(dataset, test)
    counts = np.array([len(part) for part in members], np.int64)
    p, n = counts * positive, counts * ~positive
    if not (p.sum() and n.sum()):
        return test
    total = truncate(min(p.sum() / prior, n.sum() / (1 - prior)))
    return np.sort(_pick_by_class(members, allocate_by_prior(total, prior, p, n), rng))


def _copy_read_only(record: PUData | HiddenLabels) -> None:
    """Give the record read-only copies of its arrays."""
    for item in fields(record):
        value = getattr(record, item.name)
        if isinstance(value, np.ndarray):
            copy = value.copy()
            copy.setflags(write=False)
            object.__setattr__(record, item.name, copy)
