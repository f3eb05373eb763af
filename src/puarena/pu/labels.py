"""Which rows of a table are labeled: the one reading of ``y`` that estimators, scores, splits and priors share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]

WORDS = ("positive", "negative", "unlabeled")  # text that says itself what it means
NUMBERS = (1, -1, 0)  # the same as numbers, where all three are there


@dataclass(frozen=True)
class Labels:
    """Labeled positives, known negatives (mostly none), and the two classes that predictions are made of."""

    positive: Flags
    negative: Flags
    classes: npt.NDArray[
        Any
    ]  # what stands for negative (for unlabeled, where no negative is known), and positive

    @property
    def unlabeled(self) -> Flags:
        """Rows without a label."""
        return ~(self.positive | self.negative)


def read_labels(y: Any, positive_label: Any = None) -> Labels:
    """Read ``y``.

    With a ``positive_label`` every other value is unlabeled (the most frequent of them stands for all), but for the
    word "negative". Without one, ``y`` is of two numbers or bools, of which the greater is positive; of 1, 0 and -1:
    positive, unlabeled and negative; or of the words "positive", "unlabeled" and "negative". Other text needs
    ``positive_label``: the order of the alphabet says nothing.
    """
    y = np.asarray(y)
    if y.dtype.kind == "O" and y.size and all(isinstance(value, str) for value in y):
        y = y.astype(str)
    values, counts = np.unique(y, return_counts=True)
    shown = ", ".join(map(repr, values[:5].tolist())) + (", …" if len(values) > 5 else "")
    text = values.dtype.kind in "USO"
    if len(values) == 0:
        raise ValueError("y is empty: there are neither labeled positives nor unlabeled rows.")
    if positive_label is not None:
        if not np.any(values == positive_label):
            raise ValueError(
                f"positive_label={positive_label!r} is not a valid label: y has no labeled positives."
            )
        positive, negative = (
            y == positive_label,
            (y == WORDS[1]) & (y != positive_label) if text else y != y,
        )
        rest = values != positive_label
        others = values[rest][np.argmax(counts[rest])] if rest.any() else None
    elif text and set(values.tolist()) <= set(WORDS):
        positive, negative, others = y == WORDS[0], y == WORDS[1], WORDS[2]
    elif text and len(values) > 1:
        raise ValueError(
            f"y has text, {shown}: name the value that marks labeled positives with positive_label."
        )
    elif len(values) == 3 and set(values.tolist()) == set(NUMBERS):
        positive, negative, others = y == NUMBERS[0], y == NUMBERS[1], NUMBERS[2]
    elif len(values) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: y has "
            f"{len(values)} classes ({shown}); give positive_label to name the one that marks labeled positives."
        )
    else:
        positive = y == values[-1] if len(values) == 2 or values[0] in (1, True) else y != y
        negative, others = np.zeros(len(y), bool), values[0]
    if len(values) == 1 or positive.all() or not positive.any() or (positive | negative).all():
        missing = "labeled positives" if not positive.any() else "unlabeled rows"
        raise ValueError(
            f"y contains only one class, {shown}: there are no {missing}. PU learning needs labeled positives (1) and "
            "unlabeled rows (0)."
            if len(values) == 1
            else f"y has no {missing}: its values are {shown}."
        )
    other = y[negative][0] if negative.any() else others
    return Labels(
        positive, np.asarray(negative, bool), np.array([other, y[positive][0]], dtype=values.dtype)
    )


def check_weights(weight: npt.NDArray[np.float64] | None, positive: Flags) -> None:
    """Refuse weights that leave no labeled positive, or nothing beside them."""
    for name, side in (("labeled positives", positive), ("unlabeled rows", ~positive)):
        if weight is not None and not weight[side].sum() > 0:
            raise ValueError(
                f"sample_weight leaves only one class: the weights of the {name} are all zero."
            )


def resampled(rows: Any, weight: npt.NDArray[np.float64] | None, rng: np.random.RandomState) -> Any:
    """As many rows, each as often as its weight says, for learners that know no weights; equal ones change nothing."""
    own = None if weight is None else weight[rows]
    if own is None or np.ptp(own) == 0 or own.sum() <= 0:
        return rows
    return rng.choice(rows, len(rows), p=own / own.sum())


def plain(value: Any) -> str:
    """A label as it is written: 1, 1.0 and '1' are the same, and so are True and 'true'."""
    try:
        return (
            f"{float(value):g}" if not isinstance(value, (bool, np.bool_)) else str(value).lower()
        )
    except (TypeError, ValueError):
        text = str(value).strip()
        return text.lower() if text.lower() in ("true", "false", *WORDS) else text
