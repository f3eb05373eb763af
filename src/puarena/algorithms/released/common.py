"""What all released variants share."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from puarena.algorithms.core.base import Algorithm


class SecondOutput(nn.Module):
    """A network seen through its raw second output ``z1``."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        """Return ``z1``."""
        return self.network.heads(x)[..., 1]


class Released(Algorithm):
    """Mixin: AUC and PAUC rank by the raw second output ``z1`` instead of ``f = z1 - z0``."""

    variant = "released"

    def predictor(self) -> Any:
        """Return the network that predicts."""
        return self.f

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``z1 - z0`` and ``z1``."""
        z = self.predictor().heads(x)
        return z[..., 1] - z[..., 0], z[..., 1]
