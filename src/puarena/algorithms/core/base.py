"""What an algorithm is.

Shapes: inputs ``[runs, batch, …]``, logits ``[runs, batch]``, losses ``[runs]``, hyperparameters, ``prior`` and all
other per-run values ``[runs]`` (``col`` makes them ``[runs, 1]``). Everything reduces over the last axis and no row
ever sees another. Inside a step: no ``.item()``, no Python ``if`` on a tensor, no boolean-mask indexing; state is
written in place.

The smallest algorithm is a class with a name and an ``objective``::

    class Mine(Algorithm):
        name, title, paper, setting = "mine", "Mine", "me, 2026", "two-sample"

        def objective(self, f_p, f_u):
            return logistic(f_p, +1).mean(-1) + self.mean_u(logistic(f_u, -1), logistic(f_p, -1))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from puarena.algorithms.core.hyper import Hyper
from puarena.algorithms.core.losses import col
from puarena.algorithms.core.optimizer import Declared
from puarena.errors import UserError, suggest
from puarena.random import Draws


class Passes(Protocol):
    """Full passes over training and validation data in evaluation mode, handed to hooks between steps.

    The validation sets carry no label either: P' has labeled positives, U' unlabeled points.
    """

    def p(self, network: nn.Module) -> Tensor:
        """Return a network's logits on all training positives, ``[runs, n_p]``."""
        ...

    def u(self, network: nn.Module) -> Tensor:
        """Return a network's logits on all unlabeled training points, ``[runs, n_u]``."""
        ...

    def val_p(self, network: nn.Module) -> Tensor:
        """Return a network's logits on all validation positives P', ``[runs, n]``."""
        ...

    def val_u(self, network: nn.Module) -> Tensor:
        """Return a network's logits on all unlabeled validation points U', ``[runs, n]``."""
        ...

    def x_p(self, position: Tensor) -> Tensor:
        """Return training positives at ``[runs, k]`` positions as a step would see them, ``[runs, k, …]``."""
        ...


@dataclass(frozen=True)
class Update:
    """One parameter update of a step: the method that returns the loss, and the networks it trains."""

    loss: str = "loss"
    trains: tuple[str, ...] = ("f",)


@dataclass(frozen=True)
class Phase:
    """A stretch of training with its own updates.

    ``extra``: comes before, and in addition to, the protocol's steps, for the warm-up length (2,000 steps).
    ``epochs``: the first so many epochs of the protocol's steps. ``share``: the first part of these steps, 0 to 1.
    A phase with none of them takes what remains.
    Checkpoints of a phase that is not ``selectable`` are recorded and marked: they are not yet models of the algorithm.
    """

    name: str = "main"
    updates: tuple[Update, ...] = (Update(),)
    extra: bool = False
    epochs: int | None = None
    share: float | None = None
    selectable: bool = True


@dataclass(frozen=True)
class Setup:
    """What an algorithm may know about its runs before it sees data. Tensors are ``[runs]``."""

    prior: Tensor
    shifted_prior: Tensor  # prior inside the unlabeled set
    rate: Tensor  # n_P / (n_P + n_U)
    one_sample: Tensor  # bool
    n_p: int
    n_u: int
    batch_p: int
    batch_u: int
    steps: int = 20_000
    calibration: tuple[str, ...] = ()  # per run: "none", "weighted" or "batch-union"
    hyper: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # per run
    dtype: torch.dtype | None = (
        None  # of the algorithm's tensors if not the prior's: counts need a prior in float64
    )

    @property
    def runs(self) -> int:
        """Number of rows."""
        return len(self.prior)

    @property
    def epoch(self) -> int:
        """Steps in one pass over the unlabeled training data."""
        return self.n_u // self.batch_u


class Now(Mapping[str, Tensor]):
    """What a step needs beside its inputs, read from blocks computed ahead (``{name: [steps, …]}``) at the cursor.

    Each value is read when it is first asked for, so that an algorithm pays for what it uses. A cursor on the device
    can be captured; a plain number is faster where nothing is.
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


@dataclass(frozen=True)
class Batch:
    """One step's data: ``x`` holds the ``n_p`` positives of every run first, then the unlabeled points.

    ``draw`` are this step's random draws, ``at`` its scheduled numbers (0-dim tensors). ``strong`` is the strong view
    of the same points, for algorithms that ask for one (``strong_view``); ``label_u`` exists only for the fully
    supervised baseline, ``propensity_p`` only for the baseline that knows true propensities.
    """

    x: Tensor
    n_p: int
    position: Mapping[str, Tensor]
    draw: Mapping[str, Tensor]
    at: Mapping[str, Tensor]
    strong: Tensor | None = None
    label_u: Tensor | None = None
    propensity_p: Tensor | None = None

    @property
    def i_p(self) -> Tensor:
        """Positions of the positives in the training set, ``[runs, n_p]``, for per-sample state."""
        return self.position["p"]

    @property
    def i_u(self) -> Tensor:
        """Positions of the unlabeled points in the training set, ``[runs, n_u]``, for per-sample state."""
        return self.position["u"]

    @property
    def x_p(self) -> Tensor:
        """Inputs of the positive batch."""
        return self.x[:, : self.n_p]

    @property
    def x_u(self) -> Tensor:
        """Inputs of the unlabeled batch."""
        return self.x[:, self.n_p :]

    def split(self, f: Tensor) -> tuple[Tensor, Tensor]:
        """Split ``[runs, n_p + n_u]`` into its positive and unlabeled part."""
        f_p, f_u = f.split_with_sizes(
            [self.n_p, f.shape[1] - self.n_p], 1
        )  # without the wrapper of ``split``
        return f_p, f_u


class Algorithm(nn.Module):
    """Base of every algorithm; see the module's text for shapes and the smallest example."""

    name: ClassVar[str] = ""
    variant: ClassVar[str] = (
        ""  # "released" for the published code's form of the algorithm of this name
    )
    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    setting: ClassVar[str] = (
        "either"  # the setting it assumes: "one-sample", "two-sample" or "either"
    )
    needs_prior: ClassVar[bool] = True
    calibrates: ClassVar[bool] = False  # has a calibrated form, registered as "<name>-c"
    calibration_is: ClassVar[str] = (
        "mean"  # what calibration changes: the "mean" over U, or the "prior" it is told
    )
    forms_mix: ClassVar[bool] = True  # plain and calibrated runs can be rows of one fleet
    supervised: ClassVar[bool] = False  # is handed true labels: only the oracle baseline
    knows_propensity: ClassVar[bool] = False  # is handed true propensities of P: only a baseline
    # a reference baseline of the tables: what true labels give, or ignoring the problem
    baseline: ClassVar[bool] = False
    rough: ClassVar[bool] = (
        False  # its zero is found by a rule of thumb: only its ranking is promised
    )
    in_paper: ClassVar[bool] = True  # belongs to "all"; others run when they are named
    strong_view: ClassVar[bool] = False  # asks for the strong view of every batch
    networks: ClassVar[tuple[str, ...]] = ("f",)
    phases: ClassVar[tuple[Phase, ...]] = (Phase(),)
    weight_decay: ClassVar[float] = 0.0
    nesterov: ClassVar[bool] = False
    authors_optimizer: ClassVar[Declared] = (
        None  # what its authors trained it with, where that is known
    )
    cost: ClassVar[float] = 1.0  # time of a step relative to nnPU, for estimates only
    lr: ClassVar[float] = (
        1e-2  # for a practitioner's few thousand steps; the protocol draws its own
    )
    differs: ClassVar[str] = ""  # how it differs from the published code

    f: nn.Module

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.setup = setup
        self.phase = self.phases[
            0
        ]  # the one in training; the engine moves it on before ``on_phase``
        self._options: dict[str, tuple[str, ...]] = {}
        for name in ("prior", "shifted_prior", "rate"):
            self.register_buffer(name, getattr(setup, name).to(setup.dtype or setup.prior.dtype))
        self.register_buffer("one_sample", setup.one_sample)
        like = self.prior
        kinds = setup.calibration or ("none",) * setup.runs
        union = setup.batch_p / (setup.batch_p + setup.batch_u)
        rates = setup.rate.tolist()
        weight = [
            {"none": 0.0, "weighted": r, "batch-union": union}[k]
            for k, r in zip(kinds, rates, strict=True)
        ]
        weight = weight if self.calibration_is == "mean" else [0.0] * setup.runs
        self.weighs_p = any(weight)  # in some run P counts as part of the marginal
        self.register_buffer("w", torch.tensor(weight, dtype=like.dtype, device=like.device))
        unknown = set(setup.hyper) - set(self.hypers())
        if unknown:
            bad = sorted(unknown)[0]
            raise UserError(
                f"{self.name} has no hyperparameter '{bad}'{suggest(bad, self.hypers())}"
            )
        for name, declared in self.hypers().items():
            values = list(setup.hyper.get(name, [declared.default] * setup.runs))
            if isinstance(declared.default, str):
                wrong = [v for v in values if v not in declared.choices]
                if wrong:
                    raise UserError(
                        f"{self.name}: {name} is '{wrong[0]}'{suggest(str(wrong[0]), declared.choices)}"
                    )
                self._options[name] = tuple(values)
            else:
                self.register_buffer(
                    name, torch.tensor(values, dtype=like.dtype, device=like.device)
                )

    prior: Tensor
    shifted_prior: Tensor
    rate: Tensor
    one_sample: Tensor
    w: Tensor

    # -- declarations ------------------------------------------------------------------------------------------------

    @classmethod
    def hypers(cls) -> dict[str, Hyper]:
        """Return the declared hyperparameters by name, base classes first; a plain value in a subclass fixes one."""
        declared: dict[str, Hyper] = {}
        for base in reversed(cls.__mro__):
            for name, value in vars(base).items():
                if isinstance(value, Hyper):
                    declared[name] = value
                else:
                    declared.pop(name, None)
        return declared

    def attach(self, build: Callable[[str], nn.Module]) -> None:
        """Create the networks: ``build(name)`` gives a freshly initialized one."""
        for name in self.networks:
            self.add_module(name, build(name))
        self.prepare()

    def state(self, name: str, values: Tensor) -> None:
        """Register per-sample or other state under a name; write it in place afterwards.

        An interrupted run goes on with its parameters and registered state; a plain attribute is forgotten.
        """
        self.register_buffer(name, values)

    # -- what an algorithm overrides ---------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create state (``self.state``) and copies of networks; called once, before the first step."""

    def objective(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the loss ``[runs]`` from the logits of the two batches."""
        raise NotImplementedError(f"{type(self).__name__} defines neither objective nor loss")

    def loss(self, batch: Batch) -> Tensor | tuple[Tensor, Tensor]:
        """Return the loss ``[runs]`` of a step; with a second ``[runs]`` bool tensor, False rows are not updated."""
        return self.objective(*batch.split(self.f(batch.x)))

    def draws(self, draws: Draws, phase: Phase) -> dict[str, Tensor]:
        """Return random draws for a block of steps, ``[steps, runs, …]`` each."""
        return {}

    def schedule(self, phase: Phase, step: int, steps: int, epoch: int) -> dict[str, float]:
        """Return scheduled numbers for step ``step`` of ``steps`` of a phase; ``lr`` multiplies the learning rate."""
        return {}

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """Called before the first step of a phase."""

    def on_epoch(self, phase: Phase, epoch: int, passes: Passes) -> None:
        """Called before the first step of every epoch of a phase (epoch 0 included), after ``on_phase``."""

    def after_step(self, batch: Batch) -> None:
        """Called after the updates of every step, inside the captured part."""

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the decision logit (positive at or above the threshold) and the score that ranks, ``[runs, n]``."""
        f = self.f(x)
        return f, f

    def threshold(self, passes: Passes) -> Tensor | None:
        """Return the decision threshold ``[runs]`` for the current networks, or None for zero."""
        return None

    def records(self) -> dict[str, Tensor]:
        """Return what else to store with every record, ``[runs]`` each, under its name: the column ``val_<name>``.

        Read from state alone, the same names every time.
        """
        return {}

    # -- what algorithms use -----------------------------------------------------------------------------------------

    def mean_u(self, g_u: Tensor, g_p: Tensor) -> Tensor:
        """Average over the marginal: ``mean_U`` for a plain run, ``(1-w) mean_U + w mean_P`` for a calibrated one."""
        plain = g_u.mean(-1)
        return torch.lerp(plain, g_p.mean(-1), self.w) if self.weighs_p else plain

    def chosen(self, option: str, value: str) -> Tensor:
        """Return which runs have ``value`` for a named option, as bool ``[runs]``; for ``prepare``, not for steps."""
        return torch.tensor(
            [choice == value for choice in self._options[option]], device=self.prior.device
        )

    def unlabeled_prior_of_runs(self, exact: bool = False) -> Tensor:
        """Return pi or pi-bar per run (algorithms that declare the option ``unlabeled_prior``).

        Pi-bar, the prior inside U, is what a calibrated run is told, and one whose option says so.
        ``exact``: as it was handed over (in float64 by the engine), to count with (``losses.count``).
        """
        kinds = self.setup.calibration or ("none",) * self.setup.runs
        options = self._options["unlabeled_prior"]
        shifted = [
            option == "pi-bar" or kind != "none"
            for option, kind in zip(options, kinds, strict=True)
        ]
        source = self.setup if exact else self
        return torch.where(
            torch.tensor(shifted, device=source.prior.device), source.shifted_prior, source.prior
        )


__all__ = ["Algorithm", "Batch", "Draws", "Hyper", "Passes", "Phase", "Setup", "Update", "col"]
