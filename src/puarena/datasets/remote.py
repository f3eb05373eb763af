"""Tables of OpenML and of the Hugging Face hub: fetched once, kept as Parquet beside a record of what they were."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import threading
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from puarena.errors import UserError
from puarena.utils.files import atomic_write, parse_json, write_file

if TYPE_CHECKING:
    import pandas as pd

Table: TypeAlias = "tuple[pd.DataFrame, dict[str, Any]]"  # and what is known of it

RETRIES, DELAY = 2, 1.0  # of a connection; seconds between them
LONGEST = 3600.0  # seconds for one table
SOURCES = {"openml": r"openml:(\d+)", "hf": r"hf:([\w./-]+)@([\w./-]+?)(?:#([\w-]+))?"}
FORMS = "'openml:ID' or 'hf:NAME@REVISION' (with '#SPLIT' where it is not 'train')"


def is_remote(text: str) -> bool:
    """Is this no file but a table to fetch?"""
    return text.partition(":")[0] in SOURCES and ":" in text


def record(path: Path) -> dict[str, Any]:
    """Return what is known of a kept table: source, name, version, target, checksums; nothing for any other file."""
    try:
        content = parse_json(path.with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) and "sha256" in content else {}


def keep(source: str, target: Path, instead: str = "get the table as a file and name that") -> None:
    """Fetch a table and keep it with its record; one that was kept before and is another now is refused.

    ``instead`` says what to do without a network.
    """
    kind = source.partition(":")[0]
    match = re.fullmatch(SOURCES.get(kind, "-"), source)
    if match is None:
        raise UserError(f"'{source}' is not a table that can be fetched: write {FORMS}")
    try:
        frame, about = _in_time(
            _openml if kind == "openml" else _hugging_face, source, *match.groups()
        )
    except UserError:
        raise
    except Exception as error:  # of whatever kind those packages and the ones below them raise
        words = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"cannot fetch {source} ({words}); check the network and the name, or {instead}"
        ) from error
    frame = frame.reset_index(drop=True)
    for column in frame.columns[[not _plain(kind) for kind in frame.dtypes]]:
        frame[column] = frame[column].astype("string")
    about = {"source": source, **about, "rows": len(frame), "content": _digest(frame)}
    before = record(target)
    if before and before["content"] != about["content"]:
        raise UserError(
            f"{source} is no longer what it was when it was first fetched (version {before['version']}, "
            f"{before['rows']} rows; now version {about['version']}, {about['rows']} rows); delete "
            f"'{target.with_suffix('.json')}' to accept the new one"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target) as part:
        _write_parquet(frame, part)
        about["sha256"] = hashlib.sha256(part.read_bytes()).hexdigest()
        write_file(target.with_suffix(".json"), json.dumps(about, indent=1))


def _in_time(fetch: Callable[..., Table], *given: str | None) -> Table:
    """What a fetch gives, unless it takes too long: the packages below it wait for ever."""
    tables: list[Table] = []
    errors: list[Exception] = []

    def work() -> None:
        try:
            tables.append(fetch(*given))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LONGEST)
    if not tables:
        raise errors[0] if errors else TimeoutError(f"it took longer than {LONGEST / 60:g} minutes")
    return tables[0]


def _openml(_: str, number: str) -> Table:
    from sklearn.datasets import fetch_openml

    # scikit-learn compares with the MD5 that OpenML states; of its warnings the last becomes the error
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = fetch_openml(
            data_id=int(number),
            data_home=folder,
            as_frame=True,
            parser="auto",
            n_retries=RETRIES,
            delay=DELAY,
        )
    details = table.details
    about = {"name": details["name"], "version": details["version"], "md5": details["md5_checksum"]}
    return table.frame, about | {"target": table.target_names[0] if table.target_names else ""}


def _hugging_face(source: str, name: str, revision: str, split: str | None) -> Table:
    try:
        hub: Any = import_module("datasets")
    except ImportError:
        raise UserError(
            f"{source} needs the package 'datasets': install it with 'pip install datasets'"
        ) from None
    frame = hub.load_dataset(name, revision=revision, split=split or "train").to_pandas()
    return frame, {
        "name": name,
        "version": revision,
        "target": "label" if "label" in frame.columns else "",
    }


def _plain(kind: Any) -> bool:
    import pandas as pd

    return pd.api.types.is_numeric_dtype(kind) and not isinstance(kind, pd.CategoricalDtype)


def _digest(frame: pd.DataFrame) -> str:
    """Return a checksum of the values, whatever wrote the file that holds them."""
    import pandas as pd

    digest = hashlib.sha256(repr([str(column) for column in frame.columns]).encode())
    digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().astype("<u8").tobytes())
    return digest.hexdigest()


def _write_parquet(frame: pd.DataFrame, path: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.from_df(frame).write_parquet(str(path))
