"""ImbPU: nnPU for imbalanced classes.

Su, Chen, Xu: Positive-unlabeled learning from imbalanced data. IJCAI 2021.
"""

import torch
from torch import Tensor

from puarena.algorithms._base import Algorithm, Batch, Hyper
from puarena.algorithms._losses import ascent_step, col, logistic, replace_value


class ImbPU(Algorithm):
    """``target mean_P L+ + k max(-beta, mean_U L- - prior mean_P L-)``.

    ``k = (1-target)/(1-prior)`` and ``target = 1/2``: the non-negative risk of a population with
    the share ``target`` of positives. The decision at 0 then maximizes the balanced accuracy, so
    PA, an estimate of the accuracy, disfavors it if the prior is far from one half. With
    ``form = ga`` the step un-learns the negative part where the maximum is ``-beta``, as nnPU-GA.
    """

    name, title = "imb-pu", "ImbPU"
    paper = "Su, Chen, Xu: Positive-unlabeled learning from imbalanced data, IJCAI 2021"
    setting, calibrates, in_paper = "two-sample", True, False
    cost = 1.1
    differs = (
        "The default loss is logistic and clamped, as our nnPU's. The only published code that was "
        "found, of a comparison (NcPU), replaces this risk by plain nnPU except in ascent steps "
        "and uses the sigmoid loss."
    )

    target = Hyper(0.5, "share of positives of the population whose risk is minimized")
    beta = Hyper(
        0.0, "tolerance: how far below zero the negative part may fall, before the factor k"
    )
    gamma = Hyper(1.0, "scale of the ascent step, 0 to 1")
    form = Hyper(
        "clamp", "non-negative form: clamped, or with gradient ascent", choices=("clamp", "ga")
    )
    surrogate_loss = Hyper("logistic", "the loss L", choices=("logistic", "sigmoid"))

    ascends: Tensor
    bounded: Tensor

    def prepare(self) -> None:
        """Turn the named options into flags."""
        self.state("ascends", self.has_option("form", "ga"))
        self.state("bounded", self.has_option("surrogate_loss", "sigmoid"))

    def point_loss(self, f: Tensor, label: int) -> Tensor:
        """Return the loss of logits for a label, logistic or sigmoid as the run says."""
        return torch.where(col(self.bounded), torch.sigmoid(-label * f), logistic(f, label))

    def risk_parts(self, f_p: Tensor, f_u: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positive part, and the negative one before its factor."""
        l_p = self.point_loss(f_p, -1)
        negative = self.mean_u(self.point_loss(f_u, -1), l_p) - self.prior * l_p.mean(-1)
        return self.target * self.point_loss(f_p, +1).mean(-1), negative

    def surrogate(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return what the step differentiates."""
        k = (1 - self.target) / (1 - self.prior)
        ascent = ascent_step(positive, k * negative, k * self.beta, self.gamma)
        return torch.where(self.ascends, ascent, self.clamped(positive, negative))

    def clamped(self, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the non-negative risk."""
        return positive + (1 - self.target) / (1 - self.prior) * negative.clamp_min(-self.beta)

    def loss(self, batch: Batch) -> Tensor:
        """Step on the surrogate, report the risk."""
        parts = self.risk_parts(*batch.split(self.f(batch.x)))
        return replace_value(self.surrogate(*parts), self.clamped(*parts))
