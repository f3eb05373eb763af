"""Tables of OpenML and the Hugging Face hub: fetched once, stored as Parquet with a record."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError
from puarena.utils.files import atomic_write, parse_json, write_file

if TYPE_CHECKING:
    import pandas as pd

MAX_RETRIES, RETRY_SECONDS = 2, 1.0
SOURCE_PATTERNS = {
    "openml": r"openml:(\d+)",
    "hf": r"hf:([\w./-]+)@([\w./-]+?)(?:#([\w-]+))?",
}
SOURCE_FORMS = "'openml:ID' or 'hf:NAME@REVISION' (with '#SPLIT' for another split than 'train')"


def is_remote(source: str) -> bool:
    """Does a text name a table to fetch, and not a file?"""
    kind, colon, _ = source.partition(":")
    return bool(colon) and kind in SOURCE_PATTERNS


def read_record(path: Path) -> dict[str, Any]:
    """Return the record of a stored table (source, version, target, checksums), or an empty one."""
    try:
        content = parse_json(path.with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) and "sha256" in content else {}


def fetch_table(source: str, target: Path, remedy: str = "name a file with the table") -> None:
    """Fetch a table and store it with its record.

    A table that was fetched before and has other content now is an error. ``remedy`` is what to do
    without a network.
    """
    frame, about = _fetch(source, remedy)
    frame = _without_categories(frame.reset_index(drop=True))
    about = {"source": source, **about, "rows": len(frame), "content": _digest(frame)}
    record = target.with_suffix(".json")
    before = read_record(target)
    if before and before["content"] != about["content"]:
        raise UserError(
            f"{source} has changed since it was first fetched (version {before['version']} with "
            f"{before['rows']} rows, now version {about['version']} with {about['rows']}); delete "
            f"'{record}' to accept the new table",
            "conflict",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target) as temporary:
        _write_parquet(frame, temporary)
        about["sha256"] = hashlib.sha256(temporary.read_bytes()).hexdigest()
        write_file(record, json.dumps(about, indent=1))


def _fetch(source: str, remedy: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    kind = source.partition(":")[0]
    match = re.fullmatch(SOURCE_PATTERNS.get(kind, "-"), source)
    if match is None:
        message = f"'{source}' is not a table that can be fetched: write {SOURCE_FORMS}"
        raise UserError(message, "wrong-format")
    fetch = _fetch_openml if kind == "openml" else _fetch_hugging_face
    try:
        return fetch(*match.groups())
    except UserError:
        raise
    # The packages below raise errors of many kinds.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        message = f"cannot fetch {source} ({reason}); check the network and the name, or {remedy}"
        raise UserError(message, "cannot-read") from error


def _fetch_openml(number: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    from sklearn.datasets import fetch_openml

    # scikit-learn verifies the MD5 that OpenML states.
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = fetch_openml(
            data_id=int(number),
            data_home=folder,
            as_frame=True,
            parser="auto",
            n_retries=MAX_RETRIES,
            delay=RETRY_SECONDS,
        )
    details = table.details
    about = {"name": details["name"], "version": details["version"], "md5": details["md5_checksum"]}
    return table.frame, about | {"target": next(iter(table.target_names), "")}


def _fetch_hugging_face(
    name: str, revision: str, split: str | None
) -> tuple[pd.DataFrame, dict[str, Any]]:
    try:
        hub: Any = import_module("datasets")
    except ImportError:
        message = f"hf:{name} needs the package 'datasets': install it with 'pip install datasets'"
        raise UserError(message, "missing-dependency") from None
    frame = hub.load_dataset(name, revision=revision, split=split or "train").to_pandas()
    target = "label" if "label" in frame.columns else ""
    return frame, {"name": name, "version": revision, "target": target}


def _without_categories(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with columns of numbers and text only."""
    import pandas as pd

    for name in frame.columns:
        kind = frame[name].dtype
        is_category = isinstance(kind, pd.CategoricalDtype)
        if is_category or not pd.api.types.is_numeric_dtype(kind):
            frame[name] = frame[name].astype("string")
    return frame


def _digest(frame: pd.DataFrame) -> str:
    """Return a checksum of the values, independent of the library that writes the file."""
    import pandas as pd

    digest = hashlib.sha256(repr([str(column) for column in frame.columns]).encode())
    digest.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().astype("<u8").tobytes())
    return digest.hexdigest()


def _write_parquet(frame: pd.DataFrame, path: Path) -> None:
    import duckdb

    with duckdb.connect() as connection:
        connection.from_df(frame).write_parquet(str(path))
