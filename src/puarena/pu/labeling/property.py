"""Only positives that look a certain way are labeled: VAE-PU's selection (Na et al., CIKM 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError, suggest
from puarena.pu.labeling.base import Candidates, Chances, Mechanism
from puarena.utils.counts import spread

KINDS = ("bold", "red")


@dataclass(frozen=True)
class ByProperty(Mechanism):
    """Of every class those with the most of a property, the share of labels being the class's share of the candidates.

    ``bold``: the sum of all pixels; ``red``: the sum of ``((R - G) + (R - B)) / 2``. Nobody else has any chance, so no
    weighting can repair it.
    """

    name = "property"
    meaning = "only the positives that look a certain way are labeled, and all others never"
    aliases: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vae-pu": {}}

    kind: str = "bold"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(
                f"kind of labeling property is '{self.kind}'{suggest(self.kind, KINDS)}"
            )

    def propensity(self, candidates: Candidates) -> Chances:
        """Return 1 for those that are labeled and 0 for the others."""
        if candidates.pixels is None:
            raise UserError(
                f"labeling property looks at images, and '{candidates.dataset.name}' has none"
            )
        values = self.amount(candidates.pixels)
        chances = np.zeros(len(values))
        groups = [
            np.flatnonzero(candidates.classes == label) for label in np.unique(candidates.classes)
        ]
        shares = spread(candidates.labels, np.array([len(group) for group in groups]))
        for group, share in zip(groups, shares, strict=True):
            order = np.lexsort(
                (candidates.index[group], -values[group])
            )  # equal values: the earlier example first
            chances[group[order[:share]]] = 1.0
        return chances

    def amount(self, images: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return how much of the property every image has."""
        pixels = images.astype(np.float64)
        if self.kind == "bold":
            return np.asarray(pixels.reshape(len(pixels), -1).sum(1))
        if pixels.ndim != 4 or pixels.shape[1] != 3:
            raise UserError(
                "labeling property(kind=red) needs images with 3 colors, and these have 1"
            )
        red, green, blue = pixels.swapaxes(0, 1).reshape(3, len(pixels), -1).sum(-1)
        return np.asarray(red - (green + blue) / 2)


MECHANISM = ByProperty
