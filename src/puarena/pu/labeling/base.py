"""What a setting and a mechanism are. Both can be compared, hashed and pickled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from puarena.datasets.dataset import Dataset, Flags, Indices
from puarena.pu.posterior import Posterior, fitted
from puarena.pu.sizes import Sizes
from puarena.utils.counts import Counts, mixture

Chances = npt.NDArray[np.float64]  # of a label, by candidate


@dataclass(frozen=True, eq=False)
class Demand:
    """What a draw asks for: sizes, rate, prior, and how classes are weighted on the positive and the negative side."""

    n: Sizes
    rate: float
    prior: float
    positive: npt.NDArray[Any]  # [classes], 0 for the classes of the other side
    negative: npt.NDArray[Any]

    def mixture(self, total: int) -> Counts:
        """Return how many of each class a sample of ``total`` with this prior has."""
        return mixture(total, self.prior, self.positive, self.negative)


class Setting(ABC):
    """Where P and U come from, and what follows from it."""

    code: ClassVar[str]  # in specs, stores and file names
    title: ClassVar[str]
    meaning: ClassVar[str]
    one_sample: ClassVar[bool]  # is P part of the marginal sample?
    may_lack: ClassVar[bool] = (
        False  # may P be smaller than asked for, where a dataset tolerates that?
    )

    @property
    def short(self) -> str:
        """The title in two letters, for narrow places."""
        return self.code.upper()

    @abstractmethod
    def prior_in_u(self, prior: float, rate: float) -> float:
        """Return the class prior inside U, of the problem's prior and ``rate = n_P / (n_P + n_U)``."""

    @abstractmethod
    def prior_from_u(self, inside: Any, rate: float) -> Any:
        """Return the problem's prior, of the class prior inside U (a number or an array of them)."""

    @abstractmethod
    def lowest_prior(self, rate: float) -> float:
        """Return the prior that data with this rate cannot be at or below."""

    @abstractmethod
    def modest_rate(self, prior: float) -> float:
        """Return a rate that is feasible at a prior and leaves positives in U."""

    @abstractmethod
    def counts(self, demand: Demand) -> tuple[Counts, Counts]:
        """Return how many of each class go to P and to U where all positives are alike."""

    def refusal(self, demand: Demand, class_names: tuple[str, ...]) -> str:
        """Return why a demand is impossible, in words; nothing if it is possible."""
        return ""

    @abstractmethod
    def candidates(self, part: Indices, p: int, u: int) -> Indices:
        """Return who may be labeled of a positive class, shuffled, that gives about ``p`` to P and ``u`` to U."""

    @abstractmethod
    def unlabeled(self, part: Indices, p: int, u: int, labeled: Indices) -> Indices:
        """Return what a class, shuffled, gives to U once it is known which examples are labeled."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(self.code)

    def __repr__(self) -> str:
        return self.code


@dataclass(frozen=True, eq=False)
class Candidates:
    """The positives that may be labeled, and what a mechanism may look at to choose among them.

    Mechanisms work inside the draw: they may use true labels (``positive`` of the classes of ``pool``, the training
    examples). Nothing of this reaches an algorithm.
    """

    dataset: Dataset
    pool: Indices
    positive: Flags  # [classes]
    parts: list[Indices]  # by class, shuffled; empty for a negative class
    counts: Counts  # [classes]: labels that each class gets where all positives are alike

    @cached_property
    def index(self) -> Indices:
        """All candidates, class by class."""
        return np.concatenate(self.parts)

    @property
    def labels(self) -> int:
        """How many of them get a label."""
        return int(self.counts.sum())

    @property
    def classes(self) -> Indices:
        """Their original classes."""
        return self.dataset.classes[self.index]

    @cached_property
    def table(self) -> npt.NDArray[np.float64]:
        """Their features, ``[n, columns]``."""
        return self.dataset.table(self.index).astype(np.float64)

    @cached_property
    def model(self) -> Posterior:
        """The posterior of all training examples."""
        return fitted(self.dataset, self.pool, self.positive)

    @property
    def posterior(self) -> npt.NDArray[np.float64]:
        """Their probability of being positive, from true labels."""
        return self.model.of(self.index)

    @property
    def pixels(self) -> npt.NDArray[Any] | None:
        """Their images, ``[n, …]``, if they are images."""
        stored = self.dataset.features
        return stored[self.index] if stored.ndim == 4 or self.dataset.gray else None


@dataclass(frozen=True)
class Mechanism(ABC):
    """Who among the positives is labeled. Fields of a subclass are its parameters and need defaults."""

    name: ClassVar[str]
    meaning: ClassVar[str]
    measured: ClassVar[str] = "strength"  # the parameter that says how strong the bias is
    aliases: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # names in the literature -> parameters

    @abstractmethod
    def propensity(self, candidates: Candidates) -> Chances:
        """Return the probability of a label for each of ``candidates.index``; their sum is the number of labels."""

    @property
    def uniform(self) -> bool:
        """Is nothing left of the bias? Then it is labeling at random, bit for bit."""
        return 0 in (getattr(self, "strength", 1), getattr(self, "power", 1))

    def label(self, candidates: Candidates, chances: Chances, rng: np.random.Generator) -> Flags:
        """Return which of ``candidates.index`` get a label, by their propensities: ``candidates.labels`` of them."""
        start = rng.random()
        return systematic(chances, rng.permutation(len(chances)), start, candidates.labels)

    @property
    def text(self) -> str:
        """The name, and the parameters in brackets if there are any: what a problem and the store have."""
        values = ",".join(
            f"{field.name}={_plain(getattr(self, field.name))}" for field in fields(self)
        )
        return f"{self.name}({values})" if values else self.name

    @property
    def short(self) -> str:
        """The same without the parameters that have their default; always with the one that says how strong it is."""
        own = [
            f for f in fields(self) if f.name == self.measured or getattr(self, f.name) != f.default
        ]
        values = ",".join(f"{field.name}={_plain(getattr(self, field.name))}" for field in own)
        return f"{self.name}({values})" if values else self.name


def systematic(chances: Chances, order: Indices, start: float, total: int) -> Flags:
    """Sample exactly ``total`` with the given probabilities, which have that sum (Madow).

    Along the cumulated probabilities, in the given order, every whole step from a random start selects.
    """
    reached = np.cumsum(chances[order])
    reached[-1] = total
    selected = np.zeros(len(order), bool)
    selected[order] = np.diff(np.floor(reached - start), prepend=np.floor(-start)) > 0
    return selected


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
