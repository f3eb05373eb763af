"""The command line: thin, every command is one call into the rooms, and nothing heavy is imported before it is needed.

What a user can fix ends as ``error: <one sentence>`` on stderr with exit code 2; docs/command-line.md has the others.
"""

from __future__ import annotations

import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from puarena import __version__
from puarena.cli import (
    algorithms,
    bias,
    community,
    datasets,
    experiments,
    figures,
    practice,
    priors,
    reports,
    speed,
)
from puarena.cli.manners import App, Quiet, Verbose, begin, complain, manners
from puarena.errors import UserError, missing_package

INTERRUPTED = 130  # 128 and the number of SIGINT


class _Commands(TyperGroup):
    """Turns a UserError of any command into one sentence and exit code 2, an interrupt into exit code 130; refuses
    empty words."""

    _empty = ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self._empty = _empty_word(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            if self._empty:
                raise UserError(self._empty)
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # whoever read the output has gone
        except (UserError, OSError, MemoryError, ModuleNotFoundError) as error:
            sentence = _sentence(error)
            if sentence is None:
                raise
            if manners.verbose:
                complain(traceback.format_exc().rstrip())
            complain(f"error: {sentence}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt as interrupt:
            complain("interrupted; what was stored before is whole: run the same command again")
            raise typer.Exit(getattr(interrupt, "code", INTERRUPTED)) from None


def _empty_word(args: list[str]) -> str:
    """What to say of an empty argument: an empty path would mean the present folder."""
    for before, word in zip(["", *args], args, strict=False):
        option, equals, value = word.partition("=")
        named = (
            option
            if option.startswith("--") and equals
            else before
            if before.startswith("-")
            else ""
        )
        if not word or (word.startswith("--") and equals and not value):
            what = f"{named} is empty" if named else "an argument is empty"
            return (
                f"{what}; give it a value, or leave it away (is a variable of the shell not set?)"
            )
    return ""


def _sentence(error: Exception) -> str | None:
    """What went wrong, if that is for the user to fix."""
    if isinstance(error, OSError):  # a full disk, a folder that may not be written
        return (
            f"'{error.filename}': {error.strerror}"
            if error.filename
            else error.strerror or str(error)
        )
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    if isinstance(error, ModuleNotFoundError):
        missing = missing_package(error)
        return None if missing is None else str(missing)
    return str(error)


app = App(
    cls=_Commands,
    help="An honest arena for positive-unlabeled learning.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    begin(quiet, verbose)
    if version:
        typer.echo(f"puarena {__version__}")
        raise typer.Exit


for _room in (
    practice,
    priors,
    experiments,
    algorithms,
    reports,
    figures,
    community,
    datasets,
    bias,
    speed,
):
    _room.add_to(app)


def main() -> None:
    """Entry point of the ``puarena`` command."""
    app(prog_name="puarena")
