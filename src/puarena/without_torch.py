"""Where torch is not installed, files that import it can still be read for what they declare: names, facts, words.

Reports need no more than that. Whatever would compute ends in one sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from puarena.errors import UserError

TORCH = "torch"
TRAINING = {
    "torch": TORCH,
    "sklearn": "scikit-learn",
    "pooch": "pooch",
    "tqdm": "tqdm",
    "PIL": "pillow",
}
"""What reports do without, by the names of the packages that bring it."""


def needs(module: str) -> str:
    """The sentence for who wants more than reports, and has installed no more than they need."""
    package = TRAINING[module.split(".")[0]]
    return f"this needs {package}, which is not installed here; 'pip install puarena' without --no-deps brings it"


class _Name:
    """A name of torch that is not there: it can be mentioned, asked for further names and inherited from."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _named(f"{self._name}.{name}")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        raise UserError(needs(TORCH))

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __or__(self, other: Any) -> Any:  # in annotations
        return self

    __ror__ = __or__


class _NoGrad(_Name):
    """``@torch.no_grad()`` stands before functions, and so is called when a file is read."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return lambda function: function


def _named(name: str) -> _Name:
    return (_NoGrad if name == f"{TORCH}.no_grad" else _Name)(name)


class _StandIn(MetaPathFinder, Loader):
    """Finds modules of torch that have every name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return (
            ModuleSpec(fullname, self, is_package=True) if fullname.split(".")[0] == TORCH else None
        )

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__getattr__"] = _Name(module.__name__).__getattr__


def has_torch() -> bool:
    """Is torch installed? It is imported to see."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != TORCH:
            raise
        return False
    return True


@contextmanager
def torch_or_names() -> Iterator[None]:
    """Inside, files that import torch can be imported where it is not installed, to be read and not to be run.

    Afterwards torch is as missing as before: nobody else takes the stand-in for the real one.
    """
    if has_torch():
        yield
        return
    finder = _StandIn()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] == TORCH]:
            del sys.modules[name]
