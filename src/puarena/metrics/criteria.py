"""How a model is chosen: criteria over ``[runs, n]`` validation outputs, ``-> [runs]`` in float64, higher is better.

PA and PAUC see positive and unlabeled validation points only. OA is the oracle: it alone is handed true labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from puarena.metrics.scores import auc


@dataclass(frozen=True)
class Validation:
    """Outputs on the validation sets P' and U'; ``decision`` is positive at or above zero, ``score`` ranks.

    ``prior`` and ``one_sample`` are ``[runs]``. ``label_u`` are the true labels of U', for the oracle only.
    """

    decision_p: Tensor
    decision_u: Tensor
    score_p: Tensor
    score_u: Tensor
    prior: Tensor
    one_sample: Tensor
    label_u: Tensor

    @property
    def tpr(self) -> Tensor:
        """Fraction of P' predicted positive."""
        return (self.decision_p >= 0).double().mean(-1)

    @property
    def rate(self) -> float:
        """Share of P' among P' and U'."""
        n_p, n_u = self.decision_p.shape[-1], self.decision_u.shape[-1]
        return n_p / (n_p + n_u)


@dataclass(frozen=True)
class Criterion:
    """A way to choose among checkpoints: its name, what it means, and whether it needs true labels."""

    name: str
    title: str
    meaning: str
    oracle: bool
    compute: Callable[[Validation], Tensor]

    @property
    def column(self) -> str:
        """The column of the result store."""
        return "val_" + self.name.replace("-", "_")


def proxy_accuracy(v: Validation) -> Tensor:
    """PA: ``2 prior TPR'`` + fraction of a marginal sample predicted negative; accuracy + prior in expectation."""
    negative_u = (v.decision_u < 0).double().mean(-1)
    negative_all = v.rate * (1 - v.tpr) + (1 - v.rate) * negative_u
    return 2 * v.prior.double() * v.tpr + torch.where(v.one_sample, negative_all, negative_u)


def proxy_accuracy_released(v: Validation) -> Tensor:
    """PA as the published code computes it: in OS it counts P' predicted *positive* in the second term."""
    return proxy_accuracy(v) + torch.where(v.one_sample, v.rate * (2 * v.tpr - 1), torch.zeros_like(v.tpr))


def proxy_auc(v: Validation) -> Tensor:
    """PAUC: probability that a member of P' scores above a member of U', ties one half."""
    score = torch.cat([v.score_p, v.score_u], -1)
    label = torch.zeros(score.shape[-1], dtype=torch.bool, device=score.device)
    label[: v.score_p.shape[-1]] = True
    return auc(score, label)


def oracle_accuracy(v: Validation) -> Tensor:
    """OA: accuracy with true labels, on P' and U' together in OS, on U' in TS."""
    right_u = ((v.decision_u >= 0) == v.label_u).double().mean(-1)
    return torch.where(v.one_sample, v.rate * v.tpr + (1 - v.rate) * right_u, right_u)


CRITERIA: dict[str, Criterion] = {
    c.name: c
    for c in (
        Criterion("pa", "PA", "proxy accuracy: estimates accuracy + prior from P' and U'", False, proxy_accuracy),
        Criterion("pauc", "PAUC", "proxy AUC: how well P' is ranked above U'", False, proxy_auc),
        Criterion("oa", "OA", "oracle accuracy: needs true labels, for comparison only", True, oracle_accuracy),
        Criterion(
            "pa-released",
            "PA (released)",
            "proxy accuracy as the published code computes it (favours recall in OS)",
            False,
            proxy_accuracy_released,
        ),
    )
}


def evaluate(v: Validation) -> dict[str, Tensor]:
    """Return every criterion by its column name; rows with an output that is not finite are NaN."""
    finite = torch.isfinite(v.decision_p).all(-1) & torch.isfinite(v.decision_u).all(-1)
    values = {c.column: c.compute(v) for c in CRITERIA.values()}
    return {name: torch.where(finite, x, torch.full_like(x, float("nan"))) for name, x in values.items()}
