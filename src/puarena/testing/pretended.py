"""A pretended CUDA device: what captured training does on a GPU, tried without one.

Inside ``with pretend():`` torch says that there is a GPU. Tensors made on it say ``cuda`` and
compute on the CPU, one dispatched operation after the other. What is true to a GPU: values (but for
rounding), devices (mixing them is an error), what a capture forbids (looking at a value, copying
from or to the host, the default stream), and what a graph freezes: everything but the contents of
the tensors that it reads. What is not: streams run one after the other, memory has no end, and
nothing is fast. Kernels are used only where Triton interprets them (``kernels=True``).

A graph is a tape. While it is recorded operations are computed as always, for their shapes, and
what they wrote into older tensors is put back afterwards: a capture runs nothing.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar
from unittest import mock

import torch
from torch import Tensor
from torch.autograd import graph as autograd_graph
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from puarena.networks import kernels

SHARED_MEMORY_BYTES = 232_448  # of a block, on the device that is pretended (an H100 or H200)
# What has to know a value, and so waits for the GPU.
LOOKS = {
    "_local_scalar_dense": ".item() or a branch on a tensor",
    "is_nonzero": "a branch on a tensor",
    "nonzero": "nonzero",
    "masked_select": "masked_select",
    "_unique2": "unique",
    "unique_dim": "unique",
    "unique_consecutive": "unique_consecutive",
    "equal": "torch.equal",
    "bincount": "bincount",
    "histc": "histc",
}
# What writes into arguments (by their places) and does not declare it: running statistics.
UNDECLARED_WRITES = {"native_batch_norm": (3, 4)}


class MixedDevicesError(RuntimeError):
    """An operation was given tensors of several devices."""


class NotPermittedError(RuntimeError):
    """A capture was asked for something that no captured step can do."""


@dataclass(frozen=True)
class Refusal:
    """What a capture did not permit, and the calls that led there."""

    what: str
    calls: Sequence[traceback.FrameSummary]


@dataclass
class Usage:
    """What was done on the device."""

    graphs: int = 0  # captured to their end
    replays: int = 0
    launches: Counter[str] = field(default_factory=Counter)  # by kernel
    waits: int = 0  # for the GPU, outside captures
    refusals: list[Refusal] = field(default_factory=list)


class Recording:
    """A capture under way."""

    def __init__(self, card: int) -> None:
        self.card = card
        self.tape: list[Callable[[], None]] = []
        self.before: dict[int, tuple[Tensor, Any]] = {}  # older storages that were written
        self.own: set[int] = set()  # storages that were made since it began

    def note_write(self, bare: Tensor) -> None:
        """Keep what a storage held, so that it can be put back."""
        storage = bare.untyped_storage()
        key = storage.data_ptr()
        if key not in self.own and key not in self.before:
            self.before[key] = (bare, storage.clone())

    def note_made(self, made: Any) -> None:
        """Note tensors that belong to the graph."""
        for bare in tree_leaves(made):
            if isinstance(bare, Tensor):
                self.own.add(bare.untyped_storage().data_ptr())

    def put_back(self) -> None:
        """Undo every write."""
        for bare, content in self.before.values():
            bare.untyped_storage().copy_(content)


class Card:
    """What all pretended cards share while they are pretended: the stream and the recording."""

    usage = Usage()
    recording: Recording | None = None
    count = 0  # how many there are
    current = 0  # the number of the current device
    streams: ClassVar[dict[int, int]] = {}  # by card, the number of its current stream
    in_backward = False


def _forbid(what: str) -> None:
    """Refuse in a capture what waits for the GPU, and count it elsewhere."""
    if Card.recording is None:
        Card.usage.waits += 1
        return
    Card.usage.refusals.append(Refusal(what, traceback.extract_stack()[:-1]))
    raise NotPermittedError(f"CUDA error: operation not permitted when stream is capturing: {what}")


class PretendedTensor(torch.Tensor):
    """A tensor that says ``cuda``; what it holds is the CPU tensor ``bare``."""

    bare: Tensor
    card: int
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, bare: Tensor, card: int) -> PretendedTensor:
        self = torch.Tensor._make_wrapper_subclass(
            cls,
            bare.shape,
            strides=bare.stride(),
            storage_offset=bare.storage_offset(),
            dtype=bare.dtype,
            device=torch.device("cpu"),
        )
        self.bare, self.card = bare, card
        return self

    device = property(lambda self: torch.device("cuda", self.card))
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    def data_ptr(self) -> int:
        """Return where the values are."""
        return self.bare.data_ptr()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        copy = self.detach().clone().requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy.detach(), self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"pretended({self.bare!r}, device='cuda:{self.card}')"

    def numpy(self, *_: Any, **__: Any) -> Any:
        """Refuse, as a tensor on a GPU does."""
        raise TypeError(
            "can't convert cuda device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first."
        )

    __array__ = numpy

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _dispatch(func, args, kwargs or {})


def _dispatch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute an operation on what pretended tensors hold; note it where a graph is recorded."""
    name = func.overloadpacket.__name__
    card = _find_card(name, args, kwargs)
    if name in LOOKS:
        _forbid(LOOKS[name])
    if name in ("index", "index_put", "index_put_") and any(
        isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in args[1]
    ):
        _forbid("boolean-mask indexing")
    bare_args, bare_kwargs = tree_map_only(PretendedTensor, lambda t: t.bare, (args, kwargs))
    written = _find_written(func, args, kwargs)
    recording = Card.recording
    if recording is not None:
        for tensor in written:
            recording.note_write(tensor.bare)
    result = _compute(func, bare_args, bare_kwargs, recording is not None and not written)
    if name == "_local_scalar_dense":
        return result
    aliases = [each.alias_info for each in func._schema.returns if each.alias_info is not None]
    is_view = any(not alias.is_write for alias in aliases)
    known = {id(tensor.bare): tensor for tensor in written}
    if recording is not None and not is_view:
        made = {
            place: bare
            for place, bare in enumerate(tree_leaves(result))
            if isinstance(bare, Tensor) and id(bare) not in known
        }
        recording.tape.append(lambda: _compute_again(func, bare_args, bare_kwargs, made))
        recording.note_made(list(made.values()))

    def wrap(bare: Tensor) -> Tensor:
        return known[id(bare)] if id(bare) in known else PretendedTensor(bare, card)

    return tree_map_only(Tensor, wrap, result)


def _find_card(name: str, args: Any, kwargs: Any) -> int:
    """Return the card that an operation runs on; tensors of several devices are refused."""
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    cards = {t.card for t in tensors if isinstance(t, PretendedTensor)}
    if name in ("copy_", "_to_copy"):
        if any(not isinstance(t, PretendedTensor) and t.dim() > 0 for t in tensors):
            _forbid("a copy between host and device")
        return min(cards)
    # Gradients that torch fills with zeros itself are made below Python, on the CPU.
    strange = [t for t in tensors if not isinstance(t, PretendedTensor) and t.dim() > 0]
    if len(cards) > 1 or (strange and not Card.in_backward):
        found = [f"cuda:{card}" for card in sorted(cards)] + ["cpu"] * bool(strange)
        raise MixedDevicesError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{found[0]} and {found[-1]}! ({name})"
        )
    card = cards.pop()
    if Card.recording is not None and card != Card.recording.card:
        _forbid(f"work on cuda:{card} in a graph of cuda:{Card.recording.card}")
    return card


def _find_written(func: Any, args: Any, kwargs: Any) -> list[PretendedTensor]:
    """Return the tensors that an operation writes into."""
    written: list[PretendedTensor] = []
    for place, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = kwargs.get(argument.name, args[place] if place < len(args) else None)
            written += [t for t in tree_leaves(value) if isinstance(t, PretendedTensor)]
    for place in UNDECLARED_WRITES.get(func.overloadpacket.__name__, ()):
        if isinstance(args[place], PretendedTensor):
            written.append(args[place])
    return written


def _compute(func: Any, args: Any, kwargs: Any, is_recorded: bool) -> Any:
    try:
        return func(*args, **kwargs)
    except IndexError:
        # A capture runs nothing, so that the cursor of its last steps may be behind the block.
        if not is_recorded:
            raise
        far = tree_map_only(Tensor, lambda t: t.to("meta"), (args, kwargs))
        return tree_map_only(
            Tensor, lambda t: torch.zeros(t.shape, dtype=t.dtype), func(*far[0], **far[1])
        )


def _compute_again(func: Any, args: Any, kwargs: Any, into: dict[int, Tensor]) -> None:
    """Compute an operation, and copy its new results into the tensors at these places."""
    result = tree_leaves(func(*args, **kwargs))
    for place, tensor in into.items():
        tensor.copy_(result[place])


class PretendedDevices(TorchFunctionMode):
    """Sends what is made on ``cuda`` there."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        first = args[0] if args else None
        if name in ("to", "cuda", "cpu") and isinstance(first, Tensor):
            return _move(name, first, list(args[1:]), kwargs)
        if name in ("grad", "backward"):
            Card.in_backward = True
            try:
                with self:  # functions with a backward pass of their own make tensors, too
                    return _differentiate(name, args, kwargs)
            finally:
                Card.in_backward = False
        if isinstance(first, PretendedTensor):
            if name == "tolist":
                _forbid("tolist")
                return first.bare.tolist()
            if name == "one_hot":  # its result is made below Python
                _forbid("one_hot")
                return PretendedTensor(func(first.bare, *args[1:], **kwargs), first.card)
            if name == "new_tensor":
                _forbid("new_tensor")
                made = torch.tensor(args[1], dtype=kwargs.get("dtype") or first.dtype)
                return PretendedTensor(made, first.card)
        if _is_cuda(kwargs.get("device")):
            return _make(func, name, args, kwargs)
        return func(*args, **kwargs)


def _is_cuda(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


def _number_of(device: Any) -> int:
    """Return the number of a card; ``cuda`` is the current one."""
    index = torch.device(device).index
    if index is not None and index >= Card.count:
        raise RuntimeError("CUDA error: invalid device ordinal")
    return Card.current if index is None else index


def _make(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """Make a tensor on a card."""
    card = _number_of(kwargs.pop("device"))
    if any(isinstance(a, PretendedTensor) for a in args):
        return func(*args, **kwargs)
    if name in ("tensor", "as_tensor", "asarray"):
        _forbid(f"torch.{name}(..., device=...), which copies from the host")
    with torch._C.DisableTorchFunctionSubclass():
        made = func(*args, **kwargs, device="cpu")
    if Card.recording is not None:  # a constant, which every replay fills again
        content = made.clone()
        Card.recording.tape.append(lambda: made.copy_(content))
        Card.recording.note_made(made)
    return PretendedTensor(made.detach(), card).requires_grad_(made.requires_grad)


def _move(name: str, tensor: Tensor, rest: list[Any], kwargs: dict[str, Any]) -> Tensor:
    """Do ``tensor.to(...)``, ``tensor.cuda()`` and ``tensor.cpu()``."""
    device = name if name != "to" else kwargs.pop("device", None)
    if name != "to":
        rest, kwargs = [], {}
    elif rest and isinstance(rest[0], (str, torch.device)):
        device = rest.pop(0)
    elif rest and isinstance(rest[0], Tensor):
        device, rest[0] = rest[0].device, rest[0].dtype
    rest = [each for each in rest if each is not None and not isinstance(each, bool)]
    copies = bool(kwargs.pop("copy", False))
    kwargs = {key: v for key, v in kwargs.items() if key != "non_blocking" and v is not None}
    here = tensor.card if isinstance(tensor, PretendedTensor) else None
    there = here if device is None else _number_of(device) if _is_cuda(device) else None
    if here == there:
        to: Any = torch._C.TensorBase.to
        plain: Tensor = to(tensor, *rest, copy=copies, **kwargs)
        return plain
    _forbid("a copy between devices")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise NotImplementedError("a pretended copy between devices has no gradient")
    bare = tensor.detach()
    moved = (bare.bare if isinstance(bare, PretendedTensor) else bare).clone()
    if rest or kwargs:
        moved = moved.to(*rest, **kwargs)
    return moved if there is None else PretendedTensor(moved, there)


def _differentiate(name: str, args: Any, kwargs: Any) -> Any:
    """Do ``torch.autograd.grad`` or ``Tensor.backward`` below the functions that modes see."""
    run = autograd_graph._engine_run_backward
    if name == "backward":
        given = args[1] if len(args) > 1 else kwargs.get("gradient")
        given = torch.ones_like(args[0]) if given is None else given
        keep = bool(kwargs.get("retain_graph"))
        return run(
            (args[0],), (given,), keep, False, (), allow_unreachable=True, accumulate_grad=True
        )
    outputs, inputs = (_to_tuple(each) for each in args[:2])
    given = _to_tuple(args[2] if len(args) > 2 else kwargs.get("grad_outputs"))
    given = given or tuple(torch.ones_like(output) for output in outputs)
    create = bool(kwargs.get("create_graph"))
    keep = bool(kwargs.get("retain_graph") or create)
    unused = bool(kwargs.get("allow_unused"))
    return run(outputs, given, keep, create, inputs, unused, accumulate_grad=False)


def _to_tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, Tensor) else tuple(value)


# -- what ``torch.cuda`` has -----------------------------------------------------------------------


class PretendedStream:
    """A stream; its work is done when it is given."""

    count = 0

    def __init__(self, device: Any = None, number: int | None = None, **_: Any) -> None:
        self.card = _number_of(device) if device is not None else Card.current
        if number is None:
            PretendedStream.count += 1
            number = PretendedStream.count
        self.number = number

    def wait_stream(self, other: PretendedStream) -> None:
        """Do nothing: there is nothing to wait for."""

    def synchronize(self) -> None:
        """Count a wait."""
        _forbid("a wait for the GPU")


class PretendedEvent:
    """A point in time."""

    clock = 0.0  # milliseconds

    def __init__(self, *_: Any, **__: Any) -> None:
        self.at, self.card = 0.0, 0

    def record(self, stream: PretendedStream | None = None) -> None:
        """Note the time: a millisecond later than the last event."""
        PretendedEvent.clock += 1.0
        self.at = PretendedEvent.clock
        self.card = Card.current if stream is None else stream.card

    def synchronize(self) -> None:
        """Do nothing."""

    def elapsed_time(self, other: PretendedEvent) -> float:
        """Return the milliseconds from this event to another."""
        if self.card != other.card:
            raise MixedDevicesError("CUDA error: invalid resource handle: events of two devices")
        return other.at - self.at


class PretendedGraph:
    """A CUDA graph: a tape of operations."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.tape: list[Callable[[], None]] = []

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Begin to record what is done on the current stream."""
        if _current_stream().number == 0:
            raise NotPermittedError("CUDA graphs must be captured on a non-default stream")
        if Card.recording is not None:
            raise NotPermittedError("a stream is already capturing")
        Card.recording = Recording(Card.current)

    def capture_end(self) -> None:
        """End the recording."""
        recording, Card.recording = Card.recording, None
        if recording is None:
            raise NotPermittedError("no stream is capturing")
        recording.put_back()
        self.tape = recording.tape
        Card.usage.graphs += 1

    def replay(self) -> None:
        """Do what was recorded again, on what the tensors hold now."""
        Card.usage.replays += 1
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            for act in self.tape:
                act()

    def reset(self) -> None:
        """Forget what was recorded."""
        self.tape.clear()


def _current_stream(device: Any = None) -> PretendedStream:
    card = Card.current if device is None else _number_of(device)
    return PretendedStream(torch.device("cuda", card), Card.streams.get(card, 0))


@contextmanager
def _on_stream(stream: PretendedStream) -> Iterator[None]:
    with _on_card(stream.card):
        before = Card.streams.get(stream.card, 0)
        Card.streams[stream.card] = stream.number
        try:
            yield
        finally:
            Card.streams[stream.card] = before


@contextmanager
def _on_card(device: Any) -> Iterator[None]:
    before = Card.current
    Card.current = device if isinstance(device, int) else _number_of(device)
    try:
        yield
    finally:
        Card.current = before


@dataclass(frozen=True)
class PretendedProperties:
    """The properties of a card."""

    name: str = "pretended GPU"
    multi_processor_count: int = 132
    major: int = 9
    minor: int = 0
    total_memory: int = 1 << 36


def _launch_interpreted(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Return what launches an interpreted kernel on what pretended tensors hold."""

    def launch(kernel: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        tensors = [a for a in args if isinstance(a, Tensor)]
        if not any(isinstance(t, PretendedTensor) for t in tensors):
            return plain(kernel, *args, grid=grid, warmup=warmup, **options)
        for tensor in tensors:
            if not isinstance(tensor, PretendedTensor):
                raise MixedDevicesError("Pointer argument cannot be accessed from Triton (cpu)")
            if tensor.card != Card.current:
                message = (
                    f"a kernel on cuda:{Card.current} was given a tensor of cuda:{tensor.card}"
                )
                raise MixedDevicesError(message)
        Card.usage.launches[kernel.__name__] += 1
        bare = [a.bare if isinstance(a, PretendedTensor) else a for a in args]

        def act() -> None:
            plain(kernel, *bare, grid=grid, warmup=warmup, **options)

        if Card.recording is not None:
            for each in bare:
                if isinstance(each, Tensor):
                    Card.recording.note_write(each)
            Card.recording.tape.append(act)
        return act()

    return launch


@contextmanager
def pretend(
    cards: int = 1, kernels_too: bool = False, shared_memory_bytes: int = SHARED_MEMORY_BYTES
) -> Iterator[Usage]:
    """Pretend that this machine has so many GPUs; yield what is done on them.

    With ``kernels_too`` the Triton kernels run, in Triton's interpreter (``TRITON_INTERPRET=1``).
    """
    properties = PretendedProperties()
    instead: dict[str, Any] = {
        "is_available": lambda: cards > 0,
        "device_count": lambda: cards,
        "current_device": lambda: Card.current,
        "get_device_name": lambda *_: properties.name,
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: (properties.major, properties.minor),
        "memory_reserved": lambda *_: 0,
        "memory_allocated": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "empty_cache": lambda: None,
        "synchronize": lambda *_: _forbid("torch.cuda.synchronize"),
        "graph_pool_handle": lambda: (0, 1),
        "current_stream": _current_stream,
        "is_current_stream_capturing": lambda: Card.recording is not None,
        "stream": _on_stream,
        "device": _on_card,
        "CUDAGraph": PretendedGraph,
        "Stream": PretendedStream,
        "Event": PretendedEvent,
    }
    before = Card.usage, Card.recording, Card.count, Card.current, Card.streams
    _set_state(Usage(), None, cards, 0, {})
    with ExitStack() as changes:
        changes.callback(_set_state, *before)
        changes.enter_context(mock.patch.multiple(torch.cuda, **instead))
        # Kernels that are compiled cannot run here.
        for name, function in {
            "installed": lambda: kernels_too,
            "find_shared_memory_bytes": lambda device: shared_memory_bytes,
        }.items():
            changes.enter_context(mock.patch.object(kernels, name, function))
        if kernels_too:
            from triton.runtime.interpreter import InterpretedFunction as Interpreted

            launch = _launch_interpreted(Interpreted.run)
            changes.enter_context(mock.patch.object(Interpreted, "run", launch))
        changes.enter_context(PretendedDevices())
        yield Card.usage


def _set_state(
    usage: Usage, recording: Recording | None, count: int, current: int, streams: dict[int, int]
) -> None:
    Card.usage, Card.recording, Card.count = usage, recording, count
    Card.current, Card.streams = current, streams
