"""The command line: every command is one call into a package of the library.

An error that a user can correct is printed as ``error: <one sentence>`` on stderr, with exit code
2; docs/command-line.md lists the other codes. Nothing large is imported before it is needed.
"""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from puarena import __version__
from puarena.cli import bias, datasets, estimators, experiments, leaderboard, methods, reports
from puarena.cli.output import App, Json, Quiet, Verbose, log
from puarena.errors import UserError, missing_package

EXIT_USER_ERROR = 2


class _RootGroup(TyperGroup):
    """Turns errors that a user can correct into one sentence and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # ends the command without a message
        except (UserError, OSError, MemoryError, ImportError) as error:
            sentence = _describe_error(error)
            if sentence is None:
                raise
            log.debug(traceback.format_exc().rstrip())
            log.error(f"error: {sentence}")
            raise typer.Exit(EXIT_USER_ERROR) from None
        except KeyboardInterrupt as interrupt:
            log.error("interrupted; stored files are complete: run the same command again")
            raise typer.Exit(getattr(interrupt, "code", experiments.INTERRUPTED)) from None


def _describe_error(error: Exception) -> str | None:
    """Return what went wrong in one sentence; None if it is a mistake of the program."""
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return f"'{error.filename}': {reason}" if error.filename else reason
    # A library that does not fit is an ImportError.
    if isinstance(error, MemoryError) or "failed to map segment" in str(error):
        return "there is not enough memory"
    if isinstance(error, ModuleNotFoundError):
        missing = missing_package(error)
        return None if missing is None else str(missing)
    return None if isinstance(error, ImportError) else str(error)


app = App(
    cls=_RootGroup,
    help="An honest arena for positive-unlabeled learning.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"puarena {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="print the version"),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Take the options that all commands share, see :mod:`puarena.cli.output`."""


for module in (estimators, experiments, methods, reports, leaderboard):
    app.add_typer(module.app)
app.add_typer(datasets.app, name="data")
app.add_typer(bias.app, name="bias")


def main() -> None:
    """Run the ``puarena`` command."""
    try:
        app(prog_name="puarena")
    except RuntimeError as error:
        # Of --install-completion, which writes into the home directory.
        if "home directory" not in str(error):
            raise
        log.error("error: this account has no home directory; set the variable HOME")
        sys.exit(EXIT_USER_ERROR)
