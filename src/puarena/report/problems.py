"""The problems and methods that the rows of a frame are about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from puarena.pu import labeling
from puarena.pu.problem import PROBLEM_COLUMNS as PROBLEM
from puarena.pu.problem import Problem

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["PROBLEM", "Problem", "read", "read_all", "settings"]

Kind = TypeVar("Kind")


def settings() -> dict[str, labeling.Setting]:
    """Return the settings that are known here, by their codes in the store."""
    return {setting.code: setting for setting in labeling.list_settings()}


def read(kind: type[Kind], row: Mapping[str, Any]) -> Kind:
    """Return the problem or method of a row."""
    if issubclass(kind, Problem):
        return cast(Kind, kind.from_columns(row))
    return kind(**{field.name: row[field.name] for field in fields(kind)})  # type: ignore[arg-type]


def read_all(kind: type[Kind], frame: DataFrame) -> list[Kind]:
    """Return the problem or method of every row of a frame; equal rows share one."""
    names = PROBLEM if issubclass(kind, Problem) else [f.name for f in fields(kind)]  # type: ignore[arg-type]

    @cache
    def read_values(*values: Any) -> Kind:
        return read(kind, dict(zip(names, values, strict=True)))

    return [
        read_values(*row) for row in zip(*(frame[name].tolist() for name in names), strict=True)
    ]
