"""A problem: a dataset, which classes are positive, and how labels are given."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from puarena.data import labelling as ways
from puarena.errors import UserError


@dataclass(frozen=True)
class Problem:
    """One PU problem. ``prior=None`` means the dataset's default."""

    dataset: str
    case: int = 1
    setting: str = ways.DEFAULT  # the code of a setting; its title will do
    rate: float = 0.3  # labeled positives / all training examples
    prior: float | None = None
    labelling: str = ways.SCAR  # who among the positives is labeled

    def __post_init__(self) -> None:
        object.__setattr__(self, "setting", ways.get(self.setting).code)
        object.__setattr__(self, "labelling", ways.mechanism(self.labelling).text)
        if isinstance(self.case, bool) or not isinstance(self.case, int) or self.case < 1:
            raise UserError(f"the case must be a whole number from 1, but {self.case!r} was given")
        object.__setattr__(self, "rate", _inside_unit("positive rate", self.rate))
        if self.prior is not None:
            object.__setattr__(self, "prior", _inside_unit("class prior", self.prior))

    def identity(self) -> dict[str, Any]:
        """Return the fields that tell it from other problems: seeds and names of runs are made of them."""
        content = asdict(self)
        if self.labelling == ways.SCAR:  # as it was before there was a choice
            del content["labelling"]
        return content


def _inside_unit(what: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < 1 or isinstance(value, bool):
        raise UserError(f"the {what} must lie strictly between 0 and 1, but {value!r} was given")
    return number
