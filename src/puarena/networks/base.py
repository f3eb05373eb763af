"""What a network on the run axis offers."""

from __future__ import annotations

from torch import Tensor, nn


class RunNetwork(nn.Module):
    """A stack of independent networks: ``[runs, batch, …] -> [runs, batch]`` logits.

    Parameters are ``[runs, …]``, and so are buffers. ``width`` is the largest number of activations of one example in
    a layer, which bounds how many examples go through at once.
    """

    width: int = 512

    def heads(self, x: Tensor) -> Tensor:
        """Return both outputs, ``[runs, batch, 2]``."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Return the logit ``z1 - z0``, ``[runs, batch]``; inputs get no gradient."""
        z = self.heads(x)
        return z[..., 1] - z[..., 0]

    def decays(self) -> list[Tensor]:
        """Return where weight decay acts, one mask per parameter: on weights, not on biases and normalisation."""
        raise NotImplementedError
