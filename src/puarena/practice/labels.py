"""Which rows of a table are labeled positives."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def labeled_rows(y: Any, positive_label: Any = None) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
    """Return which rows are labeled, and the two classes: the one that stands for unlabeled, and the positive one.

    Without a ``positive_label`` there must be two values, and the greater one is positive. With one, every other value
    is unlabeled; the most frequent of them stands for all.
    """
    y = np.asarray(y)
    values, counts = np.unique(y, return_counts=True)
    shown = ", ".join(map(repr, values[:5].tolist()))
    if len(values) == 0:
        raise ValueError("y is empty: there are neither labeled positives nor unlabeled rows.")
    if positive_label is not None:
        is_it = values == positive_label
        if not np.any(is_it):
            raise ValueError(f"positive_label={positive_label!r} is not a valid label: y has no labeled positives.")
        if len(values) == 1:
            raise ValueError(f"y contains only one class, {shown}: there are no unlabeled rows.")
        rest = values[~is_it][np.argmax(counts[~is_it])]
        return y == positive_label, np.array([rest, values[is_it][0]], dtype=values.dtype)
    if len(values) == 1:
        missing = "unlabeled rows" if values[0] in (1, True) else "labeled positives"
        raise ValueError(
            f"y contains only one class, {shown}: there are no {missing}. PU learning needs labeled positives (1) and "
            "unlabeled rows (0)."
        )
    if len(values) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: y has "
            f"{len(values)} classes ({shown}{', …' if len(values) > 5 else ''}); give positive_label to name the one "
            "that marks labeled positives."
        )
    return y == values[1], values
