"""Fleets in training leave their state in ``progress/<fleet>.safetensors``; the next run goes on from there."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from puarena.bench.plan import FleetSpec, RunSpec
from puarena.errors import UserError
from puarena.files import written_aside
from puarena.fleet import Fleet, State, StateError
from puarena.fleet.checkpoint import made_by
from puarena.store import Folder

EVERY = 180.0  # seconds between two states of a fleet


@dataclass(frozen=True)
class StateFolder:
    """The folder for states, the spec they belong to, the device they are made on, the seconds between two."""

    path: Path
    spec: str
    device: str
    every: float = EVERY

    @property
    def marks(self) -> dict[str, str]:
        """What the file of a state must say for training to go on from it."""
        return made_by(self.device) | {"spec": self.spec}


class StateFile:
    """The state of one fleet, whose parts are trained one after the other."""

    def __init__(self, fleet: FleetSpec, folder: StateFolder) -> None:
        self.path = folder.path / f"{fleet.fleet_id}.safetensors"
        self.every = folder.every
        self.marks = folder.marks | {"runs": json.dumps([run.run_id for run in fleet.runs])}
        self.earlier = self._read()  # of parts that were begun before, in their order
        self.ended: list[State] = []
        self._last = time.monotonic()

    def begin(self, part: Fleet) -> None:
        """Bring the next part to where it was interrupted, if it was."""
        if self.earlier:
            try:
                part.restore(self.earlier.pop(0))
            except StateError as error:
                self._start_anew(error)

    def record(self, part: Fleet, done: int) -> None:
        """Write the state of a part at a record, if the last one is old enough; ``done`` run-steps are behind."""
        if time.monotonic() - self._last >= self.every:
            self._write([*self.ended, part.state()], done)
            self._last = time.monotonic()

    def end(self, part: Fleet) -> None:
        """Keep a finished part for the states of those that follow."""
        self.ended.append(part.state())

    def _write(self, states: list[State], done: int) -> None:
        tensors = {f"{i}/{name}": tensor for i, state in enumerate(states) for name, tensor in state.tensors.items()}
        parts = json.dumps([state.notes for state in states])
        try:
            self.path.parent.mkdir(exist_ok=True)
            with written_aside(self.path) as temp:
                save_file(tensors, temp, self.marks | {"done": str(done), "parts": parts})
        except (OSError, UserError, SafetensorError) as error:  # a full disk, perhaps; the next one may fit
            warnings.warn(f"{error}; training goes on without a newer state", stacklevel=2)

    def _read(self) -> list[State]:
        if not self.path.exists():
            return []
        try:
            with safe_open(self.path, framework="pt") as file:
                notes = json.loads(file.metadata()["parts"])
                tensors: list[dict] = [{} for _ in notes]
                for key in file.keys():  # noqa: SIM118
                    part, name = key.split("/", 1)
                    tensors[int(part)][name] = file.get_tensor(key).clone()
            return [State(*pair) for pair in zip(tensors, notes, strict=True)]
        except (OSError, SafetensorError, KeyError, IndexError, TypeError, ValueError) as error:
            self._start_anew(error)
            return []

    def _start_anew(self, error: Exception) -> None:
        warnings.warn(f"'{self.path}' is not used, training starts anew: {error}", stacklevel=2)


def interrupted_fleets(
    store: Folder, missing: Sequence[RunSpec], states: StateFolder, limit: int | None, say: Callable[[str], None]
) -> dict[FleetSpec, int]:
    """Return the fleets that can go on and the run-steps behind them; files of no use are removed, with a word why.

    A fleet goes on with exactly the runs it had: all must be missing, and no more than ``limit``.
    """
    fleets: dict[FleetSpec, int] = {}
    left = {run.run_id: run for run in missing}
    for file, marks in store.states().items():
        reason = _objection(marks, states.marks, limit)
        runs = json.loads(marks["runs"]) if reason is None else []
        if reason is not None:
            say(f"'{file}' {reason}; its runs start anew")
        elif set(runs) <= set(left):  # none was stored since, none is in a newer file
            fleets[FleetSpec(tuple(left.pop(run) for run in runs))] = int(marks["done"])
            continue
        with suppress(OSError):
            file.unlink(missing_ok=True)
    return fleets


def _objection(marks: Mapping[str, str], wanted: Mapping[str, str], limit: int | None) -> str | None:
    """Say what speaks against going on from a file with these marks, if anything does."""
    if not marks:
        return "is damaged"
    differing = [f"{key} {marks.get(key)} and not {mine}" for key, mine in wanted.items() if marks.get(key) != mine]
    if differing:
        return f"was made with {', '.join(differing)}"
    runs = len(json.loads(marks["runs"]))
    return f"has {runs} runs, and a fleet may have {limit}" if limit and runs > limit else None
