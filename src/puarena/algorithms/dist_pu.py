"""Dist-PU: positive-unlabeled learning from a label distribution perspective.

Zhao, Xu, Jiang, Wen, Huang: Dist-PU: Positive-unlabeled learning from a label distribution
perspective. CVPR 2022.
"""

from math import cos, pi
from typing import ClassVar

import torch
from torch import Tensor

from puarena.algorithms._base import Algorithm, Batch, Hyper, Passes, Phase, Update
from puarena.algorithms._losses import col, cross_entropy, entropy, mixup, pick
from puarena.algorithms._optimizer import Declared, Optimizer
from puarena.random import Draws


def clamp_logits(f: Tensor) -> Tensor:
    """Return logits limited to ±10."""
    return f.clamp(-10, 10)


class DistPU(Algorithm):
    """``L_dist + mu mean_U H(s) + gamma mean_mix H(s~) + nu mean_mix BCE(s~; lam y + (1-lam) y')``.

    ``s = sigmoid(f)``, ``L_dist = 1 - mean_P s + |mean_U s - prior| / (2 prior)``. Mixed points,
    ``lam ~ Beta(6, 6)``, have soft labels ``y``: 1 for positives, and for an unlabeled point its
    score in the last batch that had it.
    Warm-up, 7 epochs: ``L_dist + mu_warm mean_U H(s)``.
    """

    name, title = "dist-pu", "Dist-PU"
    paper = (
        "Zhao, Xu, Jiang, Wen, Huang: PU learning from a label distribution perspective, CVPR 2022"
    )
    setting, calibrates = "two-sample", True
    phases = (Phase("warm-up", (Update("warm_up_loss"),), epochs=7), Phase())
    cost = 2.2
    differs = (
        "The published code matches the mean score to 1 - prior, mixes hard labels of the current "
        "batch so that a pair of different labels becomes negative, and has no warm-up entropy and "
        "no clamp."
    )
    authors_optimizer: ClassVar[Declared] = {
        "warm-up": Optimizer(
            "adam", 5e-4, weight_decay=5e-3, schedule="cosine", source="the authors' code"
        ),
        "main": Optimizer(
            "adam", 5e-5, weight_decay=1e-3, schedule="cosine", source="the authors' code"
        ),
    }

    nu = Hyper(5.0, "weight of the cross entropy on mixed points")
    gamma = Hyper(0.04, "weight of the entropy on mixed points")
    mu = Hyper(0.004, "final weight of the entropy on unlabeled points")
    mu_warm = Hyper(0.002, "weight of the entropy on unlabeled points during the warm-up")
    mix_beta = 6.0

    label_u: Tensor

    def prepare(self) -> None:
        """Create the soft label of every unlabeled point."""
        self.state("label_u", self.prior.new_zeros(self.setup.runs, self.setup.n_u))

    def distribution(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return ``L_dist``: the mean scores should be 1 on P and the prior on U."""
        s_p, s_u = f_p.sigmoid(), f_u.sigmoid()
        return 1 - s_p.mean(-1) + (self.mean_u(s_u, s_p) - self.prior).abs() / (2 * self.prior)

    def warm_up(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the loss of the first epochs."""
        return self.distribution(f_p, f_u) + self.mu_warm * entropy(clamp_logits(f_u)).mean(-1)

    def main(self, f_p: Tensor, f_u: Tensor, f_mix: Tensor, target: Tensor, mu: Tensor) -> Tensor:
        """Return the loss of the main stage; ``mu`` is the current weight of the entropy."""
        f_p, f_u, f_mix = map(clamp_logits, (f_p, f_u, f_mix))
        mixing = self.gamma * entropy(f_mix).mean(-1)
        mixing = mixing + self.nu * cross_entropy(f_mix, target).mean(-1)
        return self.distribution(f_p, f_u) + mu * entropy(f_u).mean(-1) + mixing

    @staticmethod
    def growth(epoch: int, epochs: int) -> float:
        """Return which part of its final value ``mu`` has in an epoch of the main stage."""
        return 1 - cos(pi / 2 * epoch / epochs)

    def schedule(self, phase: Phase, step: int, steps: int, epoch: int) -> dict[str, float]:
        """Let the entropy's weight grow over the main stage."""
        if phase.name != "main":
            return {}
        return {"growth": self.growth(epoch, max(1, self.setup.steps // self.setup.epoch - 7))}

    def draws(self, draws: Draws, phase: Phase) -> dict[str, Tensor]:
        """Draw one lambda and one permutation of the whole batch per step of the main stage."""
        if phase.name != "main":
            return {}
        size = self.setup.batch_p + self.setup.batch_u
        return {
            "lam": draws.beta("lam", self.mix_beta),
            "partner": draws.permutation("partner", size),
        }

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """At the switch: store the soft labels."""
        if phase.name == "main":
            self.label_u.copy_(passes.u(self.f).sigmoid())

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return the loss of a warm-up step."""
        return self.warm_up(*batch.split(self.f(batch.x)))

    def targets(self, batch: Batch, f_u: Tensor) -> Tensor:
        """Return the mixed labels of a batch, positives first; store the scores as new labels."""
        y = torch.cat([f_u.new_ones(len(f_u), batch.n_p), self.label_u.gather(1, batch.i_u)], 1)
        self.label_u.scatter_(1, batch.i_u, clamp_logits(f_u.detach()).sigmoid())
        return torch.lerp(y.gather(1, batch.draw["partner"]), y, col(batch.draw["lam"]))

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a step of the main stage."""
        f_p, f_u = batch.split(self.f(batch.x))
        f_mix = self.f(mixup(batch.x, pick(batch.x, batch.draw["partner"]), batch.draw["lam"]))
        return self.main(f_p, f_u, f_mix, self.targets(batch, f_u), self.mu * batch.at["growth"])
