"""A block of steps.

A step draws nothing on the host: indices, random draws and scheduled numbers of a block of steps
are computed ahead into fixed tensors, and the step reads them at a cursor, which on a GPU lives on
the device, so that it can be captured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from puarena.algorithms import Algorithm, Batch, Phase
from puarena.random import Draws
from puarena.training.capture import STEPS_PER_GRAPH, Replay
from puarena.training.evaluate import take_rows

if TYPE_CHECKING:
    from puarena.training.engine import Fleet


MAX_BLOCK_STEPS = 400  # steps of a block
MAX_BLOCK_POSITIONS = 1 << 20  # and the batch positions it may hold


class StepValues(Mapping[str, Tensor]):
    """What a step needs besides its inputs, read at the cursor of a block computed ahead.

    The block is ``{name: [steps, …]}``. Each value is read when it is first used, so that an
    algorithm only pays for what it uses. A cursor on the device can be captured; a plain integer is
    faster without capture.
    """

    def __init__(self, block: Mapping[str, Tensor], cursor: Tensor | int, kind: str = "") -> None:
        self.block, self.cursor, self.kind = block, cursor, kind
        self.read: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.read:
            values, at = self.block[self.kind + name], self.cursor
            self.read[name] = (
                values[at] if isinstance(at, int) else values.index_select(0, at).squeeze(0)
            )
        return self.read[name]

    def __iter__(self) -> Iterator[str]:
        return (name[len(self.kind) :] for name in self.block if name.startswith(self.kind))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Stepper:
    """Carries a fleet through the steps of one phase."""

    def __init__(self, fleet: Fleet, phase: Phase, start: int, steps: int) -> None:
        self.fleet, self.phase, self.start, self.steps = fleet, phase, start, steps
        on_cpu = fleet.device.type == "cpu"
        self.cursor: Tensor | int = (
            0 if on_cpu else torch.zeros(1, dtype=torch.int64, device=fleet.device)
        )
        self.last_loss = torch.zeros(len(fleet.rows), dtype=fleet.dtype, device=fleet.device)
        # Rows never mix: each loss has its own gradient, as their sum has. A GPU sums nothing; on a
        # CPU torch would import sympy for the weights, which takes longer than a short training.
        self.ones = None if on_cpu else torch.ones_like(self.last_loss)
        self.block: dict[str, Tensor] = {}
        self.filled = 0  # steps of this phase whose needs are in the block, or were
        points = len(fleet.rows) * (fleet.algorithm.setup.batch_p + fleet.algorithm.setup.batch_u)
        self.longest = max(1, min(MAX_BLOCK_STEPS, steps, MAX_BLOCK_POSITIONS // points))
        capture = fleet.config.capture and fleet.device.type == "cuda"
        self.replay = Replay(
            self.step, fleet.rows[0].algorithm, capture, 1 if fleet.inputs.wide else STEPS_PER_GRAPH
        )
        self.looks_back = type(fleet.algorithm).after_step is not Algorithm.after_step
        self.trained = {
            update: [
                (name, list(getattr(fleet.algorithm, name).parameters())) for name in update.trains
            ]
            for update in phase.updates
        }
        networks = {name: getattr(fleet.algorithm, name) for name in fleet.algorithm.networks}
        self.statistics = {  # of the networks that an update does not train: they stay as they are
            update: [
                buffer
                for name in networks
                if name not in update.trains
                for buffer in networks[name].buffers()
            ]
            for update in phase.updates
        }

    def advance(self, done: int, count: int) -> int:
        """Do at most ``count`` steps after the ``done`` steps of this phase; return how many."""
        if done >= self.filled:
            begin = (
                done - done % self.longest
            )  # before ``done`` only where an interrupted fleet goes on
            self.fill(begin, min(self.longest, self.steps - begin))
            if isinstance(self.cursor, int):
                self.cursor = done - begin
            else:
                self.cursor.fill_(done - begin)
        count = min(count, self.filled - done)
        self.replay(count)
        return count

    def fill(self, done: int, count: int) -> None:
        """Compute what the next ``count`` steps need; ``[count, …]`` each."""
        fleet, algorithm = self.fleet, self.fleet.algorithm
        begin = self.start + done
        draws = algorithm.draws(Draws(fleet.seeds, begin, count, fleet.dtype), self.phase)
        epoch = algorithm.setup.epoch
        plans = [
            algorithm.schedule(self.phase, k, self.steps, k // epoch)
            for k in range(done, done + count)
        ]
        i_p, i_u = fleet.cycle_p.block(begin, count), fleet.cycle_u.block(begin, count)
        block = {
            "i:p": i_p,
            "i:u": i_u,
            "index": torch.cat([_at(fleet.p_train, i_p), _at(fleet.u_train, i_u)], -1),
        }
        if fleet.label_u is not None:
            block["label_u"] = _at(fleet.label_u, i_u)
        if fleet.propensity_p is not None:
            block["propensity_p"] = _at(fleet.propensity_p, i_p)
        block.update({f"draw:{name}": values for name, values in draws.items()})
        for kind, view in fleet.views.items():
            drawn = view.draws(
                Draws(fleet.seeds, begin, count, fleet.dtype), kind, block["index"].shape[-1]
            )
            block.update({f"{kind}:{name}": values for name, values in drawn.items()})
        for name in plans[0]:
            numbers = [plan[name] for plan in plans]
            block[f"at:{name}"] = torch.tensor(numbers, dtype=fleet.dtype, device=fleet.device)
        for name, declared in fleet.declared.items():
            if declared is not None and declared.schedule != "constant":
                rates = [
                    plan.get("lr", 1.0) * declared.factor((done + k) / self.steps)
                    for k, plan in enumerate(plans)
                ]
                block[f"at:lr:{name}"] = torch.tensor(rates, dtype=fleet.dtype, device=fleet.device)
        self.filled = done + count
        if self.replay.capture:
            self._keep(block, count)
        else:
            self.block = {name: values.contiguous() for name, values in block.items()}

    def _keep(self, block: dict[str, Tensor], count: int) -> None:
        """Copy a block to where the captured step reads it; room for the longest block is made at
        the first.
        """
        if not self.block:
            self.block = {
                name: values.new_zeros(self.longest, *values.shape[1:])
                for name, values in block.items()
            }
        for name, values in block.items():
            self.block[name][:count].copy_(values)

    def _take(self) -> Batch:
        """Gather the batch at the cursor."""
        fleet = self.fleet
        now = StepValues(self.block, self.cursor)
        plain = take_rows(fleet.features, now["index"])
        seen = {
            kind: view(plain, StepValues(self.block, self.cursor, f"{kind}:"))
            for kind, view in fleet.views.items()
        }
        weak = seen["weak"] if "weak" in seen else plain.to(fleet.dtype)
        return Batch(
            x=weak,
            n_p=fleet.algorithm.setup.batch_p,
            position=StepValues(self.block, self.cursor, "i:"),
            draw=StepValues(self.block, self.cursor, "draw:"),
            at=StepValues(self.block, self.cursor, "at:"),
            strong=seen.get("strong", weak) if fleet.algorithm.strong_view else None,
            label_u=now["label_u"] if "label_u" in self.block else None,
            propensity_p=now["propensity_p"] if "propensity_p" in self.block else None,
        )

    def _rate_factor(self, network: str, batch: Batch) -> Tensor | None:
        """Return what the learning rate of a network is multiplied with in this step."""
        own = [key for key in (f"lr:{network}", "lr") if f"at:{key}" in self.block]
        return batch.at[own[0]] if own else None

    def step(self) -> None:
        """Take the batch at the cursor, update, and move the cursor on."""
        algorithm = self.fleet.algorithm
        batch = self._take()
        for update, trained in self.trained.items():
            before = [buffer.clone() for buffer in self.statistics[update]]
            result = getattr(algorithm, update.loss)(batch)
            loss, active = result if isinstance(result, tuple) else (result, None)
            factors = {name: self._rate_factor(name, batch) for name, _ in trained}
            for name, factor in factors.items():
                self.fleet.optimizers[name].prepare(loss, factor, active)
            total = loss.sum() if self.ones is None else loss
            grads = iter(
                torch.autograd.grad(total, [p for _, ps in trained for p in ps], self.ones)
            )
            for name, parameters in trained:
                own = [next(grads) for _ in parameters]
                self.fleet.optimizers[name].step(own, factors[name], active)
            for buffer, values in zip(self.statistics[update], before, strict=True):
                buffer.copy_(values)
        self.last_loss.copy_(loss.detach())
        if self.looks_back:
            with torch.no_grad():
                algorithm.after_step(batch)
        self.cursor += 1


def _at(table: Tensor, position: Tensor) -> Tensor:
    """Return the entries of ``table`` (``[runs, n]``) at ``position`` (``[steps, runs, k]``)."""
    return table.expand(len(position), -1, -1).gather(2, position)
