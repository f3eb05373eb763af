"""Names made from content: equal content, equal name, on every machine."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from puarena.errors import UserError


def canonical(content: Any) -> str:
    """JSON with sorted keys and no spaces."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(content: Any, length: int = 16) -> str:
    """The first hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(content).encode()).hexdigest()[:length]


def file_digest(path: str | Path) -> str:
    """Sixteen hexadecimal digits over a file's bytes."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError:
        raise UserError(f"the file {path} cannot be read") from None
