"""Shared test data: a small two-dimensional PU problem with a known prior, and where the real files are."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # tests share helper modules (goldens, toys)
torch.set_num_threads(1)


@pytest.fixture
def rng():
    return np.random.default_rng(20260)
