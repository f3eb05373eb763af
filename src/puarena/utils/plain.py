"""Values as JSON holds them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any


def to_plain(value: Any, digits: int | None = None) -> Any:
    """Return a value as JSON can hold it.

    Dataclasses become dictionaries, numpy's numbers become Python's, and a number that is not
    finite becomes None. With ``digits``, floats are rounded to so many significant digits, and
    whole floats become integers.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return to_plain(asdict(value), digits)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, digits) for key, item in value.items()}
    if isinstance(value, (Sequence, Set)) and not isinstance(value, str):
        return [to_plain(item, digits) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return _plain_float(value, digits)
    return value


def _plain_float(value: float, digits: int | None) -> float | int | None:
    if not math.isfinite(value):
        return None
    if digits is None:
        return value
    return int(value) if value.is_integer() else float(f"{value:.{digits}g}")


def to_json(value: Any) -> str:
    """Return a value as JSON in one line; NaN and infinity become null."""
    return json.dumps(to_plain(value), ensure_ascii=False, allow_nan=False)
