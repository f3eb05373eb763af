"""Until data.labelling is there."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT, SCAR = "os", "scar"


class Setting(NamedTuple):
    """A setting."""

    code: str
    title: str
    short: str
    meaning: str
    one_sample: bool


def settings() -> list[Setting]:
    """All."""
    one = "One set of examples is drawn, some of its positives get a label, and the rest is the unlabeled set."
    two = "Positives and unlabeled examples are drawn separately."
    return [Setting("os", "one-sample", "OS", one, True), Setting("ts", "two-sample", "TS", two, False)]
