"""A small summary of a results folder: enough to make every table again, small enough to publish."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

from puarena import __version__
from puarena.errors import UserError
from puarena.report.select import select
from puarena.report.sources import opened
from puarena.results import FORMAT, Results, open_results
from puarena.results.summary import write_summary

ROWS = """
    SELECT curves.* FROM curves SEMI JOIN
        (SELECT run, step FROM picks UNION SELECT run, max(step) AS step FROM curves GROUP BY run) AS kept
    USING (run, step) ORDER BY dataset, "case", setting, rate, prior, algorithm, profile, split, config, step
"""


def export(
    source: str | Path | Results, path: str | Path, notes: Sequence[str] = ()
) -> dict[str, int]:
    """Write the summary; return how many ``runs`` and ``records`` it has, and of how many records it is made.

    Of every run it has the last record, and the records that any criterion chose. ``notes`` stand with every table
    that is made of it.
    """
    import duckdb

    store = source if isinstance(source, Results) else open_results(source)
    with duckdb.connect() as con, store.reading():
        curves = opened(store)
        chosen = select(curves)
        if not len(chosen):
            raise UserError(f"'{store.path}' has no results yet, so there is nothing to export")
        con.register("picks", chosen.loc[chosen["step"].notna(), ["run", "step"]].drop_duplicates())
        store.relation(con).create_view("curves")
        ((runs, records),) = con.execute(
            "SELECT count(DISTINCT run), count(*) FROM curves"
        ).fetchall()
        info = dict(store.info) | {
            "format": FORMAT,
            "spec": portable(store.spec),
            "notes": list(notes) or store.info.get("notes", []),
            "summary": {
                "criteria": curves.criteria(every=True),
                "runs": runs,
                "records": store.info.get("summary", {}).get("records", records),
                "failures": store.failures(),
                "puarena": __version__,
            },
        }
        if "sources" in info:
            info["sources"] = [part | {"spec": portable(part["spec"])} for part in info["sources"]]
        write_summary(con, ROWS, info, path)
        ((kept,),) = con.execute(f"SELECT count(*) FROM ({ROWS})").fetchall()
    return {"runs": int(runs), "records": int(kept), "of": int(records)}


def portable(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec without the folders of this machine: a user's tables and plugins by their file names only."""
    spec = dict(spec)
    if spec.get("plugins"):
        spec["plugins"] = [_file(plugin) for plugin in spec["plugins"]]
    if spec.get("problems"):
        spec["problems"] = [
            problem | {"dataset": _file(problem["dataset"])} for problem in spec["problems"]
        ]
    return spec


def _file(path: str) -> str:
    """The last part of a path; a name without folders, such as a built-in dataset's, stays as it is."""
    return PurePath(path.replace("\\", "/")).name
