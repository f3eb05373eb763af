"""Optimizers on the run axis: every parameter is ``[runs, …]``, learning rate and momentum are
``[runs]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import torch
from torch import Tensor

from puarena.algorithms import DEFAULT_LR, Optimizer
from puarena.networks import RunNetwork, kernels, products

# The same SGD for all, or what each method's authors trained it with
OPTIMIZER_CHOICES = ("protocol", "authors")
# Numbers of a run from which a parameter is updated run by run in one pass; below, three
# operations on all runs cost less than a call for each.
MIN_FUSED_NUMBERS = 1 << 15


def _like(per_run: Tensor, parameter: Tensor) -> Tensor:
    return per_run.view(-1, *[1] * (parameter.dim() - 1))


class RunOptimizer:
    """One learning rate per run, and rows that can be left alone.

    Weight decay acts on everything, or where the network's ``decays()`` says: one mask per
    parameter.
    """

    def __init__(
        self, network: RunNetwork, lr: Tensor, weight_decay: float, everywhere: bool
    ) -> None:
        self.parameters = list(network.parameters())
        self.descent = -lr
        masks = (
            [torch.ones_like(p[:1]) for p in self.parameters] if everywhere else network.decays()
        )
        self.decays = [mask * weight_decay for mask in masks] if weight_decay else []
        self.buffers: list[Tensor] = []  # moments, in the shapes of the parameters

    def prepare(self, loss: Tensor, factor: Tensor | None, active: Tensor | None) -> None:
        """Get ready for the gradients of a loss: what follows is its backward pass and ``step``."""

    def update(self, grads: Sequence[Tensor], rate: Tensor) -> None:
        """Update parameters and buffers; ``rate`` is minus the learning rate, ``[runs]``."""
        raise NotImplementedError

    def decayed(self, grads: Sequence[Tensor]) -> list[Tensor]:
        """Return the gradients of the loss with a quadratic penalty."""
        if not self.decays:
            return list(grads)
        return [
            g.addcmul(p, d) for g, p, d in zip(grads, self.parameters, self.decays, strict=True)
        ]

    @torch.no_grad()
    def step(
        self, grads: Sequence[Tensor], factor: Tensor | None = None, active: Tensor | None = None
    ) -> None:
        """Apply one update; ``factor`` scales the learning rate, rows where ``active`` is False
        stay as they are.
        """
        rate = self.descent if factor is None else self.descent * factor
        kept = [] if active is None else [t.clone() for t in self.moving()]
        self.update(grads, rate)
        if active is not None:  # also undoes what a gradient that is not finite did
            for now, before in zip(self.moving(), kept, strict=True):
                now.copy_(torch.where(_like(active, now), now, before))

    def moving(self) -> list[Tensor]:
        """Return what an update changes, ``[runs, …]`` each."""
        return [*self.parameters, *self.buffers]

    def state(self) -> dict[str, Tensor]:
        """Return what changes besides the parameters, by name."""
        return {
            "descent": self.descent,
            **{f"momentum.{i}": buffer for i, buffer in enumerate(self.buffers)},
        }

    @torch.no_grad()
    def freeze(self, rows: Tensor) -> None:
        """Stop the rows where the bool tensor ``rows`` is True: zero parameters, moments and
        learning rate.
        """
        for tensor in (*self.parameters, *self.buffers):
            tensor.masked_fill_(_like(rows, tensor), 0.0)
        self.descent.masked_fill_(rows, 0.0)


class RunSGD(RunOptimizer):
    """The update of ``torch.optim.SGD``."""

    def __init__(
        self,
        network: RunNetwork,
        lr: Tensor,
        momentum: Tensor,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        everywhere: bool = False,
    ) -> None:
        super().__init__(network, lr, weight_decay, everywhere)
        self.buffers = [torch.zeros_like(p) for p in self.parameters]
        self.momentum, self.nesterov = momentum, nesterov
        self.along = [_like(momentum, p) for p in self.parameters]
        self.network = network
        self.momenta: list[float] = momentum.tolist() if momentum.is_cpu else []
        self.rows = [  # of parameters that are updated run by run: each run's own, and its momentum
            list(zip(p.detach().unbind(), buffer.unbind(), strict=True)) if _is_fused(p) else []
            for p, buffer in zip(self.parameters, self.buffers, strict=True)
        ]
        self.early = 0  # numbers of each run that are updated in the backward pass
        self.first = self._cut(0)

    def _cut(self, size: int) -> list[tuple[Tensor, Tensor]]:
        """Return the first numbers of each run that is updated by itself, and their momenta."""
        return [(p[:size], buffer[:size]) for p, buffer in self.rows[0]]

    @torch.no_grad()
    def prepare(self, loss: Tensor, factor: Tensor | None, active: Tensor | None) -> None:
        """Let the network's first numbers be updated in the backward pass, where it can."""
        self.early = 0
        if len(self.parameters) > 1 or not self.rows[0] or self.decays:
            return
        lr = (self.descent if factor is None else self.descent * factor).neg().unbind()
        # On the CPU, where nothing is captured, reading what is active costs nothing.
        takes_part = [True] * len(lr) if active is None else active.tolist()

        def descend(run: int, g: Tensor) -> None:
            if takes_part[run]:
                p, buffer = self.first[run]
                self._update_row(p, g, buffer, self.momenta[run], lr[run])

        self.early = self.network.descend_early(loss, descend)
        if self.early and self.first[0][0].numel() != self.early:
            self.first = self._cut(self.early)

    def moving(self) -> list[Tensor]:
        """Return what ``update`` changes, without what was updated before."""
        if not self.early:
            return super().moving()
        return [tensor[:, self.early :] for tensor in super().moving()]

    def update(self, grads: Sequence[Tensor], rate: Tensor) -> None:
        """Move the momentum by the gradient and the parameters by the momentum."""
        if self.early:
            rest = (tensor[:, self.early :] for tensor in (*super().moving(), *grads))
            p, buffer, g = rest
            self._update_all(p, g, buffer, self.along[0], rate)
            return
        lr = (-rate).unbind() if any(self.rows) else ()
        each = zip(
            self.parameters, self.decayed(grads), self.buffers, self.along, self.rows, strict=True
        )
        for p, g, buffer, momentum, rows in each:
            if rows:
                # The operator reads memory as it lies, whatever the strides.
                each_run = zip(rows, g.contiguous().unbind(), self.momenta, lr, strict=True)
                for (own, its), own_g, own_momentum, own_lr in each_run:
                    self._update_row(own, own_g, its, own_momentum, own_lr)
                continue
            if (
                not self.nesterov
                and p.is_cuda
                and p.is_contiguous()
                and g.is_contiguous()
                and kernels.installed()
            ):
                from puarena.networks.kernels.mlp import sgd_

                sgd_(p, g, buffer, rate, self.momentum)
                continue
            self._update_all(p, g, buffer, momentum, rate)

    def _update_all(
        self, p: Tensor, g: Tensor, buffer: Tensor, momentum: Tensor, rate: Tensor
    ) -> None:
        """Update all runs, in three operations or four."""
        buffer.mul_(momentum).add_(g)
        along = torch.addcmul(g, buffer, momentum) if self.nesterov else buffer
        p.addcmul_(along, _like(rate, p))

    def _update_row(
        self, p: Tensor, g: Tensor, buffer: Tensor, momentum: float, lr: Tensor
    ) -> None:
        """Update numbers of one run in one pass.

        The last few may differ in the last bit from those of three operations.
        """
        torch._fused_sgd_(
            [p],
            [g],
            [buffer],
            weight_decay=0.0,
            momentum=momentum,
            lr=lr,
            dampening=0.0,
            nesterov=self.nesterov,
            maximize=False,
            is_first_step=False,
        )


def _is_fused(parameter: Tensor) -> bool:
    """Return whether SGD updates a parameter run by run: large ones on the CPU."""
    plain = parameter.is_cpu and parameter.is_contiguous()
    large = plain and parameter[0].numel() >= MIN_FUSED_NUMBERS
    return large and products.read_choice() == "auto" and hasattr(torch, "_fused_sgd_")


class RunAdam(RunOptimizer):
    """The update of ``torch.optim.Adam`` (also with ``amsgrad``), or with ``decoupled`` decay of
    ``AdamW``.

    Every run counts its own updates, on the device, so that a row left alone stays where it was.
    """

    eps = 1e-8

    def __init__(
        self,
        network: RunNetwork,
        lr: Tensor,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        decoupled: bool = False,
        everywhere: bool = True,
    ) -> None:
        super().__init__(network, lr, weight_decay, everywhere)
        self.betas, self.decoupled = betas, decoupled
        kinds = [[torch.zeros_like(p) for p in self.parameters] for _ in range(3 if amsgrad else 2)]
        self.mean, self.square = kinds[:2]
        self.largest = kinds[2] if amsgrad else []
        self.buffers = [buffer for kind in kinds for buffer in kind]
        self.count = torch.zeros_like(lr, dtype=torch.float64)

    def update(self, grads: Sequence[Tensor], rate: Tensor) -> None:
        """Move the moments, and the parameters by their ratio."""
        beta, gamma = self.betas
        if self.decoupled:
            for p, d in zip(self.parameters, self.decays, strict=False):
                p.addcmul_(p * d, _like(rate, p))
        else:
            grads = self.decayed(grads)
        self.count += 1
        torch._foreach_lerp_(self.mean, list(grads), 1 - beta)
        torch._foreach_mul_(self.square, gamma)
        torch._foreach_addcmul_(self.square, list(grads), list(grads), 1 - gamma)
        if self.largest:
            torch._foreach_maximum_(self.largest, self.square)
        # in double precision: in single, 1 - beta^t has few digits in the first steps
        size = (rate / -torch.expm1(self.count * log(beta))).to(rate.dtype)
        root = (-torch.expm1(self.count * log(gamma))).sqrt().to(rate.dtype)
        for p, mean, square in zip(
            self.parameters, self.mean, self.largest or self.square, strict=True
        ):
            p.addcmul_(mean / (square.sqrt() / _like(root, p) + self.eps), _like(size, p))

    def moving(self) -> list[Tensor]:
        """Return what an update changes, the count included."""
        return [*super().moving(), self.count]

    def state(self) -> dict[str, Tensor]:
        """Return what changes besides the parameters, by name."""
        return {**super().state(), "count": self.count}


def build(
    network: RunNetwork,
    lr: Tensor,
    momentum: Tensor,
    weight_decay: float,
    nesterov: bool,
    declared: Optimizer | None,
) -> RunOptimizer:
    """Return the optimizer declared, or the protocol's SGD with what the algorithm itself asks for.

    A declared learning rate belongs to the protocol's default: a run at ``k`` times the default has
    ``k`` times it.
    """
    if declared is None:
        return RunSGD(network, lr, momentum, weight_decay, nesterov)
    lr = lr * (declared.lr / DEFAULT_LR)
    decay, everywhere = declared.weight_decay, not declared.spares_biases
    if declared.kind == "sgd":
        return RunSGD(
            network,
            lr,
            torch.full_like(lr, declared.momentum),
            decay,
            declared.nesterov,
            everywhere,
        )
    return RunAdam(
        network, lr, declared.betas, decay, declared.amsgrad, declared.kind == "adamw", everywhere
    )
