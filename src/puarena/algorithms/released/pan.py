"""PAN as published: the authors' script, which is the definition here; the score is the raw second output."""

from typing import Any

from puarena.algorithms.pan import PAN
from puarena.algorithms.released.common import Released


class ReleasedPAN(Released, PAN):
    """PAN with 0.01 inside the logarithms and ``max(log(1-D) - log(1 - mean_U D), 0)`` for ``log(1-D)`` on U."""

    differs = "AUC and PAUC rank by the raw second output; the game is the definition's, without the plain form."

    form: Any = "hinge"  # no choice here
