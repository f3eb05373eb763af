"""Examples as rows of a table, for methods that know nothing of images."""

from __future__ import annotations

import numpy as np

from puarena.data import Dataset


def as_table(dataset: Dataset, index: np.ndarray) -> np.ndarray:
    """Examples as rows of floats, ``[n, features]``; of images the pixels in 0..1, as evaluation sees them."""
    stored = dataset.features if dataset.evaluation is None else dataset.evaluation
    rows = stored[index].reshape(len(index), -1)
    return rows / np.float32(255) if rows.dtype == np.uint8 else rows
