"""How every command behaves: how much it says beside its answer, and that programs can read the answer."""

from __future__ import annotations

import inspect
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

QUIET_ENVIRONMENT = "PUARENA_QUIET"
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="say the answer and what went wrong, and nothing else")
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="say more: every fleet that is stored, and where an error came from"
    ),
]


@dataclass
class Manners:
    """How much the command that runs now is to say."""

    quiet: bool = False
    verbose: bool = False


manners = Manners()


def begin(quiet: bool, verbose: bool) -> None:
    """Take over what was asked for before the name of the command, or by the environment."""
    manners.quiet = quiet or os.environ.get(QUIET_ENVIRONMENT, "") not in ("", "0")
    manners.verbose = verbose


class App(typer.Typer):
    """Commands that can all be told to be quiet, or to say more."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Register a command, with the two options that all have at its end."""
        register = super().command(name, **options)

        def add(command: Callable[..., None]) -> Callable[..., None]:
            register(_with_manners(command))
            return command

        return add


def _with_manners(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def mannered(*, quiet: bool, verbose: bool, **values: Any) -> None:
        manners.quiet |= quiet
        manners.verbose |= verbose
        before = os.environ.get(QUIET_ENVIRONMENT, "")
        os.environ[QUIET_ENVIRONMENT] = (
            "1" if manners.quiet else ""
        )  # for the rooms, and for processes they start
        try:
            command(**values)
        finally:
            os.environ[QUIET_ENVIRONMENT] = before

    own = inspect.signature(command, eval_str=True).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter(name, kind, default=False, annotation=annotation)
        for name, annotation in (("quiet", Quiet), ("verbose", Verbose))
    ]
    signature = inspect.Signature([*(each.replace(kind=kind) for each in own), *more])
    mannered.__signature__ = signature  # type: ignore[attr-defined]
    mannered.__annotations__ = {
        name: parameter.annotation for name, parameter in signature.parameters.items()
    }
    return mannered


def say(text: str) -> None:
    """Say something that is not the answer; nobody may be there to hear it."""
    if not manners.quiet:
        complain(text)


def complain(text: str) -> None:
    """Say what went wrong, to the quiet too."""
    with suppress(OSError):
        typer.echo(text, err=True)


def answer(value: Any) -> None:
    """Print an answer for programs: JSON, in which a number that is none is null."""
    typer.echo(json.dumps(_plain(value), ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):  # of numpy
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
