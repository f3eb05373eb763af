"""Criteria, which select models: ``[runs, n]`` validation outputs to ``[runs]`` values in float64.

PA and PAUC see positive and unlabeled validation points only. The oracles receive what is unknown
in practice: OA true labels, PA-IPW true propensities.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from puarena.metrics.measures import Criterion, find_measure
from puarena.metrics.scores import auc

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Counts:
    """Counts of validation points that are predicted positive.

    Values are tensors or numpy arrays of one shape; sizes may be plain numbers.

    Attributes:
        positive_p: number of points of P' predicted positive.
        size_p: number of points of P'.
        positive_u: number of points of U' predicted positive.
        size_u: number of points of U'.
        prior: the class prior.
        one_sample: whether P' is part of the marginal sample.
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

    def choose_by_setting(self, one_sample: Any, two_samples: Any) -> Any:
        """Return the first value in the one-sample setting, otherwise the second."""
        if hasattr(one_sample, "where"):  # a tensor
            return one_sample.where(self.one_sample, two_samples)
        import numpy as np

        return np.where(self.one_sample, one_sample, two_samples)


@dataclass(frozen=True)
class Validation:
    """Outputs on the validation sets P' and U'.

    Attributes:
        decision_p: decision on P', positive at or above zero, ``[runs, n]``.
        decision_u: decision on U'.
        score_p: score on P', which ranks.
        score_u: score on U'.
        prior: the class prior, ``[runs]``.
        one_sample: whether P' is part of the marginal sample, ``[runs]``.
        label_u: true labels of U', for oracles only; None if they are not known.
        propensity_p: true propensities of P', if a simulator knows them; for oracles only.
    """

    decision_p: Tensor
    decision_u: Tensor
    score_p: Tensor
    score_u: Tensor
    prior: Tensor
    one_sample: Tensor
    label_u: Tensor | None
    propensity_p: Tensor | None = None

    @property
    def counts(self) -> Counts:
        """The counts of predicted positives."""
        return Counts(
            (self.decision_p >= 0).sum(-1).double(),
            self.decision_p.shape[-1],
            (self.decision_u >= 0).sum(-1).double(),
            self.decision_u.shape[-1],
            self.prior.double(),
            self.one_sample,
        )


# -- the formulas ----------------------------------------------------------------------------------


def proxy_accuracy(c: Counts) -> Any:
    """Return PA: ``2 prior TPR'`` + the fraction of a marginal sample predicted negative.

    Its expectation is the accuracy + prior.
    """
    negative_u = (c.size_u - c.positive_u) / c.size_u
    negative_all = c.rate * (1 - c.tpr) + (1 - c.rate) * negative_u
    return 2 * c.prior * c.tpr + c.choose_by_setting(negative_all, negative_u)


def proxy_accuracy_released(c: Counts) -> Any:
    """Return PA as the published code computes it.

    In the one-sample setting it counts P' predicted *positive* in the second term.
    """
    return proxy_accuracy(c) + c.choose_by_setting(c.rate * (2 * c.tpr - 1), 0.0 * c.tpr)


def proxy_auc(score_p: Tensor, score_u: Tensor) -> Tensor:
    """Return PAUC: the probability that a member of P' scores above one of U', ties one half."""
    import torch

    score = torch.cat([score_p, score_u], -1)
    label = torch.zeros(score.shape[-1], dtype=torch.bool, device=score.device)
    label[: score_p.shape[-1]] = True
    return auc(score, label)


def oracle_accuracy(v: Validation) -> Tensor:
    """Return OA: the accuracy on U', or on P' and U' together in the one-sample setting."""
    assert v.label_u is not None
    c = v.counts
    right_u = ((v.decision_u >= 0) == v.label_u).double().mean(-1)
    result: Tensor = c.choose_by_setting(c.rate * c.tpr + (1 - c.rate) * right_u, right_u)
    return result


def proxy_accuracy_weighted(v: Validation) -> Tensor:
    """Return PA with ``TPR'`` weighted by inverse true propensities (Hajek).

    It holds for biased labels, too.
    """
    assert v.propensity_p is not None
    c, weight = v.counts, 1 / v.propensity_p.double()
    tpr = (weight * (v.decision_p >= 0)).sum(-1) / weight.sum(-1)
    result: Tensor = proxy_accuracy(c) + 2 * c.prior * (tpr - c.tpr)
    return result


# -- the criteria ----------------------------------------------------------------------------------

CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        Criterion(
            "pa",
            "PA",
            "proxy accuracy: estimates accuracy + prior from P' and U'",
            proxy_accuracy,
            needs="counts",
            synonyms=("proxy-accuracy",),
            high=2.0,
            long="proxy accuracy",
            explanation=(
                "An estimate of accuracy from positives and unlabeled examples alone: reward for "
                "positives recognized, plus the share of examples called negative. On average it "
                "equals accuracy plus a constant, the class prior, so it ranks models as accuracy "
                "would. Can be used in practice."
            ),
            color="#0b8f74",
            caution=(
                "PA is biased here: labels were not given at random, and PA takes the share of "
                "labeled positives that a model finds for the share of all positives"
            ),
        ),
        Criterion(
            "pauc",
            "PAUC",
            "proxy AUC: how well P' is ranked above U'",
            proxy_auc,
            needs="scores",
            synonyms=("proxy-auc",),
            long="proxy AUC",
            explanation=(
                "How often a labeled positive gets a higher score than an unlabeled example. On "
                "average it orders models as the AUC would, but it does not depend on where the "
                "line between yes and no is drawn. Can be used in practice."
            ),
            color="#d98a00",
            caution=(
                "PAUC can prefer a wrong ranking here: if labels depend on something other than "
                "how clearly positive an example is, it rewards finding the labeled ones"
            ),
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
            explanation=(
                "Accuracy on validation data with its true labels, which are unknown in practice: "
                "it shows what better selection could gain."
            ),
            color="#6f63d9",
        ),
        Criterion(
            "pa-ipw",
            "PA-IPW",
            "proxy accuracy weighted by true inverse propensities, which only a simulator knows; "
            "for comparison only",
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
            explanation=(
                "Proxy accuracy as the published code computes it, which favors models with high "
                "recall; for comparison with published numbers only."
            ),
            color="#c04a80",
            profile="released",
            replaces="pa",
        ),
    )
}


def get_criterion(name: str) -> Criterion:
    """Return a criterion by name or synonym."""
    return find_measure("criterion", name, CRITERIA)


def list_default_criteria(profile: str = "", biased: bool = False) -> list[str]:
    """Return the names of the criteria that are shown by default.

    A profile may replace some; ``biased`` says whether labels are not given at random.
    """
    replaced = {}
    for criterion in CRITERIA.values():
        if criterion.profile == profile and criterion.replaces:
            replaced[criterion.replaces] = criterion.name
    names = []
    for criterion in CRITERIA.values():
        if criterion.default or (biased and criterion.under_bias):
            names.append(replaced.get(criterion.name, criterion.name))
    return names


def list_cautions(criteria: Iterable[str]) -> list[str]:
    """Return the warnings about some criteria if labels are not given at random."""
    cautions = [get_criterion(name).caution for name in criteria]
    return [caution for caution in cautions if caution]


def compute_criteria(v: Validation) -> dict[str, Tensor]:
    """Return the counts and every criterion that can be computed, by column.

    They are NaN if an output is not finite.
    """
    import torch

    counts = v.counts
    inputs: dict[str, tuple[Any, ...]] = {
        "counts": (counts,),
        "scores": (v.score_p, v.score_u),
    }
    if v.label_u is not None:
        inputs["labels"] = (v,)
    if v.propensity_p is not None:
        inputs["propensities"] = (v,)
    values: dict[str, Tensor] = {}
    for criterion in CRITERIA.values():
        if criterion.needs in inputs:
            values[criterion.column] = criterion.compute(*inputs[criterion.needs])
    for side in ("p", "u"):
        positive = getattr(counts, f"positive_{side}")
        size = torch.full_like(positive, getattr(counts, f"size_{side}"))
        values |= {f"val_positive_{side}": positive, f"val_size_{side}": size}
    finite = torch.isfinite(v.decision_p).all(-1) & torch.isfinite(v.decision_u).all(-1)
    nan = {name: torch.full_like(value, float("nan")) for name, value in values.items()}
    return {name: torch.where(finite, value, nan[name]) for name, value in values.items()}
