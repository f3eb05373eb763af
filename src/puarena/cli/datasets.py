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
SkipBadImages = Annotated[
    bool, typer.Option("--skip-bad-images", help="leave out images that are missing or damaged")
]


@data_app.command("list")
def data_list(names: Names = None, data: opt.Data = None, as_json: opt.AsJson = False) -> None:
    """List the datasets and which of their files are here."""
    from puarena import datasets

    if as_json:
        answer(_describe_files(names, data))
        return
    for name in names or datasets.names():
        files = datasets.verify(name, data)
        present = [file.path for file in files if file.path is not None]
        count = f"{len(present)} of {len(files)} files here" if files else "embedded"
        # Other forms than the published file are named.
        published = {Path(file.file).name for file in files}
        others = ", ".join(path.name for path in present if path.name not in published)
        note = f" (found: {others})" if others else ""
        typer.echo(f"{name:<28}{count:<22}{datasets.info(name).title}{note}")


@data_app.command("fetch")
def data_fetch(names: Names = None, data: opt.Data = None) -> None:
    """Download missing files; each is verified before it is used."""
    from puarena import datasets

    for name in names or datasets.names():
        paths = ", ".join(str(path) for path in datasets.fetch(name, data))
        typer.echo(f"{name}: {paths or 'embedded, nothing to download'}")


@data_app.command("verify")
def data_verify(names: Names = None, data: opt.Data = None, as_json: opt.AsJson = False) -> None:
    """Check the files that are here against their checksums."""
    from puarena import datasets

    if as_json:
        answer(_describe_files(names, data))
    bad = []
    for name in names or datasets.names():
        for file in datasets.verify(name, data):
            path = file.path or file.file
            if not as_json:
                typer.echo(f"{name:<28}{file.status:<20}{path}")
            if file.status == "wrong checksum" or (names and file.status == "missing"):
                bad.append(f"'{path}' of {name}: {file.status}")
    if bad:
        message = f"{len(bad)} file(s) are not as published: {'; '.join(bad)}"
        raise UserError(message, "damaged-file")


@data_app.command("prepare")
def data_prepare(
    names: Names = None, data: opt.Data = None, skip_bad_images: SkipBadImages = False
) -> None:
    """Read datasets once; decoded images are cached, so that runs start at once."""
    from puarena import datasets
    from puarena.datasets.download import SKIP_VARIABLE

    if skip_bad_images:
        os.environ[SKIP_VARIABLE] = "1"
    for name in names or datasets.names():
        shape = datasets.load(name, data).features.shape
        typer.echo(f"{name}: {' x '.join(map(str, shape))}")


def _describe_files(names: list[str] | None, data: Path | None) -> list[dict[str, Any]]:
    """Return the datasets and the state of their files, for programs."""
    from puarena import datasets

    described = []
    for name in names or datasets.names():
        files = [asdict(file) for file in datasets.verify(name, data)]
        described.append({"name": name, "title": datasets.info(name).title, "files": files})
    return described


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(data_app, name="data")
