"""Results folders in which something has a wrong type, a wrong value or is no file at all.

Everything is sealed again, as by somebody who means it. ``python tests/wrong_folders.py 400`` tries
so many, each with every command that reads a folder, and lists those that end in a traceback or do
not end.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

LONG = "long" * 5000
VALUES: tuple[Any, ...] = (
    None,
    5,
    -1,
    0,
    True,
    1e308,
    2**70,
    0.5,
    "",
    "x",
    "../../x",
    "\x1b]0;x\x07\x1b[31m",
    "\u202e\x00",
    LONG,
    [],
    [[]],
    ["x"],
    [None],
    {},
    {"x": None},
    {"x": [1]},
    [{}],
)
SQL_VALUES = (
    "NULL",
    "-1",
    "0",
    "2147483647",
    "'x'",
    "''",
    "'[1, 2]'",
    '\'{"a": {"b": []}}\'',
    "'null'",
    "'nan'",
    "'inf'",
    "'1e308'",
    "'diverged at step x'",
    "'diverged'",
    "'../../x'",
    "chr(27) || '[31mx'",
    "repeat('x', 100000)",
    "true",
)
TYPES = ("VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN", "BLOB", "DATE", "INTEGER[]", "HUGEINT")
LIMIT_SECONDS = 60


def make_whole(folder: Path) -> Path:
    """Make a small folder with everything that can be in one."""
    from safetensors.numpy import save

    import puarena
    from puarena.results import Folder
    from puarena.results.claims import Claim
    from puarena.utils import files

    out = folder / "out"
    spec = {
        "name": "demo",
        "problems": [{"dataset": "digits"}],
        "algorithms": ["upu", "nnpu", "pn-oracle"],
        "splits": 2,
        "configs": 2,
        "steps": 20,
        "warmup": 0,
        "record_every": 10,
    }
    puarena.run(spec, out, device="cpu", workers=1, progress=False)
    store = Folder(out)
    lost = store.shards()[0]
    runs = [run for run, row in store.known_runs().items() if row["fleet"] == lost.stem]
    lost.unlink()
    facts = {"exception": "ValueError", "message": "m", "place": "p", "machine": "h"}
    store.write_failure(lost.stem, runs, "boom", **facts, seconds=1.0, label="l", time="t")
    marks = {
        "runs": json.dumps(runs),
        "done": "1",
        "parts": '[{"step": 1, "log": {"step": [1]}}]',
        "seal": files.SEAL,
    }
    state = files.add_seal(save({"0/x": np.zeros(3)}, marks))
    (out / "progress" / f"{lost.stem}.safetensors").write_bytes(state)
    owner = {"token": "t", "machine": "m", "host": "h", "pid": 1, "started": ""}
    (out / "claims" / f"{lost.stem}.1").write_text(json.dumps(owner))
    assert Claim
    return out


def list_places(content: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a value in JSON."""
    if place:
        yield place
    if isinstance(content, dict):
        items: Any = content.items()
    else:
        items = enumerate(content[:2]) if isinstance(content, list) else ()
    for key, value in items:
        yield from list_places(value, (*place, key))


def replaced(content: Any, place: tuple[Any, ...], value: Any) -> Any:
    """JSON with another value at a place."""
    changed = copy.deepcopy(content)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def change_json(out: Path, name: str, chance: random.Random) -> str:
    """Replace one value of a JSON file; the seal of a spec fits afterwards, or it does not."""
    from puarena.utils.identity import digest

    file = next(iter(sorted(out.glob(name))))
    content = json.loads(file.read_text())
    if chance.random() < 0.05:
        content = changed = chance.choice(VALUES)
        place: tuple[Any, ...] = ()
    else:
        place = chance.choice(list(list_places(content)))
        changed = replaced(content, place, chance.choice(VALUES))
    if name == "spec.json" and isinstance(changed, dict) and chance.random() < 0.9:
        with suppress(TypeError, ValueError):
            changed["spec_seal"] = digest(changed.get("spec"))
    file.write_text(json.dumps(changed))
    return f"{name}: {place}"


def change_table(out: Path, name: str, chance: random.Random) -> str:
    """Give a column of a Parquet file another type or value, in all rows or one; seal it again."""
    import duckdb

    from puarena.results.parquet import SEAL_KEY, quote_name, read_footers, write_parquet

    file = next(iter(sorted(out.glob(name))))
    with duckdb.connect() as con:
        footer = read_footers(con, [file])[file]
        column = chance.choice([*footer.columns])
        kind = footer.columns[column]
        value = chance.choice(SQL_VALUES)
        where = "true" if chance.random() < 0.5 else "row_number() OVER () = 1"
        new = f"TRY_CAST({value} AS {kind})"
        how = chance.random()
        if how < 0.15:
            new = f"TRY_CAST({quote_name(column)}::VARCHAR AS {chance.choice(TYPES)})"
            where = "true"
        query = (
            f"SELECT * REPLACE (CASE WHEN {where} THEN {new} ELSE {quote_name(column)} END AS "
            f"{quote_name(column)}) FROM read_parquet('{file}')"
        )
        if how < 0.15:
            query = f"SELECT * REPLACE ({new} AS {quote_name(column)}) FROM read_parquet('{file}')"
        elif how < 0.2:
            query = f"SELECT * EXCLUDE ({quote_name(column)}) FROM read_parquet('{file}')"
        elif how < 0.25:
            query = f"SELECT * FROM read_parquet('{file}') LIMIT 0"
        con.execute(f"CREATE TABLE rows AS {query}")
        marks = {key: text for key, text in footer.metadata.items() if key != SEAL_KEY}
        if how > 0.95 and marks:
            marks[chance.choice([*marks])] = chance.choice(["", "x", "-1", "[]", "\x1b[31m"])
        write_parquet(con, "SELECT * FROM rows", file, marks)
    return f"{name}: {column} {new} {where} {how:.2f}"


def change_state(out: Path, chance: random.Random) -> str:
    """Give a mark of a checkpoint another value."""
    from safetensors import safe_open
    from safetensors.numpy import save

    from puarena.utils import files

    file = next(out.glob("progress/*.safetensors"))
    with safe_open(file, framework="np") as opened:
        marks = dict(opened.metadata())
    key = chance.choice([*marks])
    marks[key] = chance.choice([json.dumps(value) for value in VALUES] + ["x", "[{", "[" * 5000])
    marks["seal"] = files.SEAL
    file.write_bytes(files.add_seal(save({"0/x": np.zeros(3)}, marks)))
    return f"state: {key}"


def change_kind(out: Path, chance: random.Random) -> str:
    """Put a folder, a pipe, a link, a device or nothing where a file or a folder is expected."""
    parts = ["spec.json", "methods.json", "planned.parquet", "shards", "failures", "progress"]
    parts += ["claims", "shards/?*", "failures/?*", "progress/?*", "claims/?*", "damaged"]
    name = chance.choice(parts)
    file = next(iter(sorted(out.glob(name))), out / "damaged")
    (shutil.rmtree if file.is_dir() else lambda path: path.unlink(missing_ok=True))(file)
    kinds: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "folder": lambda: file.mkdir(),
        "pipe": lambda: os.mkfifo(file),
        "link to itself": lambda: file.symlink_to(file.name),
        "link to a folder": lambda: file.symlink_to("/etc"),
        "link to a device": lambda: file.symlink_to("/dev/zero"),
        "empty": lambda: file.write_bytes(b""),
        "text": lambda: file.write_text("\x1b[31m" + LONG),
        "deep": lambda: file.write_text("[" * 100_000),
        "not UTF-8": lambda: file.write_bytes(b'{"a": "\xff\xfe"}'),
    }
    kind = chance.choice([*kinds])
    kinds[kind]()
    return f"{name}: {kind}"


def add_file(out: Path, chance: random.Random) -> str:
    """Add a file with an odd name."""
    folder = chance.choice(["shards", "failures", "progress", "claims", "damaged", "."])
    end = chance.choice([b".parquet", b".json", b".safetensors", b".1", b".99999999999999999999"])
    name = chance.choice([b"\xff\xfe", b"\x1b[31m", b"a b", b"x" * 240, b"-rf", b"a\nb", b"a'b"])
    (out / folder).mkdir(exist_ok=True)
    target = os.path.join(os.fsencode(out / folder), (name + end)[-250:])
    source = next(iter(sorted(out.glob(f"{folder}/?*"))), None)
    copied = source is not None and source.is_file() and chance.random() < 0.7
    with open(target, "wb") as file:
        file.write(source.read_bytes() if copied and source else b"{}")
    return f"{folder}: {name + end!r}"


def rewrite_shard(file: Path, target: Path, fleet: str, **changes: str) -> None:
    """Write the rows of a shard as another one, whose metadata and rows name that fleet."""
    import duckdb

    from puarena.results.parquet import SEAL_KEY, quote_text, read_footers, write_parquet

    with duckdb.connect() as con:
        marks = read_footers(con, [file])[file].metadata
        marks = {key: text for key, text in marks.items() if key != SEAL_KEY}
        query = f"SELECT * REPLACE ({quote_text(fleet)} AS fleet) FROM read_parquet('{file}')"
        con.execute(f"CREATE TABLE rows AS {query}")
        write_parquet(con, "SELECT * FROM rows", target, marks | {"puarena_fleet": fleet} | changes)


def rename_shard(out: Path, chance: random.Random) -> str:
    """Give a fleet an odd name, everywhere."""
    file = next(iter(sorted(out.glob("shards/*.parquet"))))
    names = [
        "a'b",
        "a b",
        "-rf",
        "\u00fc",
        "x" * 230,
        "a=b",
        "a*b",
        "a[b",
        'a"b',
        "packed-",
        "a\nb",
    ]
    fleet = chance.choice([*names, "\x1b[31m", "{}", "%s", "~", "con", "a;b", "a+2"])
    rewrite_shard(file, file.with_name(f"{fleet}.parquet"), fleet)
    file.unlink()
    return f"renamed: {fleet!r}"


def add_pack(out: Path, chance: random.Random) -> str:
    """Add a packed shard whose list of fleets is odd."""
    files = sorted(out.glob("shards/*.parquet"))
    own = [file.stem for file in files]
    lists = [json.dumps(value) for value in (*VALUES, own, own * 2, [*own, "x"], [own], {"a": own})]
    listed = chance.choice([*lists, "[" * 5000, "[", json.dumps(["../../spec", "'", "\x1b[31m"])])
    name = chance.choice(["packed-x", "packed-", "packed-0", "packed-'"])
    rewrite_shard(files[0], files[0].with_name(f"{name}.parquet"), name, puarena_fleets=listed)
    return f"{name}: {listed[:60]}"


def change_summary(out: Path, chance: random.Random) -> str:
    """Export a summary, and replace one value of what it says of itself."""
    import duckdb

    from puarena.report.export import export
    from puarena.results.folder import SUMMARY_KEY
    from puarena.results.parquet import SEAL_KEY, read_footers, write_parquet

    file = out.parent / "theirs.parquet"
    export(out, file)
    with duckdb.connect() as con:
        marks = read_footers(con, [file])[file].metadata
        content = json.loads(marks[SUMMARY_KEY])
        place = chance.choice(list(list_places(content)))
        changed = replaced(content, place, chance.choice(VALUES))
        con.execute(f"CREATE TABLE rows AS FROM read_parquet('{file}')")
        marks = {key: text for key, text in marks.items() if key != SEAL_KEY}
        write_parquet(con, "SELECT * FROM rows", file, marks | {SUMMARY_KEY: json.dumps(changed)})
    return f"summary: {place}"


def change_card(out: Path, chance: random.Random) -> str:
    """Publish the folder, and replace one value of the card."""
    from puarena.leaderboard.publish import publish

    publish(out, out.parent / "theirs", "x", partial=True)
    return change_json(out.parent / "theirs", "x.json", chance)


def spoil(out: Path, number: int) -> str:
    """Do one thing to a folder; return what."""
    chance = random.Random(number)
    ways: list[Callable[[], str]] = [
        lambda: change_json(out, "spec.json", chance),
        lambda: change_json(out, "spec.json", chance),
        lambda: change_json(out, "methods.json", chance),
        lambda: change_json(out, "failures/*.json", chance),
        lambda: change_json(out, "claims/*.1", chance),
        lambda: change_table(out, "shards/*.parquet", chance),
        lambda: change_table(out, "shards/*.parquet", chance),
        lambda: change_table(out, "shards/*.parquet", chance),
        lambda: change_table(out, "planned.parquet", chance),
        lambda: change_state(out, chance),
        lambda: change_kind(out, chance),
        lambda: add_file(out, chance),
        lambda: rename_shard(out, chance),
        lambda: add_pack(out, chance),
        lambda: change_summary(out, chance),
        lambda: change_card(out, chance),
    ]
    return ways[number % len(ways)]()


def list_commands(out: Path, aside: Path) -> list[list[str]]:
    """Every command that reads a results folder, or the summary or the card that was changed."""
    if (aside / "theirs").exists():
        return [["site", str(aside / "theirs"), "--out", str(aside / "site")]]
    if (aside / "theirs.parquet").exists():
        out = aside / "theirs.parquet"
    files = [aside / name for name in ("page.html", "t.csv", "t.md", "t.tex")]
    html, table, markdown, latex = map(str, files)
    outputs = ["--html", html, "--csv", table, "--markdown", markdown, "--latex", latex]
    return [
        ["status", str(out)],
        ["status", str(out), "--json"],
        ["doctor", str(out)],
        ["report", str(out), *outputs],
        ["stats", str(out)],
        ["export", str(out), "--out", str(aside / "s.parquet")],
        ["report", str(aside / "s.parquet")],
        ["merge", str(out), str(aside / "s.parquet"), "--out", str(aside / "merged")],
        ["publish", str(out), "--out", str(aside / "shelf"), "--name", "x", "--partial"],
        ["compare", str(out)],
        ["submit", str(out), "--name", "x", "--code", "https://x.org", "--out", str(aside / "sub")],
        ["figures", str(out), "--out", str(aside / "figures")],
        ["doctor", str(out), "--repair"],
        ["run", "SPEC", "--out", str(out), "--device", "cpu", "--workers", "1"],
    ]


def try_command(line: list[str]) -> str:
    """Run a command here; return what is wrong with its end, empty if nothing."""
    from typer.testing import CliRunner

    from puarena.cli import app

    def give_up(*_: object) -> None:
        raise TimeoutError("IT HANGS")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LIMIT_SECONDS)
    try:
        done = CliRunner().invoke(app, line)
    finally:
        signal.alarm(0)
    # An interrupt by the alarm may be reported as any error.
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        error = "".join(traceback.format_exception(done.exception)[-3:])
        return f"{line[0]}: {error}"
    if "IT HANGS" in done.output:
        return f"{line[0]}: hangs"
    if any(ord(letter) < 32 and letter not in "\n\t" for letter in done.output):
        return f"{line[0]}: an escape reaches the terminal: {done.output[:300]!r}"
    return ""


def main() -> None:
    """Try so many folders."""
    first, last = [0, *map(int, sys.argv[1:])][-2:]
    bad = 0
    with tempfile.TemporaryDirectory() as place:
        whole = make_whole(Path(place))
        spec = Path(place) / "spec.yaml"
        spec.write_text(json.dumps(json.loads((whole / "spec.json").read_text())["spec"]))
        for number in range(first, last):
            aside = Path(place) / "aside"
            out = aside / "out"
            shutil.copytree(whole, out)
            what = spoil(out, number)
            lines = list_commands(out, aside)
            others = random.Random(number).sample(lines[4:], min(2, len(lines[4:])))
            for line in (line for line in lines if line in [*lines[1:4], *others]):
                words = [str(spec) if word == "SPEC" else word for word in line]
                if wrong := try_command(words):
                    bad += 1
                    print(f"{number} ({what[:150]}): {wrong}", flush=True)
            shutil.rmtree(aside)
            if number % 20 == 19:
                print(f"{number + 1} done", flush=True)
    print(f"{last - first} folders, {bad} commands ended badly")


if __name__ == "__main__":
    main()
