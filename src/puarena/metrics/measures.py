"""The two kinds of measures: criteria, which select models, and test metrics.

A measure is one record, which is the only source of its name, texts, column and range. Store
columns, selection, tables, page, figures, searches, scorers and the command line follow from it.
This module does not import torch, because reports work without it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from puarena.errors import UserError, unknown_name


@dataclass(frozen=True)
class Measure:
    """A named number.

    Attributes:
        name: the name in commands and files.
        title: the name in tables.
        meaning: one line.
        compute: the function that computes it.
        needs: what ``compute`` receives; see the two kinds.
        synonyms: other names.
        higher: whether more is better.
        low: the smallest possible value.
        high: the largest possible value.
        percent: whether it is a fraction that is shown in percent.
        default: whether it is shown unless others are asked for.
    """

    name: str
    title: str
    meaning: str
    compute: Callable[..., Any]
    needs: str
    synonyms: tuple[str, ...] = ()
    higher: bool = True
    low: float | None = 0.0
    high: float | None = 1.0
    percent: bool = True
    default: bool = True

    @property
    def sign(self) -> int:
        """1 if more is better, otherwise -1."""
        return 1 if self.higher else -1

    @property
    def factor(self) -> float:
        """The factor between a stored and a shown value."""
        return 100.0 if self.percent else 1.0

    @property
    def decimals(self) -> int:
        """The number of decimals of a shown value."""
        return 2 if self.percent else 4

    @property
    def inline(self) -> str:
        """The title inside a sentence."""
        return self.title if self.title.isupper() else self.title.lower()


@dataclass(frozen=True)
class Metric(Measure):
    """A test metric, which is computed with true labels.

    It needs the ``decision`` (positive at or above zero) or the ``score`` (which ranks), or, with
    the score, which points have ``observed labels``. ``chance`` is the value of the best constant
    answer as a function of the class prior.
    """

    chance: Callable[[float], float] | None = None

    @property
    def column(self) -> str:
        """The column of stored results."""
        return "test_" + self.name.replace("-", "_")

    oracle = True


@dataclass(frozen=True)
class Criterion(Measure):
    """A criterion, which selects among checkpoints.

    It needs ``counts`` of points predicted positive, ``scores``, ``labels`` or true
    ``propensities``.

    Attributes:
        long: the title, written out.
        explanation: a paragraph for the report page, instead of the meaning.
        color: the color in figures.
        oracle: whether it uses what is unknown in practice.
        profile: the profile in which it takes the place of the criterion ``replaces``.
        under_bias: whether it is shown if labels are not given at random.
        caution: a warning about it if labels are not given at random.
    """

    long: str = ""
    explanation: str = ""
    color: str = "#80808090"
    oracle: bool = False
    profile: str = ""
    replaces: str = ""
    under_bias: bool = False
    caution: str = ""

    @property
    def column(self) -> str:
        """The column of stored results."""
        return "val_" + self.name.replace("-", "_")


AnyMeasure = TypeVar("AnyMeasure", bound=Measure)


def find_measure(kind: str, name: str, known: Mapping[str, AnyMeasure]) -> AnyMeasure:
    """Return a measure by its name or a synonym; case does not matter."""
    plain = str(name).strip().lower().replace("_", "-").replace(" ", "-")
    names: dict[str, AnyMeasure] = {}
    for measure in known.values():
        names |= dict.fromkeys((measure.name, *measure.synonyms), measure)
    if plain in names:
        return names[plain]
    close = difflib.get_close_matches(plain, names, n=1, cutoff=0.6)
    if close:
        hint = f"did you mean '{names[close[0]].name}'?"
        raise UserError(f"unknown {kind} '{name}'; {hint}", "unknown-name")
    raise unknown_name(kind, str(name), known)
