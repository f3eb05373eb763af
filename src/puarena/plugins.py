"""Python files of users that define algorithms and networks."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from puarena import catalog, networks
from puarena.algorithms import Algorithm
from puarena.classics import guests
from puarena.errors import UserError, missing_package
from puarena.utils.discovery import find_classes
from puarena.utils.identity import digest, file_digest

_loaded: dict[tuple[Path, str], list[str]] = {}


def load(path: str | Path) -> list[str]:
    """Register what a Python file defines, and return the names of its algorithms.

    A file is run once unless it changes.
    """
    file = Path(path)
    if not file.is_file():
        raise UserError(
            f"plugin '{path}' is not a file; give the path of a Python file that defines an "
            "Algorithm",
            "missing-file",
        )
    try:
        key = file.resolve(), hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"plugin '{path}' cannot be read ({reason})", "cannot-read") from None
    if key not in _loaded:
        _loaded[key] = _register(file, _import(file))
    return _loaded[key]


def _register(file: Path, module: ModuleType) -> list[str]:
    """Register the networks and algorithms of a plugin; return the names of its algorithms."""
    classes = [cls for cls in find_classes(module, Algorithm) if cls.name]
    own_networks = find_classes(module, networks.RunNetwork)
    own_guests = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and guests.is_guest(value)
    }
    _check_definitions(file, classes, [*own_networks, *own_guests])
    try:
        for network in own_networks:
            networks.register(network)
        names = [name for cls in classes for name in catalog.register(cls)]
        for variable, prototype in own_guests.items():
            name = variable.replace("_", "-")
            names += catalog.register_guest(name, prototype, module.__name__)
        return names
    except UserError as error:
        raise UserError(f"plugin '{file}': {error}", error.code) from None


def _check_definitions(
    file: Path, classes: list[type[Algorithm]], others: Sequence[object]
) -> None:
    """Check that a plugin defines something, and every algorithm once."""
    if not classes and not others:
        raise UserError(
            f"plugin '{file}' defines no algorithm; subclass puarena.algorithms.Algorithm and set "
            "a name, or give a name to a classifier of another library",
            "invalid-plugin",
        )
    for name, count in Counter(cls.name for cls in classes).items():
        if count > 1:
            raise UserError(
                f"plugin '{file}' has two algorithms called '{name}'; rename one of them",
                "invalid-plugin",
            )


def _import(file: Path) -> ModuleType:
    """Run a Python file as a module."""
    # Files of one name in two folders are two modules.
    name = f"puarena_plugin_{file.stem}_{digest([str(file.resolve())])}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UserError(f"plugin '{file}' does not end in .py", "invalid-plugin")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and (missing := missing_package(error)):
            raise UserError(f"plugin '{file}' cannot be loaded: {missing}", missing.code) from None
        text = " ".join(str(error).split())[:300]
        raise UserError(
            f"plugin '{file}' could not be imported: {type(error).__name__}: {text}",
            "invalid-plugin",
        ) from error
    return module


def list_files(path: str | Path) -> list[Path]:
    """Return a plugin's file, the modules in its folder that it imports, and what these import.

    The files are parsed, not run.
    """
    folder, left, files = Path(path).parent, [Path(path)], dict[Path, None]()
    while left:
        file = left.pop()
        if file in files or not file.is_file():
            continue
        files[file] = None
        for name in _list_imports(file):
            place = folder.joinpath(*name.strip(".").split("."))
            package = folder / name.split(".")[0]
            left += [place.with_suffix(".py"), place / "__init__.py", package / "__init__.py"]
    return list(files)


def _list_imports(file: Path) -> list[str]:
    """Return the dotted names that a file imports; none if it cannot be parsed."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError, RecursionError):
        return []
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names.append(module)
            names += [f"{module}.{alias.name}" for alias in node.names]
    return names


def digest_of(path: str | Path) -> str:
    """Return sixteen hexadecimal digits over a plugin's file and the modules that it imports."""
    first, *others = [file_digest(file) for file in list_files(path)] or [file_digest(path)]
    return digest([first, *sorted(others)]) if others else first
