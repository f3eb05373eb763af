"""The methods as the published code of the benchmark runs them, registered as ``<name>@released``.

Only these forms reproduce the published numbers. Each class overrides what differs from the
definition in the file of its algorithm; its docstring says how. Not reproduced: networks that the
published code leaves in training mode when they predict or rank, which only matters with batch
normalization.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, pad

from puarena.algorithms._base import (
    Algorithm,
    Batch,
    Choice,
    Hyper,
    Passes,
    Phase,
    Setup,
    Update,
)
from puarena.algorithms._counting import IMPOSSIBLE, log_count_law
from puarena.algorithms._losses import (
    col,
    count,
    cross_entropy,
    ema_,
    logistic,
    mixup,
    pick,
    replace_value,
)
from puarena.algorithms.count_loss import CountLoss
from puarena.algorithms.cvir import CVIR
from puarena.algorithms.dist_pu import DistPU
from puarena.algorithms.glws import GLWS
from puarena.algorithms.holistic_pu import EXPONENT, TEACHER_DECAY, HolisticPU
from puarena.algorithms.lbe import LBE
from puarena.algorithms.nnpu import NNPU, NNPUGA
from puarena.algorithms.p3mix import P3MixC, P3MixE
from puarena.algorithms.pan import PAN
from puarena.algorithms.pubn import PUbN, quantile
from puarena.algorithms.pue import PUe
from puarena.algorithms.pusb import PUSB
from puarena.algorithms.robust_pu import RobustPU
from puarena.algorithms.self_pu import SelfPU
from puarena.algorithms.upu import UPU
from puarena.algorithms.vpu import VPU
from puarena.random import Draws

MAX_GRADIENT_NORM = 10.0  # of a run, for Count Loss

# -- what all of them share ------------------------------------------------------------------------


class SecondOutput(nn.Module):
    """A network reduced to its raw second output ``z1``."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """Return ``z1``."""
        return self.network.heads(x)[..., 1]


class Released(Algorithm):
    """Base of the released forms: AUC and PAUC rank by ``z1`` instead of ``f = z1 - z0``."""

    variant = "released"

    @property
    def predictor(self) -> Any:
        """The network that predicts."""
        return self.f

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``z1 - z0`` and ``z1``."""
        z = self.predictor.heads(x)
        return z[..., 1] - z[..., 0], z[..., 1]


# -- risk estimators -------------------------------------------------------------------------------


class ReleasedUPU(Released, UPU):
    """uPU that ranks by the raw second output."""

    differs = "AUC and PAUC rank by the raw second output."


class ReleasedNNPU(Released, NNPU):
    """nnPU that ranks by the raw second output."""

    differs = "AUC and PAUC rank by the raw second output."


class ReleasedNNPUGA(Released, NNPUGA):
    """Step on ``|prior mean_P[l+ - l-] + mean_U l-|``.

    The sign of the whole risk decides about the ascent, and the whole gradient is flipped.
    """

    differs = (
        "A negative unbiased risk flips its whole gradient, the positive part included; no "
        "tolerance, no scale."
    )

    beta, gamma = 0.0, 1.0

    def ascent(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Report the risk, step on its absolute value."""
        positive, negative = self.risk_parts(f_p, f_u)
        return replace_value((positive + negative).abs(), positive + negative)


class ReleasedPUSB(Released, PUSB):
    """The clamped nnPU risk; hard outputs, so that AUC is the balanced accuracy."""

    differs = "Trains the clamped nnPU risk, predicts by f >= 0 and returns hard outputs."

    def loss(self, batch: Batch) -> Tensor:
        """Return the clamped risk."""
        return self.objective(*batch.split(self.f(batch.x)))

    def threshold(self, passes: Passes) -> None:  # type: ignore[override]
        """Return None: the published code never runs the routine that sets a threshold."""

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the predictions ±1/2 as decision and as score; values not finite stay so."""
        f = self.f(x)
        hard = (f >= 0).to(f.dtype) - 0.5 + 0 * f
        return hard, hard


class ReleasedPUbN(Released, PUbN):
    """``prior (mean_P l+ - mean_P' (1-s)/s l-) + mean_U' (1-s) l-``, s constant.

    ``P'`` are the positives above eta, ``U'`` the unlabeled points up to eta. There is one stage,
    weighted by its own current output.
    """

    networks = ("f",)  # type: ignore[assignment]
    phases = (Phase(),)  # type: ignore[assignment]
    calibrates = False  # the published code has no such row
    differs = (
        "One stage: sigma is the current output; the level of eta is multiplied by n_U/b, so that "
        "for a large U eta is the largest output of the batch; the correction is subtracted and "
        "averaged over the positives above eta."
    )

    rho = 0.2  # the published value, although there are no biased negatives

    def prepare(self) -> None:
        """Keep no per-sample state."""

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """Do nothing: there is no switch between stages."""

    on_epoch = Algorithm.on_epoch  # there is no first stage either

    def level(self) -> Tensor:
        """Return the quantile's level: counted in all of U, divided by the size of a batch."""
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


class ReleasedVPU(Released, VPU):
    """``log mean_U Phi - mean_P log Phi + weight mean[(log t - z1(mix))^2]``, ``t`` constant.

    The mixup term is of the raw second output, and the prediction is not normalized.
    """

    differs = (
        "The mixup term compares log t, without gradient, with the raw second output; positive iff "
        "f >= 0."
    )

    def mixing(self, f_u: Tensor, f_mix: Tensor, lam: Tensor) -> Tensor:
        """Return the mixup term; ``f_mix`` is the raw second output on the mixed points."""
        return (self.log_target(f_u[:, : f_mix.shape[1]].detach(), lam) - f_mix).square().mean(-1)

    def output_on_mixed(self, x: Tensor) -> Tensor:
        """Return the raw second output."""
        return SecondOutput(self.f)(x)

    def threshold(self, passes: Passes) -> None:  # type: ignore[override]
        """Return None: the threshold is zero."""


# -- methods that select, reweight or label points -------------------------------------------------


class ReleasedPAN(Released, PAN):
    """PAN with the hinge ``max(log(1-D) - log(1 - mean_U D), 0)`` for U and 0.01 in the logarithms.

    The definition is the authors' script too, so only the score differs: the raw second output.
    """

    differs = (
        "AUC and PAUC rank by the raw second output; the game is the definition's, without the "
        "plain form."
    )

    form: Any = "hinge"  # fixed


class ReleasedCVIR(Released, CVIR):
    """``prior mean_P l+ + (1-prior) mean of l- over the kept members of U``."""

    calibrates = False  # the published code has no such row
    differs = "Weights prior and 1 - prior; a batch without kept points trains on the positives."

    def risk(self, f_p: Tensor, f_u: Tensor, keep: Tensor) -> Tensor:
        """Return the weighted risk."""
        negative = (keep * logistic(f_u, -1)).sum(-1) / keep.sum(-1).clamp_min(1)
        return self.prior * logistic(f_p, +1).mean(-1) + (1 - self.prior) * negative

    def loss(self, batch: Batch) -> Tensor:
        """Return the risk; every row is updated."""
        return self.risk(*batch.split(self.f(batch.x)), self.keep.gather(1, batch.i_u))


class ReleasedLBE(Released, LBE):
    """LBE whose M-step gives eta the weight 1 on U and sums over the batches.

    The labeling model therefore learns ``p(labeled|x)``.
    """

    phases = tuple(replace(phase, selectable=True) for phase in LBE.phases)
    differs = (
        "On U eta is trained without the weight q; sums instead of means; warm-up checkpoints may "
        "be chosen."
    )

    def m_step(self, f_p: Tensor, f_u: Tensor, e_p: Tensor, e_u: Tensor, q: Tensor) -> Tensor:
        """Return the summed loss."""
        on_p = logistic(f_p, +1) + logistic(e_p, +1)
        on_u = cross_entropy(f_u, q) + logistic(e_u, -1)
        return torch.cat([on_p, on_u], -1).sum(-1)


class ReleasedPUe(Released, PUe):
    """PUe whose untrained classifier may be chosen during the first stage."""

    phases = tuple(replace(phase, selectable=True) for phase in PUe.phases)  # type: ignore[assignment]
    calibrates = False  # the published code has no such row
    differs = (
        "The propensity network stays in training mode; checkpoints of the first stage may be "
        "chosen."
    )

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """Leave the propensity network in training mode."""


class ReleasedRobustPU(Released, RobustPU):
    """``mean_P w l+ + mean_U w l-``, ``w`` the easiness as a positive of ``z1``, on P and on U.

    Unlabeled points therefore weigh more as negatives the more positive they look.
    """

    phases = (Phase("warm-up", (Update("warm_up_loss"),), epochs=10), Phase())
    differs = (
        "Weights of U from the hardness as positives; raw second output; warm-up of 10 epochs, "
        "inside the protocol's steps, with the clamped nnPU loss; the table's other values in "
        "configuration 0, its defaults in all others."
    )

    # Configuration 0 has the default; the published registry draws the other value, always the
    # same one, in configurations 1 to 9.
    temper_n = Hyper(
        1.3, "temperature T of the hardness of unlabeled points", search=Choice((1.0,))
    )
    alpha_n = Hyper(0.11, "initial threshold for unlabeled points", search=Choice((0.1,)))
    thr_max = Hyper(1.0, "final threshold", search=Choice((2.0,)))
    grow = Hyper(5, "episodes until the final threshold", search=Choice((10,)))

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return the clamped nnPU loss."""
        return self.objective(*batch.split(self.f(batch.x)))

    def score(self, passes: Passes) -> tuple[Tensor, Tensor]:
        """Return the raw second output on P and U."""
        z1 = SecondOutput(self.f)
        return passes.p(z1), passes.u(z1)

    def weights(
        self, f_p: Tensor, f_u: Tensor, thr_p: Tensor, thr_n: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the weights of P and of U, both as positives."""
        w_p = self.easiness(f_p, +1, self.temper_p, thr_p)
        return w_p, self.easiness(f_u, +1, self.temper_n, thr_n)

    def weighted_risk(self, f_p: Tensor, f_u: Tensor, w_p: Tensor, w_u: Tensor) -> Tensor:
        """Return the sum of the two weighted means."""
        return (w_p * logistic(f_p, +1)).mean(-1) + (w_u * logistic(f_u, -1)).mean(-1)


class ReleasedHolisticPU(Released, HolisticPU):
    """Holistic-PU that predicts with the teacher, continued from the first network to the second.

    In phase 1 the learning rate rises, and the ramp of phase 2 exceeds 1.
    """

    phases = tuple(replace(phase, selectable=True) for phase in HolisticPU.phases)  # type: ignore[assignment]

    @property
    def predictor(self) -> nn.Module:
        """The teacher."""
        return self.teacher

    def after_step(self, batch: Batch) -> None:
        """Move the teacher in both phases."""
        super().after_step(batch)
        if not self.phase.extra:
            ema_(self.teacher, self.f, TEACHER_DECAY)

    def record(self, score: Tensor) -> None:
        """Keep score 1 for the points of the dropped last batch."""
        score[:, self.setup.epoch * self.setup.batch_u :] = 1.0
        super().record(score)

    def schedule(self, phase: Phase, step: int, steps: int, epoch: int) -> dict[str, float]:
        """Let the learning rate rise in phase 1; divide the ramp by 18,000 of 20,000 steps."""
        plan = super().schedule(phase, step, steps, epoch)
        return {
            "lr": step / steps if phase.extra else plan["lr"],
            "ramp": (step / (0.9 * steps)) ** EXPONENT,
        }


class ReleasedSelfPU(SelfPU):
    """Self-PU as its authors' code runs it: without the consistency term.

    That code compares softmaxes of single logits, which are all 1, so the term is zero. Self-PU is
    not part of the benchmark's published code, and ranks by ``f``.
    """

    variant = "released"

    def consistency(self, s: Tensor, s_teacher: Tensor) -> Tensor:
        """Return zero."""
        return torch.zeros_like(s[..., 0])


# -- mixup -----------------------------------------------------------------------------------------


class ReleasedP3MixC(Released, P3MixC):
    """P3MIX-C that ranks by the raw second output."""


class ReleasedP3MixE(Released, P3MixE):
    """P3MIX-E that ranks by the raw second output; its teacher starts with the initial weights."""

    differs = (
        "The first average of the teacher, of decay 0, is taken at the very beginning, so that the "
        "initial weights count as one of the networks that are averaged; AUC and PAUC rank by the "
        "raw second output."
    )

    first_update = 1


def plain_entropy(f: Tensor) -> Tensor:
    """Return the entropy of ``sigmoid(f)`` from probabilities; NaN if one of them underflows."""
    s, n = f.sigmoid(), torch.sigmoid(-f)
    return -s * s.log() - n * n.log()


class ReleasedDistPU(Released, DistPU):
    """Dist-PU that pulls the mean score to ``1 - prior``.

    Labels are hard, and a mixed pair is positive only if both members are.
    """

    differs = (
        "The histogram gets the negative class's probability; no warm-up entropy; labels are the "
        "hard predictions of the current batch and their mixture is cut to an integer; entropies "
        "without clamp. Calibrated by the batch union, entropy and mixing are over the union too: "
        "the positives are mixed once with label 1 and once with their prediction."
    )
    forms_mix = False  # the union has half as many mixed points again

    mu_warm = 0.0

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        kinds = set(setup.calibration)
        self.union = "batch-union" in kinds
        if self.union and len(kinds) > 1:
            raise ValueError(
                "plain runs and batch unions of the released Dist-PU cannot share a fleet"
            )

    def distribution(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return ``L_dist`` with the mean score of U pulled to ``1 - prior``."""
        s_p, s_u = f_p.sigmoid(), f_u.sigmoid()
        return 1 - s_p.mean(-1) + (1 - self.mean_u(s_u, s_p) - self.prior).abs() / (2 * self.prior)

    def warm_up(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the loss of the first epochs."""
        return self.distribution(f_p, f_u)

    def main(self, f_p: Tensor, f_u: Tensor, f_mix: Tensor, target: Tensor, mu: Tensor) -> Tensor:
        """Return the loss of the main stage."""
        mixing = self.gamma * plain_entropy(f_mix).mean(-1)
        mixing = mixing + self.nu * cross_entropy(f_mix, target).mean(-1)
        over = torch.cat([f_u, f_p], 1) if self.union else f_u
        return self.distribution(f_p, f_u) + mu * plain_entropy(over).mean(-1) + mixing

    def targets(self, batch: Batch, f_u: Tensor) -> Tensor:
        """Return the mixed labels: hard, and 1 only if both members of a pair are positive."""
        y = torch.cat([f_u.new_ones(len(f_u), batch.n_p), (f_u >= 0).to(f_u.dtype)], 1)
        return y * y.gather(1, batch.draw["partner"])

    def draws(self, draws: Draws, phase: Phase) -> dict[str, Tensor]:
        """Draw a permutation of the union's points if the union is mixed."""
        drawn = super().draws(draws, phase)
        if self.union and drawn:
            size = 2 * self.setup.batch_p + self.setup.batch_u
            drawn["partner"] = draws.permutation("partner", size)
        return drawn

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a step of the main stage.

        In a union the positives also follow the unlabeled points.
        """
        if not self.union:
            return super().loss(batch)
        f_p, f_u = batch.split(self.f(batch.x))
        x = torch.cat([batch.x, batch.x_p], 1)
        f_mix = self.f(mixup(x, pick(x, batch.draw["partner"]), batch.draw["lam"]))
        target = self.targets(batch, torch.cat([f_u, f_p], 1))
        return self.main(f_p, f_u, f_mix, target, self.mu * batch.at["growth"])


# -- counting --------------------------------------------------------------------------------------


class ReleasedCountLoss(Released, CountLoss):
    """``mean_P l+ - log [Q(m) / (sum_k Q(k) + 1e-6)]``, ``m = int(n prior)``.

    The exact-count form on a probability scale. The norm of a run's gradient is at most 10, and a
    step whose loss is NaN is skipped.
    """

    calibrates = False  # the published code has no such row
    cost = 2.4

    form: Any = "exact"  # fixed

    m: Tensor

    def prepare(self) -> None:
        """Count the positives of a batch."""
        self.state("m", count(self.get_unlabeled_prior(exact=True), self.setup.batch_u))

    def objective(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the positive risk plus the penalty, which is infinite on underflow."""
        law = log_count_law(f_u).exp()
        share = law / (law.sum(-1, keepdim=True) + 1e-6)
        return logistic(f_p, +1).mean(-1) - share.gather(-1, col(self.m)).squeeze(-1).log()

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Clip each run's gradient norm by scaling its loss, and skip runs whose loss is NaN."""
        loss = self.objective(*batch.split(self.f(batch.x)))
        grads = torch.autograd.grad(loss.sum(), list(self.f.parameters()), retain_graph=True)
        norm = torch.stack([g.flatten(1).square().sum(-1) for g in grads]).sum(0).sqrt()
        scale = (MAX_GRADIENT_NORM / (norm + 1e-6)).clamp_max(1.0)
        return replace_value(scale * loss, loss), ~loss.isnan()


def _delay(law: Tensor) -> Tensor:
    """Return a law ``[runs, k]`` one count later."""
    return pad(law[:, :-1], (1, 0), value=IMPOSSIBLE)


@torch.no_grad()
def automaton_posterior(f: Tensor, m: Tensor) -> Tensor:
    """Return the published GLWS code's ``q`` for logits ``[runs, n]`` and counts ``[runs]``.

    The automaton's state after reading label t: k positives so far, and whether the last label was
    positive (P_k) or negative (N_k). Forward weights are the laws of the first labels' counts.
    Backward weights contain the emission at t, and P_m, the last positive, emits ``1-s_t`` instead
    of ``s_t`` at all positions but the last.
    """
    runs, n = f.shape
    negative = logsigmoid(-f).unsqueeze(-1).unbind(1)
    positive = logsigmoid(f).unsqueeze(-1).unbind(1)
    start = f.new_full((runs, n + 1), IMPOSSIBLE)
    start[:, 0] = 0.0
    k = torch.arange(n + 1, device=f.device)
    # Emissions of a positive at t, by how many are still to come (itself included); the last of
    # all has the wrong one.
    emission = [torch.where(k == 1, no, yes) for no, yes in zip(negative, positive, strict=True)]
    emission[-1] = positive[-1].expand_as(start)
    before, after = [start], [start]
    for t in range(n - 1):  # k positives before t = 0, 1, …
        before.append(torch.logaddexp(before[-1] + negative[t], _delay(before[-1]) + positive[t]))
    for t in range(n - 1, 0, -1):  # k still to come after t = n - 1, n - 2, …
        after.append(torch.logaddexp(after[-1] + negative[t], _delay(after[-1]) + emission[t]))
    after.reverse()
    rest = m.unsqueeze(-1) - k  # still to come from t on, if k were before t

    def join(t: int, to_come: Tensor) -> Tensor:
        both = before[t] + to_come.gather(1, rest.clamp_min(0))
        return torch.where(rest >= 0, both, IMPOSSIBLE).logsumexp(-1)

    a = torch.stack([join(t, _delay(after[t]) + emission[t]) for t in range(n)], -1)
    c = torch.stack([join(t, after[t] + negative[t]) for t in range(n)], -1)
    return torch.sigmoid(a - c)


class ReleasedGLWS(Released, GLWS):
    """GLWS with the published automaton's targets, which are not the conditional probabilities."""

    calibrates = False  # the published code has no such row
    cost = 6.0

    def posterior(self, f_u: Tensor) -> Tensor:
        """Return the automaton's ``q``."""
        return automaton_posterior(f_u, self.m)
