"""Results that come with the package: ``results/`` of the repository, in the wheel as ``puarena/published``.

Each is a summary ``NAME.parquet``, the same numbers as plain ``NAME.csv``, and a card ``NAME.json`` that says what made
them; those that others sent are ``community/NAME/``. ``published:NAME`` stands for one wherever results are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from puarena.errors import UserError, unknown_name
from puarena.utils.files import describe_error, parse_json

PREFIX = "published:"
USUAL = "-definition"  # the profile that is meant where a name has none
COMMUNITY = "community"
SUMMARY, NUMBERS, CARD = "summary.parquet", "results.csv", "card.json"  # of a submission


def is_published(source: object) -> bool:
    """Is it ``published:NAME``?"""
    return str(source).startswith(PREFIX)


def folder() -> Path:
    """Where they lie: inside the installed package, or in the repository of an editable installation."""
    package = Path(__file__).parents[1]
    places = (package / "published", package.parents[1] / "results")
    for place in places:
        if place.is_dir():
            return place
    raise UserError(
        "no published results come with this installation; take the folder 'results' of the repository"
    )


def listed(place: Path | None = None) -> dict[str, Path]:
    """The summaries by name."""
    place = folder() if place is None else place
    ours = {file.stem: file for file in sorted(place.glob("*.parquet"))}
    older = {
        f"{file.parent.name}/{file.stem}": file for file in sorted(place.glob("[0-9]*/*.parquet"))
    }
    others = {
        f"{COMMUNITY}/{f.parent.name}": f for f in sorted(place.glob(f"{COMMUNITY}/*/{SUMMARY}"))
    }
    return ours | older | others


def find(source: str | Path) -> Path:
    """The summary of ``published:NAME``; a suite without its profile is the one of the definitions."""
    name, known = str(source).removeprefix(PREFIX), listed()
    for candidate in (name, name + USUAL):
        if candidate in known:
            return known[candidate]
    raise unknown_name("published result", name, known)


def card_file(summary: Path) -> Path:
    """The card that lies beside a summary."""
    return summary.with_name(CARD) if summary.name == SUMMARY else summary.with_suffix(".json")


def read_card(summary: Path) -> dict[str, Any]:
    """What made a published summary."""
    file = card_file(summary)
    try:
        card = parse_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read the card '{file}' ({describe_error(error)})") from None
    except ValueError:
        raise UserError(f"the card '{file}' is not JSON") from None
    if not isinstance(card, dict):
        raise UserError(f"the card '{file}' was not written by puarena")
    return card
