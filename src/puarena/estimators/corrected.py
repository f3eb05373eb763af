"""What positives and unlabeled rows say about precision, recall, F1, average precision and AUC.

All hold under three conditions: the labeled positives are a random part of the positives (selected completely at
random), the prior is right, and the rows were not used to fit the model. A prior that is too high makes precision,
F1, average precision and AUC look better than they are. Notation: ``recall`` is the share of P predicted positive,
``q`` that of a marginal sample (P and U together in the one-sample setting, U in the two-sample one).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from puarena import metrics
from puarena.metrics import Counts
from puarena.pu.labeling import Setting

Floats = npt.NDArray[np.float64]


def counts(
    p: Floats,
    u: Floats,
    prior: float,
    one_sample: bool,
    cuts: Floats | float = 0.0,
    rate: float | None = None,
) -> Counts:
    """How many of P and of U score at or above each cut; ``rate``: the share of P in the data these are a part of."""
    above = [len(side) - np.searchsorted(np.sort(side), cuts) for side in (p, u)]
    times = 1.0 if rate is None else rate / (1 - rate) * len(u) / len(p)  # how often P counts
    return Counts(above[0] * times, len(p) * times, above[1], len(u), prior, np.bool_(one_sample))


def proxy_auc(p: Floats, u: Floats) -> float:
    """PAUC of scores that are numpy arrays."""
    import torch

    return float(
        metrics.proxy_auc(*(torch.from_numpy(np.array(side, np.float64)) for side in (p, u)))
    )


def predicted_share(c: Counts) -> Floats:
    """``q``: the share of a marginal sample predicted positive."""
    share_u = c.positive_u / c.size_u
    return np.asarray(c.by_setting(c.rate * c.tpr + (1 - c.rate) * share_u, share_u), float)


def recall(c: Counts) -> Floats:
    """The share of P predicted positive: unbiased without any correction, and without the prior."""
    return np.asarray(c.tpr, float)


def precision(c: Counts) -> Floats:
    """``prior recall / q``, at most 1; 0 where nothing is predicted positive."""
    q = predicted_share(c)
    return np.minimum(np.divide(c.prior * c.tpr, q, out=np.zeros_like(q), where=q > 0), 1.0)


def f1(c: Counts) -> Floats:
    """``2 prior recall / (prior + q)``, at most 1."""
    return np.minimum(2 * c.prior * recall(c) / (c.prior + predicted_share(c)), 1.0)


def average_precision(p: Floats, u: Floats, prior: float, setting: Setting) -> float:
    """The mean over P of the corrected precision at the row's own score."""
    return float(precision(counts(p, u, prior, setting.one_sample, np.sort(p))).mean())


def auc(p: Floats, u: Floats, prior: float, setting: Setting) -> float:
    """``(PAUC - a/2) / (1 - a)``, within 0 and 1: a is the share of positives in U, which P ties with on average."""
    inside = setting.prior_in_u(prior, len(p) / (len(p) + len(u)))
    return float(np.clip((proxy_auc(p, u) - inside / 2) / (1 - inside), 0.0, 1.0))
