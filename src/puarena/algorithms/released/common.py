"""What all released variants share."""

from __future__ import annotations

from torch import Tensor, nn

from puarena.algorithms.base import Algorithm


class Released(Algorithm):
    """Mixin: AUC and PAUC rank by the raw second output ``z1`` instead of ``f = z1 - z0``."""

    def predictor(self) -> nn.Module:
        """Return the network that predicts."""
        return self.f

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``z1 - z0`` and ``z1``."""
        z = self.predictor().heads(x)
        return z[..., 1] - z[..., 0], z[..., 1]
