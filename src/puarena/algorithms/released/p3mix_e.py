"""P3MIX-E as released; its ranking in training mode differs with batch normalization only, and is not reproduced."""

from puarena.algorithms.p3mix_e import P3MixE
from puarena.algorithms.released.common import Released


class ReleasedP3MixE(Released, P3MixE):
    """P3MIX-E, scores ranked by the raw second output; its teacher averages from the initial weights on."""

    differs = (
        "The first average of the teacher, of decay 0, is taken at the very beginning, so that the initial weights "
        "count as one of the networks that are averaged; AUC and PAUC rank by the raw second output."
    )

    first_update = 1
