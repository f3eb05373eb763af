"""P3MIX-C as released; its ranking in training mode differs with batch normalization only, and is not reproduced."""

from puarena.algorithms.p3mix_c import P3MixC
from puarena.algorithms.released.common import Released


class ReleasedP3MixC(Released, P3MixC):
    """P3MIX-C, scores ranked by the raw second output."""
