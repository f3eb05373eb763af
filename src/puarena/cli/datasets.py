"""Commands about datasets: data list, fetch, prepare."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from puarena.cli import options as opt
from puarena.cli.output import App, emit
from puarena.errors import UserError
from puarena.utils.plain import to_plain

app = App(help="List, download, check and prepare datasets.")
Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="datasets; all if none is named")
]


@app.command("list")
def list_(ctx: typer.Context, names: Names = None, data: opt.Data = None) -> None:
    """List the datasets, and check their files that are here."""
    from puarena import datasets

    answer: list[dict[str, Any]] = []
    lines, bad = [], []
    for name in names or datasets.names():
        files = datasets.verify(name, data)
        title = datasets.info(name).title
        answer.append({"name": name, "title": title, "files": to_plain(files)})
        here = sum(file.path is not None for file in files)
        count = f"{here} of {len(files)} files here" if files else "embedded"
        lines.append(f"{name:<28}{count:<22}{title}")
        for file in files:
            if names:
                lines.append(f"    {file.status:<20}{file.path or file.file}")
            if file.status == "wrong checksum":
                bad.append(f"'{file.path}' of {name}")
    emit(ctx, answer, "\n".join(lines))
    if bad:
        raise UserError(f"wrong checksum: {'; '.join(bad)}", "damaged-file")


@app.command("fetch")
def fetch(ctx: typer.Context, names: Names = None, data: opt.Data = None) -> None:
    """Download missing files; each is verified before it is used."""
    from puarena import datasets

    answer, lines = [], []
    for name in names or datasets.names():
        paths = datasets.fetch(name, data)
        answer.append({"name": name, "files": paths})
        lines.append(f"{name}: {', '.join(map(str, paths)) or 'embedded, nothing to download'}")
    emit(ctx, answer, "\n".join(lines))


@app.command("prepare")
def prepare(
    ctx: typer.Context,
    names: Names = None,
    data: opt.Data = None,
    skip_bad_images: Annotated[
        bool, typer.Option("--skip-bad-images", help="leave out images that are missing or damaged")
    ] = False,
) -> None:
    """Read datasets once; decoded images are cached, so that runs start at once."""
    from puarena import datasets
    from puarena.datasets.download import SKIP_VARIABLE

    if skip_bad_images:
        os.environ[SKIP_VARIABLE] = "1"
    answer, lines = [], []
    for name in names or datasets.names():
        shape = datasets.load(name, data).features.shape
        answer.append({"name": name, "shape": shape})
        lines.append(f"{name}: {' x '.join(map(str, shape))}")
    emit(ctx, answer, "\n".join(lines))
