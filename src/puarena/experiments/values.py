"""Values that a spec gives: hyperparameters and sources of the prior, checked when it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError, suggest, unknown_name

if TYPE_CHECKING:
    from puarena.algorithms.core.entry import Entry

TRUE_PRIOR, ESTIMATE = "true", "estimate:"  # sources of the prior that algorithms are told
OPTIMIZER = ("lr", "batch_size", "momentum")  # what `hyper` may fix besides an algorithm's own


def source_of_prior(text: str) -> str:
    """``true``, or ``estimate:METHOD``; ``estimate`` alone, or a method alone, mean the same as everywhere else."""
    from puarena.priors import METHODS, method_named

    plain = text.strip().lower()
    method = method_named(plain) if plain else ""
    name = f"{ESTIMATE}{method}" if method in METHODS else plain
    known = [TRUE_PRIOR, *(f"{ESTIMATE}{method}" for method in METHODS)]
    if name not in known:
        raise UserError(f"'{text}' is not a source of the prior{suggest(text, known)}")
    return name


def wrong_kind(value: Any) -> str:
    """What is wrong with any fixed value; nothing if nothing is."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return "must be a number or a word"
    return "" if isinstance(value, str) or math.isfinite(value) else "must be finite"


def wrong_optimizer(name: str, value: Any) -> str:
    """What is wrong with a learning rate, batch size or momentum; nothing if nothing is."""
    if isinstance(value, str) or wrong_kind(value):
        return "must be a finite number"
    if name == "batch_size":
        return (
            ""
            if value >= 1 and float(value).is_integer()
            else "must be a whole number of 1 or more"
        )
    if name == "lr":
        return "" if value > 0 else "must be above 0"
    return "" if 0 <= value < 1 else "must be at least 0 and below 1"


def check_hyper(entry: Entry, fixed: Mapping[str, Any]) -> None:
    """Values fixed in the spec must be of the kind the algorithm declares: word, whole number, sign."""
    for name, value in fixed.items():
        if name in OPTIMIZER:
            continue
        if name not in entry.hypers:
            raise unknown_name(f"hyperparameter of {entry.name}", name, [*entry.hypers, *OPTIMIZER])
        hyper, what = entry.hypers[name], f"{name} of {entry.name}"
        if hyper.choices:
            if value not in hyper.choices:
                raise UserError(f"{what} is '{value}'{suggest(str(value), hyper.choices)}")
            continue
        if isinstance(value, str):
            raise UserError(f"{what} must be a number, and {value!r} was given")
        if isinstance(hyper.default, int) and not float(value).is_integer():
            raise UserError(f"{what} must be a whole number, and {value!r} was given")
        least = min(
            [
                hyper.default,
                *(v for v in getattr(hyper.search, "values", ()) if not isinstance(v, str)),
            ]
        )
        if least >= 0 and value < 0:
            raise UserError(f"{what} must not be negative, and {value!r} was given")
