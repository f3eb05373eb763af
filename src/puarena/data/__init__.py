"""Datasets and PU generation.

``load`` gives a :class:`Dataset` (features ``[n, …]``, original classes ``[n]``); ``draw`` turns it and a
:class:`Problem` into index arrays for one trial, and keeps the hidden labels in an object of their own.
"""

from puarena.data.allocation import check_unseen
from puarena.data.counts import Sizes, sizes
from puarena.data.dataset import DataFile, Dataset, DatasetInfo
from puarena.data.download import FileStatus
from puarena.data.problem import Problem
from puarena.data.pu import HiddenLabels, PUData, draw
from puarena.data.registry import cache_file, fetch, info, is_here, is_pinned, load, names, verify, views_of
from puarena.data.views import View, Views

__all__ = [
    "DataFile", "Dataset", "DatasetInfo", "FileStatus", "HiddenLabels", "PUData", "Problem", "Sizes", "View", "Views",
    "cache_file", "check_unseen", "draw", "fetch", "info", "is_here", "is_pinned", "load", "names", "sizes", "verify",
    "views_of",
]  # fmt: skip
