"""Holistic-PU: the trend of a point's predictions during early training shows its class.

Wang, Wan, Geng, Li, Chen: Beyond myopia: learning from positive and unlabeled data through holistic
predictive trends. NeurIPS 2023.
"""

from math import cos, pi

import torch
from torch import Tensor, nn

from puarena.algorithms._base import Algorithm, Batch, Hyper, Passes, Phase, Update
from puarena.algorithms._losses import (
    break_of_trends,
    col,
    cross_entropy,
    ema_,
    frozen_copy,
    logistic,
    trend_terms,
)
from puarena.algorithms._optimizer import Optimizer

TEACHER_DECAY = 0.999  # of the teacher, every step of phase 1
EXPONENT = 0.8  # of the pseudo labels' ramp


def two_views(network: nn.Module, batch: Batch, part: slice) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits of P and U in the weak view, and of a part of the batch in the strong one.

    Both views go through the network in one pass.
    """
    n = batch.x.shape[1]
    if batch.strong is None or batch.strong is batch.x:  # no strong view: the same logits
        f = network(batch.x)
        return *batch.split(f), f[:, part]
    f = network(torch.cat([batch.x, batch.strong[:, part]], 1))
    return *batch.split(f[:, :n]), f[:, n:]


class HolisticPU(Algorithm):
    """Phase 1: ``1/2 [CE_0.1(P weak) + CE_0.1(P strong)] + mean_U l-``.

    A teacher's scores of U are recorded every epoch. Phase 2:
    ``mean_P l+ + mean_U CE(ramp * pseudo) + mean_U 1(max(s, 1-s) >= 0.9) CE(strong, hard weak)``.
    The pseudo label is 1 iff the trend of a point's scores lies above the natural break of all
    trends; "hard weak" is the hard label of the weak view.
    """

    name, title = "holistic-pu", "Holistic-PU"
    paper = (
        "Wang, Wan, Geng, Li, Chen: Beyond myopia: learning from positive and unlabeled data "
        "through holistic predictive trends, NeurIPS 2023"
    )
    needs_prior = False
    strong_view = True
    networks = ("a", "f")
    phases = (
        Phase("trends", (Update("trend_loss", ("a",)),), extra=True, selectable=False),
        Phase(),
    )
    weight_decay, nesterov = 5e-4, True
    cost = 1.1
    differs = (
        "The published code predicts with the teacher, continued across both networks and (with "
        "batch normalization) left in training mode; warms the learning rate up during phase 1; "
        "divides the ramp by 18,000 of 20,000 steps; and gives points in a dropped last batch the "
        "score 1."
    )
    authors_optimizer = Optimizer(  # its schedule is part of the method
        "sgd",
        1.5e-3,
        nesterov=True,
        weight_decay=5e-4,
        spares_biases=True,
        source="the authors' CIFAR-10 runs",
    )

    smoothing = Hyper(0.1, "label smoothing of the positives in phase 1")
    confidence = Hyper(0.9, "probability at which the weak view labels the strong one")

    a: nn.Module
    teacher: nn.Module
    steps_done: Tensor  # of phase 1
    n_records: Tensor
    score: Tensor  # [runs, n_u]: latest record, float64
    trend: Tensor  # [runs, n_u]: sum of the trend's terms so far, float64
    pseudo: Tensor  # [runs, n_u]

    def prepare(self) -> None:
        """Start the teacher from the first network, without records and pseudo labels."""
        self.teacher = frozen_copy(self.a)
        shape = self.setup.runs, self.setup.n_u
        for name in ("steps_done", "n_records"):
            self.state(name, self.prior.new_zeros((), dtype=torch.int64))
        for name in ("score", "trend"):
            self.state(name, self.prior.new_zeros(shape, dtype=torch.float64))
        self.state("pseudo", self.prior.new_zeros(shape))

    # -- phase 1 -----------------------------------------------------------------------------------

    def trend_risk(self, f_p_w: Tensor, f_p_s: Tensor, f_u_w: Tensor) -> Tensor:
        """Return phase 1's loss from the logits of the weak (w) and strong (s) views."""
        target = 1 - col(self.smoothing) / 2
        positive = (
            cross_entropy(f_p_w, target).mean(-1) + cross_entropy(f_p_s, target).mean(-1)
        ) / 2
        return positive + logistic(f_u_w, -1).mean(-1)

    def trend_loss(self, batch: Batch) -> Tensor:
        """Return phase 1's loss: P in both views, U in the weak one."""
        f_p, f_u, f_strong = two_views(self.a, batch, slice(0, batch.n_p))
        return self.trend_risk(f_p, f_strong, f_u)

    def after_step(self, batch: Batch) -> None:
        """Move the teacher."""
        if self.phase.extra:
            ema_(self.teacher, self.a, TEACHER_DECAY)
            self.steps_done += 1

    def on_epoch(self, phase: Phase, epoch: int, passes: Passes) -> None:
        """Record at the end of every epoch of phase 1."""
        if phase.extra and epoch > 0:
            self.record(torch.sigmoid(passes.u(self.teacher).double()))

    def record(self, score: Tensor) -> None:
        """Add the teacher's scores of all unlabeled points to the trends."""
        self.trend += trend_terms(self.score, score) * (self.n_records > 0)
        self.score.copy_(score)
        self.n_records += 1

    # -- the switch, and phase 2 -------------------------------------------------------------------

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """At the switch, record an epoch that ended there and set the pseudo labels."""
        if phase.extra:
            return
        done = int(self.steps_done)
        if done > 0 and done % self.setup.epoch == 0:
            self.record(torch.sigmoid(passes.u(self.teacher).double()))
        trend = self.trend / (self.n_records - 1).clamp_min(1)
        self.pseudo.copy_(trend > col(break_of_trends(trend)))

    def pseudo_risk(
        self, f_p_w: Tensor, f_u_w: Tensor, f_u_s: Tensor, pseudo: Tensor, ramp: Tensor
    ) -> Tensor:
        """Return phase 2's loss from the logits of both views and the weighted pseudo labels."""
        s = torch.sigmoid(f_u_w.detach())
        sure = torch.maximum(s, 1 - s) >= col(self.confidence)
        consistent = (sure * cross_entropy(f_u_s, (s >= 0.5).to(s.dtype))).mean(-1)
        return (
            logistic(f_p_w, +1).mean(-1) + cross_entropy(f_u_w, ramp * pseudo).mean(-1) + consistent
        )

    def loss(self, batch: Batch) -> Tensor:
        """Return phase 2's loss."""
        f_p, f_u, f_strong = two_views(self.f, batch, slice(batch.n_p, None))
        return self.pseudo_risk(
            f_p, f_u, f_strong, self.pseudo.gather(1, batch.i_u), batch.at["ramp"]
        )

    def schedule(self, phase: Phase, step: int, steps: int, epoch: int) -> dict[str, float]:
        """Return a cosine for the learning rate, and the growing weight of the pseudo labels."""
        return {"lr": cos(7 / 16 * pi * step / steps), "ramp": (step / steps) ** EXPONENT}
