"""Letter Recognition with every feature brought to mean 0 and deviation 1, beside the paper's raw integers."""

from __future__ import annotations

from puarena.data.sets import letter
from puarena.data.standardised import Standardised

READERS = (Standardised(letter),)
