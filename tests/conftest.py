"""What all tests share: their helper modules (goldens, toys) can be imported, and torch uses one
thread.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)
