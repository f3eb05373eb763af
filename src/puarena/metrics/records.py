"""What a criterion and a test metric are: one record each, the only source of their names, words,
columns and ranges.

Store columns, selection, tables, page, figures, searches, scorers and the command line all follow
from the records. Nothing here imports torch: a report is made without it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from puarena.errors import UserError, unknown_name


@dataclass(frozen=True)
class Record:
    """A named number: its words, the function that computes it, which direction is better, and its
    range.
    """

    name: str
    title: str
    meaning: str
    compute: Callable[..., Any]
    needs: str  # what ``compute`` is handed; see the two kinds of record
    synonyms: tuple[str, ...] = ()
    higher: bool = True  # is more better?
    low: float | None = 0.0
    high: float | None = 1.0
    percent: bool = True  # a fraction in the store, shown in percent
    default: bool = True  # shown unless others are asked for

    @property
    def sign(self) -> int:
        """1 where more is better, -1 where less is."""
        return 1 if self.higher else -1

    @property
    def factor(self) -> float:
        """What a stored value is multiplied with to be shown."""
        return 100.0 if self.percent else 1.0

    @property
    def decimals(self) -> int:
        """With how many digits after the point it is shown."""
        return 2 if self.percent else 4

    @property
    def inline(self) -> str:
        """The title inside a sentence."""
        return self.title if self.title.isupper() else self.title.lower()


@dataclass(frozen=True)
class Metric(Record):
    """A test metric. ``needs``: the ``decision`` (positive at or above zero) or the ``score``
    (which ranks).
    """

    chance: Callable[[float], float] | None = (
        None  # what the best constant answer gets, of the class prior
    )

    @property
    def column(self) -> str:
        """The column of the store."""
        return "test_" + self.name.replace("-", "_")

    oracle = True  # computed with true labels


@dataclass(frozen=True)
class Criterion(Record):
    """A way to choose among checkpoints.

    ``needs``: ``counts`` of points predicted positive, ``scores``, ``labels``, or true
    ``propensities``. An ``oracle`` is handed what nobody has in practice. A criterion of a
    ``profile`` stands there in the place of the one it ``replaces``. ``under_bias``: shown where
    labels are not given at random, though not by default; ``caution``: what to say of it there.
    """

    long: str = ""  # the title, written out
    explanation: str = ""  # a paragraph for readers of the page; the meaning where there is none
    color: str = "#80808090"  # in figures
    oracle: bool = False
    profile: str = ""
    replaces: str = ""
    under_bias: bool = False
    caution: str = ""

    @property
    def column(self) -> str:
        """The column of the store."""
        return "val_" + self.name.replace("-", "_")


AnyRecord = TypeVar("AnyRecord", bound=Record)


def look_up(kind: str, name: str, known: Mapping[str, AnyRecord]) -> AnyRecord:
    """A record by its name or a synonym, in any case."""
    plain = str(name).strip().lower().replace("_", "-").replace(" ", "-")
    for record in known.values():
        if plain == record.name or plain in record.synonyms:
            return record
    words = {
        word: record.name for record in known.values() for word in (record.name, *record.synonyms)
    }
    close = difflib.get_close_matches(plain, words, n=1, cutoff=0.6)
    if close:
        raise UserError(f"unknown {kind} '{name}'; did you mean '{words[close[0]]}'?")
    raise unknown_name(kind, str(name), known)
