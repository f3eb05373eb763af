"""SAR-EM: learning from labels that are selected at random given the attributes, and the reference
baseline that knows the true propensities.

Bekker, Robberechts, Davis: Beyond the selected completely at random assumption for learning from
positive and unlabeled data. ECML PKDD 2019.
"""

from typing import ClassVar

import torch
from torch import Tensor

from puarena.algorithms._base import Algorithm, Batch, Passes, Phase, Update
from puarena.algorithms._losses import col, cross_entropy, logistic
from puarena.algorithms.lbe import LBE

MIN_PROPENSITY = 0.01


def weighted_parts(f_p: Tensor, f_u: Tensor, e_p: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    """Return the positive and the negative part of the propensity-weighted risk, ``[runs]``.

    Their sum is unbiased. Every labeled point counts ``1/e`` times as a positive and ``1 - 1/e``
    times as a negative.
    """
    inverse = 1 / e_p.clamp_min(MIN_PROPENSITY)
    positive = rate * (inverse * logistic(f_p, +1)).mean(-1)
    on_p = ((1 - inverse) * logistic(f_p, -1)).mean(-1)
    return positive, torch.lerp(logistic(f_u, -1).mean(-1), on_p, rate)


class SarEM(LBE):
    """EM for ``h = sigmoid(f) = p(y=1|x)`` and ``e = p(labeled|y=1,x)``, then f once more.

    Initial f: P against U, both with the same weight; initial e: labeled or not, unlabeled points
    with weight h. These two stages take the warm-up steps (2,000 in the protocol) each, 4,000 in
    addition to the protocol's. Then, for half of the steps, EM: E-step as in LBE, M-step on
    ``r mean_P[-log h - log e] + (1-r) mean_U[q (-log h - log(1-e)) + (1-q) (-log(1-h))]`` with
    r = n_P / (n_P + n_U), so that e is a probability for the data and not for batches with as many
    positives as unlabeled points. Then f is trained by inverse propensities, with e frozen and at
    least 0.01: ``r mean_P l+/e + max(0, (1-r) mean_U l- + r mean_P (1-1/e) l-)``. Checkpoints
    before and after that last stage are models of the method, because the last stage is optional in
    the paper.
    """

    name, title, in_paper = "sar-em", "SAR-EM", False
    paper = (
        "Bekker, Robberechts, Davis: Beyond the selected completely at random assumption for "
        "learning from positive and unlabeled data, ECML PKDD 2019"
    )
    phases: ClassVar[tuple[Phase, ...]] = (
        Phase("warm-up", (Update("warm_up_loss"),), extra=True, selectable=False),
        Phase(
            "propensity", (Update("first_propensity_loss", ("e",)),), extra=True, selectable=False
        ),
        Phase("main", (Update("loss", ("f", "e")),), share=0.5),
        Phase("refit", (Update("refit_loss"),)),
    )
    differs = (
        "The published method alternates converged logistic regressions, e on chosen attributes; "
        "here both are networks on all inputs, an M-step is one epoch of gradient steps, and the "
        "last stage is kept non-negative. The published code's solver drops negative weights, so "
        "that it lacks the correction of the negatives. The classic sar-em-lr is the published "
        "method."
    )

    def weigh_as_data(self, on_p: Tensor, on_u: Tensor) -> Tensor:
        """Return the mean over the data of values of both batches.

        Batches have as many positives as unlabeled points, and the data have not: with their plain
        mean the odds of e would be (1-r)/r times too large.
        """
        return torch.lerp(on_u.mean(-1), on_p.mean(-1), self.rate)

    def propensity_risk(self, e_p: Tensor, e_u: Tensor, q: Tensor) -> Tensor:
        """Return the loss of e per point.

        Unlabeled points count, with weight q, as positives that were not labeled.
        """
        return self.weigh_as_data(logistic(e_p, +1), q * logistic(e_u, -1))

    def m_step(self, f_p: Tensor, f_u: Tensor, e_p: Tensor, e_u: Tensor, q: Tensor) -> Tensor:
        """M-step: return the expected negative log likelihood per point of the data."""
        of_h = self.weigh_as_data(logistic(f_p, +1), cross_entropy(f_u, q))
        return of_h + self.propensity_risk(e_p, e_u, q)

    def first_propensity_loss(self, batch: Batch) -> Tensor:
        """Initial e: the weight of an unlabeled point is the initial h."""
        with torch.no_grad():
            q = self.f(batch.x_u).sigmoid()
        return self.propensity_risk(*batch.split(self.e(batch.x)), q)

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """Put the network that a stage does not train into evaluation mode."""
        self.f.train(phase.name != "propensity")
        self.e.train(phase.name != "refit")

    def refit_loss(self, batch: Batch) -> Tensor:
        """Return the loss of f, weighted by the propensities of the frozen e."""
        with torch.no_grad():
            e_p = self.e(batch.x_p).sigmoid()
        positive, negative = weighted_parts(*batch.split(self.f(batch.x)), e_p, self.rate)
        return positive + negative.clamp_min(0)


class SarOracle(Algorithm):
    """The non-negative propensity-weighted risk of SAR-EM's last stage, with true propensities.

    In the two-sample setting U alone is the marginal sample:
    ``prior sum_P w l+ + max(0, mean_U l- - prior sum_P w l-)``, w the inverse propensities,
    normalized in the batch.
    """

    name, title, in_paper = "sar-oracle", "SAR (oracle)", False
    paper = (
        "upper baseline where labels are biased: trained with true propensities, not a PU method"
    )
    baseline = knows_propensity = True
    differs = "Not part of the published code."

    def risk(self, f_p: Tensor, f_u: Tensor, e_p: Tensor) -> Tensor:
        """Return the weighted risk of the setting of every run."""
        positive, negative = weighted_parts(f_p, f_u, e_p, self.rate)
        inverse = 1 / e_p.clamp_min(MIN_PROPENSITY)
        w = inverse / col(inverse.sum(-1))
        apart = self.prior * (w * logistic(f_p, +1)).sum(-1)
        rest = logistic(f_u, -1).mean(-1) - self.prior * (w * logistic(f_p, -1)).sum(-1)
        one = self.one_sample
        return torch.where(one, positive, apart) + torch.where(one, negative, rest).clamp_min(0)

    def loss(self, batch: Batch) -> Tensor:
        """Return the risk of a step."""
        if batch.propensity_p is None:
            raise RuntimeError(
                "these data have no propensities; only a simulator of labels knows them"
            )
        return self.risk(*batch.split(self.f(batch.x)), batch.propensity_p)
