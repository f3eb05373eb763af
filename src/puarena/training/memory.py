"""Keep a fleet's temporaries: glibc by default maps and unmaps large blocks at every step."""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP = 1 << 30


@lru_cache(maxsize=1)
def keep_freed_memory() -> bool:
    """Raise glibc's thresholds so that freed temporaries are reused; return whether that was possible."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _KEEP)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEEP))
