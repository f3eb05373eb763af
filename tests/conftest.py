"""What all tests share: their helper modules (goldens, toys) can be imported, torch uses one
thread, and there is a CUDA device.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless browser; the test is skipped without one."""
    from browsers import open_browser

    with open_browser() as found:
        yield found


if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is first imported


@pytest.fixture
def cuda():
    """A CUDA device: a real one if there is one, and else a pretended one."""
    from puarena.testing.pretended import pretend

    if torch.cuda.is_available():
        yield
    else:
        with pretend():
            yield
