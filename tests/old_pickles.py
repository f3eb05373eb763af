"""Batches of CIFAR-10 as they were published: pickles of Python 2."""

from __future__ import annotations

import io
import pickle
import struct

import numpy as np


class OldPickler(pickle._Pickler):
    """Writes text and bytes as Python 2 did, whose pickles the official batches are."""

    def save_old(self, value):
        raw = value.encode("latin1") if isinstance(value, str) else value
        self.write(pickle.BINSTRING + struct.pack("<i", len(raw)) + raw)
        self.memoize(value)

    dispatch = pickle._Pickler.dispatch | {str: save_old, bytes: save_old}


def old_pickle(content) -> bytes:
    stream = io.BytesIO()
    OldPickler(stream, 2).dump(content)
    return stream.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def batch(n: int = 4, seed: int = 0) -> dict[bytes, object]:
    rng = np.random.default_rng(seed)
    return {
        b"batch_label": b"training batch 1 of 5",
        b"labels": [int(label) for label in rng.integers(0, 10, n)],
        b"data": rng.integers(0, 256, (n, 3072), np.uint8),
        b"filenames": [b"a.png"] * n,
    }
