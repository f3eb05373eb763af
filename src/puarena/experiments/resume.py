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
from safetensors.torch import save

from puarena.errors import UserError
from puarena.experiments.plan import FleetSpec, RunSpec
from puarena.experiments.state_marks import content_of
from puarena.results import Folder
from puarena.training import Fleet, State, StateError
from puarena.training.checkpoint import made_by
from puarena.utils.files import SEAL, add_seal, is_intact, parse_json, write_file

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
        self._last, self._kept = time.monotonic(), -1

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
            self.keep(part, done)

    def keep(self, part: Fleet, done: int) -> None:
        """Write the state of a part at a record."""
        if self._kept != done:
            self._write([*self.ended, part.state()], done)
            self._last, self._kept = time.monotonic(), done

    def end(self, part: Fleet) -> None:
        """Keep a finished part for the states of those that follow."""
        self.ended.append(part.state())

    def _write(self, states: list[State], done: int) -> None:
        tensors = {
            f"{i}/{name}": tensor
            for i, state in enumerate(states)
            for name, tensor in state.tensors.items()
        }
        parts = json.dumps([state.notes for state in states])
        try:
            write_file(
                self.path,
                add_seal(
                    save(tensors, self.marks | {"done": str(done), "parts": parts, "seal": SEAL})
                ),
            )
        except (
            OSError,
            UserError,
            SafetensorError,
        ) as error:  # a full disk, perhaps; the next one may fit
            warnings.warn(f"{error}; training goes on without a newer state", stacklevel=2)

    def _read(self) -> list[State]:
        if not self.path.exists():
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
            self._start_anew(error)
            return []

    def _start_anew(self, error: Exception) -> None:
        warnings.warn(f"'{self.path}' is not used, training starts anew: {error}", stacklevel=2)


def interrupted_fleets(
    store: Folder, missing: Sequence[RunSpec], states: StateFolder, say: Callable[[str], None]
) -> dict[FleetSpec, int]:
    """Return the fleets that can go on and the run-steps behind them; files of no use are removed, with a word why.

    A fleet goes on with exactly the runs it had, and all must be missing. What somebody is working on stays.
    """
    fleets: dict[FleetSpec, int] = {}
    left = {run.run_id: run for run in missing}
    planned = store.planned()
    groups = {run: row["fleet"] for run, row in planned.runs.items()} if planned else {}
    claimed = store.claimed()
    for file, marks in store.states().items():
        try:
            differing = _differing(marks, states.marks)
            runs, done = content_of(marks)
            group = groups.get(runs[0], file.stem)
            if group in claimed:
                continue
            if differing:
                say(f"'{file}' was made with {differing}; its runs start anew")
            elif set(runs) <= set(left):  # none was stored since, none is in a newer file
                fleet = FleetSpec(tuple(left[run] for run in runs), group)
                if done > fleet.steps or file.stem != fleet.fleet_id:
                    raise ValueError
                fleets[fleet] = done
                left = {run: spec for run, spec in left.items() if run not in runs}
                continue
            with suppress(OSError):
                file.unlink(missing_ok=True)
        except (ValueError, TypeError, KeyError):
            say(
                f"'{file}' is damaged; its runs start anew, and it is kept as '{store.set_aside(file)}'"
            )
    return fleets


def _differing(marks: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """What a state was made with that is not as it is here."""
    return ", ".join(
        f"{key} {marks.get(key)} and not {mine}"
        for key, mine in wanted.items()
        if marks.get(key) != mine
    )
