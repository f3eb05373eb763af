"""P3MIX-E as released; its ranking in training mode differs with batch normalisation only, and is not reproduced."""

from puarena.algorithms.p3mix_e import P3MixE
from puarena.algorithms.released.common import Released


class ReleasedP3MixE(Released, P3MixE):
    """P3MIX-E, scores ranked by the raw second output."""
