"""The columns of stored results: one row per run and record.

The columns below are required. Criteria and test metrics are stored as any ``val_*`` and
``test_*``, so that a new one is a new column and older folders stay readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from puarena.catalog import STORED_FACTS
from puarena.results.parquet import quote_name

if TYPE_CHECKING:
    from pandas import DataFrame

FORMAT = 3  # version of the results folder
OK = "ok"  # the status of a run that did not diverge
VALUE_PREFIXES = ("val_", "test_")  # of criteria and test metrics

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
    # the method
    "algorithm": "VARCHAR",
    "base": "VARCHAR",  # the plain method
    "calibrated": "BOOLEAN",
    "variant": "VARCHAR",
    "baseline": "BOOLEAN",  # a reference baseline, which is not ranked
    "supervised": "BOOLEAN",  # uses true labels, and is not ranked
    # the run
    "profile": "VARCHAR",
    "prior_source": "VARCHAR",  # "true", or the method that estimated it
    "prior_used": "DOUBLE",  # the prior the algorithm was given
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
METHOD_COLUMNS = (  # tell the rows of a table apart
    "algorithm",
    *STORED_FACTS,
    "profile",
    "prior_source",
    "precision",
    "optimizer",
)
# These may differ between two computations of the same run.
COMPUTATION_COLUMNS = ("fleet", "seconds", "device", "version", "torch")


def is_value(column: str) -> bool:
    """Return whether a column is a criterion, a test metric, or a count behind one."""
    return column.startswith(VALUE_PREFIXES)


def has_schema(columns: Mapping[str, str]) -> bool:
    """Return whether these are the columns, with their types, of a table that puarena wrote."""
    if not COLUMNS.items() <= columns.items():
        return False
    others = [name for name in columns if name not in COLUMNS]
    return all(is_value(name) and columns[name] == "DOUBLE" for name in others)


def select_list(columns: Iterable[str]) -> str:
    """Return SQL that casts a table's columns to their types, the required ones first."""
    types = COLUMNS | {name: "DOUBLE" for name in columns if is_value(name)}
    names = {quote_name(column): kind for column, kind in types.items()}
    return ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in names.items())


def check_frame(frame: DataFrame, fleet: str) -> None:
    """Raise ValueError for rows that are not a fleet's curves, which is an error of the program."""
    columns = [str(name) for name in frame.columns]
    missing = set(COLUMNS) - set(columns)
    foreign = [name for name in columns if name not in COLUMNS and not is_value(name)]
    if missing or foreign or len(set(columns)) != len(columns):
        raise ValueError(
            f"a shard's columns are wrong: missing {sorted(missing)}, foreign {sorted(foreign)}"
        )
    others = set(frame["fleet"]) - {fleet}
    if others:
        raise ValueError(f"the shard of fleet {fleet!r} has rows of {sorted(others)}")
    if frame.duplicated(["run", "step"]).any():
        raise ValueError(f"the shard of fleet {fleet!r} has two rows of one run and step")
