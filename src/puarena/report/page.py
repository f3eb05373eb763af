"""One self-contained HTML page: the tables, how to read them, what failed, and the spec that made them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena import __version__
from puarena.bench.store import OK, Store, ask, write_file
from puarena.report.select import load
from puarena.report.table import CRITERION_WORDS, ERRORS, METRIC_WORDS, NAIVE, ORACLE, ErrorKind, table

if TYPE_CHECKING:
    from puarena.report.select import Source

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
    store = Store.open(source) if isinstance(source, (str, Path)) else source if isinstance(source, Store) else None
    tables = table(store or source, metrics, criteria, error, algorithms)
    spec = store.spec if store else {}
    write_file(
        path,
        _template().render(
            title=spec.get("title") or f"{spec.get('name') or 'puarena'}: results",
            description=spec.get("description", ""),
            tables=tables,
            error=ERRORS[error],
            criteria=list(dict.fromkeys(column.criterion for item in tables for column in item.columns)),
            words=METRIC_WORDS | CRITERION_WORDS,
            oracle=ORACLE,
            naive=NAIVE,
            failures=store.failures() if store else [],
            spec=json.dumps(spec, indent=2, ensure_ascii=False) if store else "",
            spec_hash=store.spec_hash if store else "",
            versions=store.info["versions"] if store else {"puarena": __version__},
            shown=SHOWN,
            **_facts(store or source),
        ),
    )


def _facts(source: Source) -> dict[str, Any]:
    """What the page says about the curves as a whole: how many, made by what, and which runs diverged."""
    curves = load(source)
    runs, records = ask(curves, "SELECT count(DISTINCT run), count(*) FROM curves").fetchall()[0]
    makers = "SELECT DISTINCT device, version, torch FROM curves ORDER BY ALL"
    who = 'run, dataset, "case", setting, rate, algorithm, split, config'
    diverged = f"SELECT {who}, min(status) FROM curves WHERE status <> '{OK}' GROUP BY {who} ORDER BY {who[5:]}, run"
    return {
        "runs": runs,
        "records": records,
        "makers": ask(curves, makers).fetchall(),
        "diverged": ask(curves, diverged).fetchall(),
    }


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
