"""Were labels given at random? A test for those who have a table and no more.

Teisseyre, Furmańczyk, Mielniczuk: Verifying the selected completely at random assumption in positive-unlabeled learning.
ECAI 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST = 10  # hidden positives that are assumed at least
FACTORS = (0.7, 0.85, 1.0, 1.15, 1.4)  # by which the label frequency may be wrong: rejected only if all of them reject
SHOWN = 5  # features that are named in words

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
        """Is labelling at random rejected?"""
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
            f"like them{where}. Estimated priors, PA and methods that assume labelling at random are then biased; "
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
        X: features ``[n, d]``, an array or a data frame.
        labeled: true (or 1) for labeled positives.
        label_frequency: share of the positives that are labeled; None: from the estimated class prior.
        n_draws: how many random choices the p-value is made of.
        level: below which p-value labelling at random counts as rejected.
        random_state: seed.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import check_array, check_consistent_length, column_or_1d

    names = [str(name) for name in getattr(X, "columns", [])]
    x, s = check_array(X, dtype=np.float64), column_or_1d(labeled).astype(bool)
    check_consistent_length(x, s)
    if not 2 <= s.sum() < len(s):
        raise ValueError(f"{s.sum()} of {len(s)} rows are labeled; the test needs at least 2, and unlabeled rows")
    if label_frequency is None:
        from puarena.priors import estimate_prior

        label_frequency = float(s.mean() / estimate_prior(x, s.astype(int), random_state=random_state, n_bootstrap=0).value)
    if not 0 < label_frequency <= 1:
        raise ValueError(f"label_frequency must lie above 0 and be at most 1, and {label_frequency:g} was given")
    unlabeled = np.flatnonzero(~s)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, s)
    order = unlabeled[np.argsort(-model.decision_function(x[unlabeled]), kind="stable")]
    rng = np.random.default_rng(random_state)
    answers = []
    for factor in sorted(FACTORS, key=lambda factor: factor != 1):  # the frequency itself first
        share = min(factor * label_frequency, 1.0)
        hidden = order[: max(LEAST, int(len(s) * (s.mean() / share - s.mean())))]
        among = x[np.concatenate([np.flatnonzero(s), hidden])]
        parts = divergence(among, np.arange(len(among)) < s.sum())
        null = np.array([divergence(among, _choice(rng, len(among), share)) for _ in range(n_draws)])
        p_value = float((null.sum(1) > parts.sum()).mean())
        differ = parts > np.quantile(null.max(1), 1 - level)
        answers.append((p_value, parts, differ, len(hidden)))
    _, parts, _, hidden_rows = answers[0]
    differ = np.all([differ for _, _, differ, _ in answers], 0)
    return ScarTest(
        statistic=float(parts.sum()),
        p_value=max(p_value for p_value, *_ in answers),
        features=tuple(names[j] if names else str(j) for j in np.argsort(-parts, kind="stable") if differ[j]),
        label_frequency=label_frequency,
        hidden=hidden_rows,
        level=level,
    )


def divergence(among: Floats, flags: npt.NDArray[np.bool_]) -> Floats:
    """Half of ``(u2-u1)²/b + a/b - log(a/b) - 1`` by feature: the flagged rows (u1, a) against all (u2, b).

    A feature that is constant among all rows says nothing.
    """
    one, b = among[flags], among.var(0)
    varies = b > 0
    scale = np.where(varies, b, 1.0)
    ratio = np.maximum(np.where(varies, one.var(0) / scale, 1.0), 1e-12)
    return np.asarray(((among.mean(0) - one.mean(0)) ** 2 / scale * varies + ratio - np.log(ratio) - 1) / 2)


def _choice(rng: np.random.Generator, n: int, share: float) -> npt.NDArray[np.bool_]:
    """A random choice of at least two."""
    flags = rng.random(n) < share
    flags[rng.integers(0, n, 2 * (flags.sum() < 2))] = True
    return flags
