"""Which rows of a table are labeled: the reading of ``y`` for estimators, scores and commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]

POSITIVE, NEGATIVE, UNLABELED = "positive", "negative", "unlabeled"
WORDS = {POSITIVE, NEGATIVE, UNLABELED}  # text that needs no positive label
NUMBERS = {"1", "-1", "0"}  # positive, negative and unlabeled, if all three are there
MAX_LISTED_VALUES = 5  # values in an error message


@dataclass(frozen=True)
class Labels:
    """Labeled positives, known negatives (mostly none), and the two classes of predictions."""

    positive: Flags
    negative: Flags
    # The values for negative (for unlabeled, if no negative is known) and for positive.
    classes: npt.NDArray[Any]

    @property
    def unlabeled(self) -> Flags:
        """Rows without a label."""
        return ~(self.positive | self.negative)

    @property
    def marks(self) -> npt.NDArray[np.int64]:
        """1 for labeled positives, 0 for unlabeled rows, -1 for known negatives."""
        return self.positive.astype(np.int64) - self.negative


def read_labels(y: Any, positive_label: Any = None, negative_label: Any = None) -> Labels:
    """Read which rows of ``y`` are labeled.

    With a ``positive_label`` every other value is unlabeled (the most frequent of them stands for
    all), except ``negative_label`` and the word "negative". Without one, ``y`` may have two numbers
    or bools, of which the greater is positive; 1, 0 and -1 for positive, unlabeled and negative;
    the words "positive", "unlabeled" and "negative"; or one value and missing ones or blanks,
    which are unlabeled. Other text needs a ``positive_label``, because its order means nothing.

    Labels are compared as they are written: 1, 1.0, True and "1" are the same.
    """
    y = np.asarray(y)
    missing = find_missing(y)
    present = y[~missing]
    if len(present) == 0:
        raise ValueError("y is empty: there are neither labeled positives nor unlabeled rows.")
    if present.dtype.kind == "O":
        # numpy finds the kind of the values, such as text or bools.
        present = np.array(present.tolist())
    values, codes, counts = np.unique(present, return_inverse=True, return_counts=True)
    texts = [_normalize(value) for value in values.tolist()]
    _check_label("positive_label", positive_label, values, texts)
    _check_label("negative_label", negative_label, values, texts)
    if positive_label is None:
        positive_text, rest = _choose_positive(values, texts, bool(missing.any()))
    else:
        positive_text = _normalize(positive_label)
        order = np.argsort(-counts, kind="stable")
        others = [values[at] for at in order if texts[at] != positive_text]
        rest = others[0] if others else _unlabeled_value(values)
    negative_text = _choose_negative(texts, positive_text, positive_label, negative_label)

    def find(text: str | None) -> Flags:
        flags = np.zeros(len(y), bool)
        flags[~missing] = np.array([value == text for value in texts], bool)[codes]
        return flags

    positive, negative = find(positive_text), find(negative_text)
    if not positive.any() or (positive | negative).all():
        lack = "unlabeled rows" if positive.any() else "labeled positives"
        what = "contains only one class" if len(values) == 1 else "has the values"
        raise ValueError(
            f"y {what}, {_list(values)}: there are no {lack}. PU learning needs labeled positives "
            "(1) and unlabeled rows (0)."
        )
    other = values[texts.index(str(negative_text))] if negative.any() else rest
    kind = np.result_type(values.dtype, np.asarray(other).dtype)
    classes = np.array([other, values[texts.index(positive_text)]], kind)
    return Labels(positive, negative, classes)


def fill_unlabeled(y: Any, positive_label: Any = None) -> tuple[Any, Any]:
    """Return ``y`` with a value where it is missing, which means unlabeled, and its positive label.

    Other ``y`` stay as they are.
    """
    values = np.asarray(y)
    if y is None or values.ndim != 1 or values.dtype.kind not in "fO":
        return y, positive_label
    missing = find_missing(values)
    if not missing.any() or missing.all():
        return y, positive_label
    labels = read_labels(values, positive_label)
    filled = values.copy()
    filled[missing] = _unlabeled_value(np.array(values[~missing].tolist()))
    return np.array(filled.tolist()), labels.classes[1]


def find_missing(y: npt.NDArray[Any]) -> Flags:
    """Return where labels are missing or blank."""
    if y.dtype.kind == "O":
        import pandas as pd

        return np.asarray(pd.isna(y)) | np.array([_is_blank(value) for value in y], bool)
    if y.dtype.kind == "U":
        return np.char.strip(y) == ""
    return np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), bool)


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _check_label(name: str, label: Any, values: npt.NDArray[Any], texts: list[str]) -> None:
    if label is not None and _normalize(label) not in texts:
        given = label.item() if isinstance(label, np.generic) else label
        message = f"{name}={given!r} is not a valid label: y has the values {_list(values)}."
        raise ValueError(message)


def _choose_positive(
    values: npt.NDArray[Any], texts: list[str], has_missing: bool
) -> tuple[str, Any]:
    """Return the text of labeled positives, and the value that stands for unlabeled rows."""
    known = set(texts)
    is_text = values.dtype.kind == "U"
    if is_text and known <= WORDS:
        return POSITIVE, UNLABELED
    if known == NUMBERS:
        return "1", values[texts.index("0")]
    if len(values) == 1 and has_missing:
        return texts[0], _unlabeled_value(values)
    if is_text and len(values) > 1:
        message = f"y has text, {_list(values)}: name the value of labeled positives"
        raise ValueError(f"{message} with positive_label.")
    if len(values) == 2 and not has_missing:
        return texts[1], values[0]
    if len(values) == 1:
        # All rows are labeled, or none is: an error either way.
        return (texts[0] if values[0] == 1 else ""), None
    raise ValueError(
        "Only binary classification is supported. The type of the target is multiclass: y has "
        f"{len(values)} classes ({_list(values)}){' and missing values' if has_missing else ''}; "
        "name the value of labeled positives with positive_label."
    )


def _choose_negative(
    texts: list[str], positive_text: str, positive_label: Any, negative_label: Any
) -> str | None:
    """Return the text of known negatives; None if there are none."""
    if negative_label is not None:
        text = _normalize(negative_label)
    elif positive_label is None and set(texts) == NUMBERS:
        text = "-1"
    else:
        text = NEGATIVE
    if text == positive_text:
        if negative_label is None:
            return None
        raise ValueError(f"{negative_label!r} cannot stand for positives and for negatives.")
    return text if text in texts else None


def _unlabeled_value(values: npt.NDArray[Any]) -> Any:
    """Return a value for unlabeled rows that are marked by a missing value."""
    return UNLABELED if values.dtype.kind == "U" else values.dtype.type(0)


def _normalize(value: Any) -> str:
    """Return one spelling of a label: 1, 1.0, "1", True and "true" are the same."""
    text = str(value).strip()
    if text.lower() in ("true", "false"):
        return "1" if text.lower() == "true" else "0"
    try:
        return f"{float(text):.15g}"
    except ValueError:
        return text.lower() if text.lower() in WORDS else text


def _list(values: npt.NDArray[Any]) -> str:
    shown = ", ".join(map(repr, values[:MAX_LISTED_VALUES].tolist()))
    return f"{shown}, …" if len(values) > MAX_LISTED_VALUES else shown


def check_weights(weight: npt.NDArray[np.float64] | None, positive: Flags) -> None:
    """Raise an error for weights of which all are zero on one side."""
    for name, side in (("labeled positives", positive), ("unlabeled rows", ~positive)):
        if weight is not None and not weight[side].sum() > 0:
            message = f"sample_weight leaves only one class: the weights of the {name} are zero."
            raise ValueError(message)


def resample_by_weight(
    rows: Any, weight: npt.NDArray[np.float64] | None, rng: np.random.RandomState
) -> Any:
    """Draw as many rows in proportion to their weights, for learners without weights.

    Equal weights change nothing.
    """
    own = None if weight is None else weight[rows]
    if own is None or np.ptp(own) == 0 or own.sum() <= 0:
        return rows
    return rng.choice(rows, len(rows), p=own / own.sum())
