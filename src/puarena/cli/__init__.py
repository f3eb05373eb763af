"""The command line: thin, every command is one call into the rooms, and nothing heavy is imported before it is needed.

What a user can fix ends as ``error: <one sentence>`` on stderr with exit code 2. Exit code 1: some fleets failed; 3:
the time of ``--for`` is up; 4: every run diverged; 130: interrupted.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from puarena import __version__
from puarena.cli import algorithms, bias, community, datasets, experiments, figures, practice, priors, reports, speed
from puarena.errors import UserError
from puarena.without_torch import TRAINING, needs


class _Commands(TyperGroup):
    """Turns a UserError of any command into one sentence and exit code 2; refuses empty words."""

    _empty = ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self._empty = _empty_word(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            if self._empty:
                raise UserError(self._empty)
            return super().invoke(ctx)
        except UserError as error:
            sentence = str(error)
        except BrokenPipeError:
            raise  # whoever read the output has gone
        except OSError as error:  # a full disk, a folder that may not be written
            sentence = f"'{error.filename}': {error.strerror}" if error.filename else error.strerror or str(error)
        except MemoryError:
            sentence = "there is not enough memory for this"
        except ModuleNotFoundError as error:
            if not error.name or error.name.split(".")[0] not in TRAINING:
                raise
            sentence = needs(error.name)
        typer.echo(f"error: {sentence}", err=True)
        raise typer.Exit(2)


def _empty_word(args: list[str]) -> str:
    """What to say of an empty argument: an empty path would mean the present folder."""
    for before, word in zip(["", *args], args, strict=False):
        option, equals, value = word.partition("=")
        named = option if option.startswith("--") and equals else before if before.startswith("-") else ""
        if not word or (word.startswith("--") and equals and not value):
            what = f"{named} is empty" if named else "an argument is empty"
            return f"{what}; give it a value, or leave it away (is a variable of the shell not set?)"
    return ""


app = typer.Typer(
    cls=_Commands,
    help="An honest arena for positive-unlabeled learning.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    if version:
        typer.echo(f"puarena {__version__}")
        raise typer.Exit


for _room in (practice, priors, experiments, algorithms, reports, figures, community, datasets, bias, speed):
    _room.add_to(app)


def main() -> None:
    """Entry point of the ``puarena`` command."""
    app(prog_name="puarena")
