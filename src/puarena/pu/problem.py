"""A problem: a dataset, which classes are positive, and how labels are given."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, cast

from puarena.errors import UserError
from puarena.pu import labeling as ways
from puarena.pu.sizes import Sizes, sizes

FEWEST = 10  # of which a tenth is held out


@dataclass(frozen=True)
class Problem:
    """One PU problem. ``prior=None`` means the dataset's default."""

    dataset: str
    case: int = 1
    setting: str = ways.DEFAULT  # the code of a setting; its title will do
    rate: float = 0.3  # labeled positives / all training examples
    prior: float | None = None
    labeling: str = ways.SCAR  # who among the positives is labeled
    labeled: int | None = None  # sizes in place of a rate: both or neither; the rate is then theirs
    unlabeled: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "setting", ways.get(self.setting).code)
        object.__setattr__(self, "labeling", ways.mechanism(self.labeling).text)
        if isinstance(self.case, bool) or not isinstance(self.case, int) or self.case < 1:
            raise UserError(f"the case must be a whole number from 1, but {self.case!r} was given")
        if self.labeled is not None or self.unlabeled is not None:
            labeled, unlabeled = sizes_given(self.labeled, self.unlabeled)
            object.__setattr__(self, "rate", labeled / (labeled + unlabeled))
        object.__setattr__(self, "rate", _inside_unit("positive rate", self.rate))
        if self.prior is not None:
            object.__setattr__(self, "prior", _inside_unit("class prior", self.prior))

    def identity(self) -> dict[str, Any]:
        """Return the fields that tell it from other problems: seeds and names of runs are made of them."""
        content = asdict(self)
        mechanism = content.pop("labeling")
        if mechanism != ways.SCAR:
            content["labelling"] = mechanism  # seeds depend on this spelling
        if self.labeled is None:
            del content["labeled"], content["unlabeled"]
        return content

    def sizes(self, size: int, prior: float, base: float) -> Sizes:
        """Return how many examples a draw has: as given, or from a sample of ``size`` thinned from ``base``."""
        if self.labeled is not None and self.unlabeled is not None:
            return Sizes(self.labeled, self.unlabeled)
        return sizes(size, self.rate, prior, base)


def sizes_given(labeled: object, unlabeled: object) -> tuple[int, int]:
    """Check sizes that stand in place of a rate."""
    both = labeled, unlabeled
    if any(isinstance(size, bool) or not isinstance(size, int) or size < FEWEST for size in both):
        raise UserError(
            f"`labeled` and `unlabeled` are whole numbers of at least {FEWEST} and go together, but "
            f"{labeled!r} and {unlabeled!r} were given"
        )
    return cast(tuple[int, int], both)


def _inside_unit(what: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < 1 or isinstance(value, bool):
        raise UserError(f"the {what} must lie strictly between 0 and 1, but {value!r} was given")
    return number
