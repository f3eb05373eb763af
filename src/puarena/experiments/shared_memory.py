"""Datasets that several worker processes have in memory once."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np

from puarena.datasets import Dataset


class Block:
    """An array in memory without a name, which goes when the last process that has it ends."""

    def __init__(self, array: np.ndarray) -> None:
        self.shape, self.kind = array.shape, array.dtype.str
        self.handle = os.memfd_create("puarena")
        os.ftruncate(self.handle, array.nbytes)
        with mmap.mmap(self.handle, array.nbytes) as memory:
            np.frombuffer(memory, array.dtype)[:] = array.reshape(-1)

    def __reduce__(self) -> tuple[Any, ...]:
        """For a process that is being started."""
        return _attached, (DupFd(self.handle), self.shape, self.kind)

    def __del__(self) -> None:
        os.close(self.handle)


def _attached(handle: Any, shape: tuple[int, ...], kind: str) -> np.ndarray:
    number = handle.detach()
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    # Private: should a process write to it, the others do not see that.
    memory = mmap.mmap(number, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    os.close(number)
    return np.frombuffer(memory, kind).reshape(shape)


@dataclass(frozen=True)
class SharedDatasets:
    """Datasets for processes that are started with them; ``datasets`` there are whole."""

    bare: dict[str, Dataset]
    arrays: dict[str, dict[str, Any]]  # blocks here, arrays there

    @classmethod
    def of(cls, datasets: Mapping[str, Dataset]) -> SharedDatasets | None:
        """Put datasets into shared memory; None where there is none, and every process reads its own."""
        if not hasattr(os, "memfd_create"):
            return None
        bare: dict[str, Dataset] = {}
        arrays: dict[str, dict[str, Any]] = {}
        for name, dataset in datasets.items():
            large = {"features": dataset.features, "evaluation": dataset.evaluation}
            try:
                arrays[name] = {
                    key: Block(array)
                    for key, array in large.items()
                    if array is not None and array.size
                }
            except OSError:  # a limit on the size of files, too little memory for one more copy
                return None
            without: dict[str, Any] = {key: None for key in arrays[name]}  # noqa: C420
            bare[name] = replace(dataset, **without)
        return cls(bare, arrays)

    def datasets(self) -> dict[str, Dataset]:
        """The datasets, in a process that was started with them."""
        return {name: replace(dataset, **self.arrays[name]) for name, dataset in self.bare.items()}
