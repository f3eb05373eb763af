"""The training engine: many runs at once, each a row of the same tensors."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from puarena import algorithms, networks
from puarena.algorithms import Algorithm, Phase, Setup
from puarena.data.views import get_view
from puarena.fleet.batches import Cycle
from puarena.fleet.evaluate import Held, record
from puarena.fleet.memory import keep_freed_memory
from puarena.fleet.optim import RunSGD
from puarena.fleet.passes import TrainingPasses
from puarena.fleet.rows import Curves, FleetConfig, Row, shape_of
from puarena.fleet.steps import Stepper


@dataclass(frozen=True)
class Stretch:
    """A phase placed on the step axis: it begins after ``start`` steps and lasts ``steps``."""

    phase: Phase
    start: int
    steps: int


def timetable(algorithm: Algorithm, config: FleetConfig) -> list[Stretch]:
    """Place an algorithm's phases one after the other: extra ones first, then those inside the protocol's steps."""
    stretches, start, inside = [], 0, config.steps
    for phase in algorithm.phases:
        if phase.extra:
            steps = config.warmup
        else:
            steps = inside if phase.epochs is None else min(inside, phase.epochs * algorithm.setup.epoch)
            inside -= steps
        if steps > 0:
            stretches.append(Stretch(phase, start, steps))
            start += steps
    return stretches


class Fleet:
    """A stack of runs of one algorithm class with equal shapes."""

    def __init__(self, rows: Sequence[Row], config: FleetConfig, features: np.ndarray) -> None:
        entries = [algorithms.get(row.algorithm) for row in rows]
        if len({e.cls for e in entries}) != 1 or len({shape_of(row) for row in rows}) != 1:
            raise ValueError("rows of a fleet must share the algorithm's class and all shapes")
        cls = entries[0].cls
        self.rows, self.config = rows, config
        self.device, self.dtype = torch.device(config.device), getattr(torch, config.dtype)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.features = torch.as_tensor(features).to(self.device, self.dtype)
        self.seeds = torch.tensor([row.seed for row in rows], dtype=torch.int64, device=self.device)
        self.p_train, self.u_train = self._index("p_train"), self._index("u_train")
        n_p, n_u = self.p_train.shape[1], self.u_train.shape[1]
        batch_p, batch_u = min(config.batch_size, n_p), min(config.batch_size, n_u)
        kinds = tuple(r.calibration if e.calibrated else "none" for r, e in zip(rows, entries, strict=True))
        self.algorithm = cls(
            Setup(
                prior=self._per_run([r.data.prior for r in rows]),
                shifted_prior=self._per_run([r.data.shifted_prior for r in rows]),
                rate=self._per_run([n_p / (n_p + n_u)] * len(rows)),
                one_sample=torch.tensor([r.data.setting == "os" for r in rows], device=self.device),
                n_p=n_p,
                n_u=n_u,
                batch_p=batch_p,
                batch_u=batch_u,
                steps=config.steps,
                calibration=kinds,
                hyper=_stacked_hyper(cls, rows),
            )
        )
        shape = tuple(self.features.shape[1:])
        self.algorithm.attach(lambda name: networks.build(config.network, self.seeds, shape, name, self.dtype))
        self.algorithm.to(self.device).train()
        self.lr, momentum = self._per_run([r.lr for r in rows]), self._per_run([r.momentum for r in rows])
        self.optimisers = {
            name: RunSGD(getattr(self.algorithm, name), self.lr, momentum, cls.weight_decay, cls.nesterov)
            for name in cls.networks
        }
        self.cycle_p = Cycle(self.seeds, "p", n_p, batch_p)
        self.cycle_u = Cycle(self.seeds, "u", n_u, batch_u)
        self.held = Held(
            p_val=self._index("p_val"),
            u_val=self._index("u_val"),
            test=self._index("test"),
            label_u_val=self._hidden("u_val"),
            label_test=self._hidden("test"),
        )
        self.label_u = self._hidden("u_train").to(self.dtype) if cls.supervised else None
        self.passes = TrainingPasses(self.features, self.p_train, self.u_train)
        wanted = {"weak": config.weak, "strong": config.strong if cls.strong_view else None}
        self.views = {kind: get_view(name) for kind, name in wanted.items() if name is not None}

    def _per_run(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=self.dtype, device=self.device)

    def _index(self, name: str) -> Tensor:
        return torch.as_tensor(np.stack([getattr(r.data, name) for r in self.rows])).to(self.device)

    def _hidden(self, name: str) -> Tensor:
        return torch.as_tensor(np.stack([getattr(r.hidden, name) for r in self.rows])).to(self.device)

    def train(self, on_record: Callable[[int, int], None] | None = None) -> Curves:
        """Train all rows to the end and return their records."""
        stretches = timetable(self.algorithm, self.config)
        total = stretches[-1].start + stretches[-1].steps
        log = _Log(len(self.rows))
        for stretch in stretches:
            self.algorithm.on_phase(stretch.phase, self.passes)
            stepper = Stepper(self, stretch.phase, stretch.start, stretch.steps)
            done = 0
            while done < stretch.steps:
                if done % self.algorithm.setup.epoch == 0:
                    self.algorithm.on_epoch(stretch.phase, done // self.algorithm.setup.epoch, self.passes)
                done += stepper.advance(done, self._pause(stretch, done, total))
                step = stretch.start + done
                if step % self.config.record_every == 0 or step == total:
                    self._record(log, step, stretch.phase, stepper.last_loss)
                    if on_record is not None:
                        on_record(step, total)
        return log.curves()

    def _pause(self, stretch: Stretch, done: int, total: int) -> int:
        """Return how many steps may follow before something else is due: an epoch's end, a record, the phase's end."""
        epoch, every = self.algorithm.setup.epoch, self.config.record_every
        until_record = every - (stretch.start + done) % every
        steps = min(stretch.steps - done, until_record)
        watches_epochs = type(self.algorithm).on_epoch is not Algorithm.on_epoch
        return min(steps, epoch - done % epoch) if watches_epochs else steps

    def _record(self, log: _Log, step: int, phase: Phase, loss: Tensor) -> None:
        values = record(self.algorithm, self.features, self.held, self.passes)
        values["loss"] = loss.double()
        lost = log.add(step, phase, values)
        if lost.any():
            rows = torch.as_tensor(lost, device=self.device)
            for optimiser in self.optimisers.values():
                optimiser.freeze(rows)


class _Log:
    """Collects records on the host; from the record on that finds a row not finite, the row's values are NaN."""

    def __init__(self, runs: int) -> None:
        self.began = time.perf_counter()
        self.diverged = np.full(runs, -1, dtype=np.int64)
        self.step: list[int] = []
        self.phase: list[Phase] = []
        self.seconds: list[float] = []
        self.values: dict[str, list[np.ndarray]] = {}

    def add(self, step: int, phase: Phase, values: dict[str, Tensor]) -> np.ndarray:
        """Store a record; return which rows were lost since the last one."""
        names = list(values)
        block = torch.stack([values[n].double() for n in names]).cpu().numpy()  # the one copy to the host
        finite = block[names.index("finite")] == 1
        lost = ~finite & (self.diverged < 0)
        self.diverged[lost] = step
        block[:, self.diverged >= 0] = np.nan
        for name, row in zip(names, block, strict=True):
            if name != "finite":
                self.values.setdefault(name, []).append(row)
        self.step.append(step)
        self.phase.append(phase)
        self.seconds.append(time.perf_counter() - self.began)
        return lost

    def curves(self) -> Curves:
        """Return what was collected."""
        return Curves(
            step=np.array(self.step),
            phase=[p.name for p in self.phase],
            selectable=np.array([p.selectable for p in self.phase]),
            seconds=np.array(self.seconds),
            values={name: np.stack(rows) for name, rows in self.values.items()},
            diverged=self.diverged,
        )


def _stacked_hyper(cls: type[Algorithm], rows: Sequence[Row]) -> dict[str, list]:
    """Return ``{name: values of all rows}``, defaults filled in; a name the algorithm lacks is left for it to refuse."""
    declared = cls.hypers()
    names = dict.fromkeys([*declared, *(name for row in rows for name in row.hyper)])
    return {n: [r.hyper.get(n, declared[n].default if n in declared else None) for r in rows] for n in names}


def train(
    rows: Sequence[Row],
    config: FleetConfig,
    features: np.ndarray,
    on_record: Callable[[int, int], None] | None = None,
) -> Curves:
    """Train a stack of runs and return their curves; ``on_record(step, total)`` is called after every record."""
    return Fleet(rows, config, features).train(on_record)
