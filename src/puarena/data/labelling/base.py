"""What a setting and a mechanism are. Both can be compared, hashed and pickled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from puarena.data.counts import Counts, Sizes, mixture
from puarena.data.dataset import Dataset, Flags, Indices


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
    may_lack: ClassVar[bool] = False  # may P be smaller than asked for, where a dataset tolerates that?

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

    @property
    def index(self) -> Indices:
        """All candidates, class by class."""
        return np.concatenate(self.parts)


@dataclass(frozen=True)
class Mechanism(ABC):
    """Who among the positives is labeled. Fields of a subclass are its parameters and need defaults."""

    name: ClassVar[str]
    meaning: ClassVar[str]

    @abstractmethod
    def propensity(self, candidates: Candidates) -> npt.NDArray[np.float64]:
        """Return the probability of a label for each of ``candidates.index``; their sum is the number of labels."""

    def label(self, candidates: Candidates, rng: np.random.Generator) -> Flags:
        """Return which of ``candidates.index`` get a label: ``candidates.counts.sum()`` of them.

        Systematic sampling: along the cumulated propensities, in random order, every whole step from a random start
        gives a label. So the number is exact and every candidate's probability is its propensity.
        """
        propensity, start = self.propensity(candidates), rng.random()
        order = rng.permutation(len(propensity))
        reached = np.cumsum(propensity[order])
        reached[-1] = candidates.counts.sum()
        labeled = np.zeros(len(order), bool)
        labeled[order] = np.diff(np.floor(reached - start), prepend=np.floor(-start)) > 0
        return labeled

    @property
    def text(self) -> str:
        """The name, and the parameters in brackets if there are any: what a problem and the store have."""
        values = ",".join(f"{field.name}={_plain(getattr(self, field.name))}" for field in fields(self))
        return f"{self.name}({values})" if values else self.name


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
