"""Summaries of results: enough to make every table again, small enough to publish."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from puarena import __version__
from puarena.errors import UserError
from puarena.report.completeness import describe_untrained_runs
from puarena.report.select import select
from puarena.report.sources import open_curves
from puarena.results import FORMAT, Results, open_results
from puarena.results.folder import write_summary
from puarena.results.parquet import connect
from puarena.results.records import SummaryFacts
from puarena.utils.identity import digest

SELECTED_RECORDS = """
    SELECT curves.* FROM curves SEMI JOIN (
        SELECT run, step FROM picks
        UNION SELECT run, max(step) AS step FROM curves GROUP BY run
    ) AS kept USING (run, step)
    ORDER BY dataset, "case", setting, rate, prior, algorithm, profile, split, config, step
"""


def export(
    source: str | Path | Results, path: str | Path, notes: Sequence[str] = ()
) -> dict[str, int]:
    """Write a summary; return its number of ``runs`` and ``records``, and ``of`` how many records.

    Of every run it has the last record and those that any criterion selected. The ``notes`` are
    shown with every table that is made of it, and so is which runs did not train, for which the
    curves are needed.
    """
    store = open_results(source)
    with connect() as con, store.reading():
        curves = open_curves(store)
        chosen = select(curves)
        notes = [*notes, *describe_untrained_runs(curves)]
        if not len(chosen):
            raise UserError(
                f"'{store.path}' has no results yet, so there is nothing to export", "no-results"
            )
        con.register("picks", chosen.loc[chosen["step"].notna(), ["run", "step"]].drop_duplicates())
        store.relation(con).create_view("curves")
        count = "SELECT count(DISTINCT run), count(*) FROM curves"
        ((runs, records),) = con.execute(count).fetchall()
        earlier = store.info.summary
        facts = SummaryFacts(
            criteria=tuple(curves.criteria(every=True)),
            runs=runs,
            records=records if earlier is None else earlier.records,
            failures=tuple(store.failures()),
            puarena=__version__,
        )
        write_summary(con, SELECTED_RECORDS, _describe(store, facts, notes), path)
        ((kept,),) = con.execute(f"SELECT count(*) FROM ({SELECTED_RECORDS})").fetchall()
    return {"runs": int(runs), "records": int(kept), "of": int(records)}


def _describe(store: Results, facts: SummaryFacts, notes: Sequence[str]) -> Any:
    """Return what a summary says of its results, without the folders of this machine."""
    info = store.info
    spec = portable(info.spec)
    sources = [part.model_copy(update={"spec": portable(part.spec)}) for part in info.sources]
    changes = {
        "format": FORMAT,
        "spec": spec,
        "spec_seal": digest(spec),
        "sources": tuple(sources),
        "revisions": {_file_name(name): digits for name, digits in info.revisions.items()},
        "notes": tuple(dict.fromkeys([*notes, *info.notes])),
        "summary": facts,
    }
    return info.model_copy(update=changes)


def portable(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a spec with a user's tables and plugins by their file names only."""
    spec = dict(spec)
    if spec.get("plugins"):
        spec["plugins"] = [_file_name(plugin) for plugin in spec["plugins"]]
    if spec.get("problems"):
        spec["problems"] = [
            problem | {"dataset": _file_name(problem["dataset"])} for problem in spec["problems"]
        ]
    return spec


def _file_name(path: str) -> str:
    """Return the last part of a path; a built-in dataset's name stays as it is."""
    return PurePath(path.replace("\\", "/")).name
