"""Passes over whole index sets in evaluation mode, in chunks that bound memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 22}
_WIDTH = 512  # activations per example that a chunk is sized for, beside its features


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Switch a module to evaluation mode and every part of it back to its own, without gradients."""
    was = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in was:
            part.training = training


def over(features: Tensor, index: Tensor, function: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Apply ``function`` to the inputs of ``index`` (``[runs, n]``) chunk by chunk and join along the last axis."""
    runs, n = index.shape
    width = max(_WIDTH, features[0].numel())
    chunk = max(1, _ELEMENTS.get(features.device.type, 1 << 22) // (runs * width))
    parts = [function(features[index[:, i : i + chunk]]) for i in range(0, n, chunk)]
    return tuple(torch.cat(p, -1) for p in zip(*parts, strict=True))


class TrainingPasses:
    """Logits of whole training sets, for hooks between steps."""

    def __init__(self, features: Tensor, p_train: Tensor, u_train: Tensor) -> None:
        self.features, self.p_train, self.u_train = features, p_train, u_train

    def _all(self, network: nn.Module, index: Tensor) -> Tensor:
        with evaluation_mode(network):
            return over(self.features, index, lambda x: (network(x),))[0]

    def p(self, network: nn.Module) -> Tensor:
        """Return a network's logits on all training positives, ``[runs, n_p]``."""
        return self._all(network, self.p_train)

    def u(self, network: nn.Module) -> Tensor:
        """Return a network's logits on all unlabeled training points, ``[runs, n_u]``."""
        return self._all(network, self.u_train)

    def x_p(self, position: Tensor) -> Tensor:
        """Return the inputs of training positives at ``[runs, k]`` positions, ``[runs, k, …]``."""
        return self.features[self.p_train.gather(1, position)]
