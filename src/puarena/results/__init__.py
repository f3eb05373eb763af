"""Results on disk: columns, results folders, exported summaries, and several of them joined."""

from __future__ import annotations

from puarena.results.combine import open_results
from puarena.results.folder import Folder, Results, Summary
from puarena.results.parquet import ask
from puarena.results.schema import COLUMNS, FORMAT, OK

__all__ = ["COLUMNS", "FORMAT", "OK", "Folder", "Results", "Summary", "ask", "open_results"]
