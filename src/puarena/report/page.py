"""One self-contained HTML page: leaderboard, methods, figures, tables, what failed, and the spec that made them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from puarena import __version__
from puarena.metrics import CRITERIA, METRICS, cautions
from puarena.pu.labeling import SCAR, describe_mechanism
from puarena.report.completeness import completeness
from puarena.report.problems import PROBLEM, Problem, read_all, settings
from puarena.report.select import select
from puarena.report.sources import Curves, Source, listed, opened
from puarena.report.table import ERRORS, ErrorKind, table
from puarena.results import OK, Results
from puarena.results.published import card_file, read_card
from puarena.utils.files import write_file

SHOWN = 500  # diverged runs listed one by one; more would only make the page long


def write_page(
    source: Source,
    path: str | Path,
    metrics: Iterable[str] | None = None,
    criteria: Iterable[str] | None = None,
    error: ErrorKind = "stderr",
    algorithms: Sequence[str] | None = None,
) -> None:
    """Write the page; it needs no network, and names from users show as text."""
    from puarena.report.page_data import embed, gather

    curves = opened(source)
    store = curves.store
    metrics = None if metrics is None else listed(metrics)
    by = curves.criteria(criteria)
    selection = select(curves, by)
    tables = table(curves, metrics, criteria, error, algorithms, selection)
    spec = store.spec if store else {}
    data: dict[str, Any] = {}
    if tables:
        every = table(
            curves, curves.metrics(metrics, every=True), criteria, error, algorithms, selection
        )
        data = gather(curves, every, selection, metrics, algorithms)
    write_file(
        path,
        _template().render(
            title=spec.get("title") or f"{spec.get('name') or 'puarena'}: results",
            description=spec.get("description", ""),
            tables=tables,
            methods=data.get("methods", []),
            verdict=_verdict(data),
            first_lines=[*(store.info.get("notes", []) if store else []), *completeness(curves)],
            error=ERRORS[error],
            metrics=METRICS,
            criteria={name: CRITERIA[name] for name in by},
            settings=list(settings().values()),
            spec=json.dumps(spec, indent=2, ensure_ascii=False) if store else "",
            spec_hash=store.spec_hash if store else "",
            file=(re.sub(r"[^\w.-]+", "-", str(spec.get("name") or "")).strip("-.") or "puarena")
            + ".json",
            versions=store.info["versions"] if store else {"puarena": __version__},
            shown=SHOWN,
            data=embed(data),
            vega=_vega() if tables else "",
            css=_text("page.css"),
            js=_text("page.js") + _text("page_details.js"),
            summary=store.summarized if store else False,
            sources=store.info.get("sources", []) if store else [],
            ways=_ways(curves),
            cautions=cautions(by),
            written=datetime.now(UTC).date().isoformat(),
            **_made(store),
            **_facts(curves),
        ),
    )


def _ways(curves: Curves) -> list[dict[str, str]]:
    """The mechanisms of problems whose labels are not given at random, in words, and how strong they came out."""
    known = "val_label_strength" in curves.columns
    shift = "avg(val_label_strength)" if known else "NULL"
    query = f"SELECT labeling, dataset, {shift} FROM curves WHERE labeling <> '{SCAR}' GROUP BY ALL ORDER BY ALL"
    shifts: dict[str, list[str]] = {}
    words: dict[str, str] = {}
    for text, dataset, value in curves.rows(query):
        mechanism = describe_mechanism(text)
        words[mechanism.name] = mechanism.meaning
        parts = [] if value is None else [f"{value:+.2f} by {mechanism.short} on {dataset}"]
        shifts.setdefault(mechanism.name, []).extend(parts)
    before = "How far the labeled lie towards the clear positives, in standard deviations of all positives: "
    return [
        {
            "name": name,
            "meaning": words[name],
            "shift": f"{before}{', '.join(parts)}." if parts else "",
        }
        for name, parts in shifts.items()
    ]


def _verdict(data: dict[str, Any]) -> str:
    """The verdict on all problems by the first metric and criterion, which the page has before its script runs."""
    for view in data.get("views", {}).values():
        for standings in view.values():
            return str(standings["verdict"])
    return ""


def _made(store: Results | None) -> dict[str, str]:
    """When the results were written, the commit of the program and the machine, where these are known."""
    if store is None:
        return {"date": "", "commit": "", "machine": ""}
    card = read_card(store.path) if card_file(store.path).is_file() else {}  # of published results
    date = str(card.get("published") or store.info.get("date", ""))
    if not date and store.path.is_dir():
        times = [file.stat().st_mtime for file in store.path.glob("shards/*.parquet")]
        date = datetime.fromtimestamp(max(times), UTC).date().isoformat() if times else ""
    known = {
        name: str(card.get(name) or store.info.get(name) or "") for name in ("commit", "machine")
    }
    return {"date": date, **known}


def _facts(curves: Curves) -> dict[str, Any]:
    """What the page says about the curves as a whole: how many, made by what, and which runs failed."""
    store = curves.store
    ((runs, records),) = curves.rows("SELECT count(DISTINCT run), count(*) FROM curves")
    each = ", ".join(f'"{name}"' for name in (*PROBLEM, "algorithm", "split"))
    tried = f"SELECT max(n) FROM (SELECT count(DISTINCT config) AS n FROM curves GROUP BY {each})"
    makers = "SELECT DISTINCT device, version, torch FROM curves ORDER BY ALL"
    who = ", ".join(f'"{name}"' for name in (*PROBLEM, "algorithm", "split", "config", "run"))
    broken = f"SELECT {who}, min(status) AS reason FROM curves WHERE status <> '{OK}' GROUP BY {who} ORDER BY {who}"
    diverged = curves.frame(broken)
    where = [problem.label() for problem in read_all(Problem, diverged)]
    failures = store.failures() if store else []
    return {
        "runs": runs,
        "configs": curves.rows(tried)[0][0] or 0,
        "records": store.info.get("summary", {}).get("records", records) if store else records,
        "makers": curves.rows(makers),
        "diverged": diverged.assign(problem=where).to_dict("records"),
        "failures": failures,
        "lost": sum(len(failure["runs"]) for failure in failures),
    }


@lru_cache(maxsize=1)
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, kept from ending its element."""
    import vl_convert

    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)


def _text(name: str) -> str:
    """A part of the page that is not a template."""
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("puarena.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")
