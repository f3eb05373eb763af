"""A test whether labels were given at random, from a table alone.

Teisseyre, Furmańczyk, Mielniczuk: Verifying the selected completely at random assumption in
positive-unlabeled learning. ECAI 2024.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, column_or_1d

from puarena.datasets.encoding import TableEncoder, TableWarning, is_frame
from puarena.errors import UserError
from puarena.priors import estimate_prior
from puarena.pu import labeling

MIN_HIDDEN = 10  # hidden positives that are assumed at least
# Factors by which the label frequency may be wrong; the test rejects only if it does at all.
FREQUENCY_FACTORS = (1.0, *np.geomspace(0.7, 1.4, 14).tolist())
MAX_TESTED_ROWS = 20_000  # rows that are tested
MAX_NAMED_FEATURES = 5
MAX_ROWS_FOR_WARNING = 2_000
MAX_POWER_ROWS = 2_000
POWER_DRAWS = 100  # random choices for a p-value when the power is estimated
BIAS_RATIO = 10.0  # of the chances of a label at the two ends of the positives

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ScarTest:
    """The result of :func:`scar_test`; a small p-value is evidence of bias in the labels.

    Attributes
    ----------
    statistic : float
        Divergence of the labeled rows from all rows taken as positive.
    p_value : float
        The p-value.
    features : tuple of str
        Features that differ on their own, the most different first.
    label_frequency : float
        Share of the positives that are labeled, as it was given or estimated.
    hidden : int
        Unlabeled rows that were taken as positive.
    level : float
        Labeling at random is rejected if the p-value is below it.
    power : float
        How often the test would have rejected labels that are ten times as likely at one end of the
        first principal component of these positives as at the other; NaN if it was not computed.
    """

    statistic: float
    p_value: float
    features: tuple[str, ...]
    label_frequency: float
    hidden: int
    level: float = 0.05
    power: float = float("nan")

    @property
    def rejected(self) -> bool:
        """Whether labeling at random is rejected."""
        return self.p_value < self.level

    def describe(self) -> str:
        """Return the result as text."""
        if not self.rejected:
            text = f"no sign that labels were not given at random (p = {self.p_value:.3g})"
            if np.isnan(self.power):
                return text
            return (
                f"{text}; of labels that are ten times as likely at one end of the positives as at "
                f"the other the test would have rejected about {self.power:.0%}"
            )
        names = ", ".join(self.features[:MAX_NAMED_FEATURES])
        if len(self.features) > MAX_NAMED_FEATURES:
            names += " …"
        where = f", above all in {names}" if names else ""
        return (
            f"labels do not look given at random (p = {self.p_value:.3g}): the labeled rows differ "
            f"from the rows most like them{where}. Estimated priors, PA and methods that assume "
            "labeling at random are then biased; consider sar-em or lbe, and report it with the "
            "results"
        )


def scar_test(
    X: Any,
    labeled: Any,
    label_frequency: float | None = None,
    n_draws: int = 300,
    level: float = 0.05,
    random_state: int = 0,
    n_power: int = 10,
    names: Sequence[str] | None = None,
) -> ScarTest:
    """Test whether labels were given completely at random among the positives of one sample.

    The unlabeled rows that a logistic regression ranks most similar to the labeled ones are taken
    as the hidden positives, as many as the label frequency implies. The statistic is the Gaussian
    divergence, feature by feature, of the labeled rows from these and the labeled rows together.
    Under the hypothesis, labels are a random choice among them: the p-value is the share of
    ``n_draws`` such choices that diverge more. Since a wrong label frequency alone makes the two
    differ, the p-value is the largest over frequencies of 0.7 to 1.4 times the given one.

    The test assumes that the classes hardly overlap. If they do, the rows most similar to the
    labeled ones are not the hidden positives, and it can reject labels given at random.

    Parameters
    ----------
    X : array-like or data frame of shape (n_samples, n_features)
        Features; a data frame may have text and missing values.
    labeled : array-like of shape (n_samples,)
        True or 1 for labeled positives.
    label_frequency : float, optional
        Share of the positives that are labeled. Default: from the estimated class prior.
    n_draws : int, default=300
        Random choices for the p-value.
    level : float, default=0.05
        Labeling at random is rejected if the p-value is below it.
    random_state : int, default=0
        Seed.
    n_power : int, default=10
        Biased labelings of the rows taken as positive by which the power is estimated; 0: it is
        not. A silent test with little power says nothing.
    names : sequence of str, optional
        Names of the features of a matrix.

    Returns
    -------
    ScarTest
        The result.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena.estimators import scar_test
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(400) % 2 == 0
    >>> X = rng.normal(size=(400, 2)) + 5 * truth[:, None]
    >>> scar_test(X, truth & (rng.random(400) < 0.5)).rejected
    False
    >>> scar_test(X, truth & (X[:, 0] > 5)).rejected
    True
    """
    rng = np.random.default_rng(random_state)
    x, s, found_names = _read_rows(X, labeled, rng)
    if not 2 <= s.sum() < len(s):
        raise UserError(
            f"{s.sum()} of {len(s)} rows are labeled; at least 2, and unlabeled rows, are needed",
            "missing-data",
        )
    if label_frequency is None:
        found = estimate_prior(x, s.astype(int), random_state=random_state, n_bootstrap=0)
        label_frequency = float(s.mean() / found.value)
    if not 0 < label_frequency <= 1:
        raise UserError(
            f"label_frequency is {label_frequency:g}; it must be above 0 and at most 1",
            "invalid-value",
        )
    p_value, features, statistic, among = _test_rows(x, s, label_frequency, n_draws, level, rng)
    ranked = [j for j in np.argsort(-statistic, kind="stable") if j in features]
    names = list(names or found_names)
    return ScarTest(
        statistic=float(statistic.sum()),
        p_value=p_value,
        features=tuple(names[j] for j in ranked),
        label_frequency=label_frequency,
        hidden=len(among) - int(s.sum()),
        level=level,
        power=_estimate_power(x, s, label_frequency, among, n_power, level, rng),
    )


def _test_rows(
    x: Floats,
    s: Flags,
    label_frequency: float,
    n_draws: int,
    level: float,
    rng: np.random.Generator,
) -> tuple[float, set[int], Floats, npt.NDArray[np.int64]]:
    """Return the p-value, the features that differ, their divergence, and the positives assumed."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, s)
    labeled, unlabeled = np.flatnonzero(s), np.flatnonzero(~s)
    order = unlabeled[np.argsort(-model.decision_function(x[unlabeled]), kind="stable")]
    p_values, features = [], set(range(x.shape[1]))
    statistic, assumed = np.zeros(0), labeled
    for factor in FREQUENCY_FACTORS:
        share = min(factor * label_frequency, 1.0)
        count = max(MIN_HIDDEN, int(len(s) * (s.mean() / share - s.mean())))
        rows = np.concatenate([labeled, order[:count]])
        among = x[rows]
        (parts,) = compute_divergence(among, np.arange(len(among))[None] < s.sum())
        null = compute_divergence(among, rng.random((n_draws, len(among))) < share)
        p_values.append(float((null.sum(1) > parts.sum()).mean()))
        features &= set(np.flatnonzero(parts > np.quantile(null.max(1), 1 - level)).tolist())
        if factor == 1.0:
            statistic, assumed = parts, rows
    return max(p_values), features, statistic, assumed


def _estimate_power(
    x: Floats,
    s: Flags,
    label_frequency: float,
    among: npt.NDArray[np.int64],
    n_power: int,
    level: float,
    rng: np.random.Generator,
) -> float:
    """Return how often biased labels of the rows taken as positive would be rejected."""
    if n_power == 0:
        return float("nan")
    if len(x) > MAX_POWER_ROWS:
        kept = np.sort(rng.permutation(len(x))[:MAX_POWER_ROWS])
        is_among = np.zeros(len(x), bool)
        is_among[among] = True
        x, s, among = x[kept], s[kept], np.flatnonzero(is_among[kept])
    if len(among) < MIN_HIDDEN:
        return float("nan")
    spread = x.std(0)
    z = (x[among] - x[among].mean(0)) / np.where(spread > 0, spread, 1.0)
    along = z @ np.linalg.svd(z, full_matrices=False)[2][0]
    place = np.argsort(np.argsort(along)) / max(len(among) - 1, 1)
    chance = 1 + (BIAS_RATIO - 1) * place
    chance = np.clip(chance * label_frequency / chance.mean(), 0, 1)
    rejected = []
    for _ in range(n_power):
        biased = np.zeros(len(x), bool)
        biased[among] = rng.random(len(among)) < chance
        if 2 <= biased.sum() < len(x):
            found = _test_rows(x, biased, label_frequency, POWER_DRAWS, level, rng)[0]
            rejected.append(found < level)
    return float(np.mean(rejected)) if rejected else float("nan")


def _read_rows(X: Any, labeled: Any, rng: np.random.Generator) -> tuple[Floats, Flags, list[str]]:
    """Return some rows as numbers, which of them are labeled, and the names of features."""
    names: list[str] = []
    if is_frame(X):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)  # fitting a model warns of the same
            encoder = TableEncoder().fit(X)
        X, names = encoder.dense(X), encoder.dense_names
    x, s = check_array(X, dtype=np.float64), column_or_1d(labeled).astype(bool)
    check_consistent_length(x, s)
    if len(x) > MAX_TESTED_ROWS:
        some = rng.choice(len(x), MAX_TESTED_ROWS, replace=False)
        x, s = x[some], s[some]
    return x, s, names or [str(j) for j in range(x.shape[1])]


def compute_divergence(among: Floats, choices: Flags) -> Floats:
    """Return ``((u2-u1)²/b + a/b - log(a/b) - 1) / 2`` by choice and feature.

    These are means and variances of the rows chosen (u1, a) and of all rows (u2, b). A feature that
    is constant among all rows has 0.
    """
    spread = among.std(0)
    z = (among - among.mean(0)) / np.where(spread > 0, spread, 1.0)
    weights = choices / np.maximum(choices.sum(1, keepdims=True), 1)
    mean = weights @ z
    ratio = np.maximum(weights @ z**2 - mean**2, 1e-12)
    return np.asarray(np.where(spread > 0, mean**2 + ratio - np.log(ratio) - 1, 0.0) / 2)


def describe_bias(
    X: Any, labeled: Any, setting: str, prior: float, names: Sequence[str] | None = None
) -> str:
    """Return a warning about a table; empty unless labeling at random is rejected.

    Only one-sample data can be tested, and at most 2,000 rows are: the test assumes that the
    classes do not overlap, and more rows show that they do. Of 26 real tables of at most so many
    rows, labeled at random three times, 7 of 78 were rejected all the same.
    """
    s = np.asarray(labeled).astype(bool)
    if not labeling.get_setting(setting).one_sample or not 2 <= s.sum() < len(s):
        return ""
    rows = np.sort(np.random.default_rng(0).permutation(len(s))[:MAX_ROWS_FOR_WARNING])
    if not 2 <= s[rows].sum() < len(rows):
        return ""
    frequency = min(1.0, float(s.mean() / prior))
    found = scar_test(_safe_indexing(X, rows), s[rows], frequency, n_power=0, names=names)
    if not found.rejected:
        return ""
    return f"{found.describe()}. If the classes overlap much, labels given at random look so, too"
