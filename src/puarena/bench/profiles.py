"""Whose choices a benchmark follows, as a whole: the definitions', or those of the published code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True)
class Views:
    """Names of the weak and the strong view a dataset is trained with and of the view that evaluation has of it; None
    leaves inputs as they are."""

    weak: str | None = None
    strong: str | None = None
    evaluation: str | None = None


_IMAGES = {name: Views(f"{name}-weak", f"{name}-strong", f"{name}-eval") for name in ("cifar10", "imagenette")}


@dataclass(frozen=True)
class Profile:
    """The choices that belong together.

    ``variant`` is the form of an algorithm that is run where there is one; ``own_data`` gives every run its
    own draw of P, U and validation data instead of one per trial; ``criteria`` are the columns of its tables.
    """

    name: str
    meaning: str
    variant: str = ""
    calibration: str = "weighted"
    draws: str = "shared"
    default_batch: int | None = None  # of configuration 0, where not the paper's
    own_data: bool = False
    views: Mapping[str, Views] = field(default_factory=lambda: MappingProxyType(_IMAGES))
    criteria: tuple[str, ...] = ("pa", "pauc", "oa")

    def views_of(self, dataset: str) -> Views:
        """Return the views a dataset is trained with."""
        return self.views.get(dataset, Views())


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("definition", "the algorithms as their papers define them, under the benchmark paper's protocol"),
        Profile(
            "released",
            "what the published code ran: its variants of the algorithms, batch-union calibration, its proxy accuracy, "
            "the raw second output for AUC and PAUC, draws of configurations and data per run, mirrored USPS digits",
            variant="released",
            calibration="batch-union",
            draws="per-split",
            default_batch=64,
            own_data=True,
            views=MappingProxyType({**_IMAGES, "usps": Views("usps-weak", "usps-strong")}),
            criteria=("pa-released", "pauc", "oa"),
        ),
    )
}
