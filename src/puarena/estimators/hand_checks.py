"""Rows to check by hand, and what prior, precision and recall are once they are checked.

Where labels are not given at random, positive and unlabeled rows alone do not tell the prior: some
rows have to be looked at. :func:`choose_checks` draws them with known probabilities from strata of
the model's probability, with the cut as one border, and more of them where the model is in doubt
(Neyman's allocation). :func:`update_with_checks` combines the answers with the model: the share of
positives in a stratum is the model's, corrected in its log-odds by one level and one slope for all
strata, and scatters around that. How much, the answers say too: level, slope and scatter are
averaged over their posterior. A slope of zero or below is possible, since a model may be useless or
inverted. The answers of a stratum are a random sample of it, so with more of them their own share
decides, however wrong the model is.

Neyman: On the two different aspects of the representative method. Journal of the Royal Statistical
Society 97, 1934. Dalenius, Hodges: Minimum variance stratification. Journal of the American
Statistical Association 54, 1959. Little: To model or not to model? Competing modes of inference for
finite population sampling. Journal of the American Statistical Association 99, 2004.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, expit, logit
from sklearn.utils import check_consistent_length

from puarena.errors import UserError
from puarena.estimators.evaluation import Estimate
from puarena.priors.methods.saturation import find_shortest_interval
from puarena.pu import labeling
from puarena.pu.labels import read_labels

Floats = npt.NDArray[np.float64]

MAX_STRATA = 16
ROWS_PER_STRATUM = 3  # checks, on average, that a stratum should have
# Rows are allocated as if no probability were nearer to 0 and 1: the model may be wrong.
PROBABILITY_MARGIN = 0.05
SHIFTS = np.linspace(-6.0, 6.0, 61)  # of the log-odds of all strata
SLOPES = np.linspace(-2.0, 4.0, 31)
SHIFT_SPREAD, SLOPE_SPREAD = 2.0, 1.0
SCATTERS = np.array([1.0, 10.0, 100.0])  # rows that the corrected model is worth in a stratum
DRAWS = 4000


@dataclass(frozen=True)
class Stratum:
    """Unlabeled rows of similar probability."""

    rows: int
    probability: float  # the mean of the model's
    predicted: bool  # whether the model predicts them positive


@dataclass(frozen=True)
class Checks:
    """Rows to check by hand, and what is needed to use the answers.

    ``rows`` are positions in the table, in random order; ``stratum`` says of each which of
    ``strata`` it was drawn from. ``labeled`` and ``labeled_predicted`` count the labeled rows of
    the table, and those of them that the model predicts positive; they are 0 of two samples.
    """

    rows: npt.NDArray[np.int64]
    stratum: npt.NDArray[np.int64]
    strata: list[Stratum]
    labeled: int = 0
    labeled_predicted: int = 0

    @property
    def chance(self) -> Floats:
        """The probability with which each row was drawn."""
        drawn = np.bincount(self.stratum, minlength=len(self.strata))
        sizes = np.array([each.rows for each in self.strata])
        return np.asarray((drawn / sizes)[self.stratum])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, from which ``from_dict`` makes the same again."""
        return {
            "rows": self.rows.tolist(),
            "stratum": self.stratum.tolist(),
            "strata": [asdict(each) for each in self.strata],
            "labeled": self.labeled,
            "labeled_predicted": self.labeled_predicted,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Checks:
        """Return the checks of ``to_dict``."""
        rows, stratum = (np.asarray(data[name], np.int64) for name in ("rows", "stratum"))
        strata = [Stratum(**each) for each in data["strata"]]
        return cls(rows, stratum, strata, int(data["labeled"]), int(data["labeled_predicted"]))


@dataclass(frozen=True)
class CheckedEstimate:
    """Prior, precision and recall of a model after rows were checked, with 95 % intervals."""

    prior: Estimate
    precision: Estimate
    recall: Estimate
    checked: int
    found: int  # checked rows that are positive
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        values: dict[str, Any] = {}
        for name in ("prior", "precision", "recall"):
            each = getattr(self, name)
            values[name] = {"value": each.value, "interval": [each.low, each.high]}
        return values | {"checked": self.checked, "found": self.found, "notes": self.notes}

    def describe(self) -> str:
        """Return the result as text."""
        lines = [f"{self.found} of {self.checked} checked rows are positive"]
        for name in ("prior", "precision", "recall"):
            each = getattr(self, name)
            lines.append(f"{name:<10}{each.value:.3f}  ({each.low:.3f} to {each.high:.3f})")
        return "\n".join([*lines, *self.notes])


def choose_checks(
    model: Any, X: Any, n: int = 50, labeled: Any = None, random_state: int = 0
) -> Checks:
    """Draw unlabeled rows to be looked at.

    Parameters
    ----------
    model : PUClassifier, PUNetClassifier or pipeline
        Fitted.
    X : array-like or data frame of shape (n_samples, n_features)
        The table, such as the one that the model was fitted to.
    n : int, default=50
        How many rows to check.
    labeled : array-like of shape (n_samples,), optional
        Their labels, as for ``fit``; labeled positives are not drawn. Default: no row is labeled.
    random_state : int, default=0
        Decides which rows are drawn.

    Returns
    -------
    Checks
        ``checks.rows`` are the positions of the rows. Check all of them: leaving out the hard ones
        makes the estimates wrong.
    """
    if not isinstance(n, Integral):
        raise UserError(f"n={n!r} is not a number of rows", "invalid-value")
    if labeled is not None:
        check_consistent_length(X, labeled)
    probability = np.asarray(model.predict_proba(X), float)[:, 1]
    above = np.asarray(model.predict(X)) == model.classes_[1]
    is_labeled = np.zeros(len(probability), bool)
    if labeled is not None:
        is_labeled = read_labels(labeled, model.classes_[1]).positive
    unlabeled = np.flatnonzero(~is_labeled)
    if not 2 <= n <= len(unlabeled):
        raise UserError(
            f"n={n} rows cannot be drawn: there are {len(unlabeled)} unlabeled rows, and at least "
            "2 must be checked",
            "invalid-value",
        )
    stratum = _assign_strata(probability[unlabeled], above[unlabeled], n)
    count = int(stratum.max()) + 1
    sizes = np.bincount(stratum, minlength=count)
    q = np.clip(probability[unlabeled], PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
    doubt = np.bincount(stratum, np.sqrt(q * (1 - q)), minlength=count)
    drawn = _allocate(n, np.asarray(doubt, np.float64), np.asarray(sizes, np.int64))
    rng = np.random.default_rng(random_state)
    rows, of = [], []
    strata = []
    for k in range(count):
        members = unlabeled[stratum == k]
        rows.append(rng.choice(members, drawn[k], replace=False))
        of.append(np.full(drawn[k], k))
        mean, predicted = float(probability[members].mean()), bool(above[members].any())
        strata.append(Stratum(len(members), mean, predicted))
    order = rng.permutation(n)
    one_sample = labeling.get_setting(_get_setting(model)).one_sample
    p = is_labeled if one_sample else np.zeros(len(is_labeled), bool)
    return Checks(
        np.concatenate(rows)[order],
        np.concatenate(of)[order],
        strata,
        labeled=int(p.sum()),
        labeled_predicted=int((p & above).sum()),
    )


def update_with_checks(checks: Checks, answers: Any, random_state: int = 0) -> CheckedEstimate:
    """Estimate prior, precision and recall from a model and rows checked by hand.

    They hold however labels were given, since the checked rows are drawn at random. Give the prior
    to the model to use it: ``clf.set_prior((found.prior.low, found.prior.high))``.

    Parameters
    ----------
    checks : Checks
        The rows that :func:`choose_checks` drew.
    answers : array-like of shape (n,)
        For each of ``checks.rows``: True or 1 if it is positive.
    random_state : int, default=0
        Decides the draws of the intervals.

    Returns
    -------
    CheckedEstimate
        Estimates with intervals.
    """
    positive = _read_answers(answers, len(checks.rows))
    count = len(checks.strata)
    tried = np.bincount(checks.stratum, minlength=count).astype(float)
    found = np.bincount(checks.stratum, positive, minlength=count)
    model = np.clip([each.probability for each in checks.strata], 1e-4, 1 - 1e-4)
    rng = np.random.default_rng(random_state)
    # Every correction of the model, and how well it agrees with the answers.
    grid = np.meshgrid(SHIFTS, SLOPES, SCATTERS)
    shift, slope, scatter = (each.reshape(-1, 1) for each in grid)
    center = logit(model).mean()
    corrected = expit(shift + center + slope * (logit(model) - center))
    corrected = np.clip(corrected, 1e-6, 1 - 1e-6)
    a, b = scatter * corrected, scatter * (1 - corrected)
    evidence = (betaln(a + found, b + tried - found) - betaln(a, b)).sum(1)
    unlikely = (shift / SHIFT_SPREAD) ** 2 + ((slope - 1.0) / SLOPE_SPREAD) ** 2
    evidence -= 0.5 * unlikely.ravel()
    weight = np.exp(evidence - evidence.max())
    drawn = rng.choice(len(weight), DRAWS, p=weight / weight.sum())
    share = rng.beta(a[drawn] + found, b[drawn] + tried - found)
    # The rows that were checked are known; the share is that of the others.
    sizes = np.array([each.rows for each in checks.strata], float)
    rest = np.maximum(sizes - tried, 0.0)
    positives = found + rng.binomial(rest.astype(np.int64), share)
    predicted = np.array([each.predicted for each in checks.strata])
    total = positives.sum(1) + checks.labeled
    true = positives[:, predicted].sum(1) + checks.labeled_predicted
    above = sizes[predicted].sum() + checks.labeled_predicted
    notes = []
    if not positive.any() or positive.all():
        notes.append(
            f"all {len(positive)} answers are the same: check more rows before relying on this"
        )
    return CheckedEstimate(
        prior=_summarize(total / (sizes.sum() + checks.labeled)),
        precision=_summarize(true / max(above, 1.0)),
        recall=_summarize(true / np.maximum(total, 1.0)),
        checked=len(positive),
        found=int(positive.sum()),
        notes=notes,
    )


def _get_setting(model: Any) -> str:
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    return str(getattr(last, "setting", labeling.DEFAULT_SETTING))


def _assign_strata(
    probability: Floats, above: npt.NDArray[np.bool_], n: int
) -> npt.NDArray[np.int64]:
    """Return the stratum of every row: equal parts of the doubt, on either side of the cut."""
    wanted = int(np.clip(n // ROWS_PER_STRATUM, 1, MAX_STRATA))
    order = np.argsort(probability, kind="stable")
    q = np.clip(probability[order], PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
    doubt = np.cumsum(np.sqrt(q * (1 - q)))
    place = np.empty(len(probability), np.int64)
    place[order] = np.minimum((wanted * doubt / doubt[-1]).astype(np.int64), wanted - 1)
    joined = place + wanted * above
    stratum = np.unique(joined, return_inverse=True)[1]
    # A stratum of a few rows would take a check that tells little: it joins its neighbor.
    for k in range(int(stratum.max()), 0, -1):
        same_side = above[stratum == k][:1] == above[stratum == k - 1][:1]
        if same_side.all() and min((stratum == k).sum(), (stratum == k - 1).sum()) < 2:
            stratum[stratum >= k] -= 1
    return np.asarray(np.unique(stratum, return_inverse=True)[1], np.int64)


def _allocate(n: int, doubt: Floats, sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return how many rows of each stratum to draw: at least one, in proportion to the doubt."""
    drawn = np.minimum(np.ones(len(sizes), np.int64), sizes)
    while drawn.sum() < n:
        # The stratum that lacks most of its share comes first.
        lack = np.where(drawn < sizes, doubt / drawn, -1.0)
        drawn[int(np.argmax(lack))] += 1
    return drawn


def _read_answers(answers: Any, count: int) -> npt.NDArray[np.bool_]:
    values = np.asarray(answers)
    if values.shape != (count,):
        raise UserError(
            f"there are {count} rows to check, and the answers have shape {values.shape}",
            "invalid-value",
        )
    try:
        numbers = values.astype(float)
    except (TypeError, ValueError):
        numbers = np.full(count, np.nan)
    if not np.isin(numbers, [0.0, 1.0]).all():
        raise UserError("an answer is neither 0 nor 1; answer for every row", "invalid-value")
    return numbers == 1.0


def _summarize(draws: Floats) -> Estimate:
    # Few checks of rare positives have skewed draws.
    low, high = find_shortest_interval(np.sort(draws), np.full(len(draws), 1 / len(draws)))
    return Estimate(float(draws.mean()), low, high)
