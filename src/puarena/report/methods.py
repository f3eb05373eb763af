"""What a row of a table is: a method on a problem, both as stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from puarena.paper import find_place
from puarena.pu.problem import PROBLEM_COLUMNS, Problem

if TYPE_CHECKING:
    from pandas import DataFrame

Record = TypeVar("Record")


@dataclass(frozen=True)
class Method:
    """An algorithm with the facts that its registry declared, and how it was run. Nothing is read
    out of a name.
    """

    algorithm: str
    base: str
    calibrated: bool
    variant: str
    baseline: bool
    supervised: bool
    profile: str
    prior_source: str
    precision: str
    optimizer: str

    @property
    def unusual(self) -> list[str]:
        """Where the prior comes from if not from the truth, a precision that is not the full one,
        an own optimizer.
        """
        prior = [] if self.prior_source == "true" else [f"prior by {self.prior_source}"]
        precision = [] if self.precision == "float32" else [self.precision]
        return prior + precision + ([] if self.optimizer == "protocol" else ["authors' optimizer"])

    @property
    def label(self) -> str:
        """The algorithm's name, and what is not as usual about it: a profile that its variant does
        not say already.
        """
        words = [] if self.profile in ("definition", self.variant) else [self.profile]
        words += self.unusual
        return f"{self.algorithm} ({', '.join(words)})" if words else self.algorithm

    @property
    def kind(self) -> str:
        """How a row looks: a reference baseline, a calibrated form, or a usual one."""
        return (
            "baseline"
            if self.baseline or self.supervised
            else "calibrated"
            if self.calibrated
            else ""
        )


METHOD_COLUMNS = tuple(field.name for field in fields(Method))


def read_problems(frame: DataFrame) -> list[Problem]:
    """Return the problem of every row of a frame."""
    return _read_rows(frame, PROBLEM_COLUMNS, Problem.from_columns)


def read_methods(frame: DataFrame) -> list[Method]:
    """Return the method of every row of a frame."""
    return _read_rows(frame, METHOD_COLUMNS, lambda row: Method(**row))


def _read_rows(
    frame: DataFrame, names: Sequence[str], make: Callable[[Mapping[str, Any]], Record]
) -> list[Record]:
    """Make a record of every row; equal rows share one."""

    @cache
    def make_once(*values: Any) -> Record:
        return make(dict(zip(names, values, strict=True)))

    columns = [frame[name].tolist() for name in names]
    return [make_once(*values) for values in zip(*columns, strict=True)]


def in_order(methods: Iterable[Method], order: Sequence[str] | None = None) -> list[Method]:
    """Methods as a table lists them: in the given order of algorithms; or what sees true labels,
    then the paper's order with what it does not know after it, then the other reference baselines.
    """
    if order is not None:
        return sorted(
            methods, key=lambda method: (list(order).index(method.algorithm), method.label)
        )

    def key(method: Method) -> tuple[Any, ...]:
        section = 0 if method.supervised else 2 if method.baseline else 1
        return (
            section,
            find_place(method.base),
            method.base,
            method.calibrated,
            method.algorithm,
            method.label,
        )

    return sorted(methods, key=key)
