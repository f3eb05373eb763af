"""uPU as published: the objective is the definition's, the score is the raw second output."""

from puarena.algorithms.released.common import Released
from puarena.algorithms.upu import UPU


class ReleasedUPU(Released, UPU):
    """uPU that ranks by the raw second output."""

    differs = "AUC and PAUC rank by the raw second output."
