"""Commands about datasets: data list, fetch, verify, prepare."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.manners import App, answer
from puarena.errors import UserError

data_app = App(
    help="List, download, check and prepare datasets.", no_args_is_help=True, rich_markup_mode=None
)
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="datasets; all if none is named")
]


def _files(names: list[str] | None, data: Path | None) -> list[dict[str, Any]]:
    """The datasets and where their files are, for programs."""
    from puarena import datasets as room

    return [
        {
            "name": name,
            "title": room.info(name).title,
            "files": [asdict(file) for file in room.verify(name, data)],
        }
        for name in names or room.names()
    ]


@data_app.command("list")
def data_list(names: Names = None, data: opt.Data = None, as_json: opt.AsJson = False) -> None:
    """List the datasets and which of their files are here."""
    from puarena import datasets as room

    if as_json:
        answer(_files(names, data))
        return
    for name in names or room.names():
        info, files = room.info(name), room.verify(name, data)
        here = sum(file.path is not None for file in files)
        forms = [
            file.path.name for file in files if file.path and file.path.name != Path(file.file).name
        ]
        present = (
            f" (found: {', '.join(forms)})" if forms else ""
        )  # another form than the published one
        count = f"{here} of {len(files)} files here" if files else "embedded"
        typer.echo(f"{name:<28}{count:<22}{info.title}{present}")


@data_app.command("fetch")
def data_fetch(names: Names = None, data: opt.Data = None) -> None:
    """Download what is missing, checked before it is kept."""
    from puarena import datasets as room

    for name in names or room.names():
        paths = room.fetch(name, data)
        typer.echo(
            f"{name}: {', '.join(str(path) for path in paths) or 'embedded, nothing to download'}"
        )


@data_app.command("verify")
def data_verify(names: Names = None, data: opt.Data = None, as_json: opt.AsJson = False) -> None:
    """Check the files that are here against their checksums."""
    from puarena import datasets as room

    bad: list[str] = []
    if as_json:
        answer(_files(names, data))
    for name in names or room.names():
        for file in room.verify(name, data):
            if not as_json:
                typer.echo(f"{name:<28}{file.status:<20}{file.path or file.file}")
            if file.status == "wrong checksum" or (names and file.status == "missing"):
                bad.append(f"'{file.path or file.file}' of {name}: {file.status}")
    if bad:
        raise UserError(f"{len(bad)} file(s) are not as published: {'; '.join(bad)}")


@data_app.command("prepare")
def data_prepare(
    names: Names = None,
    data: opt.Data = None,
    skip_bad_images: Annotated[
        bool, typer.Option("--skip-bad-images", help="leave out images that are missing or damaged")
    ] = False,
) -> None:
    """Read datasets once; images are decoded and kept, so that runs start at once."""
    from puarena import datasets as room
    from puarena.datasets.image_files import SKIP_ENVIRONMENT

    if skip_bad_images:
        os.environ[SKIP_ENVIRONMENT] = "1"
    for name in names or room.names():
        shape = " x ".join(str(size) for size in room.load(name, data).features.shape)
        path = room.cache_file(name, data)
        typer.echo(
            f"{name}: {shape}"
            + (f", kept in {path} ({path.stat().st_size / 1e6:,.0f} MB)" if path else "")
        )


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(data_app, name="data")
