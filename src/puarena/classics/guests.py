"""Guests: classifiers of other libraries with scikit-learn's manners, as rows of a benchmark.

A guest is named by how it is made, ``sklearn:pulearn.BaggingPuClassifier(n_estimators=50)``, or is
a variable of a plugin file. It is fitted as the classics are: with 1 for labeled positives and 0
for unlabeled rows.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from importlib import import_module, metadata
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from puarena import __version__
from puarena.classics.wrapper import Floats
from puarena.errors import UserError, unknown_name

PREFIX = "sklearn:"
EXAMPLE = f"{PREFIX}pulearn.BaggingPuClassifier(n_estimators=50)"
METHODS = ("predict_proba", "decision_function", "predict")


class GivenValue(Enum):
    """Stands for what the experiment knows, as the value of a parameter."""

    PRIOR = "prior"  # the share of positives in the population
    UNLABELED_PRIOR = "unlabeled_prior"  # the share of positives in the unlabeled set
    SETTING = "setting"  # "one-sample" or "two-sample"

    def __repr__(self) -> str:
        return self.value


PRIOR, UNLABELED_PRIOR = GivenValue.PRIOR, GivenValue.UNLABELED_PRIOR


class Guest:
    """A classifier of another library, fitted to observed labels; subclasses set ``prototype``.

    Its score is the probability of the positive class minus one half, or its decision value if it
    has no probabilities.
    """

    prototype: ClassVar[Any] = None

    def __init__(
        self,
        prior: float | None = None,
        unlabeled_prior: float | None = None,
        setting: str = "one-sample",
        random_state: int | None = None,
    ) -> None:
        self.given = {
            PRIOR: prior,
            UNLABELED_PRIOR: unlabeled_prior,
            GivenValue.SETTING: setting,
        }
        self.random_state = random_state

    def fit(self, x: Any, s: npt.NDArray[Any]) -> Guest:
        """Fit a copy of the prototype; parameters called random_state receive seeds."""
        self.model = clone(self.prototype)
        params, rng = self.model.get_params(), np.random.RandomState(self.random_state)
        changes: dict[str, Any] = {
            name: self.given[value]
            for name, value in params.items()
            if isinstance(value, GivenValue)
        }
        for name in sorted(params):
            if name.rpartition("__")[2] == "random_state" and params[name] is None:
                changes[name] = int(rng.randint(2**31 - 1))
        self.model.set_params(**changes)
        with _seed_globals(int(rng.randint(2**31 - 1))):
            self.model.fit(x, s)
        return self

    def decision_function(self, x: Any) -> Floats:
        """Return scores that are positive where the guest predicts a positive."""
        for name in METHODS:
            try:
                values = np.asarray(getattr(self.model, name)(x), dtype=float)
            except (AttributeError, NotImplementedError):
                continue
            if name == "decision_function":
                return values.reshape(len(values))
            if name == "predict":
                return np.where(values > 0, 0.5, -0.5)
            return values[:, -1] - 0.5
        raise UserError(
            f"{type(self.model).__name__} has none of {', '.join(METHODS)}", "not-supported"
        )


@contextmanager
def _seed_globals(seed: int) -> Iterator[None]:
    """Seed the global generators of NumPy and torch, which some libraries use, for a while."""
    import torch

    before = np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(before)


def is_guest(value: Any) -> bool:
    """Return whether a value is a classifier that can be a guest."""
    return (
        not isinstance(value, type)
        and hasattr(value, "fit")
        and hasattr(value, "get_params")
        and any(hasattr(type(value), name) for name in METHODS)
    )


def make_class(prototype: Any, module: str = __name__) -> type[Guest]:
    """Return the class of guests that copy a classifier; ``module`` is where it is defined."""
    return type("Guest", (Guest,), {"prototype": prototype, "__module__": module})


def list_priors(prototype: Any) -> set[GivenValue]:
    """Return the priors that a classifier's parameters ask for."""
    return {PRIOR, UNLABELED_PRIOR} & {
        value for value in prototype.get_params().values() if isinstance(value, GivenValue)
    }


def print_guest(prototype: Any) -> str:
    """Return how a classifier is made, in one line."""
    return " ".join(repr(prototype).split())


def name_library(prototype: Any) -> str:
    """Return the package that a classifier comes from, with its version."""
    module = type(prototype).__module__.partition(".")[0]
    if module == "puarena":  # which may run without being installed
        return f"{module} {__version__}"
    names = metadata.packages_distributions().get(module, [])
    return f"{names[0]} {metadata.version(names[0])}" if names else module


# -- from text -----------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def read_guest(text: str) -> tuple[str, Any]:
    """Return the one spelling of a guest's name, and the classifier that it names.

    Nothing is evaluated: a value is a number, a string, True, False, None, ``prior``,
    ``unlabeled_prior``, ``setting``, another estimator, or a list, tuple or dictionary of these.
    """
    try:
        node = ast.parse(text.removeprefix(PREFIX).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _unreadable(text) from None
    if not isinstance(node, ast.Call | ast.Attribute):
        raise _unreadable(text)
    prototype = _read_value(node, text)
    if not is_guest(prototype):
        raise UserError(
            f"'{ast.unparse(node)}' is not a classifier: it has none of {', '.join(METHODS)}",
            "invalid-value",
        )
    return PREFIX + ast.unparse(_Normalizer().visit(node)), prototype


class _Normalizer(ast.NodeTransformer):
    """Writes ``A()`` as ``A``, and arguments in the order of their names."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.keywords.sort(key=lambda keyword: keyword.arg or "")
        return node if node.keywords else node.func


def _unreadable(text: str) -> UserError:
    return UserError(f"'{text}' cannot be read; write it as {EXAMPLE}", "invalid-value")


def _read_value(node: ast.expr, text: str) -> Any:
    """Return the value of a literal, or the estimator that a call or a dotted name makes."""
    if isinstance(node, ast.Name):
        words = [each.value for each in GivenValue]
        if node.id not in words:
            raise UserError(
                f"'{node.id}' in '{text}' is no value; write a number, a string in quotes, an "
                f"estimator with its module, or one of: {', '.join(words)}",
                "invalid-value",
            )
        return GivenValue(node.id)
    if isinstance(node, ast.Attribute):
        return _make_estimator(node, [], text)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.args or any(keyword.arg is None for keyword in node.keywords):
            raise UserError(
                f"an argument in '{text}' has no name; write it as {EXAMPLE}", "invalid-value"
            )
        return _make_estimator(node.func, node.keywords, text)
    return _read_literal(node, text)


def _read_literal(node: ast.expr, text: str) -> Any:
    """Return a number, a text, or a list, tuple or dictionary of values."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _read_value(node.operand, text)
        if isinstance(value, int | float):
            return -value
    if isinstance(node, ast.List | ast.Tuple):
        values = [_read_value(each, text) for each in node.elts]
        return tuple(values) if isinstance(node, ast.Tuple) else values
    if isinstance(node, ast.Dict) and None not in node.keys:
        keys = [_read_value(key, text) for key in node.keys if key is not None]
        return dict(zip(keys, (_read_value(each, text) for each in node.values), strict=True))
    raise _unreadable(text)


def _make_estimator(node: ast.Attribute, keywords: list[ast.keyword], text: str) -> Any:
    """Return an estimator of a library with the given parameters."""
    cls = _find_class(ast.unparse(node))
    given = {str(keyword.arg): _read_value(keyword.value, text) for keyword in keywords}
    known = inspect.signature(cls).parameters
    if not any(each.kind is each.VAR_KEYWORD for each in known.values()):
        for name in given:
            if name not in known:
                raise unknown_name(f"parameter of {cls.__name__}", name, known)
    try:
        return cls(**given)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{cls.__name__} cannot be made: {reason}", "invalid-value") from None


def _find_class(dotted: str) -> type[Any]:
    """Return the class of estimators with this dotted name."""
    module_name, _, name = dotted.rpartition(".")
    if not all(part.isidentifier() for part in dotted.split(".")):
        raise _unreadable(dotted)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        raise UserError(
            f"'{dotted}' needs the module {error.name}, which is not installed; install its "
            "package with pip",
            "missing-dependency",
        ) from None
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:200]
        raise UserError(
            f"the module {module_name} could not be imported: {reason}", "missing-dependency"
        ) from None
    cls = getattr(module, name, None)
    if _is_estimator_class(cls):
        return cast(type[Any], cls)
    choices = [each for each in dir(module) if _is_estimator_class(getattr(module, each, None))]
    if cls is None:
        raise unknown_name(f"estimator of {module_name}", name, choices)
    raise UserError(
        f"'{dotted}' is not an estimator of scikit-learn's kind, with fit and get_params",
        "invalid-value",
    )


def _is_estimator_class(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "fit") and hasattr(value, "get_params")
