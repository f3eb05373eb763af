"""Triton kernels for stacks of networks. The modules in here import Triton; this one says whether
they may be imported.

Everything the kernels do has a plain counterpart in torch's own operations beside the networks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")


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


@lru_cache(maxsize=8)
def find_shared_memory_bytes(device: torch.device) -> int:
    """Return the shared memory that a block may have on a device; in the interpreter any."""
    if device.type != "cuda":
        return 1 << 30
    from triton.runtime import driver

    number = torch.cuda.current_device() if device.index is None else device.index
    return int(driver.active.utils.get_device_properties(number)["max_shared_mem"])


def fit_stages(x: Tensor, stages: int, tile: int) -> int:
    """Return as many stages, up to ``stages``, as fit in shared memory with tiles of so many
    elements: all but one are kept there.
    """
    tiles = find_shared_memory_bytes(x.device) // (tile * x.element_size())
    return max(1, min(stages, 1 + tiles))


def enter_device(launch: Callable[..., Result]) -> Callable[..., Result]:
    """Launch on the device of the first argument: Triton launches on the current one."""

    @wraps(launch)
    def launch_there(first: Tensor, *others: Any, **options: Any) -> Result:
        if not first.is_cuda:  # in the interpreter
            return launch(first, *others, **options)
        with torch.cuda.device(first.device):
            return launch(first, *others, **options)

    return launch_there
