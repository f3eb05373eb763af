"""The training engine: many runs at once, each a row of the same tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from puarena import catalog, networks
from puarena.algorithms import Algorithm, Optimizer, Phase, Setup, find_optimizer
from puarena.errors import UserError, unknown_name
from puarena.random import Draws
from puarena.training import checkpoint, optim
from puarena.training.batches import Cycle
from puarena.training.best import Best
from puarena.training.capture import CapturedCall, own_stream
from puarena.training.evaluate import Held, record
from puarena.training.log import Log
from puarena.training.memory import keep_freed_memory
from puarena.training.passes import Inputs, TrainingPasses
from puarena.training.rows import Curves, FleetConfig, Row, shape_of
from puarena.training.steps import Stepper

OnRecord = Callable[[int, int], None]  # the step of a record, and the number of all steps


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
            steps = inside
            if phase.epochs is not None:
                steps = min(inside, phase.epochs * algorithm.setup.epoch)
            elif phase.share is not None:
                steps = min(inside, round(phase.share * config.steps))
            inside -= steps
        if steps > 0:
            stretches.append(Stretch(phase, start, steps))
            start += steps
    return stretches


class Fleet:
    """A stack of runs of one algorithm class with equal shapes."""

    def __init__(
        self,
        rows: Sequence[Row],
        config: FleetConfig,
        features: np.ndarray | Tensor,
        evaluation: np.ndarray | Tensor | None = None,
    ) -> None:
        """``features`` are what a row's indices point into; ``evaluation`` has them as evaluation sees them, if that
        differs by more than a view."""
        entries = [catalog.get(row.algorithm) for row in rows]
        for entry in entries:
            if entry.fits:
                raise UserError(
                    f"'{entry.name}' is fitted at once and cannot be trained by steps",
                    "not-supported",
                )
        if len({e.cls for e in entries}) != 1 or len({shape_of(row) for row in rows}) != 1:
            raise ValueError("rows of a fleet must share the algorithm's class and all shapes")
        cls = entries[0].cls
        self.rows, self.config = rows, config
        self.device, self.dtype = torch.device(config.device), getattr(torch, config.dtype)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.features = self._stored(features)
        stored = self.features if evaluation is None else self._stored(evaluation)
        views = {"weak": config.weak, "strong": config.strong if cls.strong_view else None}
        self.views = {kind: view for kind, view in views.items() if view is not None}
        seen = config.evaluation
        self.seeds = torch.tensor([row.seed for row in rows], dtype=torch.int64, device=self.device)
        self.p_train, self.u_train = self._index("p_train"), self._index("u_train")
        n_p, n_u = self.p_train.shape[1], self.u_train.shape[1]
        batch_p, batch_u = min(config.batch_size, n_p), min(config.batch_size, n_u)
        kinds = tuple(
            r.calibration if e.calibrated else "none" for r, e in zip(rows, entries, strict=True)
        )
        self.algorithm = cls(
            Setup(
                prior=self._per_run([r.data.prior for r in rows], torch.float64),
                shifted_prior=self._per_run([r.data.shifted_prior for r in rows], torch.float64),
                rate=self._per_run([n_p / (n_p + n_u)] * len(rows)),
                one_sample=torch.tensor(
                    [r.data.setting.one_sample for r in rows], device=self.device
                ),
                n_p=n_p,
                n_u=n_u,
                batch_p=batch_p,
                batch_u=batch_u,
                steps=config.steps,
                calibration=kinds,
                hyper=_stacked_hyper(cls, rows),
                dtype=self.dtype,
            )
        )
        shape = tuple(stored.shape[1:]) if seen is None else seen.shape(tuple(stored.shape[1:]))
        self.algorithm.attach(
            lambda name: networks.build(
                config.network, self.seeds, shape, name, self.dtype, config.precision
            )
        )
        width = max(getattr(self.algorithm, name).width for name in cls.networks)
        self.inputs = Inputs(stored, seen, width, self.dtype)
        self.algorithm.to(self.device).train()
        if config.optimizer not in optim.CHOICES:
            raise unknown_name("optimizer", config.optimizer, optim.CHOICES)
        self.declared = self._declared(cls.phases[0])
        self.optimizers = self._optimizers()
        self.cycle_p = Cycle(self.seeds, "p", n_p, batch_p)
        self.cycle_u = Cycle(self.seeds, "u", n_u, batch_u)
        self.held = Held(
            p_val=self._index("p_val"),
            u_val=self._index("u_val"),
            test=self._index("test"),
            label_u_val=self._hidden("u_val"),
            label_test=self._hidden("test"),
            propensity_p=self._propensity("val"),
        )
        self.label_u = self._hidden("u_train").to(self.dtype) if cls.supervised else None
        known = self._propensity("train") if cls.knows_propensity else None
        self.propensity_p = None if known is None else known.to(self.dtype)
        self.passes = TrainingPasses(
            self.inputs,
            self.p_train,
            self.u_train,
            self.held.p_val,
            self.held.u_val,
            self._partners,
        )
        self.step = 0  # steps behind
        self.log = Log(len(rows), self.device)
        self.best = Best(self.algorithm, config.keep) if config.keep else None
        self.evaluate = CapturedCall(
            lambda: record(self.algorithm, self.inputs, self.held, self.passes),
            config.capture and self.device.type == "cuda",
        )

    def _stored(self, features: np.ndarray | Tensor) -> Tensor:
        """Return features on the device; bytes stay bytes until they are taken."""
        stored = torch.as_tensor(features).to(self.device)
        return stored if stored.dtype == torch.uint8 else stored.to(self.dtype)

    def _partners(self, index: Tensor) -> Tensor:
        """Return training inputs that a hook asks for, in the weak view as of now."""
        stored = self.features[index]
        if "weak" not in self.views:
            return stored.to(self.dtype)
        view = self.views["weak"]
        drawn = view.draws(Draws(self.seeds, self.step, 1, self.dtype), "partners", index.shape[1])
        return view(stored, {name: values.squeeze(0) for name, values in drawn.items()})

    def _declared(self, phase: Phase) -> dict[str, Optimizer | None]:
        """Return what trains each network in a phase; None is the protocol's SGD."""
        declared = self.algorithm.authors_optimizer if self.config.optimizer == "authors" else None
        return {
            name: find_optimizer(declared, name, phase.name) for name in self.algorithm.networks
        }

    def _optimizers(self) -> dict[str, optim.RunOptimizer]:
        lr, momentum = (
            self._per_run([r.lr for r in self.rows]),
            self._per_run([r.momentum for r in self.rows]),
        )
        own = self.algorithm.weight_decay, self.algorithm.nesterov
        return {
            name: optim.build(getattr(self.algorithm, name), lr, momentum, *own, declared)
            for name, declared in self.declared.items()
        }

    def _enter(self, phase: Phase) -> None:
        """Begin with new optimizers where a phase has its own."""
        declared = self._declared(phase)
        if declared != self.declared:
            self.declared = declared
            self.optimizers = self._optimizers()
            for each in self.optimizers.values():
                each.freeze(self.log.lost_at >= 0)

    def _per_run(self, values: Sequence[float], dtype: torch.dtype | None = None) -> Tensor:
        return torch.tensor(values, dtype=dtype or self.dtype, device=self.device)

    def _index(self, name: str) -> Tensor:
        return torch.as_tensor(np.stack([getattr(r.data, name) for r in self.rows])).to(self.device)

    def _hidden(self, name: str) -> Tensor:
        return torch.as_tensor(np.stack([getattr(r.hidden, name) for r in self.rows])).to(
            self.device
        )

    def _propensity(self, part: str) -> Tensor | None:
        """Return the true propensities of P, ``[runs, n]``, where all rows have them."""
        values = [getattr(r.hidden, f"propensity_{part}") for r in self.rows]
        if any(value is None for value in values):
            return None
        return torch.as_tensor(np.stack(values)).to(self.device)

    def train(self, on_record: OnRecord | None = None) -> Curves:
        """Train all rows to the end and return their records."""
        with own_stream(self.device):
            for step, total in self.segments():
                if on_record is not None:
                    on_record(step, total)
            return self.log.curves()

    def state(self) -> checkpoint.State:
        """Return everything that training changes, copied to the host; only at a record."""
        return checkpoint.take(self)

    def restore(self, state: checkpoint.State) -> None:
        """Go on from a state of the same runs, in a fleet that has not begun; another's is a ``StateError``."""
        for stretch in timetable(self.algorithm, self.config):
            if stretch.start < state.notes.get("step", 0):
                self._enter(stretch.phase)
        checkpoint.put(self, state)

    def segments(self) -> Iterator[tuple[int, int]]:
        """Train from record to record; yield the step of each and the number of all steps.

        After a record come the hooks that are due before the next step: there a restored fleet goes on.
        """
        stretches = timetable(self.algorithm, self.config)
        total = stretches[-1].start + stretches[-1].steps
        epoch = self.algorithm.setup.epoch
        for stretch in stretches:
            done = self.step - stretch.start
            if done >= stretch.steps:  # behind a restored fleet
                continue
            self.algorithm.phase = stretch.phase
            if done == 0:
                self._enter(stretch.phase)
                self.algorithm.on_phase(stretch.phase, self.passes)
            stepper = Stepper(self, stretch.phase, stretch.start, stretch.steps)
            while done < stretch.steps:
                if done % epoch == 0:
                    self.algorithm.on_epoch(stretch.phase, done // epoch, self.passes)
                done += stepper.advance(done, self._until_pause(stretch, done))
                self.step = stretch.start + done
                if self.step % self.config.record_every == 0 or self.step == total:
                    self._record(self.step, stretch.phase, stepper.last_loss)
                    yield self.step, total
            stepper.replay.close()

    def _until_pause(self, stretch: Stretch, done: int) -> int:
        """Return how many steps may follow before something else is due: an epoch's end, a record, the phase's end."""
        epoch, every = self.algorithm.setup.epoch, self.config.record_every
        steps = min(stretch.steps - done, every - (stretch.start + done) % every)
        watches_epochs = type(self.algorithm).on_epoch is not Algorithm.on_epoch
        return min(steps, epoch - done % epoch) if watches_epochs else steps

    def _record(self, step: int, phase: Phase, loss: Tensor) -> None:
        values = {**self.evaluate(), "loss": loss.double()}
        lost = self.log.add(step, phase, values)
        if self.best is not None:
            self.best.offer(step, phase, values[self.best.criterion.column], lost)
        for each in self.optimizers.values():
            each.freeze(lost)


def _stacked_hyper(cls: type[Algorithm], rows: Sequence[Row]) -> dict[str, list]:
    """Return ``{name: values of all rows}``, defaults filled in; an unknown name is left for it to refuse."""
    declared = cls.hypers()
    names = dict.fromkeys([*declared, *(name for row in rows for name in row.hyper)])
    return {
        n: [r.hyper.get(n, declared[n].default if n in declared else None) for r in rows]
        for n in names
    }


def train(
    rows: Sequence[Row],
    config: FleetConfig,
    features: np.ndarray | Tensor,
    on_record: OnRecord | None = None,
    evaluation: np.ndarray | Tensor | None = None,
) -> Curves:
    """Train a stack of runs and return their curves; ``on_record(step, total)`` is called after every record."""
    return Fleet(rows, config, features, evaluation).train(on_record)
