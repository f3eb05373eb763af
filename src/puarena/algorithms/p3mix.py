"""What P3MIX-E and P3MIX-C share: partially positive mixup.

Li, Li, Feng, Ouyang: Who is your right mixup partner in positive and unlabeled learning. ICLR 2022.
"""

from math import log

import torch
from torch import Tensor
from torch.nn.functional import pad

from puarena.algorithms._base import Algorithm, Batch, Hyper, Passes, Phase, Update
from puarena.algorithms._losses import col, cross_entropy, entropy, mixup, pick
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
