"""One self-contained HTML page: leaderboard, methods, figures, tables, failures and the spec."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import __version__
from puarena.metrics import CRITERIA, METRICS, list_cautions
from puarena.pu import labeling
from puarena.pu.labeling import OBSERVED, SCAR, describe_mechanism
from puarena.pu.problem import PROBLEM_COLUMNS
from puarena.report.completeness import describe_missing_runs, describe_untrained_runs
from puarena.report.methods import read_problems
from puarena.report.observed import correlate_orders, read_observed
from puarena.report.select import aggregate, select
from puarena.report.sources import CurveTable, Source, as_list, open_curves
from puarena.report.tables import ERROR_KINDS, ErrorKind, build_tables
from puarena.results import OK, Results
from puarena.results.published import card_file, read_card
from puarena.utils.files import write_file

if TYPE_CHECKING:
    from pandas import DataFrame

MAX_DIVERGED = 500  # diverged runs that are listed
TEMPLATES = Path(__file__).parent / "templates"


def write_page(
    source: Source,
    path: str | Path,
    metrics: Iterable[str] | None = None,
    criteria: Iterable[str] | None = None,
    error: ErrorKind = "stderr",
    algorithms: Sequence[str] | None = None,
    selection: DataFrame | None = None,
    home: str = "",
) -> None:
    """Write the page; it needs no network, and names from users show as text.

    ``selection``: the result of ``select`` for these criteria, if it is known already. ``home``:
    the address of a page that lists several of these, which the page links to.
    """
    from puarena.report.page.data import collect_page_data, embed_json

    curves = open_curves(source)
    metrics = None if metrics is None else as_list(metrics)
    by = curves.criteria(criteria)
    every = curves.metrics(metrics, every=True)
    selection = select(curves, by) if selection is None else selection
    numbers = aggregate(selection, every)
    notes = [*curves.notes, *(curves.absent() if criteria is None else [])]
    options = (by, error, algorithms, notes, curves.methods)
    tables = build_tables(numbers, curves.metrics(metrics), *options)
    data: dict[str, Any] = {}
    if tables:
        full = build_tables(numbers, every, *options)
        data = collect_page_data(curves, full, selection, metrics, algorithms)
    # The page shows the verdict on all problems before its script runs.
    views = [item for view in data.get("views", {}).values() for item in view.values()]
    verdict = views[0]["verdict"] if views else ""
    observed = read_observed(curves)
    text = load_template(TEMPLATES, "page.html.j2").render(
        home=home,
        tables=tables,
        methods=data.get("methods", []),
        verdict=verdict,
        naive=views[0]["naive"] if views else "",
        error=ERROR_KINDS[error],
        metrics=METRICS,
        criteria={name: CRITERIA[name] for name in by},
        settings=labeling.list_settings(),
        max_diverged=MAX_DIVERGED,
        data=embed_json(data),
        vega=_bundle_vega() if tables else "",
        css=(TEMPLATES / "page.css").read_text(encoding="utf-8"),
        js=(TEMPLATES / "page.js").read_text(encoding="utf-8"),
        mechanisms=_describe_mechanisms(curves),
        observed=observed,
        correlation=correlate_orders(curves, curves) if observed else None,
        cautions=list_cautions(by),
        written=datetime.now(UTC).date().isoformat(),
        **_describe_results(curves),
        **_count_runs(curves),
    )
    write_file(path, text)


def _describe_results(curves: CurveTable) -> dict[str, Any]:
    """Return the title, the spec and the origin of the results; empty for a relation or frame."""
    store = curves.store
    if store is None:
        facts: dict[str, Any] = dict.fromkeys(
            ("description", "spec", "spec_hash", "date", "commit", "machine"), ""
        )
        return facts | {
            "title": "puarena: results",
            "first_lines": [],
            "file": "puarena.json",
            "versions": {"puarena": __version__},
            "summary": False,
            "sources": [],
        }
    spec = store.info.spec
    name = str(spec.get("name") or "")
    file = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "puarena"
    return {
        "title": spec.get("title") or f"{name or 'puarena'}: results",
        "description": spec.get("description", ""),
        "first_lines": [
            *store.info.notes,
            *describe_missing_runs(curves),
            *describe_untrained_runs(curves),
        ],
        "spec": json.dumps(spec, indent=2, ensure_ascii=False),
        "spec_hash": store.spec_hash,
        "file": f"{file}.json",
        "versions": store.info.versions,
        "summary": store.is_summarized,
        "sources": store.info.sources,
        **_describe_origin(store),
    }


def _describe_origin(store: Results) -> dict[str, str]:
    """Return the date of the results, the commit of the program and the machine, if known."""
    card = read_card(store.path) if card_file(store.path).is_file() else None
    date = (card.published if card else "") or store.info.date
    if not date and store.path.is_dir():
        times = [file.stat().st_mtime for file in store.path.glob("shards/*.parquet")]
        if times:
            date = datetime.fromtimestamp(max(times), UTC).date().isoformat()
    origin = {"date": date}
    for name in ("commit", "machine"):
        origin[name] = getattr(card, name, "") or getattr(store.info, name)
    return origin


def _describe_mechanisms(curves: CurveTable) -> list[dict[str, str]]:
    """Return the mechanisms that are not SCAR, and how strong they came out."""
    known = "val_label_strength" in curves.columns
    strength = "avg(val_label_strength)" if known else "NULL"
    rows = curves.rows(
        f"SELECT labeling, dataset, {strength} FROM curves "
        f"WHERE labeling NOT IN ('{SCAR}', '{OBSERVED}') "
        "GROUP BY ALL ORDER BY ALL"
    )
    shifts: dict[str, list[str]] = {}
    meanings: dict[str, str] = {}
    for text, dataset, value in rows:
        mechanism = describe_mechanism(text)
        meanings[mechanism.name] = mechanism.meaning
        parts = shifts.setdefault(mechanism.name, [])
        if value is not None:
            parts.append(f"{value:+.2f} by {mechanism.short} on {dataset}")
    before = (
        "How far the labeled lie towards the clear positives, in standard deviations of all "
        "positives: "
    )
    mechanisms = []
    for name, parts in shifts.items():
        shift = f"{before}{', '.join(parts)}." if parts else ""
        mechanisms.append({"name": name, "meaning": meanings[name], "shift": shift})
    return mechanisms


def _count_runs(curves: CurveTable) -> dict[str, Any]:
    """Return the numbers of runs and records, the versions that made them, and the failures."""
    store = curves.store
    ((runs, records),) = curves.rows("SELECT count(DISTINCT run), count(*) FROM curves")
    if store and store.info.summary:
        records = store.info.summary.records
    keys = ", ".join(f'"{name}"' for name in (*PROBLEM_COLUMNS, "algorithm", "split"))
    ((configs,),) = curves.rows(
        f"SELECT max(n) FROM (SELECT count(DISTINCT config) AS n FROM curves GROUP BY {keys})"
    )
    diverged = curves.frame(
        f"SELECT {keys}, config, run, min(status) AS reason FROM curves WHERE status <> '{OK}' "
        f"GROUP BY {keys}, config, run ORDER BY {keys}, config, run"
    )
    labels = [problem.label() for problem in read_problems(diverged)]
    failures = store.failures() if store else []
    return {
        "runs": runs,
        "records": records,
        "configs": configs or 0,
        "makers": curves.rows("SELECT DISTINCT device, version, torch FROM curves ORDER BY ALL"),
        "diverged": diverged.assign(problem=labels).to_dict("records"),
        "failures": failures,
        "lost": sum(len(failure.runs) for failure in failures),
    }


@lru_cache(maxsize=1)
def _bundle_vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that cannot end its element."""
    import vl_convert

    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)


def load_template(folder: Path, name: str) -> Any:
    """Return a template of a folder that escapes all text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
