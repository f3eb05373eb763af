"""Datasets and PU generation.

``load`` gives a :class:`Dataset` (features ``[n, …]``, original classes ``[n]``); ``draw`` turns it and a
:class:`Problem` into index arrays for one trial, and keeps the hidden labels in an object of their own.
"""

from puarena.data.dataset import DataFile, Dataset, DatasetInfo
from puarena.data.download import FileStatus
from puarena.data.problem import Problem, Sizes, label_frequency, shifted_prior, sizes
from puarena.data.pu import HiddenLabels, PUData, draw
from puarena.data.registry import cache_file, fetch, info, load, names, verify

__all__ = [
    "DataFile",
    "Dataset",
    "DatasetInfo",
    "FileStatus",
    "HiddenLabels",
    "PUData",
    "Problem",
    "Sizes",
    "cache_file",
    "draw",
    "fetch",
    "info",
    "label_frequency",
    "load",
    "names",
    "shifted_prior",
    "sizes",
    "verify",
]
