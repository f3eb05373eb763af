"""What a table is about: a problem as it is stored, and its words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from puarena.pu import labeling

if TYPE_CHECKING:
    from pandas import DataFrame


def settings() -> dict[str, labeling.Setting]:
    """The settings that are known here, by their codes in the store."""
    return {setting.code: setting for setting in labeling.settings()}


@dataclass(frozen=True)
class Problem:
    """A dataset, which classes are positive, and how labels are given; ``prior`` is NaN where it is not known."""

    dataset: str
    case: int
    setting: str
    rate: float
    prior: float
    labeling: str

    @property
    def title(self) -> str:
        """The problem in a few words."""
        setting = settings().get(self.setting)
        words = f"{setting.title} ({setting.short})" if setting else self.setting
        prior = "" if math.isnan(self.prior) else f", class prior {self.prior:.3g}"
        problem = f"{self.dataset}, case {self.case}, {words}, {100 * self.rate:.4g}% positive rate"
        return f"{problem}{prior}{self.labeling_words}"

    def label(self, prior: bool = False) -> str:
        """The same, shorter: ``letter, case 1, OS 30%``, with the prior if asked for and known."""
        last = f", prior {self.prior:.3g}" if prior and not math.isnan(self.prior) else ""
        return f"{self.dataset}, case {self.case}, {self.short} {100 * self.rate:.4g}%{last}{self.labeling_words}"

    @property
    def short(self) -> str:
        """The setting in two letters."""
        setting = settings().get(self.setting)
        return setting.short if setting else self.setting

    @property
    def one_sample(self) -> bool:
        """Are the labeled examples part of the one sample that was drawn?"""
        setting = settings().get(self.setting)
        return setting is not None and setting.one_sample

    @property
    def labeling_words(self) -> str:
        """What is unusual about how positives are labeled."""
        return (
            "" if self.labeling == labeling.SCAR else f", labels by {labeling.short(self.labeling)}"
        )


PROBLEM = tuple(field.name for field in fields(Problem))
Kind = TypeVar("Kind")


def _number(value: float) -> float:
    return (
        math.nan if math.isnan(value) else float(value)
    )  # always the same NaN, which is equal to itself


_KINDS: dict[str, Callable[[Any], Any]] = {"str": str, "int": int, "bool": bool, "float": _number}


def read(kind: type[Kind], record: Mapping[str, Any]) -> Kind:
    """A problem or a method out of a row; equal rows give equal ones, also where the prior is not known."""
    return kind(
        **{field.name: _KINDS[str(field.type)](record[field.name]) for field in fields(kind)}
    )  # type: ignore[arg-type]


def read_all(kind: type[Kind], frame: DataFrame) -> list[Kind]:
    """The problem or method of every row of a frame."""
    columns = frame[[field.name for field in fields(kind)]].reset_index(drop=True)  # type: ignore[arg-type]
    groups = columns.groupby(list(columns), dropna=False, sort=False, observed=True).ngroup()
    firsts = columns[~groups.duplicated()]
    known = {
        group: read(kind, row)
        for group, row in zip(groups[firsts.index], firsts.to_dict("records"), strict=True)
    }
    return [known[group] for group in groups]
