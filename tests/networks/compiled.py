"""Compile the kernels for GPUs that are not there, as the networks launch them.

    python tests/networks/compiled.py 80 86 89 90

compiles every variant of every network for these compute capabilities (about a minute and a half
each on one core) and compares its shared memory with what a block may have there. Exit code 1 if
one does not compile or does not fit. ``--few`` takes one block of every width, ``--widest`` one of
512 channels, both without variants that differ only in what Triton finds out about whole numbers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar
from unittest import mock

os.environ.pop("TRITON_INTERPRET", None)  # read when Triton is first imported
os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp(prefix="triton"))

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from puarena.networks import kernels
from puarena.networks.mlp import MLP
from puarena.networks.resnet import ResNet, ResNet32, ResNet34

# Bytes of shared memory that a block may have, by compute capability (CUDA C++ Programming Guide,
# technical specifications): A100; RTX 30, A10, A40; RTX 40, L4, L40S; H100, H200.
SHARED_MEMORY_BYTES = {80: 166_912, 86: 101_376, 89: 101_376, 90: 232_448}


class Few(ResNet):
    """Every width of the residual networks, and both kinds of shortcut, once."""

    stages = ((1, 16), (1, 32), (1, 64), (1, 128), (1, 256), (2, 512))
    pool = None


class Widest(ResNet):
    """The largest tiles."""

    stages = ((1, 512),)
    pool = None


SOME = {"--few": Few, "--widest": Widest}


@dataclass
class Target:
    """A GPU that kernels are compiled for."""

    capability: int
    is_short: bool = False  # without variants that differ only in properties of whole numbers
    seen: set[Any] = field(default_factory=set)
    variants: dict[tuple[str, str], int] = field(default_factory=dict)  # shared memory by kernel
    failures: set[str] = field(default_factory=set)

    @property
    def limit(self) -> int:
        """The shared memory that a block may have."""
        return SHARED_MEMORY_BYTES[self.capability]

    # What Triton asks its driver for.
    utils: ClassVar[Any] = None

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return self.capability  # what was compiled is kept by device

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def map_python_to_cpp_type(self, kind: str) -> str:
        return kind

    @contextmanager
    def compile_launches(self) -> Iterator[None]:
        """Compile what is launched for this GPU instead of launching it."""
        plain = JITFunction.run

        def compile_only(kernel: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
            kinds = tuple(each.dtype for each in args if isinstance(each, torch.Tensor))
            variant = kernel.__name__, kinds, tuple(sorted(options.items()))
            if self.is_short and variant in self.seen:
                return
            self.seen.add(variant)
            try:
                made = plain(kernel, *args, grid=grid, warmup=True, **options)
            except Exception as error:
                self.failures.add(f"{kernel.__name__}: {type(error).__name__}: {error}"[:300])
                return
            assert made.asm["cubin"]
            self.variants[kernel.__name__, made.hash] = made.metadata.shared

        triton.runtime.driver.set_active(self)
        with (
            mock.patch.object(JITFunction, "run", compile_only),
            mock.patch.object(kernels, "available", return_value=True),
            mock.patch.object(kernels, "find_shared_memory_bytes", return_value=self.limit),
        ):
            yield

    def faults(self) -> list[str]:
        """Return what does not compile, and what does not fit."""
        over = {
            f"{name} needs {shared:,} bytes of shared memory, and there are {self.limit:,}"
            for (name, _), shared in self.variants.items()
            if shared > self.limit
        }
        return sorted(self.failures | over)


def launch_perceptron(features: int, batch: int) -> None:
    """Launch what a step of the perceptron launches."""
    from puarena.networks.kernels.mlp import sgd_

    network = MLP(torch.arange(3), (features,))
    network(torch.zeros(3, batch, features)).sum().backward()
    weight, gradient = network.weight.detach(), network.weight.grad
    assert gradient is not None
    sgd_(weight, gradient, torch.zeros_like(weight), torch.zeros(3), torch.zeros(3))


def launch_residual_network(
    cls: type[ResNet], precision: str, side: int = 32, batch: int = 16
) -> None:
    """Launch what a step and an evaluation of a residual network launch."""
    network = cls(torch.arange(1), (3, side, side), "f", torch.float32, precision)
    x = torch.zeros(1, batch, 3, side, side)
    network(x).sum().backward()
    network.eval()
    with torch.no_grad():
        network(x)


def compile_for(capability: int, some: type[ResNet] | None) -> Target:
    """Compile all that the networks launch."""
    target = Target(capability, is_short=some is not None)
    with target.compile_launches():
        for features, batch in ((16, 256), (784, 33)):
            launch_perceptron(features, batch)
        for precision in ("float32", "bf16"):
            if some is not None:
                launch_residual_network(some, precision, 8, 4)
                continue
            launch_residual_network(ResNet32, precision)
            launch_residual_network(ResNet34, precision)
            launch_residual_network(ResNet34, precision, side=64)
    return target


def main(words: list[str]) -> int:
    """Compile for the compute capabilities named, and print what was found."""
    some = next((SOME[word] for word in words if word in SOME), None)
    capabilities = [int(word) for word in words if word not in SOME] or list(SHARED_MEMORY_BYTES)
    faults: list[str] = []
    for capability in capabilities:
        began = time.process_time()
        target = compile_for(capability, some)
        largest = max(target.variants.values(), default=0)
        names = sorted({name for name, _ in target.variants})
        print(
            f"sm_{capability}: {len(target.variants)} variants of {len(names)} kernels, "
            f"at most {largest:,} of {target.limit:,} bytes, {time.process_time() - began:.0f} s"
        )
        for fault in target.faults():
            print(f"  {fault}")
        faults += target.faults()
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
