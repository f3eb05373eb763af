"""Triton kernels for stacks of networks. The modules in here import Triton; this one says whether
they may be imported.

Everything the kernels do has a plain counterpart in torch's own operations beside the networks.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=1)
def installed() -> bool:
    """Does this torch bring Triton? Builds for CUDA do."""
    try:
        import triton.language  # noqa: F401
    except ImportError:
        return False
    return True


def available(parameters: Tensor) -> bool:
    """Can the kernels be used on these parameters? On CUDA, in float32."""
    return parameters.is_cuda and parameters.dtype == torch.float32 and installed()
