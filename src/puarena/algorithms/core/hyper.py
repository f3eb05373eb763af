"""Hyperparameter declarations: default, search distribution and one-line meaning, written once per algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Choice:
    """Uniform choice among values."""

    values: tuple[Any, ...]

    def sample(self, rng: Any) -> Any:
        """Draw one value from a ``numpy.random.RandomState``."""
        return self.values[int(rng.choice(len(self.values)))]

    def __str__(self) -> str:
        return "{" + ", ".join(str(v) for v in self.values) + "}"


@dataclass(frozen=True)
class LogUniform:
    """``10 ** U(low, high)``."""

    low: float
    high: float

    def sample(self, rng: Any) -> float:
        """Draw one value from a ``numpy.random.RandomState``."""
        return float(10 ** rng.uniform(self.low, self.high))

    def __str__(self) -> str:
        return f"10^U({self.low:g}, {self.high:g})"


class Hyper:
    """A hyperparameter, declared as a class attribute of an algorithm.

    On the class it is this declaration; on an instance it reads as the ``[runs]`` tensor of the runs' values
    (a tuple of strings for a named option).
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

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        for values in (
            instance.__dict__.get("_buffers", {}),
            instance.__dict__.get("_options", {}),
        ):
            if self.name in values:
                return values[self.name]
        raise AttributeError(self.name)
