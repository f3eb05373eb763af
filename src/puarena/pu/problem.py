"""A problem: a dataset, which classes are positive, and how labels are given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import InitVar, asdict, dataclass
from typing import Any

from puarena import paper
from puarena.errors import UserError
from puarena.pu import labeling as mechanisms
from puarena.pu.sizes import Sizes, compute_sizes

MIN_SIZE = 10  # of P and of U; a tenth of which is held out
PROBLEM_COLUMNS = ("dataset", "case", "setting", "rate", "prior", "labeling")


@dataclass(frozen=True)
class Problem:
    """One PU problem; results store its fields in ``PROBLEM_COLUMNS``.

    ``check=False`` accepts stored values as they are: results of another installation may have
    settings and mechanisms that are not known here. Drawing data needs a checked problem.
    """

    dataset: str
    case: int = 1
    setting: str = mechanisms.DEFAULT_SETTING  # the code of a setting; its title is accepted
    rate: float = paper.RATE  # labeled positives / all training examples
    prior: float | None = None  # None: the dataset's own; NaN: not known (of stored results)
    labeling: str = mechanisms.SCAR  # which positives are labeled
    labeled: int | None = None  # sizes instead of a rate, which then follows from them
    unlabeled: int | None = None
    check: InitVar[bool] = True

    def __post_init__(self, check: bool) -> None:
        if not check:
            if self.prior is not None and math.isnan(self.prior):
                # Always the same NaN object, so that problems with an unknown prior are equal.
                object.__setattr__(self, "prior", math.nan)
            return
        if isinstance(self.case, bool) or not isinstance(self.case, int) or self.case < 1:
            raise UserError(
                f"the case must be a whole number from 1, and {self.case!r} was given",
                "invalid-value",
            )
        object.__setattr__(self, "setting", mechanisms.get_setting(self.setting).code)
        object.__setattr__(self, "labeling", mechanisms.get_mechanism(self.labeling).text)
        if self.labeled is not None or self.unlabeled is not None:
            object.__setattr__(self, "rate", _compute_rate(self.labeled, self.unlabeled))
        object.__setattr__(self, "rate", _check_share("positive rate", self.rate))
        if self.observed and self.prior is not None and math.isnan(self.prior):
            object.__setattr__(self, "prior", math.nan)
        elif self.prior is not None:
            object.__setattr__(self, "prior", _check_share("class prior", self.prior))

    @classmethod
    def from_columns(cls, row: Mapping[str, Any]) -> Problem:
        """Return the problem of a row of results; a prior that is missing is not known."""
        values = {name: row[name] for name in PROBLEM_COLUMNS}
        if values["prior"] is None:
            values["prior"] = math.nan
        return cls(**values, check=False)

    def to_columns(self) -> dict[str, Any]:
        """Return the values of ``PROBLEM_COLUMNS``."""
        return {name: getattr(self, name) for name in PROBLEM_COLUMNS}

    def identity(self) -> dict[str, Any]:
        """Return what tells it from other problems; seeds and run ids are digests of this."""
        content = asdict(self)
        mechanism = content.pop("labeling")
        if not self._knows_prior:
            content["prior"] = None
        if mechanism != mechanisms.SCAR:
            content["labelling"] = mechanism  # seeds depend on this spelling
        if self.labeled is None:
            del content["labeled"], content["unlabeled"]
        return content

    def sizes(self, size: int, prior: float, base: float) -> Sizes:
        """Return the sizes of a draw from a sample of ``size``, thinned from the prior ``base``."""
        if self.labeled is not None and self.unlabeled is not None:
            return Sizes(self.labeled, self.unlabeled)
        return compute_sizes(size, self.rate, prior, base)

    @property
    def title(self) -> str:
        """The problem as a heading."""
        setting = find_setting(self.setting)
        name = f"{setting.title} ({setting.short})" if setting else self.setting
        rate = f"{100 * self.rate:.4g}% positive rate"
        prior = f", class prior {self.prior:.3g}" if self._knows_prior else ""
        return f"{self.dataset}, case {self.case}, {name}, {rate}{prior}{self.labeling_note}"

    def label(self, prior: bool = False) -> str:
        """Return a short title, ``letter, case 1, OS 30%``, with the ``prior`` if it is known."""
        rate = f"{self.short} {100 * self.rate:.4g}%"
        last = f", prior {self.prior:.3g}" if prior and self._knows_prior else ""
        return f"{self.dataset}, case {self.case}, {rate}{last}{self.labeling_note}"

    @property
    def short(self) -> str:
        """The setting in two letters."""
        setting = find_setting(self.setting)
        return setting.short if setting else self.setting

    @property
    def one_sample(self) -> bool:
        """Are the labeled examples part of the marginal sample?"""
        setting = find_setting(self.setting)
        return setting is not None and setting.one_sample

    @property
    def labeling_note(self) -> str:
        """The mechanism, if labels are not given at random; to be appended to a title."""
        if self.labeling == mechanisms.SCAR:
            return ""
        if self.observed:
            return ", observed labels"
        return f", labels by {mechanisms.describe_mechanism(self.labeling).short}"

    @property
    def observed(self) -> bool:
        """Were the labels given by the world, and not simulated?"""
        return self.labeling == mechanisms.OBSERVED

    @property
    def _knows_prior(self) -> bool:
        return self.prior is not None and not math.isnan(self.prior)


def find_setting(code: str) -> mechanisms.Setting | None:
    """Return a setting by its code; None if it is not known here."""
    known = {setting.code: setting for setting in mechanisms.list_settings()}
    return known.get(code)


def _compute_rate(labeled: object, unlabeled: object) -> float:
    """Return the rate of a problem that is given by its sizes."""
    for size in (labeled, unlabeled):
        if isinstance(size, bool) or not isinstance(size, int) or size < MIN_SIZE:
            raise UserError(
                f"`labeled` and `unlabeled` go together, and are whole numbers of at least "
                f"{MIN_SIZE}, but {labeled!r} and {unlabeled!r} were given",
                "invalid-value",
            )
    return labeled / (labeled + unlabeled)  # type: ignore[operator]


def _check_share(name: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < 1 or isinstance(value, bool):
        raise UserError(
            f"the {name} must lie strictly between 0 and 1, and {value!r} was given",
            "invalid-value",
        )
    return number
