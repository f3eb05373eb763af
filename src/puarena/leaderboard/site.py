"""The leaderboard as static files: a page per suite, and plain CSVs at names that stay.

``VERSION/SUITE-PROFILE.csv`` is frozen with the version of puarena that made its numbers; ``SUITE-PROFILE.csv`` is the
newest. Community rows stand on the page beside ours, and in a CSV of their own.
"""

from __future__ import annotations

import csv
import html
import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from puarena.errors import UserError
from puarena.experiments.spec import Spec
from puarena.leaderboard.protocol import departures
from puarena.leaderboard.publish import check_files
from puarena.leaderboard.submit import check_submission
from puarena.report.among_published import beside
from puarena.report.compare import EXTRA_COLUMNS, PAPER_COLUMNS
from puarena.report.page import write_page
from puarena.report.sources import opened
from puarena.results import Summary
from puarena.results.published import COMMUNITY, NUMBERS, listed, read_card
from puarena.utils.files import cannot_write, escape_cell, write_file

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "td,th{text-align:left;padding:.2rem 1rem .2rem 0}"
)


HEADS = ("leaderboard", "numbers", "runs", "machine", "date", "suite", "community")


@dataclass(frozen=True)
class Board:
    """One leaderboard of the site: its place, and what made it."""

    place: str  # "0.2/tabular-released"
    card: dict[str, Any]
    community: tuple[str, ...]
    departs: tuple[
        str, ...
    ] = ()  # from the suite of its name; a submission to the suite does not stand on such a board


def build(
    results: str | Path, out: str | Path, say: Callable[[str], None] = lambda _: None
) -> list[Board]:
    """Build the site from a folder of published results; a submission that does not hold is left out, and said."""
    results, out = Path(results), Path(out)
    summaries = listed(results)
    ours = {name: file for name, file in summaries.items() if not name.startswith(f"{COMMUNITY}/")}
    if not ours:
        raise UserError(f"'{results}' has no published results; make some with 'puarena publish'")
    sent: list[tuple[Path, dict[str, Any]]] = []
    for folder in sorted(path for path in (results / COMMUNITY).glob("*") if path.is_dir()):
        try:
            sent.append((folder, check_submission(folder)))
        except UserError as error:
            say(f"left out: {error}")
    try:
        boards = [_board(name, file, sent, out) for name, file in ours.items()]
        write_file(out / "index.html", _index(boards))
    except OSError as error:
        raise cannot_write(out, error) from error
    return boards


def version_of(card: dict[str, Any]) -> str:
    """The version of a suite: numbers of another minor version may differ."""
    return ".".join(str(card["version"]).split(".")[:2])


def _board(name: str, summary: Path, sent: list[tuple[Path, dict[str, Any]]], out: Path) -> Board:
    """The page and the CSVs of one suite."""
    card = read_card(summary)
    check_files(card, summary.parent)
    version, suite = version_of(card), name.rpartition("/")[2]
    own = Summary(summary)
    departs = tuple(departures(Spec.load(own.spec)))
    fitting = [
        (f, c) for f, c in sent if (c["suite"], c["profile"]) == (card["suite"], card["profile"])
    ]
    fitting = [
        (f, theirs) for f, theirs in fitting if version_of(theirs) == version and not departs
    ]
    target = out / version
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(summary, target / f"{suite}.parquet")
    numbers = summary.with_suffix(".csv").read_text(encoding="utf-8")
    texts = {
        f"{suite}.csv": numbers,
        f"{suite}.json": summary.with_suffix(".json").read_text(encoding="utf-8"),
    }
    if fitting:
        texts[f"{suite}-{COMMUNITY}.csv"] = _together(fitting)
    for file, text in texts.items():
        write_file(target / file, text)
    stores = [Summary(folder / "summary.parquet") for folder, _ in fitting]
    write_page(beside(own, stores) if stores else opened(own), target / f"{suite}.html")
    if name == suite:  # the newest of its name
        for file in (*texts, f"{suite}.html", f"{suite}.parquet"):
            shutil.copyfile(target / file, out / file)
    return Board(
        f"{version}/{suite}", card, tuple(str(theirs["name"]) for _, theirs in fitting), departs
    )


def _together(sent: list[tuple[Path, dict[str, Any]]]) -> str:
    """The numbers of all submissions, and whose they are."""
    text = io.StringIO()
    writer = csv.DictWriter(
        text,
        (*PAPER_COLUMNS, *EXTRA_COLUMNS, "submission"),
        lineterminator="\n",
        extrasaction="ignore",
    )
    writer.writeheader()
    for folder, card in sent:
        lines = (folder / NUMBERS).read_text(encoding="utf-8").splitlines()
        rows = ({**row, "submission": card["name"]} for row in csv.DictReader(lines))
        writer.writerows({key: escape_cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _last(board: Board) -> tuple[str, str]:
    """Whether the suite was run as it stands, and who else is on the board."""
    return "; ".join(board.departs) or "as it stands", ", ".join(board.community) or "none"


def _index(boards: list[Board]) -> str:
    """A page that links to all of them."""
    rows = []
    for board in sorted(boards, key=lambda board: board.place):
        card, place = board.card, html.escape(board.place)
        words = (
            card.get("runs", {}).get("done", ""),
            card.get("machine") or card["device"],
            card["published"],
        )
        cells = "".join(f"<td>{html.escape(str(word))}</td>" for word in (*words, *_last(board)))
        links = f'<a href="{place}.html">{place}</a></td><td><a href="{place}.csv">CSV</a>'
        rows.append(f"<tr><td>{links}</td>{cells}</tr>")
    heads = "".join(f"<th>{word}</th>" for word in HEADS)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>puarena: leaderboards</title>'
        f"<style>{STYLE}</style><h1>puarena: leaderboards</h1><table><tr>{heads}</tr>{''.join(rows)}</table>"
        "<p>Numbers in a folder named after a version never change; names without one are the newest.</p></html>\n"
    )
