"""The problems of a spec, and how a command line's filters change them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from puarena.errors import UserError
from puarena.pu import labeling as ways
from puarena.pu.problem import Problem, sizes_given

PROBLEM_LISTS = ("cases", "settings", "rates", "priors", "labeling")
PROBLEM_SIZES = ("labeled", "unlabeled")


class ProblemSpec(BaseModel):
    """One dataset with the cases, settings, rates, priors and ways of labeling to run it at (all combinations)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str = Field(
        description="a built-in dataset, or the path of a YAML file that describes your own table"
    )
    cases: tuple[int, ...] = Field(
        default=(1,), description="which positive classes: 1, 2, ... as the dataset numbers them"
    )
    settings: tuple[str, ...] = Field(
        default=(ways.DEFAULT,),
        description=", ".join(f"{s.code} = {s.title}" for s in ways.settings()),
    )
    rates: tuple[float, ...] = Field(
        default=(0.3,), description="share of labeled positives among all training points"
    )
    priors: tuple[float | None, ...] = Field(
        default=(None,), description="class priors; null = the dataset's own"
    )
    labeling: tuple[str, ...] = Field(
        default=(ways.SCAR,), description="who among the positives is labeled"
    )

    labeled: int | None = Field(
        default=None, description="labeled positives, with `unlabeled` in place of rates"
    )
    unlabeled: int | None = Field(
        default=None, description="unlabeled examples, with `labeled` in place of rates"
    )

    @model_validator(mode="after")
    def _sizes_or_rates(self) -> ProblemSpec:
        if self.labeled is not None or self.unlabeled is not None:
            sizes_given(self.labeled, self.unlabeled)
            if "rates" in self.model_fields_set:
                raise ValueError(
                    "give either rates or the sizes `labeled` and `unlabeled`, and not both"
                )
        return self

    @model_serializer(mode="wrap")
    def _either(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = write(self)
        if self.labeled is not None:
            del content["rates"]
        return content

    @field_validator(*PROBLEM_LISTS, mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return listed(value)

    @field_validator(*PROBLEM_LISTS)
    @classmethod
    def _some(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not values:
            raise ValueError("it is an empty list; give at least one value, or leave the key away")
        return values

    @field_validator("cases", "rates", "priors", "labeled", "unlabeled", mode="before")
    @classmethod
    def _no_truth_value(cls, value: Any) -> Any:
        return refuse_truth(value)

    @field_validator("dataset")
    @classmethod
    def _path(cls, value: str) -> str:
        if "\0" in value:
            raise ValueError("a path has a NUL character in it")
        return value

    @field_validator("settings", "labeling")
    @classmethod
    def _known(cls, values: tuple[str, ...], info: Any) -> tuple[str, ...]:
        try:
            if info.field_name == "settings":
                return tuple(ways.get(value).code for value in values)
            return tuple(ways.mechanism(value).text for value in values)
        except UserError as error:
            raise ValueError(str(error)) from None

    @field_validator("rates", "priors")
    @classmethod
    def _inside_unit(cls, values: tuple[float | None, ...], info: Any) -> tuple[float | None, ...]:
        for value in values:
            if value is not None and not 0 < value < 1:
                name = {"rates": "positive rate", "priors": "class prior"}[info.field_name]
                raise ValueError(f"a {name} lies strictly between 0 and 1, and {value:g} does not")
        return values


def refuse_truth(value: Any) -> Any:
    """The value, which YAML must not have read as true or false: these would count as 1 and 0."""
    for item in listed(value):
        if isinstance(item, bool):
            raise ValueError(f"it must be a number, and {str(item).lower()} was given")
    return value


def is_path(dataset: str) -> bool:
    """Is this dataset a user's own YAML file (and not a built-in name)?"""
    return dataset.lower().endswith((".yaml", ".yml"))


def listed(value: Any) -> Any:
    """``rates: 0.3`` means ``rates: [0.3]``; ``priors:`` left empty means the default prior."""
    return value if isinstance(value, (list, tuple)) else (value,)


def with_datasets(problems: list[ProblemSpec], datasets: list[str]) -> list[ProblemSpec]:
    """Keep the problems of the named datasets; a dataset the spec does not have takes on all of its problems."""
    chosen: list[ProblemSpec] = []
    for dataset in datasets:
        known = [problem for problem in problems if problem.dataset == dataset]
        chosen += known or [problem.model_copy(update={"dataset": dataset}) for problem in problems]
    return list(dict.fromkeys(chosen))


def with_values(
    problems: list[ProblemSpec], field: str, given: tuple[Any, ...]
) -> list[ProblemSpec]:
    """Keep the given values of a list where the spec has them all; otherwise put the given list in its place."""
    if field == "labeling":  # as a spec has them
        given = tuple(ways.mechanism(way).text for way in given)
    present = {value for problem in problems for value in getattr(problem, field)}
    changed = []
    for problem in problems:
        values = (
            tuple(v for v in getattr(problem, field) if v in given)
            if present >= set(given)
            else given
        )
        if values:
            sizes = dict.fromkeys(
                PROBLEM_SIZES if field == "rates" else ()
            )  # a rate takes their place
            changed.append(problem.model_copy(update={field: values, **sizes}))
    return list(dict.fromkeys(changed))


def check_prior(problem: Problem, rate: float, prior: float) -> None:
    """Refuse a problem with no positive left in U."""
    setting = ways.get(problem.setting)
    if setting.one_sample and math.isclose(prior, setting.lowest_prior(rate)):
        raise UserError(
            f"at class prior {prior:g} and positive rate {rate:g} every positive of '{problem.dataset}' is labeled and "
            f"none is left among the unlabeled; use a rate below {prior:g}, or a prior above {rate:g}"
        )


def check_row(problem: Problem, rows: dict[Problem, Problem]) -> None:
    """Refuse two problems that no table tells apart; ``rows`` has those seen so far."""
    if rows.setdefault(replace(problem, labeled=None, unlabeled=None), problem) != problem:
        raise UserError(
            f"two problems on '{problem.dataset}' have the positive rate {problem.rate:g} and differ in their sizes "
            "only, which would be one row of a table; run them into two folders"
        )
