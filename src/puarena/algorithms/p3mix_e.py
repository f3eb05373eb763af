"""P3MIX-E: partially positive mixup with early-learning regularization.

Li, Li, Feng, Ouyang: Who is your right mixup partner in positive and unlabeled learning. ICLR 2022.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from puarena.algorithms._base import Batch, Hyper, Passes, Phase
from puarena.algorithms._losses import ema_, frozen_copy
from puarena.algorithms.p3mix import CLIP, P3Mix


class P3MixE(P3Mix):
    """``mean_P CE + mean_U CE + w_ent mean H + w_early mean log(1 - [e p + (1-e)(1-p)])``.

    All means are on mixed points; ``e`` mixes a teacher's probabilities. Partners: positives near
    the boundary for unlabeled points in doubt (``e = 1``), any member of the batch for the others.
    A known failure is that all outputs saturate on one side.
    """

    name, title = "p3mix-e", "P3MIX-E"
    cost = 2.0
    differs = (
        P3Mix.differs
        + " Its teacher averages from the initial weights on; here it begins with the network "
        "after the first epoch. The early-learning weight of 5 is the paper's; it works against an "
        "untrained teacher, whose arbitrary outputs hold the network during the first epoch, and "
        "on Letter all outputs collapse to one side."
    )

    notes: ClassVar[Mapping[str, str]] = {
        "letter": "its early-learning weight of 5 works against an untrained teacher, and on "
        "Letter all outputs collapse to one side"
    }

    w_early = Hyper(5.0, "weight of the early-learning term")

    teacher: nn.Module

    def prepare(self) -> None:
        """Start the teacher from the initial weights."""
        self.teacher = frozen_copy(self.f)

    def labels(self, batch: Batch, target_u: Tensor) -> Tensor:
        """Return the targets and the teacher's probabilities."""
        with torch.no_grad():
            taught = torch.sigmoid(self.teacher(batch.x)).unsqueeze(-1)
        return torch.cat([super().labels(batch, target_u), taught], -1)

    def early_learning(self, f: Tensor, e: Tensor) -> Tensor:
        """Return ``mean log(e (1-p) + (1-e) p)``, probabilities clipped at 1e-4."""
        f = f.clamp(-CLIP, CLIP)
        return (e * torch.sigmoid(-f) + (1 - e) * torch.sigmoid(f)).log().mean(-1)

    def risk(self, f_p: Tensor, f_u: Tensor, labels: Tensor) -> Tensor:
        """Return the loss from mixed logits and mixed labels."""
        early = self.early_learning(torch.cat([f_p, f_u], -1), labels[..., 1])
        return super().risk(f_p, f_u, labels) + self.w_early * early

    @staticmethod
    def decay(epoch: int) -> float:
        """Return the teacher's decay after epoch 0, 1, …; the first update copies the network."""
        return min(1 - 1 / (epoch + 1), 0.997)

    first_update = 0  # the place of the first epoch's network among those that are averaged

    def on_epoch(self, phase: Phase, epoch: int, passes: Passes) -> None:
        """Move the teacher at the end of every epoch."""
        done = self.epochs_done(phase, epoch)
        if done > 0:
            ema_(self.teacher, self.f, self.decay(done - 1 + self.first_update))
        super().on_epoch(phase, epoch, passes)
