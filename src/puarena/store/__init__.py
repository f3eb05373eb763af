"""The results folder: its schema, its shards, exported summaries, joining folders, and names made from content."""

from __future__ import annotations

from pathlib import Path

from puarena.store import published
from puarena.store.base import Store
from puarena.store.folder import Folder
from puarena.store.schema import COLUMNS, FORMAT, OK
from puarena.store.sql import ask
from puarena.store.summary import Summary

__all__ = ["COLUMNS", "FORMAT", "OK", "Folder", "Store", "Summary", "ask", "open_store"]


def open_store(path: str | Path) -> Store:
    """Open a results folder, an exported summary, or ``published:NAME``, for reading."""
    if published.is_published(path):
        return Summary(published.find(path))
    return Summary(path) if Path(path).is_file() else Folder(path)
