"""Former home of what ``report.methods`` and ``pu`` have; it goes when nothing imports it."""

from __future__ import annotations

from typing import Any

from puarena.pu import labeling
from puarena.pu.problem import PROBLEM_COLUMNS as PROBLEM
from puarena.pu.problem import Problem
from puarena.report.methods import read_methods, read_problems

__all__ = ["PROBLEM", "Problem", "read_all", "settings"]


def settings() -> dict[str, labeling.Setting]:
    """Return the settings by their codes."""
    return {setting.code: setting for setting in labeling.list_settings()}


def read_all(kind: type[Any], frame: Any) -> list[Any]:
    """Return the problem or method of every row."""
    return read_problems(frame) if kind is Problem else read_methods(frame)
