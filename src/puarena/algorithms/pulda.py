"""PULDA: positive-unlabeled learning with label distribution alignment.

Jiang, Xu, Zhao, Yang, Wen, Cao, Huang: Positive-unlabeled learning with label distribution
alignment. IEEE TPAMI 2023.
"""

from typing import ClassVar

import torch
from torch import Tensor

from puarena.algorithms._base import Batch, Choice, Hyper, Passes, Phase, Update
from puarena.algorithms._losses import cross_entropy, mixup, pick
from puarena.algorithms._optimizer import Declared, Optimizer
from puarena.algorithms.dist_pu import DistPU, clamp_logits


def soft_distance(a: Tensor, b: Tensor, beta: Tensor | float) -> Tensor:
    """Return ``softplus(beta d)/beta + softplus(-beta d)/beta``, ``d = a - b``: a smooth |d|."""
    gap = (a - b).abs()
    return gap + 2 / beta * torch.log1p(torch.exp(-beta * gap))


class PULDA(DistPU):
    """``L_lab + L_two + nu mean_mix BCE(s~; lam y + (1-lam) y')``.

    ``L_lab = 2 prior (1 - mean_P s) + D_tau(mean_U s, prior)``, ``D`` a smooth absolute difference
    of means that run over steps;
    ``L_two = prior mean_P g+ + D_1(mean_U g-, prior mean_P g-)`` keeps scores off the boundary,
    ``g+ = sigmoid(f) sigmoid(margin - f)``, ``g- = sigmoid(f + margin) sigmoid(-f)``. Mixed points
    as in Dist-PU, ``lam ~ Beta(11, 11)``; warm-up, half of training, without them.
    """

    name, title = "pulda", "PULDA"
    paper = (
        "Jiang et al.: Positive-unlabeled learning with label distribution alignment, TPAMI 2023"
    )
    in_paper = False
    authors_optimizer: ClassVar[Declared] = {
        "warm-up": Optimizer(
            "adam", 1e-4, weight_decay=5e-4, schedule="cosine", source="the authors' code"
        ),
        "main": Optimizer(
            "adam",
            1e-3,
            weight_decay=1e-4,
            schedule="cosine",
            final=0.7,
            source="the authors' code",
        ),
    }
    phases = (Phase("warm-up", (Update("warm_up_loss"),), share=0.5), Phase())
    cost = 1.7
    differs = (
        "The authors train with Adam, 60 epochs of warm-up and 60 more at ten times the rate, on "
        "batches of 16 positives and 128 unlabeled points; their U contains the labeled positives; "
        "and they let the test set's labels move the running means before every epoch."
    )

    nu = Hyper(4.2, "weight of the cross entropy on mixed points")
    tau = Hyper(3.5, "sharpness of the distance between the mean score and the prior")
    margin = Hyper(0.6, "margin of the two-way sigmoids")
    two_way = Hyper(1.0, "weight of the two-way term: 1 or 0", search=Choice((0.0, 1.0)))
    decay_mean = Hyper(0.85, "how much of the running mean score stays in a step")
    decay_margin = Hyper(0.5, "how much of the running means of the two-way term stays in a step")
    gamma = mu = mu_warm = None  # Dist-PU's weights of entropies, which PULDA does without
    mix_beta = 11.0

    started: Tensor  # [runs]: 0 before the first step of a phase, then 1
    mean_s: Tensor
    mean_two_p: Tensor
    mean_two_u: Tensor

    def prepare(self) -> None:
        """Create the soft labels and the running means."""
        super().prepare()
        for name in ("started", "mean_s", "mean_two_p", "mean_two_u"):
            self.state(name, torch.zeros_like(self.prior))

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """Begin the running means anew; at the switch, store the soft labels."""
        super().on_phase(phase, passes)
        self.started.zero_()

    def running(self, name: str, now: Tensor, decay: Tensor) -> Tensor:
        """Store and return a mean over this and earlier steps; only this step has a gradient."""
        mean = torch.lerp(now, getattr(self, name), decay)
        getattr(self, name).copy_(mean.detach())
        return mean

    def label_term(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return ``L_lab``; division by this step's weight in the mean keeps gradients' size."""
        s_p, s_u = f_p.sigmoid(), f_u.sigmoid()
        decay = self.started * self.decay_mean
        mean = self.running("mean_s", self.mean_u(s_u, s_p), decay)
        return 2 * self.prior * (1 - s_p.mean(-1)) + soft_distance(mean, self.prior, self.tau) / (
            1 - decay
        )

    def two_way_term(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return ``L_two``."""
        margin, decay = self.margin.unsqueeze(-1), self.started * self.decay_margin
        low_p, low_u = (torch.sigmoid(f + margin) * torch.sigmoid(-f) for f in (f_p, f_u))
        on_p = self.running("mean_two_p", low_p.mean(-1), decay)
        on_u = self.running("mean_two_u", self.mean_u(low_u, low_p), decay)
        high = (f_p.sigmoid() * torch.sigmoid(margin - f_p)).mean(-1)
        return self.prior * high + soft_distance(on_u, self.prior * on_p, 1.0) / (1 - decay)

    def warm_up(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return both terms, and count the step."""
        value = self.label_term(f_p, f_u) + self.two_way * self.two_way_term(f_p, f_u)
        self.started.fill_(1)
        return value

    def aligned(self, f_p: Tensor, f_u: Tensor, f_mix: Tensor, target: Tensor) -> Tensor:
        """Return the loss of the main stage."""
        mixing = self.nu * cross_entropy(clamp_logits(f_mix), target).mean(-1)
        return self.warm_up(clamp_logits(f_p), clamp_logits(f_u)) + mixing

    def schedule(self, phase: Phase, step: int, steps: int, epoch: int) -> dict[str, float]:
        """No weight changes."""
        return {}

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a step of the main stage."""
        f_p, f_u = batch.split(self.f(batch.x))
        f_mix = self.f(mixup(batch.x, pick(batch.x, batch.draw["partner"]), batch.draw["lam"]))
        return self.aligned(f_p, f_u, f_mix, self.targets(batch, f_u))
