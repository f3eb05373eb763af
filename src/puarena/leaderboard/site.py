"""The leaderboard as static files: a front page, a page per board, and CSV files.

``VERSION/SUITE-PROFILE.csv`` does not change once that version of puarena is superseded;
``SUITE-PROFILE.csv`` is the newest. Rows of the community are on the page next to ours, and in a
CSV file of their own. A submission to a suite without published results gets a board of its own.
Every number is computed from a summary.
"""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from puarena.errors import UserError
from puarena.leaderboard.front_page import Board, Entry, write_front_page
from puarena.leaderboard.publish import (
    check_files,
    describe_departures,
    minor_version,
    name_community_board,
    share_board,
)
from puarena.report.compare import to_published_csv
from puarena.report.page import write_page
from puarena.results import Results, Summary, open_results
from puarena.results.combine import BY_METHOD
from puarena.results.published import (
    COMMUNITY,
    SUMMARY,
    card_file,
    list_summaries,
    read_card,
    read_verdict,
)
from puarena.utils.files import cannot_write, escape_cell, write_file

FRONT_PAGE = "index.html"


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
    entries = list(_read_entries(results, say))
    if not summaries and not entries:
        raise UserError(
            f"'{results}' has no published results; make some with 'puarena publish'", "no-results"
        )
    try:
        boards = [_build_board(name, file, entries, out, say) for name, file in summaries.items()]
        placed = {id(entry) for board in boards for entry in board.entries}
        left = [entry for entry in entries if id(entry) not in placed]
        boards += _build_community_boards(left, out, say)
        write_file(out / FRONT_PAGE, write_front_page(boards))
    except OSError as error:
        raise cannot_write(out, error) from error
    return boards


def _read_entries(results: Path, say: Callable[[str], None]) -> Iterator[Entry]:
    """Yield the submissions that can be accepted."""
    for folder in sorted(path for path in (results / COMMUNITY).glob("*") if path.is_dir()):
        # Checking a submission makes its plan, which needs torch; the site itself does not.
        from puarena.leaderboard.submit import check_submission

        try:
            card = check_submission(folder)
        except UserError as error:
            say(f"left out: {error}")
        else:
            yield Entry(card, Summary(folder / SUMMARY))


def _build_board(
    name: str, summary: Path, entries: Sequence[Entry], out: Path, say: Callable[[str], None]
) -> Board:
    """Write the page and the CSV files of one suite."""
    card = read_card(summary)
    check_files(card, summary.parent)
    version, suite = minor_version(card), name.rpartition("/")[2]
    own = Summary(summary)
    departs = tuple(describe_departures(own.spec))
    ours = frozenset(own.spec.algorithms)
    fitting = [] if departs else [entry for entry in entries if share_board(entry.card, card)]
    fitting = _drop_repeated(fitting, ours, say)
    target = out / version
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(summary, target / f"{suite}.parquet")
    shutil.copyfile(card_file(summary), target / f"{suite}.json")
    to_published_csv(own, target / f"{suite}.csv")
    files = [f"{suite}.{end}" for end in ("parquet", "json", "csv")]
    shown: Results = own
    if fitting:
        files.append(f"{suite}-{COMMUNITY}.csv")
        write_file(target / files[-1], _join_numbers(fitting))
        shown = open_results([own, *(entry.results for entry in fitting)], BY_METHOD)
    newest = name == suite
    _write_board(shown, target, suite, files, newest)
    verdict = read_verdict(summary)
    place = f"{version}/{suite}"
    return Board(place, card, shown, tuple(fitting), departs, newest, verdict, ours)


def _build_community_boards(
    entries: Sequence[Entry], out: Path, say: Callable[[str], None]
) -> list[Board]:
    """Write a board for the submissions to each suite that has no board of ours."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        name = name_community_board(entry.card)
        groups.setdefault((minor_version(entry.card), name), []).append(entry)
    newest = {name: max(v for v, other in groups if other == name) for _, name in groups}
    boards = []
    for (version, name), group in groups.items():
        kept = _drop_repeated(group, frozenset(), say)
        target = out / version
        target.mkdir(parents=True, exist_ok=True)
        write_file(target / f"{name}.csv", _join_numbers(kept))
        shown = open_results([entry.results for entry in kept], BY_METHOD)
        is_newest = version == newest[name]
        _write_board(shown, target, name, [f"{name}.csv"], is_newest)
        place = f"{version}/{name}"
        boards.append(Board(place, kept[0].card, shown, tuple(kept), newest=is_newest))
    return boards


def _write_board(
    shown: Results, target: Path, name: str, files: Sequence[str], newest: bool
) -> None:
    """Write the page of a board; the newest of its name is also copied to the permanent names."""
    page = f"{name}.html"
    write_page(shown, target / page, home=f"../{FRONT_PAGE}")
    if newest:
        for file in files:
            shutil.copyfile(target / file, target.parent / file)
        html = (target / page).read_text(encoding="utf-8")
        html = html.replace(f'href="../{FRONT_PAGE}"', f'href="{FRONT_PAGE}"', 1)
        write_file(target.parent / page, html)


def _drop_repeated(
    entries: Sequence[Entry], ours: frozenset[str], say: Callable[[str], None]
) -> list[Entry]:
    """Return the submissions that bring a method of their own; a name belongs to the first."""
    owners = dict.fromkeys(ours, "puarena")
    kept = []
    for entry in entries:
        new = [name for name in entry.card.methods if name not in owners]
        if not new:
            taken = ", ".join(f"{name} ({owners[name]})" for name in entry.card.methods)
            say(f"left out: '{entry.card.name}' has no method that is new on its board: {taken}")
            continue
        owners |= dict.fromkeys(new, entry.card.name)
        kept.append(entry)
    return kept


def _join_numbers(entries: Sequence[Entry]) -> str:
    """Return the numbers of all submissions as a CSV file, with the name of each."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, entry in enumerate(entries):
        head, *rows = csv.reader(to_published_csv(entry.results).splitlines())
        if not number:
            writer.writerow([*head, "submission"])
        writer.writerows([*row, escape_cell(entry.card.name)] for row in rows)
    return text.getvalue()
