"""The leaderboard as static files: a front page, a page per board, and CSV files.

``VERSION/SUITE-PROFILE.csv`` does not change once that version of puarena is superseded;
``SUITE-PROFILE.csv`` is the newest. Rows of the community are on the page next to ours, and in a
CSV file of their own. A submission to a suite without published results gets a board of its own.
Every number is computed from a summary, facts are read from cards, and all text is escaped by the
template. The pages need no network; without their script only searching and sorting are missing.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from puarena import __version__
from puarena.errors import UserError
from puarena.leaderboard.publish import (
    check_files,
    describe_departures,
    minor_version,
    name_community_board,
    share_board,
)
from puarena.leaderboard.quality_time import HEIGHT, WIDTH, make_chart
from puarena.metrics import CRITERIA, METRICS
from puarena.report.compare import to_published_csv
from puarena.report.figures.base import read_seconds
from puarena.report.page import write_page
from puarena.report.page.page import TEMPLATES as REPORT_TEMPLATES
from puarena.report.page.page import load_template
from puarena.report.select import add_labels, select
from puarena.report.sources import open_curves
from puarena.report.statistics import collect_scores, compute_standings, describe_winner
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
from puarena.results.records import Card, Verdict
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


TEMPLATES = Path(__file__).parent / "templates"
PAPER_SUITES = ("paper", "tabular", "images")  # the order of their boards
MAX_BEST = 5  # methods on the card of a board
PLAIN_CRITERION = "pa"  # whose form of the profile chooses the models of all numbers
# The columns of numbers: metric and criterion, in the names of the paper's definitions.
SCORE_COLUMNS = (("accuracy", "pa"), ("auc", "pa"), ("accuracy", "oa"))


@dataclass(frozen=True)
class Entry:
    """A submission that was accepted."""

    card: Card
    results: Results

    @property
    def verdict(self) -> Verdict | None:
        """What a rerun of one of its rows said, if it is of this card."""
        return read_verdict(self.results.path)


@dataclass(frozen=True)
class Board:
    """One leaderboard: its place, such as ``0.2/tabular-released``, and what made it."""

    place: str
    card: Card
    shown: Results  # our own results and those of submissions
    entries: tuple[Entry, ...] = ()
    departs: tuple[str, ...] = ()  # from the suite; submissions are not on such a board
    newest: bool = True  # of its name
    verdict: Verdict | None = None
    ours: frozenset[str] = frozenset()  # methods that we published

    @property
    def community(self) -> tuple[str, ...]:
        """The names of submissions."""
        return tuple(entry.card.name for entry in self.entries)

    @property
    def name(self) -> str:
        """Its name without the version."""
        return self.place.rpartition("/")[2]

    @property
    def version(self) -> str:
        """The version of its numbers."""
        return self.place.partition("/")[0]

    def sort_key(self) -> tuple[Any, ...]:
        """The paper's boards come first, then whole suites, and within a suite the definitions."""
        suite = self.card.suite
        order = PAPER_SUITES.index(suite) if suite in PAPER_SUITES else len(PAPER_SUITES)
        kind = (bool(self.departs), not self.ours, order)
        return (not self.newest, *kind, suite, self.card.profile != "definition", self.name)


@dataclass(frozen=True)
class Line:
    """One method on one board."""

    board: Board
    method: str
    place: str
    interval: str
    numbers: tuple[float | None, ...]  # of SCORE_COLUMNS, in percent
    author: str = ""
    code: str = ""
    submission: str = ""
    badges: tuple[str, ...] = ()
    tied: bool = False
    baseline: bool = False


def write_front_page(boards: Sequence[Board]) -> str:
    """Return the front page as HTML."""
    ordered = sorted(boards, key=Board.sort_key)
    parts = [describe_board(board) for board in ordered if board.newest]
    lines = [line for part in parts for line in part["lines"]]
    return load_template(TEMPLATES, "index.html.j2").render(
        css="\n".join(
            (folder / file).read_text(encoding="utf-8")
            for folder, file in ((REPORT_TEMPLATES, "page.css"), (TEMPLATES, "index.css"))
        ),
        js=(TEMPLATES / "index.js").read_text(encoding="utf-8"),
        parts=parts,
        lines=lines,
        boards=ordered,
        width=WIDTH,
        height=HEIGHT,
        columns=[(METRICS[metric], CRITERIA[criterion]) for metric, criterion in SCORE_COLUMNS],
        methods=len({line.method for line in lines if not line.baseline}),
        runs=sum(part["board"].card.runs.get("done", 0) for part in parts),
        submissions=sum(len(part["board"].entries) for part in parts),
        versions=sorted({board.version for board in boards}, reverse=True),
        version=__version__,
    )


def describe_board(board: Board) -> dict[str, Any]:
    """Return what the page shows of a board: the winner, the best methods and all its lines."""
    curves = open_curves(board.shown)
    plain = {CRITERIA[name].replaces or name: name for name in curves.criteria()}
    selection = add_labels(select(curves, list(plain.values())))
    columns = [
        _mean_over_problems(selection, metric, plain.get(criterion))
        for metric, criterion in SCORE_COLUMNS
    ]
    places: dict[Any, Any] = {}
    sentence = ""
    if PLAIN_CRITERION in plain:
        scores = collect_scores(selection, "accuracy", plain[PLAIN_CRITERION])
        if not scores.splits.empty:
            standings = compute_standings(scores.splits, scores.datasets)
            places = standings.table.to_dict("index")
            sentence = describe_winner(standings, "accuracy")
    columns[0] |= {method: float(row["mean"]) for method, row in places.items()}
    first = selection.drop_duplicates("method")
    facts: dict[str, Any] = dict(zip(first["method"], first.to_dict("records"), strict=True))
    papers = {name: info.paper for name, info in curves.methods.items()}
    lines = [
        _make_line(board, method, facts[method], places.get(method, {}), columns, papers)
        for method in dict.fromkeys([*places, *facts])
    ]
    spec = board.shown.info.spec
    return {
        "board": board,
        "title": board.card.question or str(spec.get("title") or board.name),
        "description": str(spec.get("description") or ""),
        "sentence": sentence,
        "lines": lines,
        "best": [line for line in lines if line.place][:MAX_BEST],
        **_chart_time(curves, selection, lines),
        "problems": int(selection["problem"].nunique()),
        "datasets": sorted({str(name) for name in selection["dataset"]}),
    }


def _make_line(
    board: Board,
    method: str,
    facts: dict[str, Any],
    place: dict[str, Any],
    columns: Sequence[dict[str, float]],
    papers: Mapping[str, str],
) -> Line:
    """Return the line of a method; ``place`` is empty where it has none."""
    algorithm = facts["algorithm"]
    return Line(
        board,
        method,
        f"{place['place']:g}" if place else "",
        _format_interval(place.get("place_low"), place.get("place_high")),
        tuple(column.get(method) for column in columns),
        tied=bool(place.get("tied", False)),
        baseline=bool(facts["baseline"] or facts["supervised"]),
        **_describe_origin(board, algorithm, papers.get(algorithm, "")),
    )


def _chart_time(curves: Any, selection: Any, lines: Sequence[Line]) -> dict[str, Any]:
    """Return the chart of quality against time in the first numbers that methods have, if any."""
    spent = read_seconds(curves, selection).dropna(subset=["seconds"])
    seconds = spent.groupby("method")["seconds"].mean().to_dict()
    for place, (metric, criterion) in enumerate(SCORE_COLUMNS):
        points: dict[str, tuple[float, float]] = {}
        for line in lines:
            value = line.numbers[place]
            if not line.baseline and value is not None and line.method in seconds:
                points[line.method] = seconds[line.method], value
        if chart := make_chart(points):
            title = f"{METRICS[metric].title}, {CRITERIA[criterion].title}"
            return {"chart": chart, "chart_title": title}
    return {"chart": None}


def _mean_over_problems(selection: Any, metric: str, criterion: str | None) -> dict[str, float]:
    """Return the means of the methods that have a result on every problem."""
    if criterion is None:
        return {}
    means = collect_scores(selection, metric, criterion).means
    whole = means.loc[:, means.notna().all()].mean()
    return {str(name): float(value) for name, value in whole.items()}


def _format_interval(low: float | None, high: float | None) -> str:
    """Return an interval of places; nothing if there is none."""
    if low is None or high is None or low != low or high != high:
        return ""
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _describe_origin(board: Board, algorithm: str, paper: str) -> dict[str, Any]:
    """Return the author, code and badges of a row."""
    entry = None
    if algorithm not in board.ours:
        entry = next((each for each in board.entries if algorithm in each.card.methods), None)
    verdict = board.verdict if entry is None else entry.verdict
    badges = ["published by us" if entry is None else "community"]
    if verdict is not None and verdict.reproduced:
        badges.append("reproduced")
    if entry is None:
        return {"author": cite(paper), "badges": tuple(badges)}
    card = entry.card
    author = card.author or cite(paper)
    return {"author": author, "code": card.code, "submission": card.name, "badges": tuple(badges)}


def cite(paper: str) -> str:
    """Return a citation in short: the authors and the year of ``Authors: Title. Venue YEAR``."""
    authors = paper.partition(":")[0].strip() if ":" in paper else paper
    years = re.findall(r"\b(?:19|20)\d\d\b", paper)
    names = [name.strip() for name in authors.split(",")]
    short = authors if len(names) < 3 else f"{names[0]} et al."
    return f"{short}, {years[-1]}" if years and years[-1] not in short else short
