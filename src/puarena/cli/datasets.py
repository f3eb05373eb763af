"""Commands about datasets: data list, fetch, verify."""

from __future__ import annotations

from typing import Annotated

import typer

from puarena.cli import options as opt
from puarena.errors import UserError

data_app = typer.Typer(help="List, download and check datasets.", no_args_is_help=True, rich_markup_mode=None)
Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="datasets; all if none is named")]


@data_app.command("list")
def data_list(names: Names = None, data: opt.Data = None) -> None:
    """List the datasets and which of their files are here."""
    from puarena import data as room

    for name in names or room.names():
        info, files = room.info(name), room.verify(name, data)
        here = sum(file.path is not None for file in files)
        typer.echo(f"{name:<12}{f'{here} of {len(files)} files here' if files else 'embedded':<22}{info.title}")


@data_app.command("fetch")
def data_fetch(names: Names = None, data: opt.Data = None) -> None:
    """Download what is missing, checked before it is kept."""
    from puarena import data as room

    for name in names or room.names():
        paths = room.fetch(name, data)
        typer.echo(f"{name}: {', '.join(str(path) for path in paths) or 'embedded, nothing to download'}")


@data_app.command("verify")
def data_verify(names: Names = None, data: opt.Data = None) -> None:
    """Check the files that are here against their checksums."""
    from puarena import data as room

    bad: list[str] = []
    for name in names or room.names():
        for file in room.verify(name, data):
            typer.echo(f"{name:<12}{file.status:<20}{file.path or file.file}")
            if file.status == "wrong checksum" or (names and file.status == "missing"):
                bad.append(f"'{file.path or file.file}' of {name}: {file.status}")
    if bad:
        raise UserError(f"{len(bad)} file(s) are not as published: {'; '.join(bad)}")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(data_app, name="data")
