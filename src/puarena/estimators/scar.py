"""Were labels given at random? A test for those who have a table and no more.

Teisseyre, Furmańczyk, Mielniczuk: Verifying the selected completely at random assumption in positive-unlabeled
learning. ECAI 2024.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from puarena.datasets.encoding import TableEncoder, TableWarning, is_frame

LEAST = 10  # hidden positives that are assumed at least
FACTORS = (
    1.0,
    *np.geomspace(0.7, 1.4, 14).tolist(),
)  # by which the label frequency may be wrong; all must reject
ROWS = 20_000  # of a table that are looked at, at most
SHOWN = 5  # features that are named in words
LOOKED_AT = 2_000  # rows for a warning

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ScarTest:
    """The answer: small p-values say that labels were not given at random."""

    statistic: float  # divergence of the labeled rows from all rows taken for positive
    p_value: float
    features: tuple[str, ...]  # that differ on their own, the most different first
    label_frequency: float  # share of the positives that are labeled, as it was given or estimated
    hidden: int  # unlabeled rows taken for positive
    level: float = 0.05

    @property
    def rejected(self) -> bool:
        """Is labeling at random rejected?"""
        return self.p_value < self.level

    @property
    def words(self) -> str:
        """The answer in a sentence or two."""
        if not self.rejected:
            return f"nothing says that labels were not given at random (p = {self.p_value:.3g})"
        named = ", ".join(self.features[:SHOWN]) + (" …" if len(self.features) > SHOWN else "")
        where = f", above all in {named}" if named else ""
        return (
            f"labels do not look given at random (p = {self.p_value:.3g}): the labeled rows differ from the rows most "
            f"like them{where}. Estimated priors, PA and methods that assume labeling at random are then biased; "
            "consider sar-em or lbe, and say so with the results"
        )


def scar_test(
    X: Any,
    labeled: Any,
    label_frequency: float | None = None,
    n_draws: int = 300,
    level: float = 0.05,
    random_state: int = 0,
) -> ScarTest:
    """Test whether labels were given completely at random among the positives of one sample.

    The unlabeled rows that a logistic regression finds most like the labeled ones are taken for the hidden positives,
    as many as the label frequency says. The statistic is the Gaussian divergence, feature by feature, of the labeled
    rows from these and the labeled rows together. Under the hypothesis, labels are a random choice among them: the
    p-value is the share of ``n_draws`` such choices that diverge more. As a wrong label frequency alone makes the two
    differ, the p-value is the largest over frequencies of 0.7 to 1.4 times the given one.

    The test presumes that the classes hardly overlap. Where they do, the rows most like the labeled ones are not the
    hidden positives, and it can reject labels that were given at random.

    Args:
        X: features ``[n, d]``, an array or a data frame, in which text and gaps may be.
        labeled: true (or 1) for labeled positives.
        label_frequency: share of the positives that are labeled; None: from the estimated class prior.
        n_draws: how many random choices the p-value is made of.
        level: below which p-value labeling at random counts as rejected.
        random_state: seed.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import check_array, check_consistent_length, column_or_1d

    names: list[str] = []
    if is_frame(X):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)  # whoever fits the table has been told
            encoder = TableEncoder().fit(X)
        X, names = encoder.dense(X), encoder.dense_names
    x, s = check_array(X, dtype=np.float64), column_or_1d(labeled).astype(bool)
    check_consistent_length(x, s)
    rng = np.random.default_rng(random_state)
    if len(x) > ROWS:
        some = rng.choice(len(x), ROWS, replace=False)
        x, s = x[some], s[some]
    if not 2 <= s.sum() < len(s):
        raise ValueError(
            f"{s.sum()} of {len(s)} rows are labeled; the test needs at least 2, and unlabeled rows"
        )
    if label_frequency is None:
        from puarena.priors import estimate_prior

        label_frequency = float(
            s.mean()
            / estimate_prior(x, s.astype(int), random_state=random_state, n_bootstrap=0).value
        )
    if not 0 < label_frequency <= 1:
        raise ValueError(
            f"label_frequency must lie above 0 and be at most 1, and {label_frequency:g} was given"
        )
    unlabeled = np.flatnonzero(~s)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, s)
    order = unlabeled[np.argsort(-model.decision_function(x[unlabeled]), kind="stable")]
    answers = []
    for factor in FACTORS:
        share = min(factor * label_frequency, 1.0)
        hidden = order[: max(LEAST, int(len(s) * (s.mean() / share - s.mean())))]
        among = x[np.concatenate([np.flatnonzero(s), hidden])]
        (parts,) = divergence(among, np.arange(len(among))[None] < s.sum())
        null = divergence(among, rng.random((n_draws, len(among))) < share)
        p_value = float((null.sum(1) > parts.sum()).mean())
        differ = parts > np.quantile(null.max(1), 1 - level)
        answers.append((p_value, parts, differ, len(hidden)))
    _, parts, _, hidden_rows = answers[0]
    differ = np.all([differ for _, _, differ, _ in answers], 0)
    return ScarTest(
        statistic=float(parts.sum()),
        p_value=max(p_value for p_value, *_ in answers),
        features=tuple(
            names[j] if names else str(j) for j in np.argsort(-parts, kind="stable") if differ[j]
        ),
        label_frequency=label_frequency,
        hidden=hidden_rows,
        level=level,
    )


def divergence(among: Floats, choices: npt.NDArray[np.bool_]) -> Floats:
    """Half of ``(u2-u1)²/b + a/b - log(a/b) - 1`` by choice and feature: the rows chosen (u1, a) against all (u2, b).

    A feature that is constant among all rows says nothing.
    """
    spread = among.std(0)
    z = (among - among.mean(0)) / np.where(spread > 0, spread, 1.0)
    weights = choices / np.maximum(choices.sum(1, keepdims=True), 1)
    mean = weights @ z
    ratio = np.maximum(weights @ z**2 - mean**2, 1e-12)
    return np.asarray(np.where(spread > 0, mean**2 + ratio - np.log(ratio) - 1, 0.0) / 2)


def warning(X: Any, labeled: Any, setting: str, prior: float) -> str:
    """What to tell somebody who fits a table: nothing unless labeling at random is rejected.

    Only one-sample data can be tested. At most 2,000 rows are: the test takes the classes for apart, and with more
    rows it finds that they are not. Of 26 real tables of at most so many, labeled at random thrice, 7 of 78 were
    rejected all the same.
    """
    from sklearn.utils import _safe_indexing

    from puarena.pu.labeling import get_setting

    s = np.asarray(labeled).astype(bool)
    if not get_setting(setting).one_sample or not 2 <= s.sum() < len(s):
        return ""
    rows = np.sort(np.random.default_rng(0).permutation(len(s))[:LOOKED_AT])
    if not 2 <= s[rows].sum() < len(rows):
        return ""
    answer = scar_test(_safe_indexing(X, rows), s[rows], min(1.0, float(s.mean() / prior)))
    also = ". Where the classes overlap much, this is also said of labels that were given at random"
    return answer.words + also if answer.rejected else ""
