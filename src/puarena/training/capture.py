"""Replaying steps: a step of these small networks is all launch overhead on a GPU, so it is
captured once in a CUDA graph and replayed, several steps at a time.
"""

from __future__ import annotations

import gc
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

STEPS_PER_GRAPH = 10  # steps in one replay of the long graph
WARMUP_STEPS = 3  # steps before capture: libraries create their handles and workspaces
MAX_IDLE_BYTES = (
    1 << 31
)  # bytes kept for reuse from which they are given back before a capture, which cannot reuse them
TRAINING = str(Path(__file__).parent)  # what calls algorithms
# What algorithms call, and what stands in for a GPU.
BELOW = tuple(map(str, (Path(torch.__file__).parent, Path(__file__).parents[1] / "testing")))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether there was no memory or other room on a device: a smaller fleet may fit.

    CUDA and its libraries raise plain RuntimeErrors, and Triton's OutOfResources is none.
    """
    if isinstance(error, RuntimeError):
        found = str(error)
        return isinstance(error, torch.cuda.OutOfMemoryError) or any(
            words in found for words in ("CUDA error: out of memory", "_STATUS_ALLOC_FAILED")
        )
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfResources"


def release_idle_memory() -> None:
    """Let go of memory that eager steps used: a captured graph has a pool of its own."""
    if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > MAX_IDLE_BYTES:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


@contextmanager
def use_own_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, work there on a stream of one's own: the default one cannot be captured."""
    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        outer, stream = torch.cuda.current_stream(), torch.cuda.Stream()
        stream.wait_stream(outer)
        with torch.cuda.stream(stream):
            yield
        outer.wait_stream(stream)


class StepWatch(TorchDispatchMode):
    """Notes operations that look at the values of a tensor, which no captured step may do."""

    looks = (
        "_local_scalar_dense",
        "nonzero",
        "masked_select",
        "unique",
        "_unique2",
        "is_nonzero",
        "equal",
    )

    def __init__(self) -> None:
        super().__init__()
        self.offenses: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operation, kwargs = func.overloadpacket.__name__, kwargs or {}
        if operation in self.looks:
            self._note(
                {"_local_scalar_dense": ".item() or a branch on a tensor"}.get(operation, operation)
            )
        elif operation in ("index", "index_put", "index_put_") and any(
            isinstance(i, Tensor) and i.dtype == torch.bool for i in (args[1] or ())
        ):
            self._note("boolean-mask indexing")
        result = func(*args, **kwargs)
        if (
            operation in ("_to_copy", "copy_")
            and isinstance(args[0], Tensor)
            and isinstance(result, Tensor)
        ):
            source = args[1] if operation == "copy_" else args[0]
            if source.device != result.device and source.dim() > 0:
                self._note(f"a copy from {source.device.type} to {result.device.type}")
        return result

    def _note(self, offense: str) -> None:
        """Note an offense, and the line of an algorithm (or a view) that commits it."""
        for call in reversed(traceback.extract_stack()[:-2]):
            if call.filename.startswith(TRAINING):
                break  # in a backward pass, which has no line
            if not call.filename.startswith(BELOW):
                offense += f" (line {call.lineno} of {Path(call.filename).name})"
                break
        self.offenses.append(offense)


class Replay:
    """Runs a step many times, captured where that is possible."""

    def __init__(
        self, step: Callable[[], None], name: str, capture: bool, many: int = STEPS_PER_GRAPH
    ) -> None:
        self.step, self.name, self.capture = step, name, capture
        self.sizes = sorted({1, many})
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.warm = 0  # steps done before the capture

    def __call__(self, count: int) -> None:
        """Do ``count`` steps."""
        if self.capture and not self.graphs:
            count -= self._prepare(count)
        for size in sorted(self.graphs, reverse=True):
            for _ in range(count // size):
                self.graphs[size].replay()
            count %= size
        for _ in range(count):
            self.step()

    def _prepare(self, count: int) -> int:
        """Warm up, and capture if some of ``count`` steps are left; return how many were done.

        Few steps may be asked for at a time: from record to record, or in an epoch.
        """
        done = min(count, WARMUP_STEPS - self.warm)
        for _ in range(done):
            with StepWatch() if self.warm == 0 else nullcontext() as watch:
                self.step()
            self.warm += 1
            if watch is not None and watch.offenses:
                self._give_up(", ".join(sorted(set(watch.offenses))))
                return 1
        if count > done:
            self._capture()
        return done

    def _capture(self) -> None:
        """Capture one step, and several."""
        release_idle_memory()
        try:
            pool = torch.cuda.graph_pool_handle()
            for size in self.sizes:
                with captured(pool) as graph:
                    for _ in range(size):
                        self.step()
                self.graphs[size] = graph
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise  # eager steps would be many times slower than a smaller fleet
            self.graphs = {}
            self._give_up(str(error).splitlines()[0])

    def _give_up(self, reason: str) -> None:
        self.capture = False
        warnings.warn(
            f"{self.name} runs uncaptured, which is many times slower: a step uses {reason}",
            stacklevel=2,
        )

    def close(self) -> None:
        """Let go of the graphs, and of the step that they belong to."""
        self.graphs.clear()
        self.step = _nothing


def _nothing() -> None:
    raise RuntimeError("these steps are over")


@contextmanager
def captured(pool: Any = None) -> Iterator[torch.cuda.CUDAGraph]:
    """Capture what is launched inside on the current stream; collecting an old graph meanwhile
    would break it.
    """
    collecting = gc.isenabled()
    gc.disable()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.current_stream().synchronize()
    try:
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            yield graph
        except BaseException:
            # The first error says why; the end of a failed capture only that it failed.
            with suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()
    finally:
        if collecting:
            gc.enable()


class CapturedCall:
    """A function of no arguments that returns tensors: captured at its third call, replayed from
    then on.

    The function must launch the same work every time; what it returns is overwritten by the next
    call.
    """

    def __init__(self, function: Callable[[], dict[str, Tensor]], name: str, capture: bool) -> None:
        self.function, self.name, self.capture, self.calls = function, name, capture, 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result: dict[str, Tensor] = {}

    def __call__(self) -> dict[str, Tensor]:
        """Return the function's result for the present state."""
        self.calls += 1
        if self.graph is None:
            if not self.capture or self.calls < 3:
                return self.function()
            release_idle_memory()
            try:
                with captured() as graph:
                    self.result = self.function()
                self.graph = graph
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise
                self.capture = False
                warnings.warn(
                    f"records of {self.name} run uncaptured, which is slower: one uses "
                    f"{str(error).splitlines()[0]}",
                    stacklevel=2,
                )
                return self.function()
        self.graph.replay()
        return dict(self.result)
