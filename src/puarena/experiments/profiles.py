"""Whose choices a benchmark follows, as a whole: the definitions', or those of the published code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """The choices that belong together.

    ``variant`` is the form of an algorithm that is run where there is one; ``own_data`` gives every run its
    own draw of P, U and validation data instead of one per trial. Views are the datasets' matter.
    """

    name: str
    meaning: str
    variant: str = ""
    calibration: str = "weighted"
    draws: str = "per-split"
    default_batch: int | None = None  # of configuration 0, where not the paper's
    own_data: bool = False


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "definition",
            "the algorithms as their papers define them, under the benchmark paper's protocol",
        ),
        Profile(
            "released",
            "what the published code ran: its variants of the algorithms, batch-union calibration, its proxy accuracy, "
            "the raw second output for AUC and PAUC, draws of configurations and data per run, mirrored USPS digits",
            variant="released",
            calibration="batch-union",
            default_batch=64,
            own_data=True,
        ),
    )
}
