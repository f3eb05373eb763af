"""P3MIX-E and P3MIX-C: partially positive mixup, with early-learning regularization or with label
correction.

Li, Li, Feng, Ouyang: Who is your right mixup partner in positive and unlabeled learning. ICLR 2022.
"""

from collections.abc import Mapping
from math import log
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from puarena.algorithms._base import Algorithm, Batch, Hyper, Passes, Phase, Update
from puarena.algorithms._losses import col, cross_entropy, ema_, entropy, frozen_copy, mixup, pick
from puarena.random import Draws

EARLY = 5  # epochs in which all points have random partners
POOL = 96  # positives nearest the decision boundary
CLIP = log(9999)  # logit of the largest probability, 1 - 1e-4


class P3Mix(Algorithm):
    """Base class: points in doubt, ``1-gamma < s < gamma``, mix with positives near the boundary.

    All other points mix with random members of the batch.
    """

    paper = (
        "Li, Li, Feng, Ouyang: Who is your right mixup partner in positive and unlabeled learning, "
        "ICLR 2022"
    )
    needs_prior = False
    phases = (Phase("early", (Update("early_loss"),), epochs=EARLY), Phase())
    differs = (
        "The published code ranks the positives in training mode, which matters with batch "
        "normalization only."
    )

    gamma = Hyper(
        0.85, "an unlabeled point is in doubt while its score lies between 1 - gamma and gamma"
    )
    w_positive = Hyper(1.0, "weight of the mixed positives")
    w_unlabeled = Hyper(1.0, "weight of the mixed unlabeled points")
    w_entropy = Hyper(0.5, "weight of the entropy of all predictions")

    pool: Tensor  # [runs, k, …]: inputs of the pool

    # -- the rules ---------------------------------------------------------------------------------

    def pool_of(self, f_p: Tensor, size: int = POOL) -> Tensor:
        """Return the positions of the positives with the smallest ``|f|``, the largest entropy.

        Of equal values the lower index comes first.
        """
        return f_p.abs().sort(dim=-1, stable=True).indices[:, :size]

    def ambiguous(self, s_u: Tensor) -> Tensor:
        """Return which unlabeled points are in doubt."""
        return (s_u > 1 - col(self.gamma)) & (s_u < col(self.gamma))

    def corrected(self, s_u: Tensor) -> Tensor:
        """Return the targets of the unlabeled points after the early epochs."""
        return torch.zeros_like(s_u)

    def labels(self, batch: Batch, target_u: Tensor) -> Tensor:
        """Return what is mixed besides the inputs, ``[runs, 2b, columns]``: the targets first."""
        return pad(target_u, (batch.n_p, 0), value=1.0).unsqueeze(-1)

    def mixed_risk(self, f_p: Tensor, f_u: Tensor, t_p: Tensor, t_u: Tensor) -> Tensor:
        """Return ``w_P mean_P CE + w_U mean_U CE + w_ent mean H`` on mixed points.

        Probabilities are clipped at 1e-4.
        """
        f_p, f_u = f_p.clamp(-CLIP, CLIP), f_u.clamp(-CLIP, CLIP)
        risk = self.w_positive * cross_entropy(f_p, t_p).mean(-1)
        risk = risk + self.w_unlabeled * cross_entropy(f_u, t_u).mean(-1)
        return risk + self.w_entropy * entropy(torch.cat([f_p, f_u], -1)).mean(-1)

    def risk(self, f_p: Tensor, f_u: Tensor, labels: Tensor) -> Tensor:
        """Return the loss from mixed logits and mixed labels."""
        target = labels[..., 0]
        return self.mixed_risk(f_p, f_u, target[:, : f_p.shape[1]], target[:, f_p.shape[1] :])

    # -- the step ----------------------------------------------------------------------------------

    def _mix(self, batch: Batch, labels: Tensor, x: Tensor, y: Tensor, partner: Tensor) -> Tensor:
        """Mix the batch with partners from the inputs ``x`` and labels ``y``; return the loss."""
        lam = torch.maximum(batch.draw["lam"], 1 - batch.draw["lam"])
        mixed = mixup(batch.x, pick(x, partner), lam)
        return self.risk(*batch.split(self.f(mixed)), mixup(labels, pick(y, partner), lam))

    def early_loss(self, batch: Batch) -> Tensor:
        """Return the loss of the batch mixed with a random permutation of itself."""
        labels = self.labels(
            batch, self.prior.new_zeros(len(batch.x), batch.x.shape[1] - batch.n_p)
        )
        return self._mix(batch, labels, batch.x, labels, batch.draw["permutation"])

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss: points in doubt mix with the pool (label 1), others with the batch."""
        with torch.no_grad():
            s_u = torch.sigmoid(self.f(batch.x_u))
        labels = self.labels(batch, self.corrected(s_u))
        doubt = pad(self.ambiguous(s_u), (batch.n_p, 0), value=False)
        partner = torch.where(doubt, batch.draw["pool"] + batch.x.shape[1], batch.draw["partner"])
        y = pad(labels, (0, 0, 0, self.pool.shape[1]), value=1.0)
        return self._mix(batch, labels, torch.cat([batch.x, self.pool], 1), y, partner)

    def draws(self, draws: Draws, phase: Phase) -> dict[str, Tensor]:
        """Draw lambda from Beta(1, 1), and partners."""
        size = self.setup.batch_p + self.setup.batch_u
        lam = draws.beta("lam", 1.0)
        if phase.name == "early":
            return {"lam": lam, "permutation": draws.permutation("permutation", size)}
        pool = draws.integers("pool", min(POOL, self.setup.n_p), size)
        return {"lam": lam, "partner": draws.integers("partner", size, size), "pool": pool}

    # -- epochs ------------------------------------------------------------------------------------

    def epochs_done(self, phase: Phase, epoch: int) -> int:
        """Return the epochs completed since the beginning of training."""
        return epoch if phase.name == "early" else EARLY + epoch

    def schedule(self, phase: Phase, step: int, steps: int, epoch: int) -> dict[str, float]:
        """Halve the learning rate after epochs 20, 40, 60, 80 and 100."""
        return {"lr": 0.5 ** min(self.epochs_done(phase, epoch) // 20, 5)}

    def on_epoch(self, phase: Phase, epoch: int, passes: Passes) -> None:
        """Fill the pool, which the early epochs do not need."""
        if phase.name == "early":
            return
        pool = passes.x_p(self.pool_of(passes.p(self.f)))
        if epoch == 0:
            self.state("pool", pool.clone())
        self.pool.copy_(pool)


class P3MixC(P3Mix):
    """``mean_P CE + mean_U CE + w_ent mean H`` on mixed points.

    Targets: 1 on P, 0 on U, but from epoch 5 on 1 if ``s >= gamma``. Partners: positives near the
    boundary for unlabeled points in doubt, any member of the batch for the others.
    """

    name, title = "p3mix-c", "P3MIX-C"
    cost = 1.5

    gamma = Hyper(
        0.8,
        "scores at or above gamma become positive; between 1 - gamma and gamma a point is in doubt",
    )
    w_entropy = Hyper(0.1, "weight of the entropy of all predictions")

    def corrected(self, s_u: Tensor) -> Tensor:
        """Return the targets of the unlabeled points: 1 where the score reaches gamma."""
        return (s_u >= col(self.gamma)).to(s_u.dtype)


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
