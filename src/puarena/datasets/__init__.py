"""Datasets: built-in ones, tables and images of users, their files and views.

``load`` returns a :class:`Dataset`: features ``[n, …]`` and original classes ``[n]``.
"""

from puarena.datasets.base import DataFile, Dataset, DatasetInfo
from puarena.datasets.download import FileStatus
from puarena.datasets.registry import (
    fetch,
    info,
    is_here,
    is_pinned,
    load,
    names,
    verify,
    views_of,
)
from puarena.datasets.views import View, Views

__all__ = [
    "DataFile",
    "Dataset",
    "DatasetInfo",
    "FileStatus",
    "View",
    "Views",
    "fetch",
    "info",
    "is_here",
    "is_pinned",
    "load",
    "names",
    "verify",
    "views_of",
]
