"""Typed records of the JSON in a results folder, a summary and a card.

Everything that such a file says is read through these models, so that a wrong type is one error in
one place.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from puarena.catalog import MethodInfo
from puarena.errors import UserError
from puarena.utils.files import cannot_read

FleetName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+=-]{0,199}$")]


def _check_versions(versions: dict[str, str]) -> dict[str, str]:
    if "puarena" not in versions:
        raise ValueError("there is no version of puarena")
    return versions


@lru_cache(maxsize=1)
def _method_type() -> TypeAdapter[MethodInfo]:
    return TypeAdapter(MethodInfo)


def _check_method(facts: dict[str, Any]) -> dict[str, Any]:
    _method_type().validate_python(facts)
    return facts


MethodFacts = Annotated[dict[str, Any], AfterValidator(_check_method)]
Versions = Annotated[dict[str, str], AfterValidator(_check_versions)]
AnyStored = TypeVar("AnyStored", bound="Stored")


class Stored(BaseModel):
    """A record that is stored as JSON; keys that are not known here are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def to_json(self) -> str:
        """Return the record as JSON."""
        return self.model_dump_json(indent=2, exclude_unset=True)


class StoredProblem(Stored):
    """A problem of a stored spec, as far as readers use it."""

    dataset: str


class StoredSpec(Stored):
    """A stored spec, as far as readers use it where its methods are not installed."""

    name: str = ""
    title: str = ""
    description: str = ""
    problems: tuple[StoredProblem, ...] = ()
    algorithms: tuple[str, ...] | str = ()
    plugins: tuple[str, ...] = ()
    hyper: dict[str, dict[str, Any]] = {}
    steps: int | None = None
    splits: int | None = None
    configs: int | None = None
    warmup: int | None = None
    record_every: int | None = None


def _check_spec(spec: dict[str, Any]) -> dict[str, Any]:
    StoredSpec.model_validate(spec)
    return spec


SpecFacts = Annotated[dict[str, Any], AfterValidator(_check_spec)]


class FailureNote(Stored):
    """Why a fleet could not be finished: ``failures/FLEET.json``."""

    fleet: FleetName
    runs: tuple[str, ...]
    reason: str
    exception: str = ""
    message: str = ""
    place: str = ""
    machine: str = ""
    seconds: float = 0.0
    label: str = ""
    attempt: int = 1
    time: str = ""


class Origin(Stored):
    """One of several results that were joined."""

    folder: str
    kind: Literal["results folder", "summary"]
    runs: int
    spec_hash: str
    versions: Versions
    spec: SpecFacts


class SummaryFacts(Stored):
    """What an exported summary was made from."""

    criteria: tuple[str, ...] = ()
    runs: int
    records: int
    failures: tuple[FailureNote, ...] = ()
    puarena: str = ""


class ResultsInfo(Stored):
    """What is known about results as a whole: ``spec.json``, or the metadata of a summary."""

    format: int
    spec_hash: str
    spec_seal: str = ""  # digest of the spec
    versions: Versions
    command: str = ""  # that made the results, if it was given on a command line
    machine: str = ""
    commit: str = ""
    date: str = ""
    revisions: dict[str, str] = {}  # of datasets whose names do not determine their content
    notes: tuple[str, ...] = ()  # for readers of any table
    merged_by: str = ""
    sources: tuple[Origin, ...] = ()  # of joined results
    summary: SummaryFacts | None = None
    methods: tuple[MethodFacts, ...] = ()  # ``catalog.MethodInfo``; ``methods.json`` of a folder
    spec: SpecFacts


class Card(Stored):
    """What made published results, and the checksums of their files."""

    suite: str
    profile: str
    spec_hash: str
    command: str
    version: str
    torch: str
    device: str
    versions: Versions
    training_seconds: float = 0.0
    name: str = Field(min_length=1)
    commit: str = ""
    machine: str = ""
    wall_seconds: float | None = None
    published: str = ""
    runs: dict[str, int]
    missing: tuple[str, ...] = ()
    departs: tuple[str, ...] = ()  # from the suite
    splits: int
    configs: int
    steps: int
    optimizer: str
    spec: SpecFacts | None = None  # if no command makes it
    files: dict[str, str]  # checksums by file name
    question: str = ""  # that the board answers, for readers
    # of a submission
    author: str = ""
    code: str = ""
    methods: tuple[str, ...] = ()


class Verdict(Stored):
    """What a machine found when it ran one drawn row of published results again."""

    card: str  # SHA-256 of the card; the verdict is void for another one
    row: str
    problem: str
    seed: int  # of the draw
    reproduced: bool
    verdict: str
    version: str
    device: str
    date: str

    @property
    def sentence(self) -> str:
        """The verdict for readers."""
        outcome = "reproduced" if self.reproduced else "not reproduced"
        return f"{outcome} on {self.date}: {self.row} on {self.problem}"


def read_record(kind: type[AnyStored], file: Path, what: str, advice: str) -> AnyStored:
    """Read a record from a JSON file; ``what`` the file is and the ``advice`` go into the error."""
    return parse_record(kind, read_bytes(file, advice), f"'{file}'", what, advice)


def read_bytes(file: Path, advice: str) -> bytes:
    """Read a file; a pipe or a device, which would block or never end, is an error."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise UserError(f"'{file}' is not a file; {advice}", "damaged-file")
        return file.read_bytes()
    except OSError as error:
        raise cannot_read(file, error) from error


def parse_methods(content: bytes) -> tuple[dict[str, Any], ...]:
    """Check the JSON of a list of methods; raise ValueError for anything else."""
    return TypeAdapter(tuple[MethodFacts, ...]).validate_json(content)


def parse_record(
    kind: type[AnyStored],
    content: str | bytes | Mapping[str, Any],
    place: str,
    what: str,
    advice: str,
) -> AnyStored:
    """Check JSON, or a dictionary, against a record."""
    try:
        if isinstance(content, (str, bytes)):
            return kind.model_validate_json(content)
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise UserError(f"{place} is truncated or not JSON; {advice}", "damaged-file") from None
        key = ".".join(map(str, first["loc"]))
        reason = first["msg"][0].lower() + first["msg"][1:]
        raise UserError(
            f"{place} is not {what} ({key or 'content'}: {reason}); {advice}", "wrong-format"
        ) from None
