"""Self-PU as its authors' code runs it where the objective differs: without the consistency term.

Chen, Chen, Chen, Yuan, Gong, Chen, Wang: Self-PU: Self boosted and calibrated positive-unlabeled training. ICML 2020.
"""

import torch
from torch import Tensor

from puarena.algorithms.self_pu import SelfPU


class ReleasedSelfPU(SelfPU):
    """Self-PU whose consistency term compares softmaxes of single logits, which are all 1: it is zero."""

    variant = "released"

    def consistency(self, s: Tensor, s_teacher: Tensor) -> Tensor:
        """Return zero."""
        return torch.zeros_like(s[..., 0])
