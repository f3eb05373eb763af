"""The training engine: many runs at once, each a row of the same tensors."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puarena import catalog, metrics, networks, paper, random
from puarena.algorithms import Algorithm, Optimizer, Phase, Setup, find_optimizer
from puarena.datasets import View
from puarena.errors import UserError, unknown_name
from puarena.pu import HiddenLabels, PUData
from puarena.random import Draws
from puarena.training import checkpoint, optim
from puarena.training.capture import CapturedCall, use_own_stream
from puarena.training.evaluate import HeldOut, Inputs, evaluate_runs, make_passes
from puarena.training.log import Curves, Log
from puarena.training.steps import Stepper


@dataclass(frozen=True)
class Row:
    """One run: an algorithm's registered name, its data, its seed and its hyperparameters."""

    algorithm: str
    data: PUData
    hidden: HiddenLabels
    seed: int
    lr: float = 1e-3
    momentum: float = 0.9
    hyper: dict[str, Any] = field(default_factory=dict)
    calibration: str = paper.CALIBRATION  # how a "-c" form is calibrated; ignored by plain forms


@dataclass(frozen=True)
class FleetConfig:
    """What all rows of a fleet share."""

    batch_size: int = 128
    steps: int = paper.STEPS
    # Of a first stage, in addition to ``steps``, for algorithms that have one.
    warmup: int = paper.WARMUP_STEPS
    record_every: int = paper.RECORD_STEPS
    network: str | Callable[[int], Any] = (
        "mlp"  # a name of ``networks``, or a function that builds a torch module
    )
    device: str = "cpu"
    dtype: str = "float32"
    capture: bool = True  # on CUDA: replay captured steps
    precision: str = (
        "float32"  # of the network's activations: "float32" or "bf16", where it has a choice
    )
    weak: View | None = None  # view of the training inputs; None leaves them as they are
    strong: View | None = (
        None  # strong view, for algorithms that ask for one; None is the weak view itself
    )
    evaluation: View | None = (
        None  # view of validation, test and full passes; None leaves inputs as they are
    )
    # The same SGD for all, or "authors": what a class declares (``authors_optimizer``)
    optimizer: str = "protocol"
    keep: str | None = None  # a criterion: ``Fleet.best`` keeps every row's best checkpoint by it


def shape_of(row: Row) -> tuple[int, ...]:
    """Return what must agree for two rows to travel together."""
    d = row.data
    return (len(d.p_train), len(d.u_train), len(d.p_val), len(d.u_val), len(d.test))


OnRecord = Callable[[int, int], None]  # the step of a record, and the number of all steps


@dataclass(frozen=True)
class PhaseSpan:
    """A phase placed on the step axis: it begins after ``start`` steps and lasts ``steps``."""

    phase: Phase
    start: int
    steps: int


def schedule_phases(algorithm: Algorithm, config: FleetConfig) -> list[PhaseSpan]:
    """Place an algorithm's phases one after the other: extra ones first, then those inside the
    protocol's steps.
    """
    spans, start, inside = [], 0, config.steps
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
            spans.append(PhaseSpan(phase, start, steps))
            start += steps
    return spans


class Fleet:
    """A stack of runs of one algorithm class with equal shapes."""

    def __init__(
        self,
        rows: Sequence[Row],
        config: FleetConfig,
        features: np.ndarray | Tensor,
        evaluation: np.ndarray | Tensor | None = None,
    ) -> None:
        """``features`` are what a row's indices point into; ``evaluation`` has them as evaluation
        sees them, if that differs by more than a view.
        """
        cls = _find_class(rows)
        if config.optimizer not in optim.OPTIMIZER_CHOICES:
            raise unknown_name("optimizer", config.optimizer, optim.OPTIMIZER_CHOICES)
        self.rows, self.config = rows, config
        self.device, self.dtype = torch.device(config.device), getattr(torch, config.dtype)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.features = self._stored(features)
        views = {"weak": config.weak, "strong": config.strong if cls.strong_view else None}
        self.views = {kind: view for kind, view in views.items() if view is not None}
        self.seeds = torch.tensor([row.seed for row in rows], dtype=torch.int64, device=self.device)
        self.p_train, self.u_train = self._index("p_train"), self._index("u_train")
        self.cycle_p = self._make_cycle("p", self.p_train)
        self.cycle_u = self._make_cycle("u", self.u_train)
        self.algorithm = cls(self._make_setup(cls))
        self.inputs = self._attach_networks(
            self.features if evaluation is None else self._stored(evaluation)
        )
        self.declared = self._declare_optimizers(cls.phases[0])
        self.optimizers = self._optimizers()
        self.held = self._hold_out()
        self.label_u = self._hidden("u_train", self.dtype) if cls.supervised else None
        if cls.supervised and self.label_u is None:
            raise UserError(
                f"'{rows[0].algorithm}' needs the true labels, which are not known", "missing-data"
            )
        known = cls.knows_propensity
        self.propensity_p = self._hidden("propensity_train", self.dtype) if known else None
        self.passes = make_passes(
            self.inputs,
            self.p_train,
            self.u_train,
            self.held.p_val,
            self.held.u_val,
            self._gather_partners,
        )
        self.step = 0  # steps behind
        self.log = Log(len(rows), self.device)
        self.best = Best(self.algorithm, config.keep) if config.keep else None
        self.evaluate = CapturedCall(
            lambda: evaluate_runs(self.algorithm, self.inputs, self.held, self.passes),
            rows[0].algorithm,
            config.capture and self.device.type == "cuda",
        )

    def _make_cycle(self, name: str, index: Tensor) -> Cycle:
        n = index.shape[1]
        return Cycle(self.seeds, name, n, min(self.config.batch_size, n))

    def _make_setup(self, cls: type[Algorithm]) -> Setup:
        """Return what an algorithm may know about its runs."""
        data = [row.data for row in self.rows]
        n_p, n_u = self.cycle_p.n, self.cycle_u.n
        return Setup(
            prior=self._per_run([each.prior for each in data], torch.float64),
            shifted_prior=self._per_run([each.shifted_prior for each in data], torch.float64),
            rate=self._per_run([n_p / (n_p + n_u)] * len(data)),
            one_sample=self._one_sample(),
            n_p=n_p,
            n_u=n_u,
            batch_p=self.cycle_p.batch,
            batch_u=self.cycle_u.batch,
            steps=self.config.steps,
            calibration=tuple(
                row.calibration if catalog.get(row.algorithm).calibrated else "none"
                for row in self.rows
            ),
            hyper=_stacked_hyper(cls, self.rows),
            dtype=self.dtype,
        )

    def _attach_networks(self, stored: Tensor) -> Inputs:
        """Build the algorithm's networks; return the inputs on which they are evaluated."""
        config = self.config
        seen, shape = config.evaluation, tuple(stored.shape[1:])
        if seen is not None:
            shape = seen.shape(shape)
        self.algorithm.attach(
            lambda name: networks.build(
                config.network, self.seeds, shape, name, self.dtype, config.precision
            )
        )
        self.algorithm.to(self.device).train()
        width = max(getattr(self.algorithm, name).width for name in self.algorithm.networks)
        return Inputs(stored, seen, width, self.dtype)

    def _hold_out(self) -> HeldOut:
        """Return what no run is trained on: P', U' and the test examples."""
        return HeldOut(
            p_val=self._index("p_val"),
            u_val=self._index("u_val"),
            test=self._index("test"),
            label_u_val=self._hidden("u_val"),
            label_test=self._hidden("test"),
            prior=self._per_run([row.data.prior for row in self.rows]),
            one_sample=self._one_sample(),
            labeled_test=self._hidden("test_labeled"),
            propensity_p=self._hidden("propensity_val"),
        )

    def _one_sample(self) -> Tensor:
        values = [row.data.setting.one_sample for row in self.rows]
        return torch.tensor(values, device=self.device)

    def _stored(self, features: np.ndarray | Tensor) -> Tensor:
        """Return features on the device; bytes stay bytes until they are taken."""
        stored = torch.as_tensor(features).to(self.device)
        return stored if stored.dtype == torch.uint8 else stored.to(self.dtype)

    def _gather_partners(self, index: Tensor) -> Tensor:
        """Return training inputs that a hook asks for, in the weak view as of now."""
        stored = self.features[index]
        if "weak" not in self.views:
            return stored.to(self.dtype)
        view = self.views["weak"]
        drawn = view.draws(Draws(self.seeds, self.step, 1, self.dtype), "partners", index.shape[1])
        return view(stored, {name: values.squeeze(0) for name, values in drawn.items()})

    def _declare_optimizers(self, phase: Phase) -> dict[str, Optimizer | None]:
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
        declared = self._declare_optimizers(phase)
        if declared != self.declared:
            self.declared = declared
            self.optimizers = self._optimizers()
            for each in self.optimizers.values():
                each.freeze(self.log.lost_at >= 0)

    def _per_run(self, values: Sequence[float], dtype: torch.dtype | None = None) -> Tensor:
        return torch.tensor(values, dtype=dtype or self.dtype, device=self.device)

    def _index(self, name: str) -> Tensor:
        return torch.as_tensor(np.stack([getattr(r.data, name) for r in self.rows])).to(self.device)

    def _hidden(self, name: str, dtype: torch.dtype | None = None) -> Tensor | None:
        """Return what is hidden from algorithms, ``[runs, n]``, where all rows have it."""
        values = [getattr(r.hidden, name) for r in self.rows]
        if any(value is None for value in values):
            return None
        return torch.as_tensor(np.stack(values)).to(self.device, dtype)

    def train(self, on_record: OnRecord | None = None) -> Curves:
        """Train all rows to the end and return their records."""
        with use_own_stream(self.device):
            for step, total in self.segments():
                if on_record is not None:
                    on_record(step, total)
            return self.log.curves()

    def state(self) -> checkpoint.State:
        """Return everything that training changes, copied to the host; only at a record."""
        return checkpoint.take(self)

    def restore(self, state: checkpoint.State) -> None:
        """Go on from a state of the same runs, in a fleet that has not begun; another's is a
        ``StateError``.
        """
        for span in schedule_phases(self.algorithm, self.config):
            if span.start < state.notes.get("step", 0):
                self._enter(span.phase)
        checkpoint.put(self, state)

    def segments(self) -> Iterator[tuple[int, int]]:
        """Train from record to record; yield the step of each and the number of all steps.

        After a record come the hooks that are due before the next step: there a restored fleet goes
        on.
        """
        spans = schedule_phases(self.algorithm, self.config)
        total = spans[-1].start + spans[-1].steps
        epoch = self.algorithm.setup.epoch
        for span in spans:
            done = self.step - span.start
            if done >= span.steps:  # behind a restored fleet
                continue
            self.algorithm.phase = span.phase
            if done == 0:
                self._enter(span.phase)
                self.algorithm.on_phase(span.phase, self.passes)
            stepper = Stepper(self, span.phase, span.start, span.steps)
            while done < span.steps:
                if done % epoch == 0:
                    self.algorithm.on_epoch(span.phase, done // epoch, self.passes)
                done += stepper.advance(done, self._until_pause(span, done))
                self.step = span.start + done
                if self.step % self.config.record_every == 0 or self.step == total:
                    self._record(self.step, span.phase, stepper.last_loss)
                    yield self.step, total
            stepper.replay.close()

    def _until_pause(self, span: PhaseSpan, done: int) -> int:
        """Return how many steps may follow before something else is due: an epoch's end, a record,
        the phase's end.
        """
        epoch, every = self.algorithm.setup.epoch, self.config.record_every
        steps = min(span.steps - done, every - (span.start + done) % every)
        watches_epochs = type(self.algorithm).on_epoch is not Algorithm.on_epoch
        return min(steps, epoch - done % epoch) if watches_epochs else steps

    def _record(self, step: int, phase: Phase, loss: Tensor) -> None:
        values = {**self.evaluate(), "loss": loss.double()}
        lost = self.log.add(step, phase, values)
        if self.best is not None:
            self.best.offer(step, phase, values[self.best.criterion.column], lost)
        for each in self.optimizers.values():
            each.freeze(lost)


def _find_class(rows: Sequence[Row]) -> type[Algorithm]:
    """Return the one class whose objective all rows train."""
    entries = [catalog.get(row.algorithm) for row in rows]
    for entry in entries:
        if entry.is_classic:
            raise UserError(
                f"'{entry.name}' is fitted at once and cannot be trained by steps", "not-supported"
            )
    if len({e.cls for e in entries}) != 1 or len({shape_of(row) for row in rows}) != 1:
        raise ValueError("rows of a fleet must share the algorithm's class and all shapes")
    return entries[0].cls


def _stacked_hyper(cls: type[Algorithm], rows: Sequence[Row]) -> dict[str, list]:
    """Return ``{name: values of all rows}``, defaults filled in; an unknown name is left for it to
    refuse.
    """
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
    """Train a stack of runs and return their curves; ``on_record(step, total)`` is called after
    every record.
    """
    return Fleet(rows, config, features, evaluation).train(on_record)


class Cycle:
    """Endless shuffled passes over ``0 … n - 1`` in batches of ``batch``, for every run from its
    own seed.
    """

    def __init__(self, seeds: Tensor, name: str, n: int, batch: int) -> None:
        self.seeds, self.name, self.n, self.batch = seeds, name, n, batch
        self.per_pass = n // batch
        self._pass = -1
        self._order = torch.empty(0)

    def _shuffled(self, first: int, last: int) -> Tensor:
        """Return the batches of passes ``first … last``, ``[passes * per_pass, runs, batch]``; the
        last is kept.
        """
        if first == last == self._pass:
            return self._order
        order = random.permutation(
            self.seeds, f"order:{self.name}", self.n, last - first + 1, start=first
        )
        batches = (
            order[..., : self.per_pass * self.batch]
            .reshape(len(self.seeds), -1, self.batch)
            .transpose(0, 1)
        )
        self._pass, self._order = last, batches[-self.per_pass :].clone()
        return batches

    def block(self, start: int, count: int) -> Tensor:
        """Return the positions of steps ``start … start + count - 1``, ``int64 [count, runs,
        batch]``.
        """
        first, last = start // self.per_pass, (start + count - 1) // self.per_pass
        begin = start - first * self.per_pass
        return self._shuffled(first, last)[begin : begin + count]


class Best:
    """Each row's networks at the record that a criterion liked best so far (the first of equals).

    Records of a phase that is not selectable, and rows that are lost, do not count. What
    ``Algorithm.outputs`` reads must be parameters or a network's buffers; teachers are networks.
    """

    def __init__(self, algorithm: Algorithm, criterion: str) -> None:
        self.algorithm, self.criterion = algorithm, metrics.get_criterion(criterion)
        like = algorithm.prior
        self.value = torch.full_like(like, -self.criterion.sign * float("inf"), dtype=torch.float64)
        self.step = torch.full_like(like, -1, dtype=torch.int64)
        self.kept = {name: tensor.detach().clone() for name, tensor in self._now().items()}

    def _now(self) -> dict[str, Tensor]:
        """Return the parameters, and the buffers of networks (running statistics), ``[runs, …]``
        each.
        """
        children = self.algorithm.named_children()
        buffers = {
            f"{child}.{name}": b
            for child, network in children
            for name, b in network.named_buffers()
        }
        return {**dict(self.algorithm.named_parameters()), **buffers}

    def state(self) -> dict[str, Tensor]:
        """Return all that is kept, by name."""
        kept = {f"kept.{name}": tensor for name, tensor in self.kept.items()}
        return {"value": self.value, "step": self.step, **kept}

    @torch.no_grad()
    def offer(self, step: int, phase: Phase, value: Tensor, lost: Tensor) -> None:
        """Keep the present state of the rows whose ``value`` (``[runs]``) is the best yet."""
        if not phase.selectable:
            return
        sign = self.criterion.sign
        better = (sign * value > sign * self.value) & ~lost
        self.value = torch.where(better, value, self.value)
        self.step = torch.where(better, torch.full_like(self.step, step), self.step)
        for name, now in self._now().items():
            rows = better.view(-1, *[1] * (now.dim() - 1))
            self.kept[name].copy_(torch.where(rows, now, self.kept[name]))

    @torch.no_grad()
    def restore(self) -> None:
        """Put every row back to its best state."""
        for name, now in self._now().items():
            now.copy_(self.kept[name])


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP = 1 << 30


@lru_cache(maxsize=1)
def keep_freed_memory() -> bool:
    """Raise glibc's thresholds so that freed temporaries are reused; return whether that was
    possible.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _KEEP)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEEP))
