"""Checkpoints of fleets in training, from which the next run continues.

A checkpoint is ``progress/<fleet>.safetensors``. What it says of itself is read without torch.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError
from puarena.utils.files import SEAL, add_seal, is_intact, parse_json, write_file

if TYPE_CHECKING:
    from puarena.experiments.plan import FleetSpec, RunSpec
    from puarena.results import Folder
    from puarena.training import Fleet, State

CHECKPOINT_SECONDS = 180.0  # between two checkpoints of a fleet


@dataclass(frozen=True)
class CheckpointFolder:
    """Where checkpoints are written, the spec and the device they belong to, and how often."""

    path: Path
    spec_hash: str
    device: str
    seconds: float = CHECKPOINT_SECONDS

    @property
    def marks(self) -> dict[str, str]:
        """The metadata that a checkpoint must have for training to continue from it here."""
        from puarena.training.checkpoint import made_by

        return made_by(self.device) | {"spec": self.spec_hash}


class Checkpoint:
    """The checkpoint of one fleet, whose parts (runs of equal shapes) are trained in turn."""

    def __init__(self, fleet: FleetSpec, folder: CheckpointFolder) -> None:
        self.path = folder.path / f"{fleet.fleet_id}.safetensors"
        self.seconds = folder.seconds
        self.marks = folder.marks | {"runs": json.dumps([run.run_id for run in fleet.runs])}
        self._earlier = self._read()  # states of the parts that were begun before, in their order
        self._finished: list[State] = []
        self._written_at, self._written_steps = time.monotonic(), -1

    def restore(self, part: Fleet) -> None:
        """Bring the next part to where it was interrupted, if it was."""
        from puarena.training import StateError

        if self._earlier:
            try:
                part.restore(self._earlier.pop(0))
            except StateError as error:
                self._warn_unused(error)

    def save_if_due(self, part: Fleet, steps: int) -> None:
        """Write a checkpoint if the last one is old enough."""
        if time.monotonic() - self._written_at >= self.seconds:
            self.save(part, steps)

    def save(self, part: Fleet, steps: int) -> None:
        """Write a checkpoint at a record, after so many run-steps of the fleet."""
        if self._written_steps != steps:
            self._write([*self._finished, part.state()], steps)
            self._written_at, self._written_steps = time.monotonic(), steps

    def finish(self, part: Fleet) -> None:
        """Keep the state of a finished part for the checkpoints of the parts that follow."""
        self._finished.append(part.state())

    def _write(self, states: Sequence[State], steps: int) -> None:
        from safetensors import SafetensorError
        from safetensors.torch import save

        tensors: dict[str, Any] = {}
        for number, state in enumerate(states):
            tensors |= {f"{number}/{name}": tensor for name, tensor in state.tensors.items()}
        parts = json.dumps([state.notes for state in states])
        marks = self.marks | {"done": str(steps), "parts": parts, "seal": SEAL}
        try:
            write_file(self.path, add_seal(save(tensors, marks)))
        except (OSError, UserError, SafetensorError) as error:
            # A full disk may have room again for the next checkpoint.
            warnings.warn(f"{error}; training continues without a newer checkpoint", stacklevel=2)

    def _read(self) -> list[State]:
        from safetensors import SafetensorError, safe_open

        from puarena.training import State

        if not self.path.is_file():  # a pipe would block
            return []
        try:
            if not is_intact(self.path.read_bytes()):
                raise ValueError("its checksum is wrong")
            with safe_open(self.path, framework="pt") as file:
                notes = parse_json(file.metadata()["parts"])
                tensors: list[dict] = [{} for _ in notes]
                for key in file.keys():  # noqa: SIM118
                    part, name = key.split("/", 1)
                    tensors[int(part)][name] = file.get_tensor(key).clone()
            return [State(*pair) for pair in zip(tensors, notes, strict=True)]
        except (OSError, SafetensorError, KeyError, IndexError, TypeError, ValueError) as error:
            self._warn_unused(error)
            return []

    def _warn_unused(self, error: Exception) -> None:
        message = f"'{self.path}' is not used, training starts from the beginning: {error}"
        warnings.warn(message, stacklevel=2)


def find_interrupted(
    store: Folder,
    missing: Sequence[RunSpec],
    folder: CheckpointFolder,
    report: Callable[[str], None],
) -> dict[FleetSpec, int]:
    """Return the fleets that can continue and how many run-steps of each are done.

    A fleet continues with exactly the runs it had, and only if all of them are missing. Checkpoints
    that are of no use are removed and reported; those of fleets that are being trained stay.
    """
    from puarena.experiments.plan import FleetSpec

    fleets: dict[FleetSpec, int] = {}
    left = {run.run_id: run for run in missing}
    planned = store.planned()
    planned_fleet = {run: row["fleet"] for run, row in planned.runs.items()} if planned else {}
    claimed = store.claimed()
    for file, marks in store.states().items():
        try:
            differences = _describe_differences(marks, folder.marks)
            runs, steps = parse_marks(marks)
            group = planned_fleet.get(runs[0], file.stem)
            if group in claimed:
                continue
            if differences:
                report(f"'{file}' was made with {differences}; its runs start from the beginning")
            elif set(runs) <= set(left):
                fleet = FleetSpec(tuple(left.pop(run) for run in runs), group)
                if steps > fleet.steps or file.stem != fleet.fleet_id:
                    left |= {run.run_id: run for run in fleet.runs}
                    raise ValueError("it belongs to another fleet")
                fleets[fleet] = steps
                continue
            with suppress(OSError):
                file.unlink(missing_ok=True)
        except (ValueError, TypeError, KeyError):
            moved = store.set_aside(file)
            report(f"'{file}' is damaged: its runs start from the beginning (moved to '{moved}')")
    return fleets


def parse_marks(marks: Mapping[str, str]) -> tuple[list[str], int]:
    """Return the runs of a checkpoint and its run-steps; raise ValueError if it is not one."""
    runs, steps, parts = parse_json(marks["runs"]), int(marks["done"]), parse_json(marks["parts"])
    if not isinstance(runs, list) or not runs or len(set(runs)) < len(runs):
        raise ValueError("its runs are not a list of different names")
    if not all(isinstance(run, str) for run in runs):
        raise ValueError("its runs are not names")
    if steps < 0 or not isinstance(parts, list) or not parts:
        raise ValueError("its counts are wrong")
    for part in parts:
        step, recorded = part["step"], part["log"]["step"]
        if type(step) is not int or not recorded or step != recorded[-1]:
            raise ValueError("its steps are wrong")
    return runs, steps


def _describe_differences(marks: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Return which marks of a checkpoint differ from those of this run."""
    differing = [key for key, mine in wanted.items() if marks.get(key) != mine]
    return ", ".join(f"{key} {marks.get(key)} instead of {wanted[key]}" for key in differing)
