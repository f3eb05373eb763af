"""Python files of users that bring algorithms and networks of their own."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from puarena import catalog, networks
from puarena.algorithms.core import registry
from puarena.errors import UserError
from puarena.utils.identity import digest, file_digest
from puarena.without_torch import TRAINING, needs

_loaded: dict[tuple[Path, str], list[str]] = {}


def load(path: str | Path) -> list[str]:
    """Register what a Python file defines, run once while it stays as it is; return the names of its algorithms."""
    file = Path(path)
    if not file.is_file():
        raise UserError(
            f"plugin '{path}' is not a file; give the path of a Python file that defines an Algorithm"
        )
    try:
        key = file.resolve(), hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(
            f"plugin '{path}' cannot be read ({(error.strerror or str(error)).lower()})"
        ) from None
    if key not in _loaded:
        module = _run(file)
        classes, own_networks = registry.classes_in(module), _networks_in(module)
        if not classes and not own_networks:
            raise UserError(
                f"plugin '{path}' defines no algorithm; subclass puarena.algorithms.Algorithm and set a name"
            )
        repeated = {
            cls.name for cls in classes if sum(other.name == cls.name for other in classes) > 1
        }
        if repeated:
            raise UserError(
                f"plugin '{path}' has two algorithms called '{min(repeated)}'; rename one of them"
            )
        built_in = [name for name in catalog.names() if catalog.get(name).origin != "plugin"]
        try:
            for network in own_networks:
                networks.register(network)
            _loaded[key] = [name for cls in classes for name in registry.register(cls, built_in)]
        except UserError as error:
            raise UserError(f"plugin '{path}': {error}") from None
    return _loaded[key]


def files_of(path: str | Path) -> list[Path]:
    """A plugin's file, the modules beside it that it imports, and what these import, found without running it."""
    folder, left, files = Path(path).parent, [Path(path)], dict[Path, None]()
    while left:
        file = left.pop()
        if file in files or not file.is_file():
            continue
        files[file] = None
        try:
            nodes = list(ast.walk(ast.parse(file.read_bytes())))
        except (SyntaxError, ValueError, RecursionError):
            continue
        names = [
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        ]
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                names += [
                    node.module or "",
                    *(f"{node.module or ''}.{alias.name}" for alias in node.names),
                ]
        for name in names:
            place = folder.joinpath(*name.strip(".").split("."))
            left += [
                place.with_suffix(".py"),
                place / "__init__.py",
                folder / name.split(".")[0] / "__init__.py",
            ]
    return list(files)


def digest_of(path: str | Path) -> str:
    """Sixteen hexadecimal digits over a plugin's file and the modules beside it that it imports."""
    first, *others = [file_digest(file) for file in files_of(path)] or [file_digest(path)]
    return digest([first, *sorted(others)]) if others else first


def _networks_in(module: ModuleType) -> list[type[networks.RunNetwork]]:
    own = [
        c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__
    ]
    return [c for c in own if issubclass(c, networks.RunNetwork)]


def _run(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"puarena_plugin_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise UserError(f"plugin '{file}' is not a Python file; give one that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in TRAINING:
            raise UserError(
                f"plugin '{file}' cannot be loaded: {needs(error.name or '')}"
            ) from None
        words = " ".join(str(error).split())[:300]
        raise UserError(
            f"plugin '{file}' could not be imported: {type(error).__name__}: {words}"
        ) from error
    return module
