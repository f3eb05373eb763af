"""The base class of algorithms and what its methods receive.

Shapes: inputs ``[runs, batch, …]``, logits ``[runs, batch]``, losses ``[runs]``. Hyperparameters,
``prior`` and all other per-run values are ``[runs]``; ``col`` makes them ``[runs, 1]``. Every
function reduces over the last axis, and rows never mix. Inside a step there is no ``.item()``, no
Python ``if`` on a tensor and no boolean-mask indexing; state is written in place.

The smallest algorithm is a class with a name and an ``objective``::

    class Mine(Algorithm):
        name, title, paper, setting = "mine", "Mine", "me, 2026", "two-sample"

        def objective(self, f_p, f_u):
            return logistic(f_p, +1).mean(-1) + self.mean_u(logistic(f_u, -1), logistic(f_p, -1))
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from puarena import paper
from puarena.algorithms._optimizer import Declared
from puarena.errors import UserError, suggest
from puarena.random import Draws

# -- hyperparameters -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """A uniform choice among values."""

    values: tuple[Any, ...]

    def sample(self, rng: Any) -> Any:
        """Draw one value from a ``numpy.random.RandomState``."""
        return self.values[int(rng.choice(len(self.values)))]

    def __str__(self) -> str:
        return "{" + ", ".join(str(value) for value in self.values) + "}"


@dataclass(frozen=True)
class LogUniform:
    """The distribution of ``10 ** U(low, high)``."""

    low: float
    high: float

    def sample(self, rng: Any) -> float:
        """Draw one value from a ``numpy.random.RandomState``."""
        return float(10 ** rng.uniform(self.low, self.high))

    def __str__(self) -> str:
        return f"10^U({self.low:g}, {self.high:g})"


class Hyper:
    """A hyperparameter, declared as a class attribute of an algorithm.

    On the class it is this declaration; on an instance it reads as the ``[runs]`` tensor of the
    runs' values, or as a tuple of strings if it is a named option.

    Args:
        default: the value of configuration 0.
        doc: the meaning, in one line.
        search: the distribution that other configurations draw from; None keeps the default.
        choices: the values that a named option can have.
    """

    def __init__(
        self,
        default: float | str,
        doc: str,
        search: Choice | LogUniform | None = None,
        choices: tuple[str, ...] = (),
    ) -> None:
        self.default, self.doc, self.search, self.choices = default, doc, search, choices
        self.name = ""

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as plain data."""
        return {
            "default": self.default,
            "search": str(self.search or ""),
            "choices": list(self.choices),
            "meaning": self.doc,
        }

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        for store in ("_buffers", "_options"):
            values = instance.__dict__.get(store, {})
            if self.name in values:
                return values[self.name]
        raise AttributeError(self.name)


# -- the stages of training ------------------------------------------------------------------------


@dataclass(frozen=True)
class Update:
    """One parameter update of a step: the method that returns its loss, and what it trains."""

    loss: str = "loss"
    trains: tuple[str, ...] = ("f",)  # names of networks


@dataclass(frozen=True)
class Phase:
    """A stage of training with its own updates.

    Attributes:
        name: the name, as stored with every record.
        updates: the updates of every step, in this order.
        extra: comes before the protocol's steps and in addition to them, for the warm-up length
            (2,000 steps).
        epochs: takes this many epochs of the protocol's steps.
        share: takes this part of the protocol's steps, 0 to 1. A phase with none of ``extra``,
            ``epochs`` and ``share`` takes the steps that remain.
        selectable: if False, the checkpoints are recorded but never chosen, because they are not
            yet models of the algorithm.
    """

    name: str = "main"
    updates: tuple[Update, ...] = (Update(),)
    extra: bool = False
    epochs: int | None = None
    share: float | None = None
    selectable: bool = True


# -- what an algorithm receives --------------------------------------------------------------------


@dataclass(frozen=True)
class Setup:
    """What an algorithm may know about its runs before it sees data; tensors are ``[runs]``."""

    prior: Tensor
    shifted_prior: Tensor  # the prior inside the unlabeled set
    rate: Tensor  # n_P / (n_P + n_U)
    one_sample: Tensor  # bool
    n_p: int
    n_u: int
    batch_p: int
    batch_u: int
    steps: int = paper.STEPS
    calibration: tuple[str, ...] = ()  # per run: "none", "weighted" or "batch-union"
    hyper: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # per run
    # The dtype of the algorithm's tensors. It differs from the prior's because counts of examples
    # need the prior in float64.
    dtype: torch.dtype | None = None

    @property
    def runs(self) -> int:
        """Number of rows."""
        return len(self.prior)

    @property
    def epoch(self) -> int:
        """Steps in one pass over the unlabeled training data."""
        return self.n_u // self.batch_u


@dataclass(frozen=True)
class Batch:
    """The data of one step.

    Attributes:
        x: inputs, the ``n_p`` positives of every run first, then the unlabeled points.
        n_p: number of positives.
        position: places in the training set, by set.
        draw: the random draws of this step (``Algorithm.draws``), by name.
        at: the scheduled numbers of this step (``Algorithm.schedule``), 0-dim tensors by name.
        strong: the strong view of ``x``, for algorithms with ``strong_view``.
        label_u: true labels of U, for ``supervised`` algorithms only.
        propensity_p: true propensities of P, for algorithms with ``knows_propensity`` only.
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
        """Positions of the unlabeled points in the training set, ``[runs, n_u]``."""
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
        """Split ``[runs, n_p + n_u]`` into its positive and its unlabeled part."""
        # ``Tensor.split`` does the same through a slower Python wrapper.
        f_p, f_u = f.split_with_sizes([self.n_p, f.shape[1] - self.n_p], 1)
        return f_p, f_u


class Passes(Protocol):
    """Full passes over the training and validation data, in evaluation mode, for hooks.

    Hooks run between steps. The validation sets carry no labels either: P' has labeled positives,
    U' unlabeled points.
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
        """Return training positives at positions ``[runs, k]`` as a step sees them."""
        ...


# -- the base class --------------------------------------------------------------------------------


class Algorithm(nn.Module):
    """Base class of all algorithms; the module's docstring has the smallest example.

    The class docstring of an algorithm is its formula: it appears in ``puarena explain``, in the
    documentation and on the report page.

    Attributes:
        name: the registered name.
        variant: "released" for the form of the published code, registered as ``<name>@released``.
        title: the name in tables.
        paper: authors, title, venue and year.
        differs: how it differs from the published code.
        notes: what a reader must know about its results on a dataset, by dataset.
        setting: the setting it assumes: "one-sample", "two-sample" or "either".
        needs_prior: whether it uses the class prior.
        calibrates: whether it has a calibrated form, registered as ``<name>-c``.
        calibration_is: what calibration changes: the "mean" over U, or the "prior" it uses.
        forms_mix: whether plain and calibrated runs can be rows of one fleet.
        baseline: a reference baseline of the tables, which does not compete.
        supervised: receives true labels of U; allowed for a baseline only.
        knows_propensity: receives true propensities of P; allowed for a baseline only.
        only_ranks: only its ranking is reliable, because a rule of thumb sets its threshold.
        in_paper: has rows in the paper's tables. They and their calibrated forms belong to ``all``;
            other algorithms run when they are named.
        in_all: belongs to ``all`` without being in the paper.
        strong_view: receives the strong view of every batch.
        networks: names of its networks.
        phases: stages of training, in this order.
        weight_decay: weight decay under the protocol's optimizer.
        nesterov: whether the protocol's optimizer uses Nesterov momentum.
        authors_optimizer: the optimizer of its authors, if it is known.
        cost: time of a step relative to nnPU's, for estimates of time only.
        lr: learning rate for the estimators' few thousand steps; the protocol draws its own.
    """

    name: ClassVar[str] = ""
    variant: ClassVar[str] = ""
    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    differs: ClassVar[str] = ""
    notes: ClassVar[Mapping[str, str]] = {}
    setting: ClassVar[str] = "either"
    needs_prior: ClassVar[bool] = True
    calibrates: ClassVar[bool] = False
    calibration_is: ClassVar[str] = "mean"
    forms_mix: ClassVar[bool] = True
    baseline: ClassVar[bool] = False
    supervised: ClassVar[bool] = False
    knows_propensity: ClassVar[bool] = False
    only_ranks: ClassVar[bool] = False
    in_paper: ClassVar[bool] = True
    in_all: ClassVar[bool] = False
    strong_view: ClassVar[bool] = False
    networks: ClassVar[tuple[str, ...]] = ("f",)
    phases: ClassVar[tuple[Phase, ...]] = (Phase(),)
    weight_decay: ClassVar[float] = 0.0
    nesterov: ClassVar[bool] = False
    authors_optimizer: ClassVar[Declared] = None
    cost: ClassVar[float] = 1.0
    lr: ClassVar[float] = 1e-2

    f: nn.Module
    prior: Tensor
    shifted_prior: Tensor
    rate: Tensor
    one_sample: Tensor
    w: Tensor  # weight of P in the mean over the marginal distribution

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.setup = setup
        self.phase = self.phases[0]  # the current one; the engine sets it before ``on_phase``
        self._options: dict[str, tuple[str, ...]] = {}
        for name in ("prior", "shifted_prior", "rate"):
            self.register_buffer(name, getattr(setup, name).to(setup.dtype or setup.prior.dtype))
        self.register_buffer("one_sample", setup.one_sample)
        weights = self._weights_of_p()
        self.weighs_p = any(weights)  # whether P is part of the marginal mean in some run
        self.register_buffer("w", self.prior.new_tensor(weights))
        self._register_hypers()

    def _weights_of_p(self) -> list[float]:
        """Return the weight of P in the marginal mean of every run; 0 for a plain run."""
        setup = self.setup
        if self.calibration_is != "mean":
            return [0.0] * setup.runs
        union = setup.batch_p / (setup.batch_p + setup.batch_u)
        weights = []
        for kind, rate in zip(self._calibrations, setup.rate.tolist(), strict=True):
            weights.append({"none": 0.0, "weighted": rate, "batch-union": union}[kind])
        return weights

    @property
    def _calibrations(self) -> tuple[str, ...]:
        return self.setup.calibration or ("none",) * self.setup.runs

    def _register_hypers(self) -> None:
        """Register the runs' hyperparameters: numbers as buffers, named options as strings."""
        declared = self.hypers()
        for name in sorted(set(self.setup.hyper) - set(declared)):
            hint = suggest(name, declared)
            raise UserError(f"{self.name} has no hyperparameter '{name}'{hint}", "unknown-name")
        for name, hyper in declared.items():
            values = list(self.setup.hyper.get(name, [hyper.default] * self.setup.runs))
            if not isinstance(hyper.default, str):
                self.register_buffer(name, self.prior.new_tensor(values))
                continue
            for value in values:
                if value not in hyper.choices:
                    hint = suggest(str(value), hyper.choices)
                    raise UserError(f"{self.name}: {name} is '{value}'{hint}", "invalid-value")
            self._options[name] = tuple(values)

    # -- declarations ------------------------------------------------------------------------------

    @classmethod
    def overrides(cls, method: str) -> bool:
        """Return whether the class overrides a method of ``Algorithm``."""
        return getattr(cls, method) is not getattr(Algorithm, method)

    @classmethod
    def hypers(cls) -> dict[str, Hyper]:
        """Return the declared hyperparameters by name, those of base classes first.

        A plain value in a subclass fixes a hyperparameter, which then is not declared any more.
        """
        declared: dict[str, Hyper] = {}
        for base in reversed(cls.__mro__):
            for name, value in vars(base).items():
                if isinstance(value, Hyper):
                    declared[name] = value
                else:
                    declared.pop(name, None)
        return declared

    def attach(self, build: Callable[[str], nn.Module]) -> None:
        """Create the networks; ``build(name)`` returns a freshly initialized one."""
        for name in self.networks:
            self.add_module(name, build(name))
        self.prepare()

    def state(self, name: str, values: Tensor) -> None:
        """Register per-sample or other state under a name; write it in place afterwards.

        Parameters and registered state are saved with a checkpoint. A plain attribute is not.
        """
        self.register_buffer(name, values)

    # -- what an algorithm overrides ---------------------------------------------------------------

    def prepare(self) -> None:
        """Create state (``self.state``) and copies of networks; called once, before step 0."""

    def objective(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the loss ``[runs]`` from the logits of the two batches."""
        raise NotImplementedError(f"{type(self).__name__} defines neither objective nor loss")

    def loss(self, batch: Batch) -> Tensor | tuple[Tensor, Tensor]:
        """Return the loss ``[runs]`` of a step.

        If a second tensor (``[runs]`` bool) is returned, rows with False are not updated.
        """
        return self.objective(*batch.split(self.f(batch.x)))

    def draws(self, draws: Draws, phase: Phase) -> dict[str, Tensor]:
        """Return random draws for a block of steps, ``[steps, runs, …]`` each."""
        return {}

    def schedule(self, phase: Phase, step: int, steps: int, epoch: int) -> dict[str, float]:
        """Return the numbers of step ``step`` of ``steps``; ``lr`` multiplies the learning rate."""
        return {}

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """Run before the first step of a phase."""

    def on_epoch(self, phase: Phase, epoch: int, passes: Passes) -> None:
        """Run before the first step of every epoch of a phase, from epoch 0, after ``on_phase``."""

    def after_step(self, batch: Batch) -> None:
        """Run after the updates of every step, inside the captured part."""

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the decision logit and the score that ranks, ``[runs, n]`` each.

        The decision is positive at or above the threshold.
        """
        f = self.f(x)
        return f, f

    def threshold(self, passes: Passes) -> Tensor | None:
        """Return the decision threshold ``[runs]`` of the current networks, or None for zero."""
        return None

    def records(self) -> dict[str, Tensor]:
        """Return what else to store with every record: ``[runs]`` each, as column ``val_<name>``.

        It must depend on registered state only, and have the same names every time.
        """
        return {}

    # -- what algorithms use -----------------------------------------------------------------------

    def mean_u(self, g_u: Tensor, g_p: Tensor) -> Tensor:
        """Average over the marginal distribution.

        It is ``mean_U`` for a plain run and ``(1-w) mean_U + w mean_P`` for a calibrated one.
        """
        plain = g_u.mean(-1)
        return torch.lerp(plain, g_p.mean(-1), self.w) if self.weighs_p else plain

    def has_option(self, name: str, value: str) -> Tensor:
        """Return which runs have ``value`` for a named option, bool ``[runs]``.

        Use it in ``prepare``, not in steps.
        """
        chosen = [option == value for option in self._options[name]]
        return torch.tensor(chosen, device=self.prior.device)

    def get_unlabeled_prior(self, exact: bool = False) -> Tensor:
        """Return pi or pi-bar per run, for algorithms with the option ``unlabeled_prior``.

        Pi-bar, the prior inside U, is used by calibrated runs and by runs whose option says so.
        With ``exact`` it is the setup's own float64 value, which ``count`` needs.
        """
        shifted = []
        for option, kind in zip(self._options["unlabeled_prior"], self._calibrations, strict=True):
            shifted.append(option == "pi-bar" or kind != "none")
        source = self.setup if exact else self
        mask = torch.tensor(shifted, device=source.prior.device)
        return torch.where(mask, source.shifted_prior, source.prior)


# -- the search over hyperparameters ---------------------------------------------------------------
#
# Configuration 0 is the default; the others are drawn by the rule of the published code. A draw
# depends on the configuration, the split and the name of the hyperparameter only, never on the
# algorithm or the dataset: configuration 3 has the same learning rate everywhere.

DEFAULT_LR = 1e-3
MOMENTUM = 0.9
LR_EXPONENTS = (-4.5, -2.5)


class BatchSizes(Protocol):
    """What a network declares about the batch sizes of the search."""

    @property
    def default_batch(self) -> int:
        """The batch size of configuration 0, as in the paper's table."""

    @property
    def batch_exponents(self) -> tuple[int, int]:
        """The range of the exponent of 2, which is drawn and cut to an integer."""


@dataclass(frozen=True)
class Configuration:
    """The optimizer's values and an algorithm's hyperparameters in one configuration."""

    lr: float
    batch_size: int
    momentum: float
    hyper: dict[str, Any]


def hash_seed(*parts: object) -> int:
    """Return the published code's seed: the md5 of the printed tuple, modulo 2^31."""
    return int(hashlib.md5(str(parts).encode(), usedforsecurity=False).hexdigest(), 16) % 2**31


def draw_configuration(
    config: int,
    split: int,
    network: BatchSizes,
    hypers: Mapping[str, Hyper] | None = None,
    default_batch: int | None = None,
) -> Configuration:
    """Return configuration number ``config`` of a split.

    Args:
        config: the number of the configuration.
        split: the number of the split.
        network: declares the batch sizes.
        hypers: the declared hyperparameters of an algorithm. One without a search distribution
            keeps its default.
        default_batch: the batch size of configuration 0 if it is not the network's.
    """
    hypers = hypers or {}
    if config == 0:
        batch_size = network.default_batch if default_batch is None else default_batch
        defaults = {name: hyper.default for name, hyper in hypers.items()}
        return Configuration(DEFAULT_LR, batch_size, MOMENTUM, defaults)
    seed = hash_seed(config, split)

    def make_generator(name: str) -> np.random.RandomState:
        return np.random.RandomState(hash_seed(seed, name))

    drawn = {}
    for name, hyper in hypers.items():
        drawn[name] = hyper.search.sample(make_generator(name)) if hyper.search else hyper.default
    return Configuration(
        lr=float(10 ** make_generator("lr").uniform(*LR_EXPONENTS)),
        batch_size=2 ** int(make_generator("batch_size").uniform(*network.batch_exponents)),
        momentum=MOMENTUM,
        hyper=drawn,
    )
