"""PUbN as published: one stage, weighted by its own current output."""

import torch
from torch import Tensor

from puarena.algorithms.core.base import Algorithm, Batch, Passes, Phase, col
from puarena.algorithms.core.losses import logistic
from puarena.algorithms.pubn import PUbN, quantile
from puarena.algorithms.released.common import Released


class ReleasedPUbN(Released, PUbN):
    """``prior (mean_P l+ - mean of (1-s)/s l- over P above eta) + mean of (1-s) l- over U up to eta``, s constant."""

    networks = ("f",)  # type: ignore[assignment]
    phases = (Phase(),)  # type: ignore[assignment]
    differs = (
        "One stage: sigma is the current output; the level of eta is multiplied by n_U/b, so that for a large U eta is "
        "the largest output of the batch; the correction is subtracted and averaged over the positives above eta."
    )

    rho = 0.2  # although there are no biased negatives

    def prepare(self) -> None:
        """Keep nothing per sample."""

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """There is no switch."""

    on_epoch = Algorithm.on_epoch  # and no first stage

    def level(self) -> Tensor:
        """Return the quantile's level: counted in the whole of U, divided by the size of a batch."""
        return (super().level() * self.setup.n_u / self.setup.batch_u).clamp(0, 1)

    def self_weighted_risk(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the risk with sigma and eta from the batch itself."""
        sigma_p, sigma_u = f_p.detach().sigmoid(), f_u.detach().sigmoid()
        eta = col(quantile(sigma_u, self.level()))
        above, kept = (sigma_p > eta).to(f_p.dtype), (sigma_u <= eta).to(f_u.dtype)
        odds = (1 - sigma_p) / sigma_p.clamp_min(torch.finfo(f_p.dtype).tiny)
        correction = (above * odds * logistic(f_p, -1)).sum(-1) / above.sum(-1).clamp_min(1)
        negative = (kept * (1 - sigma_u) * logistic(f_u, -1)).sum(-1) / kept.sum(-1).clamp_min(1)
        return self.prior * (logistic(f_p, +1).mean(-1) - correction) + negative

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a step."""
        return self.self_weighted_risk(*batch.split(self.f(batch.x)))
