"""PUbN without biased negatives ("PUbN\\N").

Hsieh, Niu, Sugiyama: Classification from positive, unlabeled and biased negative data. ICML 2019.
"""

import torch
from torch import Tensor, nn

from puarena.algorithms._base import Batch, Choice, Hyper, Passes, Phase, Update
from puarena.algorithms._losses import col, expand_like, logistic
from puarena.algorithms._optimizer import Optimizer
from puarena.algorithms.nnpu import AscentStep


def quantile(values: Tensor, level: Tensor) -> Tensor:
    """Return the quantile of every run at its own level (``[runs]``), with linear interpolation."""
    place = level.double().clamp(0, 1) * (values.shape[-1] - 1)
    below = place.long().clamp_max(max(values.shape[-1] - 2, 0))
    ordered = values.sort(-1).values
    low, high = (
        ordered.gather(-1, col(i)).squeeze(-1)
        for i in (below, (below + 1).clamp_max(values.shape[-1] - 1))
    )
    return torch.lerp(low, high, (place - below).to(values.dtype))


class PUbN(AscentStep):
    """``prior mean_P[l+ + 1(s > eta) (1-s)/s l-] + mean_U[1(s <= eta) (1-s) l-]``.

    ``s`` (sigma), the positive posterior, comes from a first network trained with nnPU-GA steps;
    ``eta`` is its quantile over U at the level ``tau (1 - prior)``, so that a share ``tau`` of the
    expected negatives count as such; in the calibrated form it is the quantile over P and U. The
    first network is kept in the state with the least ``mean_U' s^2 - 2 prior mean_P' s`` on
    validation data, which is evaluated after every epoch and at the end.
    """

    name, title = "pubn", "PUbN"
    paper = (
        "Hsieh, Niu, Sugiyama: Classification from positive, unlabeled and biased negative data, "
        "ICML 2019"
    )
    setting, calibrates = "two-sample", True
    networks = ("g", "f")
    phases = (
        Phase("sigma", (Update("sigma_loss", ("g",)),), extra=True, selectable=False),
        Phase(),
    )
    differs = (
        "The published code has one stage: sigma is the current output, eta the largest one in the "
        "batch, and the correction of the positive term enters with a minus sign. (Up to version "
        "0.1.0 the last state of the first network was taken here, whose sigma can be so small on "
        "P that the second stage predicts all negative.)"
    )
    authors_optimizer = Optimizer(
        "adam", 1e-3, weight_decay=1e-4, amsgrad=True, source="the authors' code"
    )

    tau = Hyper(
        0.5,
        "share of the expected negatives that is used as negatives",
        search=Choice((0.5, 0.7, 0.9)),
    )
    rho = 0.0  # weight of biased negatives, of which there are none

    g: nn.Module
    sigma_p: Tensor
    sigma_u: Tensor
    eta: Tensor
    least: Tensor  # [runs]: held-out error of the first network that is kept

    def prepare(self) -> None:
        """Create the posterior of every training point and its cut-off."""
        self.state("sigma_p", self.prior.new_zeros(self.setup.runs, self.setup.n_p))
        self.state("sigma_u", self.prior.new_zeros(self.setup.runs, self.setup.n_u))
        self.state("eta", torch.zeros_like(self.prior))
        self.state("least", torch.full_like(self.prior, torch.inf))
        for i, tensor in enumerate(self._first_network()):
            self.state(f"kept_{i}", tensor.clone())

    def _first_network(self) -> list[Tensor]:
        return [tensor.detach() for tensor in (*self.g.parameters(), *self.g.buffers())]

    def sigma_loss(self, batch: Batch) -> Tensor:
        """First stage: train g to give the positive posterior."""
        return self.ascent(*batch.split(self.g(batch.x)))

    def level(self) -> Tensor:
        """Return which quantile of sigma over U is the cut-off."""
        return self.tau * (1 - self.prior - self.rho)

    def cut_off(self) -> Tensor:
        """Return the quantile of sigma over U, or over P and U for a calibrated run."""
        of_u = quantile(self.sigma_u, self.level())
        if not self.weighs_p:
            return of_u
        of_both = quantile(torch.cat([self.sigma_p, self.sigma_u], -1), self.level())
        return torch.where(self.w > 0, of_both, of_u)

    def held_out_error(self, g_p: Tensor, g_u: Tensor) -> Tensor:
        """Return the least-squares criterion of sigma from logits on validation data."""
        s_p, s_u = g_p.sigmoid(), g_u.sigmoid()
        return self.mean_u(s_u.square(), s_p.square()) - 2 * self.prior * s_p.mean(-1)

    @torch.no_grad()
    def keep_better(self, passes: Passes) -> None:
        """Keep the first network of the runs where it is better than all before."""
        error = self.held_out_error(passes.val_p(self.g), passes.val_u(self.g))
        better = error < self.least
        self.least.copy_(torch.where(better, error, self.least))
        for i, now in enumerate(self._first_network()):
            kept = getattr(self, f"kept_{i}")
            kept.copy_(torch.where(expand_like(better, now), now, kept))

    def on_epoch(self, phase: Phase, epoch: int, passes: Passes) -> None:
        """After every epoch of the first stage: look at its network."""
        if phase.extra and epoch > 0:
            self.keep_better(passes)

    @torch.no_grad()
    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """At the switch: go back to the best first network, store sigma and its cut-off."""
        if phase.name == "main":
            self.keep_better(passes)
            for i, now in enumerate(self._first_network()):
                now.copy_(getattr(self, f"kept_{i}"))
            self.sigma_p.copy_(passes.p(self.g).sigmoid())
            self.sigma_u.copy_(passes.u(self.g).sigmoid())
            self.eta.copy_(self.cut_off())

    def weighted_risk(
        self, f_p: Tensor, f_u: Tensor, sigma_p: Tensor, sigma_u: Tensor, eta: Tensor
    ) -> Tensor:
        """Return the risk of the second stage."""
        odds = (1 - sigma_p) / sigma_p.clamp_min(1e-4)
        positive = logistic(f_p, +1) + (sigma_p > col(eta)) * odds * logistic(f_p, -1)
        negative_p = (sigma_p <= col(eta)) * (1 - sigma_p) * logistic(f_p, -1)
        negative_u = (sigma_u <= col(eta)) * (1 - sigma_u) * logistic(f_u, -1)
        return self.prior * positive.mean(-1) + self.mean_u(negative_u, negative_p)

    def loss(self, batch: Batch) -> Tensor:
        """Second stage: train f with the weights of the frozen g."""
        sigma_p, sigma_u = self.sigma_p.gather(1, batch.i_p), self.sigma_u.gather(1, batch.i_u)
        return self.weighted_risk(*batch.split(self.f(batch.x)), sigma_p, sigma_u, self.eta)
