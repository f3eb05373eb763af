"""The columns of stored results: one row per run and record.

The columns below are required. Criteria and test metrics are stored as any ``val_*`` and
``test_*``, so that a new one is a new column and older folders stay readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from puarena.catalog import STORED_FACTS
from puarena.pu.problem import PROBLEM_COLUMNS
from puarena.results.parquet import quote_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
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
RUN_COLUMNS = (  # have one value in all rows of a run
    *PROBLEM_COLUMNS,
    *METHOD_COLUMNS,
    "split",
    "config",
    "hyper",
    "batch_size",
    "status",
)
MAX_TEXT = 10_000  # letters of a stored text
STATUS = f"{OK}|diverged at step [0-9]{{1,9}}"
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


def find_wrong_rows(con: DuckDBPyConnection, rows: str) -> list[tuple[str, str]]:
    """Return fleets of rows that puarena would not write, each with what is wrong.

    ``rows`` is a query for curves. Columns have their types; this is about the values.
    """
    facts = ", ".join(map(quote_name, RUN_COLUMNS))
    values = ", ".join(
        f"any_value({quote_name(name)}) AS {quote_name(name)}" for name in RUN_COLUMNS
    )
    method = ", ".join(map(quote_name, STORED_FACTS))
    return con.execute(f"""
        WITH runs AS (
            SELECT run, fleet, {values}, min(hash({facts})) AS low, max(hash({facts})) AS high,
                   bool_and(coalesce(step >= 0 AND selectable IS NOT NULL, false)) AS has_steps
            FROM ({rows}) GROUP BY run, fleet)
        SELECT coalesce(fleet, ''), {name_wrong_value(("run", "fleet", *RUN_COLUMNS))} AS what
        FROM runs WHERE what <> ''
        UNION ALL SELECT fleet, 'its records have wrong steps' FROM runs WHERE NOT has_steps
        UNION ALL SELECT fleet, 'a run has rows of several kinds' FROM runs WHERE low <> high
        UNION ALL SELECT max(fleet), 'a method has runs of several kinds' FROM runs
            GROUP BY algorithm HAVING min(hash({method})) <> max(hash({method}))
    """).fetchall()


def name_wrong_value(columns: Iterable[str]) -> str:
    """Return SQL for the first of these columns with a value that cannot be, and '' if all can."""
    cases = []
    for column in columns:
        name, kind = quote_name(column), COLUMNS[column]
        fits = f"{name} IS NOT NULL"
        if column == "prior":
            continue  # NULL where it is not known: of observed labels without a truth
        if kind == "INTEGER":
            fits = f"{name} >= 0"
        elif column == "rate":
            fits = f"isfinite({name})"
        elif column == "status":
            fits = f"regexp_full_match({name}, '{STATUS}')"
        elif kind == "VARCHAR":
            controls = f"regexp_matches({name}, '[[:cntrl:]]')"
            fits = f"length({name}) <= {MAX_TEXT} AND NOT {controls}"
        cases.append(f"WHEN NOT coalesce({fits}, false) THEN '{column} has a wrong value'")
    return f"CASE {' '.join(cases)} ELSE '' END"
