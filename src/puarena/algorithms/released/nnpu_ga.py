"""nnPU-GA as published: the sign of the whole risk decides, and the whole gradient is flipped."""

from torch import Tensor

from puarena.algorithms.core.losses import with_value
from puarena.algorithms.nnpu_ga import NNPUGA
from puarena.algorithms.released.common import Released


class ReleasedNNPUGA(Released, NNPUGA):
    """Step on ``|prior mean_P[l+ - l-] + mean_U l-|``."""

    differs = "A negative unbiased risk flips the gradient of all of it, the positive part included; no tolerance, no scale."

    beta, gamma = 0.0, 1.0

    def ascent(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Report the risk, step on its absolute value."""
        positive, negative = self.risk_parts(f_p, f_u)
        return with_value((positive + negative).abs(), positive + negative)
