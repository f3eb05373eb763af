"""Robust-PU: robust positive-unlabeled learning via noise negative sample self-correction.

Zhu, Wang, Zhao, Du, Zhang, Dong, Qiao, Lin, Rajmohan, Zhang. KDD 2023.
"""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from puarena.algorithms._base import Batch, Choice, Hyper, Passes, Phase, Update
from puarena.algorithms._losses import col, logistic
from puarena.algorithms._optimizer import Declared, Optimizer
from puarena.algorithms.nnpu import AscentStep


class RobustPU(AscentStep):
    """The mean over both batches of ``w l+`` on P and ``w l-`` on U.

    It follows a warm-up with nnPU-GA steps. ``w = exp(-softplus(∓f/T) / thr^2)``, easy points
    first, is set at the start of every episode of 5 epochs; ``thr`` grows from ``alpha`` to
    ``thr_max`` in ``grow`` episodes.
    """

    name, title = "robust-pu", "Robust-PU"
    paper = "Zhu et al.: Robust PU learning via noise negative sample self-correction, KDD 2023"
    phases = (Phase("warm-up", (Update("warm_up_loss"),), extra=True, selectable=False), Phase())
    differs = (
        "The published code weights unlabeled points by their hardness as positives, from the raw "
        "second output, warms up with the clamped nnPU loss for 10 epochs, and has default and "
        "searched values exchanged."
    )
    authors_optimizer: ClassVar[Declared] = {
        "warm-up": Optimizer("adam", 1e-3, source="the authors' code"),
        "main": Optimizer("adam", 1e-4, source="the authors' code"),
    }

    temper_p = Hyper(1.0, "temperature T of the hardness of positives")
    temper_n = Hyper(
        1.0, "temperature T of the hardness of unlabeled points", search=Choice((1.0, 1.3))
    )
    alpha_p = Hyper(0.1, "initial threshold for positives")
    alpha_n = Hyper(0.1, "initial threshold for unlabeled points", search=Choice((0.1, 0.11)))
    thr_max = Hyper(2.0, "final threshold", search=Choice((1.0, 2.0)))
    grow = Hyper(10, "episodes until the final threshold", search=Choice((5, 10)))
    episode_epochs = 5

    w_p: Tensor
    w_u: Tensor

    def prepare(self) -> None:
        """Create the weight of every training point."""
        self.state("w_p", self.prior.new_zeros(self.setup.runs, self.setup.n_p))
        self.state("w_u", self.prior.new_zeros(self.setup.runs, self.setup.n_u))

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return a step of nnPU-GA."""
        return self.ascent(*batch.split(self.f(batch.x)))

    @staticmethod
    def tolerance(alpha: Tensor, thr_max: Tensor, grow: Tensor, episode: int | Tensor) -> Tensor:
        """Return the threshold of an episode."""
        return torch.minimum(alpha + (thr_max - alpha) * episode / grow, thr_max)

    @staticmethod
    def easiness(f: Tensor, label: int, temper: Tensor, thr: Tensor) -> Tensor:
        """Return the weights of points with logits ``f`` for a label."""
        return torch.exp(-softplus(-label * f / col(temper)) / col(thr).square())

    def score(self, passes: Passes) -> tuple[Tensor, Tensor]:
        """Return the logits that hardness is measured by, on P and U."""
        return passes.p(self.f), passes.u(self.f)

    def weights(
        self, f_p: Tensor, f_u: Tensor, thr_p: Tensor, thr_n: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the weights of P, as positives, and of U, as negatives."""
        w_p = self.easiness(f_p, +1, self.temper_p, thr_p)
        return w_p, self.easiness(f_u, -1, self.temper_n, thr_n)

    def on_epoch(self, phase: Phase, epoch: int, passes: Passes) -> None:
        """At the start of an episode: set the weights."""
        if phase.name == "main" and epoch % self.episode_epochs == 0:
            episode = epoch // self.episode_epochs
            thr_p, thr_n = (
                self.tolerance(alpha, self.thr_max, self.grow, episode)
                for alpha in (self.alpha_p, self.alpha_n)
            )
            w_p, w_u = self.weights(*self.score(passes), thr_p, thr_n)
            self.w_p.copy_(w_p)
            self.w_u.copy_(w_u)

    def weighted_risk(self, f_p: Tensor, f_u: Tensor, w_p: Tensor, w_u: Tensor) -> Tensor:
        """Return the weighted mean loss, not renormalized."""
        return torch.cat([w_p * logistic(f_p, +1), w_u * logistic(f_u, -1)], -1).mean(-1)

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a step with the episode's weights."""
        w_p, w_u = self.w_p.gather(1, batch.i_p), self.w_u.gather(1, batch.i_u)
        return self.weighted_risk(*batch.split(self.f(batch.x)), w_p, w_u)
