"""The posterior of fully labeled training examples: it decides who is labeled, and nothing else ever sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from puarena.datasets.dataset import Dataset, Flags, Indices

CLIP = 0.001  # a posterior is kept this far from 0 and 1


@dataclass(frozen=True, eq=False)
class Posterior:
    """The probability of being positive of every training example, and how well it ranks them."""

    pool: Indices  # ascending
    values: npt.NDArray[np.float64]
    auc: float

    def of(self, index: Indices) -> npt.NDArray[np.float64]:
        """Return the values of some training examples."""
        return self.values[np.searchsorted(self.pool, index)]


def logit(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ``log p - log(1 - p)``."""
    return np.log(p) - np.log1p(-p)


def fitted(dataset: Dataset, pool: Indices, positive: Flags) -> Posterior:
    """Fit a logistic regression to standardized features and true labels of ``pool``; the last few are kept."""
    return _fitted(
        _Question(dataset.revision, pool.tobytes(), positive.tobytes(), dataset, pool, positive)
    )


@dataclass(frozen=True)
class _Question:
    revision: str
    members: bytes
    side: bytes
    dataset: Dataset = field(compare=False)
    pool: Indices = field(compare=False)
    positive: Flags = field(compare=False)


@lru_cache(maxsize=8)
def _fitted(question: _Question) -> Posterior:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    pool = np.sort(question.pool)
    x = question.dataset.table(pool).astype(np.float64)
    y = question.positive[question.dataset.classes[pool]]
    with threadpool_limits(
        1
    ):  # so that the order of summation, and with it the draw, is the same everywhere
        p = (
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
            .fit(x, y)
            .predict_proba(x)[:, 1]
        )
    return Posterior(pool, np.clip(p, CLIP, 1 - CLIP), float(roc_auc_score(y, p)))
