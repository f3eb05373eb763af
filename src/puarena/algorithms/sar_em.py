"""SAR-EM: learning from labels that are selected at random given the attributes.

Bekker, Robberechts, Davis: Beyond the selected completely at random assumption for learning from
positive and unlabeled data. ECML PKDD 2019.
"""

from typing import ClassVar

import torch
from torch import Tensor

from puarena.algorithms._base import Batch, Passes, Phase, Update
from puarena.algorithms._losses import logistic
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
    with weight h. E- and M-steps as in LBE for half of the steps. Then f is trained by inverse
    propensities, with e frozen and at least 0.01, and r = n_P / (n_P + n_U):
    ``r mean_P l+/e + max(0, (1-r) mean_U l- + r mean_P (1-1/e) l-)``. Checkpoints before and after
    that last stage are models of the method, because the last stage is optional in the paper.
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

    @staticmethod
    def propensity_risk(e_p: Tensor, e_u: Tensor, q: Tensor) -> Tensor:
        """Return the loss of e per point.

        Unlabeled points count, with weight q, as positives that were not labeled.
        """
        return torch.cat([logistic(e_p, +1), q * logistic(e_u, -1)], -1).mean(-1)

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
