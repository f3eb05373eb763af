"""Published results: the folder ``results/`` of the repository, in the wheel ``puarena/published``.

Each is a summary ``NAME.parquet``, its numbers as ``NAME.csv``, and a card ``NAME.json`` that says
what made them; submissions are in ``community/NAME/``. ``published:NAME`` names one wherever
results are read.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from puarena.errors import UserError, unknown_name
from puarena.results.records import Card, Verdict, read_record

PREFIX = "published:"
DEFAULT_PROFILE = "-definition"  # of a name without a profile
COMMUNITY = "community"
# Files of a submission; the last is written by the machine that checks it.
SUMMARY, NUMBERS, CARD, VERDICT = "summary.parquet", "results.csv", "card.json", "verdict.json"


def is_published(source: object) -> bool:
    """Return whether a source is ``published:NAME``."""
    return str(source).startswith(PREFIX)


def folder() -> Path:
    """Return the folder of published results, in the package or in the repository."""
    package = Path(__file__).parents[1]
    for place in (package / "published", package.parents[1] / "results"):
        if place.is_dir():
            return place
    raise UserError(
        "this installation has no published results; take the folder 'results' of the repository",
        "missing-file",
    )


def list_summaries(place: Path | None = None) -> dict[str, Path]:
    """Return the published summaries by name."""
    place = folder() if place is None else place
    current = {file.stem: file for file in sorted(place.glob("*.parquet"))}
    older = {
        f"{file.parent.name}/{file.stem}": file for file in sorted(place.glob("[0-9]*/*.parquet"))
    }
    submissions = sorted(place.glob(f"{COMMUNITY}/*/{SUMMARY}"))
    community = {f"{COMMUNITY}/{file.parent.name}": file for file in submissions}
    return current | older | community


def find(source: str | Path) -> Path:
    """Return the summary of ``published:NAME``; the default profile may be left out."""
    name, known = str(source).removeprefix(PREFIX), list_summaries()
    for candidate in (name, name + DEFAULT_PROFILE):
        if candidate in known:
            return known[candidate]
    raise unknown_name("published result", name, known)


def card_file(summary: Path) -> Path:
    """Return the path of a summary's card."""
    return summary.with_name(CARD) if summary.name == SUMMARY else summary.with_suffix(".json")


def read_card(summary: Path) -> Card:
    """Return the card of a published summary."""
    return read_record(Card, card_file(summary), "a card of published results", "get it again")


def verdict_file(summary: Path) -> Path:
    """Return the path of the verdict on a summary."""
    if summary.name == SUMMARY:
        return summary.with_name(VERDICT)
    return summary.with_suffix(f".{VERDICT}")


def read_verdict(summary: Path) -> Verdict | None:
    """Return the verdict on a published summary; None without one, or if the card has changed."""
    file = verdict_file(summary)
    if not file.exists():
        return None
    verdict = read_record(Verdict, file, "a verdict on published results", "remove it")
    current = hashlib.sha256(card_file(summary).read_bytes()).hexdigest()
    return verdict if verdict.card == current else None
