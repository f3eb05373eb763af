"""How a model is chosen: criteria over ``[runs, n]`` validation outputs, ``-> [runs]`` in float64.

PA and PAUC see positive and unlabeled validation points only. The oracles are handed what nobody
has: OA true labels, PA-IPW true propensities.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from puarena.metrics.records import Criterion, look_up
from puarena.metrics.scores import auc

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Counts:
    """How many of P' and of U' are predicted positive, and of how many; the prior; is P' part of
    the marginal sample?

    Tensors or numpy arrays of any one shape; sizes may be plain numbers.
    """

    positive_p: Any
    size_p: Any
    positive_u: Any
    size_u: Any
    prior: Any
    one_sample: Any

    @property
    def tpr(self) -> Any:
        """Fraction of P' predicted positive."""
        return self.positive_p / self.size_p

    @property
    def rate(self) -> Any:
        """Share of P' among P' and U'."""
        return self.size_p / (self.size_p + self.size_u)

    def by_setting(self, one_sample: Any, two_samples: Any) -> Any:
        """The first value in the one-sample setting, the second in the other."""
        if hasattr(one_sample, "where"):  # a tensor
            return one_sample.where(self.one_sample, two_samples)
        import numpy as np

        return np.where(self.one_sample, one_sample, two_samples)


@dataclass(frozen=True)
class Validation:
    """Outputs on the validation sets P' and U'; ``decision`` is positive at or above zero,
    ``score`` ranks.

    ``prior`` and ``one_sample`` are ``[runs]``. ``label_u`` are the true labels of U', for oracles
    only.
    """

    decision_p: Tensor
    decision_u: Tensor
    score_p: Tensor
    score_u: Tensor
    prior: Tensor
    one_sample: Tensor
    label_u: Tensor
    propensity_p: Tensor | None = (
        None  # true chances of a label of P', where a simulator knows them
    )

    @property
    def counts(self) -> Counts:
        """All that a criterion made of counts looks at."""
        return Counts(
            (self.decision_p >= 0).sum(-1).double(),
            self.decision_p.shape[-1],
            (self.decision_u >= 0).sum(-1).double(),
            self.decision_u.shape[-1],
            self.prior.double(),
            self.one_sample,
        )


def proxy_accuracy(c: Counts) -> Any:
    """PA: ``2 prior TPR'`` + fraction of a marginal sample predicted negative; accuracy + prior in
    expectation.
    """
    negative_u = (c.size_u - c.positive_u) / c.size_u
    negative_all = c.rate * (1 - c.tpr) + (1 - c.rate) * negative_u
    return 2 * c.prior * c.tpr + c.by_setting(negative_all, negative_u)


def proxy_accuracy_released(c: Counts) -> Any:
    """PA as the published code computes it: in OS it counts P' predicted *positive* in the second
    term.
    """
    return proxy_accuracy(c) + c.by_setting(c.rate * (2 * c.tpr - 1), 0.0 * c.tpr)


def proxy_auc(score_p: Tensor, score_u: Tensor) -> Tensor:
    """PAUC: probability that a member of P' scores above a member of U', ties one half."""
    import torch

    score = torch.cat([score_p, score_u], -1)
    label = torch.zeros(score.shape[-1], dtype=torch.bool, device=score.device)
    label[: score_p.shape[-1]] = True
    return auc(score, label)


def oracle_accuracy(v: Validation) -> Tensor:
    """OA: accuracy with true labels, on P' and U' together in OS, on U' in TS."""
    c = v.counts
    right_u = ((v.decision_u >= 0) == v.label_u).double().mean(-1)
    result: Tensor = c.by_setting(c.rate * c.tpr + (1 - c.rate) * right_u, right_u)
    return result


def proxy_accuracy_weighted(v: Validation) -> Tensor:
    """PA with ``TPR'`` weighted by inverse true propensities (Hajek), so that it holds where labels
    are biased.
    """
    assert v.propensity_p is not None
    c, weight = v.counts, 1 / v.propensity_p.double()
    tpr = (weight * (v.decision_p >= 0)).sum(-1) / weight.sum(-1)
    result: Tensor = proxy_accuracy(c) + 2 * c.prior * (tpr - c.tpr)
    return result


CRITERIA: dict[str, Criterion] = {
    c.name: c
    for c in (
        Criterion(
            "pa",
            "PA",
            "proxy accuracy: estimates accuracy + prior from P' and U'",
            proxy_accuracy,
            needs="counts",
            synonyms=("proxy-accuracy",),
            high=2.0,
            long="proxy accuracy",
            explanation="An estimate of accuracy from positives and unlabeled examples alone: reward for positives "
            "recognized, plus the share of examples called negative. On average it equals accuracy plus a "
            "constant, the class prior, so it ranks models as accuracy would. Can be used in practice.",
            color="#0b8f74",
            caution="PA is biased here: labels were not given at random, and PA takes the share of labeled positives "
            "that a model finds for the share of all positives",
        ),
        Criterion(
            "pauc",
            "PAUC",
            "proxy AUC: how well P' is ranked above U'",
            proxy_auc,
            needs="scores",
            synonyms=("proxy-auc",),
            long="proxy AUC",
            explanation="How often a labeled positive gets a higher score than an unlabeled example. On average it "
            "orders models as the AUC would, but it does not care where the line between yes and no is drawn. Can be "
            "used in practice.",
            color="#d98a00",
            caution="PAUC can prefer a wrong ranking here: where labels depend on something other than how clearly "
            "positive an example is, it rewards finding the labeled ones",
        ),
        Criterion(
            "oa",
            "OA",
            "oracle accuracy: needs true labels, for comparison only",
            oracle_accuracy,
            needs="labels",
            synonyms=("oracle", "oracle-accuracy"),
            oracle=True,
            long="oracle accuracy",
            explanation="Accuracy on validation data with its true labels. Nobody has these in practice: it shows what "
            "better selection could gain.",
            color="#6f63d9",
        ),
        Criterion(
            "pa-ipw",
            "PA-IPW",
            "proxy accuracy weighted by true inverse propensities: only a simulator has them, for comparison only",
            proxy_accuracy_weighted,
            needs="propensities",
            synonyms=("ipw", "ipw-pa"),
            high=2.0,
            oracle=True,
            default=False,
            under_bias=True,
            color="#2f6fd0",
        ),
        Criterion(
            "pa-released",
            "PA released",
            "proxy accuracy as the published code computes it (favors recall in OS)",
            proxy_accuracy_released,
            needs="counts",
            high=2.0,
            default=False,
            long="proxy accuracy as the published code computes it",
            explanation="Proxy accuracy as the published code computes it, which favors models with high recall; for "
            "comparison with published numbers only.",
            color="#c04a80",
            profile="released",
            replaces="pa",
        ),
    )
}


def criterion(name: str) -> Criterion:
    """A criterion by name."""
    return look_up("criterion", name, CRITERIA)


def default_criteria(profile: str = "", biased: bool = False) -> list[str]:
    """The criteria shown unless others are asked for, under a profile that may replace some; are
    labels ``biased``?
    """
    instead = {c.replaces: c.name for c in CRITERIA.values() if c.profile == profile and c.replaces}
    return [
        instead.get(c.name, c.name)
        for c in CRITERIA.values()
        if c.default or (biased and c.under_bias)
    ]


def cautions(criteria: Iterable[str]) -> list[str]:
    """What to say of some criteria where labels are not given at random."""
    return [text for name in criteria if (text := criterion(name).caution)]


def evaluate(v: Validation) -> dict[str, Tensor]:
    """Return the counts and every criterion that can be computed, by column; NaN where an output is
    not finite.
    """
    import torch

    finite = torch.isfinite(v.decision_p).all(-1) & torch.isfinite(v.decision_u).all(-1)
    counts = v.counts
    handed: dict[str, tuple[Any, ...]] = {
        "counts": (counts,),
        "scores": (v.score_p, v.score_u),
        "labels": (v,),
    }
    if v.propensity_p is not None:
        handed["propensities"] = (v,)
    values = {c.column: c.compute(*handed[c.needs]) for c in CRITERIA.values() if c.needs in handed}
    for side in ("p", "u"):
        positive = getattr(counts, f"positive_{side}")
        values |= {
            f"val_positive_{side}": positive,
            f"val_size_{side}": torch.full_like(positive, getattr(counts, f"size_{side}")),
        }
    return {
        name: torch.where(finite, x, torch.full_like(x, float("nan"))) for name, x in values.items()
    }
