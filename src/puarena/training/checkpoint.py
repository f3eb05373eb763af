"""A fleet's state at a record, from which a new fleet goes on to the same curves.

Random numbers are functions of the step (``puarena.random``), so there is no generator to keep.
What an algorithm remembers must be parameters, registered state, or a network's evaluation mode:
other attributes are not kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from puarena import __version__

if TYPE_CHECKING:
    from puarena.training.engine import Fleet

FORMAT = "1"
ALGORITHM, VALUES = "algorithm.", "log.values"


class StateError(Exception):
    """A state that does not belong to a fleet: why, in a few words."""


@dataclass(frozen=True)
class State:
    """Copies of a fleet's tensors on the host, and notes that JSON can hold."""

    tensors: dict[str, Tensor]
    notes: dict[str, Any]


def made_by(device: str) -> dict[str, str]:
    """What must be the same to go on: the format, the versions, the kind of device."""
    return {
        "format": FORMAT,
        "puarena": __version__,
        "torch": str(torch.__version__),
        "device": device,
    }


def take(fleet: Fleet) -> State:
    """Return a fleet's state; it must be at a record."""
    tensors = {**_live_tensors(fleet), VALUES: torch.stack(fleet.log.blocks, 1)}
    copies = {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()
    }
    evaluating = [name for name, module in fleet.algorithm.named_modules() if not module.training]
    notes = {
        "step": fleet.step,
        "log": fleet.log.notes(),
        "evaluating": evaluating,
        "rows": digest(fleet),
    }
    return State(copies, notes | made_by(fleet.device.type))


@torch.no_grad()
def put(fleet: Fleet, state: State) -> None:
    """Bring a new fleet to a state; a state of other runs or another program is refused and changes
    nothing.
    """
    _check(fleet, state)
    now = _live_tensors(fleet)
    for name, values in state.tensors.items():
        if name in now:
            now[name].copy_(values)
        elif name != VALUES:  # state that the algorithm created during training
            module, _, own = name.removeprefix(ALGORITHM).rpartition(".")
            fleet.algorithm.get_submodule(module).register_buffer(own, values.to(fleet.device))
    for name, module in fleet.algorithm.named_modules():
        module.training = name not in state.notes["evaluating"]
    fleet.log.restore(state.tensors[VALUES].to(fleet.device), state.notes["log"])
    fleet.step = state.notes["step"]


def _live_tensors(fleet: Fleet) -> dict[str, Tensor]:
    """Return the tensors that training changes, by name."""
    tensors = {ALGORITHM + name: tensor for name, tensor in fleet.algorithm.state_dict().items()}
    for network, optimizer in fleet.optimizers.items():
        tensors |= {
            f"optimizer.{network}.{name}": tensor for name, tensor in optimizer.state().items()
        }
    if fleet.best is not None:
        tensors |= {f"best.{name}": tensor for name, tensor in fleet.best.state().items()}
    return tensors | {"log.lost_at": fleet.log.lost_at}


def _check(fleet: Fleet, state: State) -> None:
    for key, mine in made_by(fleet.device.type).items():
        if state.notes[key] != mine:
            raise StateError(f"its {key} is {state.notes[key]} and not {mine}")
    if state.notes["rows"] != digest(fleet):
        raise StateError("it belongs to other runs")
    now = _live_tensors(fleet)
    late = {name for name in state.tensors if name.startswith(ALGORITHM)}
    if not set(now) | {VALUES} <= set(state.tensors) <= set(now) | {VALUES} | late:
        raise StateError("its tensors have other names")
    if any(
        (now[n].shape, now[n].dtype) != (t.shape, t.dtype)
        for n, t in state.tensors.items()
        if n in now
    ):
        raise StateError("its tensors have other shapes")


def digest(fleet: Fleet) -> str:
    """Return a digest of what the numbers of a fleet depend on, beside the features and the
    program.
    """
    content = hashlib.sha256()
    config = replace(fleet.config, capture=True, device=fleet.device.type)
    content.update(repr(config).encode())
    for row in fleet.rows:
        for part in (row, row.data, row.hidden):
            for field in fields(part):
                value = getattr(part, field.name)
                if isinstance(value, np.ndarray):
                    content.update(value.tobytes())
                elif not is_dataclass(value):
                    content.update(repr(value).encode())
    return content.hexdigest()[:16]
