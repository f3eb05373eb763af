"""Propensities that a practitioner knows: how likely a positive row was to be labeled.

They make P representative again: a labeled row with propensity e stands for 1/e positives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from puarena import catalog
from puarena.pu.labeling import Setting

Floats = npt.NDArray[np.float64]
Z = 1.96  # of a 95 % interval


def check_propensity(clf: Any, propensity: Any, labeled: npt.NDArray[np.bool_]) -> Floats | None:
    """Return the propensities of all rows, or None; refuse them where the method cannot use them or they are none."""
    entry = (
        catalog.get(clf.algorithm)
        if isinstance(clf.algorithm, str) and clf.algorithm != "auto"
        else None
    )
    able = entry is not None and entry.knows_propensity
    if propensity is None:
        if able:
            raise ValueError(
                f"'{clf.algorithm}' needs to know who is labeled how often: fit(X, y, propensity=...)."
            )
        return None
    if not able:
        users = ", ".join(
            f"'{name}'" for name in catalog.names() if catalog.get(name).knows_propensity
        )
        raise ValueError(
            f"algorithm={clf.algorithm!r} cannot use propensities; those that can: {users}."
        )
    values = np.asarray(propensity, np.float64)
    if values.shape != labeled.shape:
        raise ValueError(
            f"propensity has shape {values.shape}, and there are {len(labeled)} rows; give one for each."
        )
    wrong = np.flatnonzero(~((values > 0) & (values <= 1)))
    if len(wrong):
        raise ValueError(
            f"propensity of row {wrong[0]} is {values[wrong[0]]:g}; it is the chance of a label of a positive row, "
            "above 0 and at most 1."
        )
    if clf.threshold == "pa":
        raise ValueError(
            "threshold='pa' takes labels for given at random; with propensities use threshold='model'."
        )
    if clf.members not in ("auto", 1):
        raise ValueError(f"members={clf.members} cannot use propensities; use members=1.")
    return values


def prior_by_propensity(
    labeled: npt.NDArray[np.bool_], propensity: Floats, setting: Setting
) -> tuple[float, tuple[float, float]]:
    """Return the share of positives that the labeled ones stand for, and its 95 % interval (Horvitz and Thompson)."""
    if not setting.one_sample:
        raise ValueError(
            "with propensities and setting='two-sample' the share of positives must be given: prior=..."
        )
    stands_for = labeled / propensity
    value, error = float(stands_for.mean()), float(stands_for.std() / np.sqrt(len(labeled)))
    return value, (value - Z * error, value + Z * error)
