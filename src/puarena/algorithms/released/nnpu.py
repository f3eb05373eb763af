"""nnPU as published: the objective is the definition's, the score is the raw second output."""

from puarena.algorithms.nnpu import NNPU
from puarena.algorithms.released.common import Released


class ReleasedNNPU(Released, NNPU):
    """nnPU that ranks by the raw second output."""

    differs = "AUC and PAUC rank by the raw second output."
