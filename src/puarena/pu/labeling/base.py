"""The base classes of settings and labeling mechanisms, and what they are given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from puarena.datasets.base import Dataset, Flags, Indices
from puarena.errors import UserError
from puarena.utils.counts import Counts, allocate_by_prior

if TYPE_CHECKING:
    from puarena.pu.sizes import Sizes

Chances = npt.NDArray[np.float64]  # of a label, by candidate
POSTERIOR_MARGIN = 0.001  # distance that a posterior keeps from 0 and 1


@dataclass(frozen=True, eq=False)
class Demand:
    """The sizes, rate and prior of a draw, and the weights of classes on each side."""

    n: Sizes
    rate: float
    prior: float
    positive: npt.NDArray[Any]  # [classes], 0 for the classes of the other side
    negative: npt.NDArray[Any]

    def allocate(self, total: int) -> Counts:
        """Return how many examples of each class a sample of ``total`` with this prior has."""
        return allocate_by_prior(total, self.prior, self.positive, self.negative)


class Setting(ABC):
    """Where P and U come from, and what follows from it."""

    code: ClassVar[str]  # in specs, results and file names
    title: ClassVar[str]
    meaning: ClassVar[str]
    one_sample: ClassVar[bool]  # is P part of the marginal sample?
    # May P be smaller than requested, if the dataset tolerates it?
    may_lack: ClassVar[bool] = False

    @property
    def short(self) -> str:
        """The code in upper case, for narrow places."""
        return self.code.upper()

    @abstractmethod
    def prior_in_u(self, prior: float, rate: float) -> float:
        """Return the class prior inside U for a prior and ``rate = n_P / (n_P + n_U)``."""

    @abstractmethod
    def prior_from_u(self, inside: Any, rate: float) -> Any:
        """Return the prior for the class prior inside U, a number or an array."""

    @abstractmethod
    def lowest_prior(self, rate: float) -> float:
        """Return the prior that data with this rate must exceed."""

    @abstractmethod
    def modest_rate(self, prior: float) -> float:
        """Return a rate that is feasible at a prior and leaves positives in U."""

    @abstractmethod
    def counts(self, demand: Demand) -> tuple[Counts, Counts]:
        """Return how many of each class go to P and to U if all positives are alike."""

    def refusal(self, demand: Demand, class_names: tuple[str, ...]) -> str:
        """Return why a demand is impossible; an empty text if it is possible."""
        return ""

    @abstractmethod
    def candidates(self, part: Indices, p: int, u: int) -> Indices:
        """Return the members of a shuffled positive class that may be labeled.

        The class gives about ``p`` examples to P and ``u`` to U.
        """

    @abstractmethod
    def unlabeled(self, part: Indices, p: int, u: int, labeled: Indices) -> Indices:
        """Return the members of a shuffled class that go to U, given the labeled examples."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(self.code)

    def __repr__(self) -> str:
        return self.code


@dataclass(frozen=True, eq=False)
class FittedPosterior:
    """The probability of being positive of every training example, from true labels."""

    pool: Indices  # ascending
    values: npt.NDArray[np.float64]
    auc: float

    def of(self, index: Indices) -> npt.NDArray[np.float64]:
        """Return the values of some training examples."""
        return self.values[np.searchsorted(self.pool, index)]


@lru_cache(maxsize=8)
def _fit_posterior(dataset: Dataset, pool_bytes: bytes, positive_bytes: bytes) -> FittedPosterior:
    """Fit a logistic regression to standardized features and true labels of the pool."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    pool = np.sort(np.frombuffer(pool_bytes, np.int64))
    positive = np.frombuffer(positive_bytes, bool)
    x = dataset.table(pool).astype(np.float64)
    y = positive[dataset.classes[pool]]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    # With one thread the order of summation, and with it the draw, is the same everywhere.
    with threadpool_limits(1):
        p = model.fit(x, y).predict_proba(x)[:, 1]
    values = np.clip(p, POSTERIOR_MARGIN, 1 - POSTERIOR_MARGIN)
    return FittedPosterior(pool, values, float(roc_auc_score(y, p)))


def logit(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ``log p - log(1 - p)``; scipy's logit differs in the last bits."""
    return np.log(p) - np.log1p(-p)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The positives that may be labeled, and what a mechanism may use to choose among them.

    Mechanisms work inside the draw: they may use true labels (``positive`` of the classes of
    ``pool``, the training examples). None of this reaches an algorithm.
    """

    dataset: Dataset
    pool: Indices
    positive: Flags  # [classes]
    parts: list[Indices]  # by class, shuffled; empty for a negative class
    counts: Counts  # [classes]: labels of each class if all positives are alike

    @cached_property
    def index(self) -> Indices:
        """All candidates, class by class."""
        return np.concatenate(self.parts)

    @property
    def labels(self) -> int:
        """The number of labels to give."""
        return int(self.counts.sum())

    @property
    def classes(self) -> Indices:
        """The original class of every candidate."""
        return self.dataset.classes[self.index]

    @cached_property
    def table(self) -> npt.NDArray[np.float64]:
        """The features of the candidates, ``[n, columns]``."""
        return self.dataset.table(self.index).astype(np.float64)

    @cached_property
    def model(self) -> FittedPosterior:
        """The posterior of all training examples."""
        return _fit_posterior(self.dataset, self.pool.tobytes(), self.positive.tobytes())

    @property
    def posterior(self) -> npt.NDArray[np.float64]:
        """The probability of being positive of every candidate, from true labels."""
        return self.model.of(self.index)

    @property
    def pixels(self) -> npt.NDArray[Any] | None:
        """The images of the candidates, ``[n, …]``; None for a table."""
        stored = self.dataset.features
        return stored[self.index] if stored.ndim == 4 or self.dataset.gray else None


@dataclass(frozen=True)
class Mechanism(ABC):
    """Which positives are labeled. The fields of a subclass are its parameters, with defaults."""

    name: ClassVar[str]
    meaning: ClassVar[str]
    measured: ClassVar[str] = "strength"  # the parameter that measures the bias
    aliases: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # names in the literature -> parameters

    @abstractmethod
    def propensity(self, candidates: Candidates) -> Chances:
        """Return the probability of a label for each of ``candidates.index``.

        The probabilities sum to ``candidates.labels``.
        """

    @property
    def uniform(self) -> bool:
        """Is no bias left? Then the mechanism is labeling at random, bit for bit."""
        return 0 in (getattr(self, "strength", 1), getattr(self, "power", 1))

    def label(self, candidates: Candidates, chances: Chances, rng: np.random.Generator) -> Flags:
        """Return which of ``candidates.index`` are labeled, ``candidates.labels`` of them."""
        start = rng.random()
        order = rng.permutation(len(chances))
        return sample_systematically(chances, order, start, candidates.labels)

    @property
    def text(self) -> str:
        """The name with all parameters in brackets, as problems and results have it."""
        return self._write([field.name for field in fields(self)])

    @property
    def short(self) -> str:
        """The name with the measured parameter and those that differ from their default."""
        names = []
        for field in fields(self):
            if field.name == self.measured or getattr(self, field.name) != field.default:
                names.append(field.name)
        return self._write(names)

    def _write(self, names: list[str]) -> str:
        parts = []
        for name in names:
            value = getattr(self, name)
            parts.append(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}")
        return f"{self.name}({','.join(parts)})" if parts else self.name


def sample_systematically(chances: Chances, order: Indices, start: float, total: int) -> Flags:
    """Select exactly ``total`` examples with the given probabilities, whose sum it is (Madow).

    Along the cumulated probabilities, in the given order, every whole step after ``start`` selects
    an example.
    """
    reached = np.cumsum(chances[order])
    reached[-1] = total
    selected = np.zeros(len(order), bool)
    selected[order] = np.diff(np.floor(reached - start), prepend=np.floor(-start)) > 0
    return selected


BISECTION_STEPS = 200  # more than a float has bits


def solve_link(link: Callable[[float], Chances], size: int, total: int) -> Chances:
    """Return ``link(a)``, which rises from 0 to 1, for the ``a`` with the sum ``total``."""
    if total >= size:
        return np.ones(size)
    low, high = -1.0, 1.0
    while link(low).sum() > total:
        low *= 2
    while link(high).sum() < total:
        high *= 2
    return link(_bisect(lambda a: link(a).sum() < total, low, high))


def solve_weights(log_weights: npt.NDArray[np.float64], total: int, text: str) -> Chances:
    """Return ``min(1, a weights)`` with the sum ``total``; ``text`` is for error messages."""
    usable = int((log_weights > -np.inf).sum())
    if usable < total:
        raise UserError(
            f"labeling {text} leaves {usable} of {len(log_weights)} candidates with a chance "
            f"above 0, and {total} of them are to be labeled; use a lower rate, or another range "
            "or power",
            "missing-data",
        )
    if usable == total:
        return (log_weights > -np.inf).astype(np.float64)

    def chances(a: float) -> Chances:
        return np.exp(np.minimum(0.0, a + log_weights))

    low, high = -log_weights.max() - 60, -log_weights[log_weights > -np.inf].min()
    return chances(_bisect(lambda a: chances(a).sum() < total, float(low), float(high)))


def standardize(values: npt.NDArray[np.float64], what: str) -> npt.NDArray[np.float64]:
    """Return values with mean 0 and population standard deviation 1; constants are an error."""
    deviation = values.std()
    if not deviation > 1e-12 * max(1.0, float(np.abs(values).max(initial=0.0))):
        raise UserError(
            f"labeling cannot depend on {what}: it is {values[0]:g} for all {len(values)} "
            "positives that may be labeled",
            "invalid-value",
        )
    return (values - values.mean()) / deviation


def _bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2
