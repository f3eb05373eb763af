"""What a row of the store has: one row per run and record.

The store demands the columns below. Criteria and test metrics come as they are, any ``val_*`` and ``test_*``: a new one
is a new column, and folders without it stay readable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from puarena.results.sql import sql_name

if TYPE_CHECKING:
    from pandas import DataFrame

FORMAT = 3  # of the results folder
OK = "ok"  # the status of a run that did not diverge
VALUES = ("val_", "test_")  # how the names of criteria and test metrics begin

COLUMNS: dict[str, str] = {
    "run": "VARCHAR",  # hash of the run's spec
    "fleet": "VARCHAR",
    # the problem
    "dataset": "VARCHAR",
    "case": "INTEGER",
    "setting": "VARCHAR",
    "labeling": "VARCHAR",  # the mechanism by which positives are labeled
    "rate": "DOUBLE",
    "prior": "DOUBLE",  # the true one
    # the method, as its entry in the catalog has it
    "algorithm": "VARCHAR",
    "base": "VARCHAR",  # the plain method
    "calibrated": "BOOLEAN",
    "variant": "VARCHAR",
    "baseline": "BOOLEAN",  # a reference baseline, which does not compete
    "supervised": "BOOLEAN",  # is handed true labels, and does not compete
    # the run
    "profile": "VARCHAR",
    "prior_source": "VARCHAR",  # "true", or the method that estimated it
    "prior_used": "DOUBLE",  # the prior the algorithm was told
    "split": "INTEGER",
    "config": "INTEGER",
    "hyper": "VARCHAR",  # JSON
    "lr": "DOUBLE",
    "batch_size": "INTEGER",
    "network": "VARCHAR",
    "precision": "VARCHAR",
    "optimizer": "VARCHAR",  # "protocol", or "authors": what the method's own authors used
    "seed": "BIGINT",
    "n_p": "INTEGER",
    "n_u": "INTEGER",
    # the record
    "step": "INTEGER",
    "phase": "VARCHAR",
    "selectable": "BOOLEAN",
    "seconds": "DOUBLE",  # of this run: the fleet's time divided by its runs
    "status": "VARCHAR",  # "ok", or "diverged at step N"
    "loss": "DOUBLE",
    # what computed it
    "device": "VARCHAR",
    "version": "VARCHAR",
    "torch": "VARCHAR",
}
MADE_BY = (
    "fleet",
    "seconds",
    "device",
    "version",
    "torch",
)  # may differ between two computations of the same run


def is_value(column: str) -> bool:
    """Is it a criterion, a test metric, or what they are made of?"""
    return column.startswith(VALUES)


def kinds(columns: Iterable[str]) -> dict[str, str]:
    """The types of a table's columns: those demanded first, then values."""
    return COLUMNS | {name: "DOUBLE" for name in columns if is_value(name)}


def select_list(columns: Iterable[str]) -> str:
    """SQL that brings a table's columns into order and to their types."""
    return ", ".join(
        f"CAST({sql_name(n)} AS {kind}) AS {sql_name(n)}" for n, kind in kinds(columns).items()
    )


def check_frame(frame: DataFrame, fleet: str) -> None:
    """Refuse rows that are not a fleet's curves: a mistake of the program, not of its user."""
    columns = list(map(str, frame.columns))
    missing = set(COLUMNS) - set(columns)
    foreign = [name for name in columns if name not in COLUMNS and not is_value(name)]
    if missing or foreign or len(set(columns)) != len(columns):
        raise ValueError(
            f"a shard's columns are wrong: missing {sorted(missing)}, foreign {sorted(foreign)}"
        )
    if set(frame["fleet"]) - {fleet}:
        raise ValueError(
            f"the shard of fleet {fleet!r} has rows of {sorted(set(frame['fleet']) - {fleet})}"
        )
    if frame.duplicated(["run", "step"]).any():
        raise ValueError(f"the shard of fleet {fleet!r} has two rows of one run and step")
