"""P3MIX-C: partially positive mixup with label correction.

Li, Li, Feng, Ouyang: Who is your right mixup partner in positive and unlabeled learning. ICLR 2022.
"""

from torch import Tensor

from puarena.algorithms._base import Hyper
from puarena.algorithms._losses import col
from puarena.algorithms.p3mix import P3Mix


class P3MixC(P3Mix):
    """``mean_P CE + mean_U CE + w_ent mean H`` on mixed points.

    Targets: 1 on P, 0 on U, but from epoch 5 on 1 if ``s >= gamma``. Partners: positives near the
    boundary for unlabeled points in doubt, any member of the batch for the others.
    """

    name, title = "p3mix-c", "P3MIX-C"
    cost = 1.5

    gamma = Hyper(
        0.8,
        "scores at or above gamma become positive; between 1 - gamma and gamma a point is in doubt",
    )
    w_entropy = Hyper(0.1, "weight of the entropy of all predictions")

    def corrected(self, s_u: Tensor) -> Tensor:
        """Return the targets of the unlabeled points: 1 where the score reaches gamma."""
        return (s_u >= col(self.gamma)).to(s_u.dtype)
