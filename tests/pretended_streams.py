"""An executor for the processes of GPUs: on pretended ones, of which one is full and one dies."""

from __future__ import annotations

import os
import signal
from unittest import mock

import torch

from puarena import training
from puarena.experiments.executors.gpu import Streams
from puarena.testing.pretended import pretend

FULL = "1"  # the GPU that has room for two runs
DEADLY = "0"  # the GPU whose first process is killed


class PretendedStreams(Streams):
    """Streams of a pretended GPU; it must be importable in the processes."""

    def train(self, fleets, job):
        """Train fleets, and note beside the results folder which GPU this process has."""
        card, notes = os.environ["CUDA_VISIBLE_DEVICES"], job.store.path.parent
        (notes / f"gpu-{card}-{os.getpid()}").touch()
        make = training.Fleet.__init__

        def make_in_memory(self, rows, *rest, **options):
            if card == FULL and len(rows) > 2:
                (notes / "was-full").touch()
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            make(self, rows, *rest, **options)

        with pretend(), mock.patch.object(training.Fleet, "__init__", make_in_memory):
            for update in super().train(fleets, job):
                yield update
                if card == DEADLY and not (notes / "was-killed").exists():
                    (notes / "was-killed").touch()
                    os.kill(os.getpid(), signal.SIGKILL)
