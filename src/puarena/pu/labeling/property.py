"""Only positives that look a certain way are labeled: VAE-PU's selection (Na et al., CIKM 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError, suggest
from puarena.pu.labeling.base import Candidates, Chances, Mechanism
from puarena.utils.counts import allocate

KINDS = ("bold", "red")


@dataclass(frozen=True)
class ByProperty(Mechanism):
    """The examples of every class with the most of a property are labeled, and no others.

    A class gets labels in proportion to its candidates. ``bold``: the sum of all pixels; ``red``:
    the sum of ``((R - G) + (R - B)) / 2``. No weighting can repair this bias, since all other
    examples have no chance at all.
    """

    name = "property"
    meaning = "only the positives that look a certain way are labeled, and all others never"
    aliases: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vae-pu": {}}

    kind: str = "bold"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            message = f"kind of labeling property is '{self.kind}'{suggest(self.kind, KINDS)}"
            raise UserError(message, "unknown-name")

    def propensity(self, candidates: Candidates) -> Chances:
        """Return 1 for the labeled candidates and 0 for the others."""
        if candidates.pixels is None:
            name = candidates.dataset.name
            message = f"labeling property needs images, and '{name}' has none"
            raise UserError(message, "not-supported")
        values = self.amount(candidates.pixels)
        chances = np.zeros(len(values))
        labels = np.unique(candidates.classes)
        groups = [np.flatnonzero(candidates.classes == label) for label in labels]
        shares = allocate(candidates.labels, np.array([len(group) for group in groups]))
        for group, share in zip(groups, shares, strict=True):
            # Of equal values the earlier example comes first.
            order = np.lexsort((candidates.index[group], -values[group]))
            chances[group[order[:share]]] = 1.0
        return chances

    def amount(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return how much of the property every image has."""
        pixels = images.astype(np.float64)
        if self.kind == "bold":
            return np.asarray(pixels.reshape(len(pixels), -1).sum(1))
        if pixels.ndim != 4 or pixels.shape[1] != 3:
            message = "labeling property(kind=red) needs images with 3 colors, and these have 1"
            raise UserError(message, "not-supported")
        red, green, blue = pixels.swapaxes(0, 1).reshape(3, len(pixels), -1).sum(-1)
        return np.asarray(red - (green + blue) / 2)


MECHANISM = ByProperty
