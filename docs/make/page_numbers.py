"""Numbers of published results inside hand-written pages.

    python docs/make/page_numbers.py

writes them anew. A function below makes the text between ``<!-- numbers: NAME -->`` and
``<!-- end -->`` of a page from ``results/``. A test compares the two: if it fails, results have
changed, and the text around the numbers must be read again.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pandas
from evidence import Published, published, standings_table
from known import arrange_gains
from shift import arrange_claims

from puarena import catalog, datasets
from puarena.cli import methods
from puarena.metrics import CRITERIA, METRICS
from puarena.pu import labeling
from puarena.report.bias import compute_bias_costs
from puarena.report.render import Bold, Grid
from puarena.report.tables import format_number

DOCS = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- numbers: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
SUITE = "tabular-definition"
MIN_PAIRS = 3  # with fewer, a column of the table of biased labels has no interval


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
    means = found.standings().table["mean"]
    free = means[[not catalog.get(name).needs_prior for name in means.index]]
    rows = [row for part in found.tables for row in part.rows]
    baselines = {}
    for name in ("pn-oracle", "pn-naive"):
        values = [row.cells[0].mean for row in rows if row.method.algorithm == name]
        baselines[name] = format_number(sum(values) / len(values))
    assert all(
        part.columns[0].metric == "accuracy" and part.columns[0].criterion == "pa"
        for part in found.tables
    )
    lines = [
        f"**The prior is known:** {_listed(means[:5])}.",
        f"**The prior is not known:** {_listed(free[:3])} need none.",
        f"**For comparison:** trained with all true labels (`pn-oracle`) {baselines['pn-oracle']}, "
        f"unlabeled taken for negative (`pn-naive`) {baselines['pn-naive']}.",
    ]
    return "\n".join(part for line in lines for part in _wrapped(f"- {line}", indent="  "))


def gains() -> str:
    """The gains over the naive baselines, with ten splits."""
    return arrange_gains()


def shift() -> str:
    """The paper's claims about internal label shift."""
    return arrange_claims()


def bias_demo() -> str:
    """What biased labels cost on digits."""
    return _arrange_bias("published:bias-demo")


def bias_letter() -> str:
    """What biased labels cost on Letter."""
    return _arrange_bias("published:bias-letter")


def _arrange_bias(source: str) -> str:
    """Accuracy, AUC and the interval of the gain of each method, by mechanism; the best first."""
    table = compute_bias_costs(source)
    ways = [name for name in labeling.list_mechanisms() if name in {*table["labeling"]}]
    means = table.groupby("method")["mean"].mean().sort_values(ascending=False)
    lower = {name for name in means.index if catalog.get(name).baseline}
    rows = []
    for name in sorted(means.index, key=lambda name: name in lower):
        cells = table[table["method"] == name].set_index("labeling")
        texts = []
        for way in ways:
            cell = cells.loc[way]
            text = f"{cell['mean']:.1f}, {cell['auc']:.1f}"
            if cell["n"] >= MIN_PAIRS and name not in lower:
                text += f" ({cell['gain_low']:+.1f} to {cell['gain_high']:+.1f})"
                text = Bold(text) if cell["gain_low"] > 0 else text
            texts.append(text)
        rows.append([f"{name} (baseline)" if name in lower else name, *texts])
    heads = ["at random" if way == labeling.SCAR else way for way in ways]
    return Grid(["method", *heads], rows).to_markdown()


def _listed(means: pandas.Series) -> str:
    return ", ".join(f"`{name}` {format_number(mean)}" for name, mean in means.items())


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
    rows = [row for row in methods.list_datasets() if not datasets.info(row["name"]).files_of]
    lines = [
        "| name | what | points | classes | N | π | network |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        prior = "" if row["prior"] is None else f"{row['prior']:.3g}"
        numbers = f"{row['examples']:,} | {row['classes']} | {row['size']:,} | {prior}"
        lines.append(f"| `{row['name']}` | {row['title']} | {numbers} | {row['network']} |")
    return "\n".join(lines)


def criteria() -> str:
    """The criteria as their records have them."""
    lines = ["| criterion | | needs true labels | meaning |", "| --- | --- | --- | --- |"]
    for record in CRITERIA.values():
        needs = "yes" if record.oracle else "no"
        meaning = record.explanation or record.meaning
        lines.append(f"| `{record.name}` | {record.title} | {needs} | {meaning} |")
    return "\n".join(lines)


def metrics() -> str:
    """The test metrics as their records have them."""
    lines = ["| metric | | meaning | shown |", "| --- | --- | --- | --- |"]
    for record in METRICS.values():
        shown_when = "always" if record.default else "when asked for"
        lines.append(f"| `{record.name}` | {record.title} | {record.meaning} | {shown_when} |")
    return "\n".join(lines)


PARTS: dict[str, Callable[[], str]] = {
    part.__name__: part for part in (verdict, standings, best, gains, shift, criteria, metrics)
} | {"datasets": describe_datasets, "bias-demo": bias_demo, "bias-letter": bias_letter}


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
