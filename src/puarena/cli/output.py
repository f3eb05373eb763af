"""Printing: answers on stdout, as a table, text or JSON; everything else on stderr by ``logging``.

All text goes through :func:`print_text` and the consoles of :func:`open_console`, which leave out
control characters: names and reasons in results may be anyone's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from puarena.utils.plain import to_json
from puarena.utils.terminal import open_console, strip_controls

if TYPE_CHECKING:
    from rich.console import Console

PIPE_COLUMNS = 10_000  # width of a table that no terminal shows
SHARED_OPTIONS = ("quiet", "verbose", "json")

log = logging.getLogger("puarena")


@dataclass
class OutputOptions:
    """What ``-q``, ``-v`` and ``--json`` say; ``ctx.obj`` of every command."""

    quiet: bool = False
    verbose: bool = False
    json: bool = False


def _apply(ctx: typer.Context, param: typer.CallbackParam, value: bool) -> None:
    """Take over a shared option, given before or after the name of the command."""
    options = ctx.ensure_object(OutputOptions)
    if value and param.name is not None:
        setattr(options, param.name, True)
    verbosity = logging.DEBUG if options.verbose else logging.INFO
    log.setLevel(logging.ERROR if options.quiet else verbosity)


Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        envvar="PUARENA_QUIET",
        expose_value=False,
        callback=_apply,
        help="print the answer and errors, and nothing else",
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        expose_value=False,
        callback=_apply,
        help="print more: every fleet that is stored, and the traceback of an error",
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", expose_value=False, callback=_apply, help="print the answer as JSON"),
]


class _Command(TyperCommand):
    """A command that also takes the shared options of the root command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, and the shared ones."""
        shared = [each for each in ctx.find_root().command.params if each.name in SHARED_OPTIONS]
        *own, help_option = super().get_params(ctx)
        return [*own, *shared, help_option]


class App(typer.Typer):
    """A group of commands that take the shared options."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"rich_markup_mode": None, "no_args_is_help": True, **options})

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Register a command."""
        return super().command(name, **{"cls": _Command, **options})


class _TerminalHandler(logging.Handler):
    """Prints messages on stderr; a closed stderr is ignored."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            print_text(record.getMessage(), stderr=True)


log.addHandler(_TerminalHandler())


def print_text(text: str, stderr: bool = False) -> None:
    """Print a text without control characters."""
    typer.echo(strip_controls(text), err=stderr)


View = str | Mapping[str, str] | Callable[["Console"], object] | None


def emit(ctx: typer.Context, answer: Any, view: View) -> None:
    """Print the answer of a command: as JSON with ``--json``, otherwise as ``view``.

    ``view`` is text, a function that prints on a console, the columns of a table of the rows in
    ``answer`` (their headings by key), or None for nothing.
    """
    if ctx.obj.json:
        print_text(to_json(answer))
    elif isinstance(view, str):
        print_text(view)
    elif isinstance(view, Mapping):
        _print_table(answer, view)
    elif view is not None:
        view(open_console())


def _print_table(rows: list[dict[str, Any]], columns: Mapping[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    console = open_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for at, heading in enumerate(columns.values()):
        table.add_column(heading, no_wrap=at == 0)
    for row in rows:
        table.add_row(*(Text(format_cell(row[key])) for key in columns))
    if not console.is_terminal:
        wide = console.options.update(max_width=PIPE_COLUMNS)
        console.width = max(console.width, console.measure(table, options=wide).maximum)
    console.print(table)


def format_cell(value: Any) -> str:
    """Return a value as a cell of a table."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)
