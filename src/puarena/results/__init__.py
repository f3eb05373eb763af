"""The results folder: its schema, its shards, exported summaries, joining folders, and names made from content."""

from __future__ import annotations

from pathlib import Path

from puarena.results import published
from puarena.results.base import Results
from puarena.results.folder import Folder
from puarena.results.schema import COLUMNS, FORMAT, OK
from puarena.results.sql import ask
from puarena.results.summary import Summary

__all__ = ["COLUMNS", "FORMAT", "OK", "Folder", "Results", "Summary", "ask", "open_results"]


def open_results(path: str | Path) -> Results:
    """Open a results folder, an exported summary, or ``published:NAME``, for reading."""
    if published.is_published(path):
        return Summary(published.find(path))
    return Summary(path) if Path(path).is_file() else Folder(path)
