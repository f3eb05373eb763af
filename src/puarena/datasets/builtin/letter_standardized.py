"""Letter Recognition with every feature brought to mean 0 and deviation 1, beside the paper's raw integers."""

from __future__ import annotations

from puarena.datasets.builtin import letter
from puarena.datasets.standardized import Standardized

READERS = (Standardized(letter),)
