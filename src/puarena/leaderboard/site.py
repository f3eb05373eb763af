"""The leaderboard as static files: a page per suite, and CSV files under permanent names.

``VERSION/SUITE-PROFILE.csv`` does not change once that version of puarena is superseded;
``SUITE-PROFILE.csv`` is the newest. Rows of the community are on the page next to ours, and in a
CSV file of their own. Every number is computed from a summary.
"""

from __future__ import annotations

import csv
import html
import io
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from puarena.errors import UserError
from puarena.leaderboard.publish import check_files, describe_departures, minor_version
from puarena.report.compare import to_published_csv
from puarena.report.page import write_page
from puarena.results import Results, Summary, open_results
from puarena.results.combine import BY_METHOD
from puarena.results.published import COMMUNITY, SUMMARY, card_file, list_summaries, read_card
from puarena.results.records import Card
from puarena.utils.files import cannot_write, escape_cell, write_file

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "td,th{text-align:left;padding:.2rem 1rem .2rem 0}"
)
HEADS = ("leaderboard", "numbers", "runs", "machine", "date", "suite", "community")
FOOT = "Numbers in a folder named after a version never change; names without one are the newest."


@dataclass(frozen=True)
class Board:
    """One leaderboard: its place, such as ``0.2/tabular-released``, and what made it."""

    place: str
    card: Card
    community: tuple[str, ...]
    departs: tuple[str, ...] = ()  # from the suite; submissions are not on such a board


@dataclass(frozen=True)
class Entry:
    """A submission that was accepted."""

    card: Card
    summary: Summary


def build(
    results: str | Path, out: str | Path, say: Callable[[str], None] = lambda _: None
) -> list[Board]:
    """Build the site from a folder of published results; a submission with a fault is left out."""
    results, out = Path(results), Path(out)
    summaries = {
        name: file
        for name, file in list_summaries(results).items()
        if not name.startswith(f"{COMMUNITY}/")
    }
    if not summaries:
        raise UserError(
            f"'{results}' has no published results; make some with 'puarena publish'", "no-results"
        )
    entries = []
    for folder in sorted(path for path in (results / COMMUNITY).glob("*") if path.is_dir()):
        # Checking a submission makes its plan, which needs torch; the site itself does not.
        from puarena.leaderboard.submit import check_submission

        try:
            entries.append(Entry(check_submission(folder), Summary(folder / SUMMARY)))
        except UserError as error:
            say(f"left out: {error}")
    try:
        boards = [_build_board(name, file, entries, out) for name, file in summaries.items()]
        write_file(out / "index.html", _write_index(boards))
    except OSError as error:
        raise cannot_write(out, error) from error
    return boards


def _build_board(name: str, summary: Path, entries: Sequence[Entry], out: Path) -> Board:
    """Write the page and the CSV files of one suite."""
    card = read_card(summary)
    check_files(card, summary.parent)
    version, suite = minor_version(card), name.rpartition("/")[2]
    own = Summary(summary)
    departs = tuple(describe_departures(own.spec))
    fitting = [entry for entry in entries if not departs and _fits(entry.card, card)]
    target = out / version
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(summary, target / f"{suite}.parquet")
    shutil.copyfile(card_file(summary), target / f"{suite}.json")
    to_published_csv(own, target / f"{suite}.csv")
    files = [f"{suite}.{end}" for end in ("parquet", "json", "csv", "html")]
    shown: Results = own
    if fitting:
        files.append(f"{suite}-{COMMUNITY}.csv")
        write_file(target / files[-1], _join_numbers(fitting))
        shown = open_results([own, *(entry.summary for entry in fitting)], BY_METHOD)
    write_page(shown, target / f"{suite}.html")
    if name == suite:  # the newest of its name
        for file in files:
            shutil.copyfile(target / file, out / file)
    community = tuple(entry.card.name for entry in fitting)
    return Board(f"{version}/{suite}", card, community, departs)


def _fits(submitted: Card, card: Card) -> bool:
    """Return whether a submission belongs on the board of published results."""
    facts = ((each.suite, each.profile, minor_version(each)) for each in (submitted, card))
    return len(set(facts)) == 1


def _join_numbers(entries: Sequence[Entry]) -> str:
    """Return the numbers of all submissions as a CSV file, with the name of each."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, entry in enumerate(entries):
        head, *rows = csv.reader(to_published_csv(entry.summary).splitlines())
        if not number:
            writer.writerow([*head, "submission"])
        writer.writerows([*row, escape_cell(entry.card.name)] for row in rows)
    return text.getvalue()


def _write_index(boards: Sequence[Board]) -> str:
    """Return a page that links to all boards."""
    rows = "".join(map(_write_row, sorted(boards, key=lambda board: board.place)))
    heads = "".join(f"<th>{head}</th>" for head in HEADS)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>puarena: leaderboards</title>'
        f"<style>{STYLE}</style><h1>puarena: leaderboards</h1><table><tr>{heads}</tr>{rows}</table>"
        f"<p>{FOOT}</p></html>\n"
    )


def _write_row(board: Board) -> str:
    card, place = board.card, html.escape(board.place)
    facts = (
        card.runs.get("done", ""),
        card.machine or card.device,
        card.published,
        "; ".join(board.departs) or "as it stands",
        ", ".join(board.community) or "none",
    )
    cells = "".join(f"<td>{html.escape(str(fact))}</td>" for fact in facts)
    links = f'<a href="{place}.html">{place}</a></td><td><a href="{place}.csv">CSV</a>'
    return f"<tr><td>{links}</td>{cells}</tr>"
