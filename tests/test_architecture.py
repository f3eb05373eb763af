"""Imports are those that docs/architecture.md allows, and there are no cycles."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "puarena"
DOCUMENT = ROOT / "docs" / "architecture.md"

# -- what imports what ---------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """One imported module of the package; ``typing`` is True below ``if TYPE_CHECKING``."""

    module: str
    target: str
    file: Path
    line: int
    typing: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.module} imports {self.target}"


def modules_of(package: Path) -> dict[str, Path]:
    """Every module of a package by its dotted name."""
    parts = {
        file: (package.name, *file.relative_to(package).with_suffix("").parts)
        for file in package.rglob("*.py")
    }
    return {".".join(names).removesuffix(".__init__"): file for file, names in parts.items()}


def imports_of(package: Path) -> list[Import]:
    """Every import of one module of a package by another, also inside functions, and of a module
    named by a string.
    """
    modules = modules_of(package)
    found = []
    for module, file in modules.items():
        tree = ast.parse(file.read_text(encoding="utf-8"))
        below = {
            id(node)
            for branch in ast.walk(tree)
            if _is_for_types(branch)
            for node in ast.walk(branch)
        }
        for node in ast.walk(tree):
            for target in _targets(node, module, file.name == "__init__.py", modules):
                short = file.relative_to(package.parent)
                found.append(Import(module, target, short, node.lineno, id(node) in below))
    return found


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _targets(
    node: ast.AST, module: str, is_package: bool, modules: dict[str, Path]
) -> Iterator[str]:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        above = module.split(".") + [""] * is_package
        start = (
            [*above[: len(above) - node.level], *filter(None, [node.module])]
            if node.level
            else [node.module or ""]
        )
        names = [".".join([*start, alias.name]) for alias in node.names]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in (
        "import_module",
        "__import__",
    ):
        constants = [
            a.value
            for a in node.args[:1]
            if isinstance(a, ast.Constant) and isinstance(a.value, str)
        ]
        names = [
            name for name in constants if not module.startswith(f"{name}.")
        ]  # its own packages are there already
    for name in names:
        if name.split(".")[0] == module.split(".")[0]:
            yield name if name in modules else name.rpartition(".")[0]


# -- the table ----------------------------------------------------------------------


def table_of(text: str) -> tuple[set[str], dict[str, set[str]]]:
    """The base, which all may know, and what each room may know beside it; "all" is everything."""
    base = re.search(r"^Every module may import (.+)$", text, re.M)
    assert base, "docs/architecture.md has no line 'Every module may import ...'"
    rows = re.findall(r"^\| (`.+?`) \|.*\| (.+?) \|$", text, re.M)
    known: dict[str, set[str]] = {}
    for rooms, may_know in rows:
        for room in _quoted(rooms):
            assert room not in known, f"docs/architecture.md has two rows for {room}"
            known[room] = {"all"} if may_know == "all" else set(_quoted(may_know))
    return set(_quoted(base[1])), known


def _quoted(text: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", text)


def _room(module: str) -> str:
    return ".".join(module.split(".")[1:2])


def trespasses(imports: list[Import], base: set[str], known: dict[str, set[str]]) -> list[str]:
    """Imports that the table does not allow; the package itself is what users import and knows
    all rooms.
    """
    wrong = []
    for i in imports:
        room, inside = _room(i.module), i.target.partition(".")[2]
        allowed = known.get(room, set()) | base
        passes = (
            room in ("", "__main__") or room == _room(i.target) or "all" in allowed or not inside
        )
        if not passes and not any(
            inside == name or inside.startswith(f"{name}.") for name in allowed
        ):
            wrong.append(f"{i}, which `{room}` may not know")
    return list(dict.fromkeys(wrong))


def test_the_rooms_know_what_the_table_says():
    base, known = table_of(DOCUMENT.read_text(encoding="utf-8"))
    wrong = trespasses(imports_of(PACKAGE), base, known)
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_table_has_every_room_and_no_other():
    base, known = table_of(DOCUMENT.read_text(encoding="utf-8"))
    rooms = {_room(name) for name in modules_of(PACKAGE)} - {"", "__main__"}
    assert set(known) == rooms
    named = base.union(*known.values()) - {"all"}
    assert named <= {name.partition(".")[2] for name in modules_of(PACKAGE)}


def test_the_version_is_all_that_a_room_takes_from_the_package_itself():
    modules = modules_of(PACKAGE)
    for file in modules.values():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "puarena":
                names = {
                    alias.name for alias in node.names if f"puarena.{alias.name}" not in modules
                }
                assert names <= {"__version__"}, (
                    f"{file}:{node.lineno} imports {names} from the package itself"
                )


# -- cycles ----------------------------------------------------------------------


def cycles_of(imports: list[Import]) -> list[str]:
    """Sets of modules that import one another, with the imports that do it; lazy ones count, those
    for types do not.

    To import ``a.b.c`` from outside ``a`` is to import ``a`` and ``a.b`` too.
    """
    edges: dict[str, dict[str, Import]] = defaultdict(dict)
    for i in imports:
        parents = [i.target.rsplit(".", n)[0] for n in range(1, i.target.count("."))]
        for target in (i.target, *(p for p in parents if not f"{i.module}.".startswith(f"{p}."))):
            if not i.typing and target != i.module and "." in target:
                edges[i.module].setdefault(target, i)
    reachable = {module: _reached(module, edges) for module in list(edges)}
    groups = {
        frozenset(m for m in reached if module in reachable.get(m, ()))
        for module, reached in reachable.items()
    }
    return [
        "\n  ".join(
            [
                "a cycle:",
                *(str(i) for m in sorted(group) for t, i in edges[m].items() if t in group),
            ]
        )
        for group in groups
        if group
    ]


def _reached(module: str, edges: dict[str, dict[str, Import]]) -> set[str]:
    reached: set[str] = set()
    ahead = [*edges[module]]
    while ahead:
        if (now := ahead.pop()) not in reached:
            reached.add(now)
            ahead += edges.get(now, {})
    return reached


def test_no_import_cycle():
    cycles = cycles_of(imports_of(PACKAGE))
    assert not cycles, "\n" + "\n".join(cycles)


# -- these tests can fail ------------------------------------------------------------


@pytest.fixture
def small_package(tmp_path):
    """A small package: its files by path; returns its imports."""

    def build(files: dict[str, str]) -> list[Import]:
        for name, text in files.items():
            file = tmp_path / "puarena" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            (file.parent / "__init__.py").touch()
            file.write_text(text)
        return imports_of(tmp_path / "puarena")

    return build


@pytest.mark.parametrize(
    "line",
    [
        "import puarena.experiments.plan",
        "from puarena.experiments import plan",
        "from puarena import experiments",
        "from ..experiments import plan",
        "def f():\n    from puarena.experiments.plan import run",
        "def f():\n    return import_module('puarena.experiments.plan')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from puarena.experiments.plan import run",
    ],
)
def test_a_room_that_knows_too_much_is_named(small_package, line):
    imports = small_package(
        {"datasets/draw.py": line, "experiments/plan.py": "run = 1", "errors.py": ""}
    )
    wrong = trespasses(imports, {"errors"}, {"datasets": set(), "experiments": {"datasets"}})
    assert len(wrong) == 1
    assert wrong[0].startswith("puarena/datasets/draw.py:")
    assert "puarena.datasets.draw imports puarena.experiments" in wrong[0]
    assert not trespasses(imports, {"errors"}, {"datasets": {"experiments"}})


def test_a_room_may_know_one_module_of_another(small_package):
    imports = small_package(
        {"classics/a.py": "from puarena.pu.labels import f", "pu/labels.py": "f = 1"}
    )
    assert not trespasses(imports, set(), {"classics": {"pu.labels"}})
    assert trespasses(imports, set(), {"classics": {"pu.lab"}})


def test_cycles_are_named(small_package):
    lazy = "def f():\n    from puarena.{} import x"
    imports = small_package(
        {"a.py": lazy.format("b.c"), "b/c.py": lazy.format("d"), "d.py": "import puarena.a"}
    )
    (cycle,) = cycles_of(imports)
    assert "puarena/a.py:2: puarena.a imports puarena.b.c" in cycle
    assert "puarena/d.py:1: puarena.d imports puarena.a" in cycle
    for_types = small_package(
        {"d.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import puarena.a"}
    )
    assert not cycles_of(for_types)


def test_a_package_is_imported_with_its_modules(small_package):
    imports = small_package(
        {"a.py": "import puarena.b.c", "b/c.py": "", "b/__init__.py": "import puarena.a"}
    )
    assert len(cycles_of(imports)) == 1
