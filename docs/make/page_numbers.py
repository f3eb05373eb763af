"""Numbers of published results inside hand-written pages.

    python docs/make/page_numbers.py

writes them anew. Between ``<!-- numbers: NAME -->`` and ``<!-- end -->`` of a page stands what a function below makes
of ``results/``. A test holds the two together: where it fails, results have changed, and the text around the numbers
wants to be read again.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from evidence import Published, published, standings_table

from puarena import catalog, datasets
from puarena.cli import listing
from puarena.metrics import CRITERIA, METRICS
from puarena.report.table import shown

DOCS = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- numbers: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
SUITE = "tabular-definition"


def _suite() -> Published:
    return next(found for found in published() if found.name == SUITE)


def verdict() -> str:
    """Who won, and how far that goes."""
    return "\n".join(_wrapped(_suite().verdict()))


def standings() -> str:
    """All places."""
    return standings_table(_suite().standings())


def best() -> str:
    """The best methods with a known prior, without one, and the reference baselines, as a list."""
    found = _suite()
    items = found.standings().items
    free = [item for item in items if not catalog.get(item.algorithm).needs_prior]
    baselines = {
        name: [
            row.cells[0].mean for part in found.tables for row in part.rows if row.algorithm == name
        ]
        for name in ("pn-oracle", "pn-naive")
    }
    assert all(
        part.columns[0].metric == "accuracy" and part.columns[0].criterion == "pa"
        for part in found.tables
    )
    lines = [
        f"**The prior is known:** {_listed(items[:5])}.",
        f"**The prior is not known:** {_listed(free[:3])} need none.",
        f"**For comparison:** trained with all true labels (`pn-oracle`) "
        f"{shown(sum(baselines['pn-oracle']) / len(baselines['pn-oracle']))}, unlabeled taken for negative (`pn-naive`) "
        f"{shown(sum(baselines['pn-naive']) / len(baselines['pn-naive']))}.",
    ]
    return "\n".join(part for line in lines for part in _wrapped(f"- {line}", indent="  "))


def _listed(items: tuple | list) -> str:
    return ", ".join(f"`{item.algorithm}` {shown(item.mean)}" for item in items)


def _wrapped(text: str, width: int = 118, indent: str = "") -> list[str]:
    lines, line = [], ""
    for word in text.split(" "):
        if len(line) + 1 + len(word) > width:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def describe_datasets() -> str:
    """The datasets that have files of their own; the others are these, standardized."""
    rows = [row for row in listing.list_datasets() if not datasets.info(row["name"]).files_of]
    lines = [
        "| name | what | points | classes | N | π | network |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        numbers = f"{row['examples']:,} | {row['classes']} | {row['size']:,} | {row['prior']:g}"
        lines.append(f"| `{row['name']}` | {row['title']} | {numbers} | {row['network']} |")
    return "\n".join(lines)


def criteria() -> str:
    """The criteria as their records have them."""
    lines = ["| criterion | | needs true labels | meaning |", "| --- | --- | --- | --- |"]
    for record in CRITERIA.values():
        needs = "yes" if record.oracle else "no"
        lines.append(
            f"| `{record.name}` | {record.title} | {needs} | {record.explanation or record.meaning} |"
        )
    return "\n".join(lines)


def metrics() -> str:
    """The test metrics as their records have them."""
    lines = ["| metric | | meaning | shown |", "| --- | --- | --- | --- |"]
    for record in METRICS.values():
        shown_when = "always" if record.default else "when asked for"
        lines.append(f"| `{record.name}` | {record.title} | {record.meaning} | {shown_when} |")
    return "\n".join(lines)


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part for part in (verdict, standings, best, criteria, metrics)
} | {"datasets": describe_datasets}


def renewed(text: str) -> str:
    """A page with its numbers as they are now."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]()}\n\n{found[3]}", text)


def pages() -> list[Path]:
    """The pages that have numbers."""
    return [
        file for file in sorted(DOCS.glob("*.md")) if BLOCK.search(file.read_text(encoding="utf-8"))
    ]


if __name__ == "__main__":
    for file in pages():
        before = file.read_text(encoding="utf-8")
        after = renewed(before)
        file.write_text(after, encoding="utf-8")
        print(f"{file.name}: {'as it was' if before == after else 'changed'}", file=sys.stderr)
