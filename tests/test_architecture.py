"""The house stands as docs/architecture.md says: who may know whom, no cycles, no long files, nothing written twice."""

from __future__ import annotations

import ast
import io
import keyword
import re
import token
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "puarena"
DOCUMENT = ROOT / "docs" / "architecture.md"
LONGEST = 350  # lines of a file
TWICE = 10  # lines that may not stand twice

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
    """Every import of one module of a package by another, also inside functions, and of a module named by a string."""
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
    base = re.search(r"^Everybody may know (.+)$", text, re.M)
    assert base, "docs/architecture.md has no line 'Everybody may know ...'"
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
    """Imports that the table does not allow; the package itself is the face of the house and knows all rooms."""
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
    """Sets of modules that import one another, with the imports that do it; lazy ones count, those for types do not.

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


# -- long files, and what stands twice -----------------------------------------------


def test_no_file_is_too_long():
    kinds = {".py", ".js", ".css", ".j2"}
    files = [file for file in PACKAGE.rglob("*") if file.suffix in kinds]
    lengths = {
        str(file.relative_to(PACKAGE)): len(file.read_text(encoding="utf-8").splitlines())
        for file in files
    }
    assert not {name: length for name, length in lengths.items() if length > LONGEST}


@dataclass(frozen=True)
class Line:
    """A line of code: as it is, with names and values left out, and whether it does more than give names to things."""

    number: int
    letters: str
    shape: str
    acts: bool


OPERATORS = {
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "@",
    "<",
    ">",
    "<=",
    ">=",
    "==",
    "!=",
    "&",
    "^",
    "~",
}


def code_of(text: str) -> list[Line]:
    """The lines of code; blank ones, comments, docstrings, imports and lone punctuation are passed over."""
    passed: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        words = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        if words or isinstance(node, (ast.Import, ast.ImportFrom)):
            passed |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    tokens: dict[int, list[tokenize.TokenInfo]] = defaultdict(list)
    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        if t.type not in (
            token.NEWLINE,
            token.INDENT,
            token.DEDENT,
            token.ENDMARKER,
            token.NL,
            token.COMMENT,
        ):
            for number in range(t.start[0], t.end[0] + 1):
                tokens[number].append(t)
    lines = []
    for number, on_line in sorted(tokens.items()):
        if number in passed or all(t.type == token.OP for t in on_line):
            continue
        words = [t.string for t in on_line]
        verbs = {w for w in words if keyword.iskeyword(w)} - {"class", "None", "True", "False"}
        fixed = [
            w if t.type == token.OP or keyword.iskeyword(w) else ""
            for w, t in zip(words, on_line, strict=True)
        ]
        shape = " ".join(f or token.tok_name[t.type] for f, t in zip(fixed, on_line, strict=True))
        lines.append(
            Line(
                number,
                " ".join(words),
                shape,
                bool(verbs or OPERATORS & set(words) or "NAME (" in shape),
            )
        )
    return lines


def stands_twice(texts: dict[str, str], length: int = TWICE) -> list[str]:
    """Places that share so many lines: to the letter, or in shape where half of the lines or more do something."""
    code = {name: code_of(text) for name, text in texts.items()}
    pairs: dict[tuple[str, str, int], str] = {}
    for by_shape in (False, True):
        places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
        for name, lines in code.items():
            for i in range(len(lines) - length + 1):
                run = lines[i : i + length]
                if by_shape and sum(line.acts for line in run) < length / 2:
                    continue
                here = places[tuple(line.shape if by_shape else line.letters for line in run)]
                other = next(((n, j) for n, j in here if n != name or i - j >= length), None)
                here.append((name, i))
                if other:
                    first = code[other[0]][other[1]].number
                    words = f"{other[0]}:{first} ~ {name}:{run[0].number}"
                    # Runs one line on, or alike to the letter before, are the same finding.
                    pairs.setdefault(
                        (other[0], name, run[0].number - first), words + " (shape)" * by_shape
                    )
    return list(pairs.values())


def test_nothing_stands_twice():
    texts = {
        str(f.relative_to(PACKAGE)): f.read_text(encoding="utf-8")
        for f in sorted(PACKAGE.rglob("*.py"))
    }
    twice = stands_twice(texts)
    assert not twice, "\n" + "\n".join(twice)


# -- these tests can fail ------------------------------------------------------------


@pytest.fixture
def house(tmp_path):
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
        "from puarena import bench",
        "from ..bench import plan",
        "def f():\n    from puarena.experiments.plan import run",
        "def f():\n    return import_module('puarena.experiments.plan')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from puarena.experiments.plan import run",
    ],
)
def test_a_room_that_knows_too_much_is_named(house, line):
    imports = house({"data/draw.py": line, "bench/plan.py": "run = 1", "errors.py": ""})
    wrong = trespasses(imports, {"errors"}, {"data": set(), "bench": {"data"}})
    assert len(wrong) == 1
    assert wrong[0].startswith("puarena/datasets/draw.py:")
    assert "puarena.datasets.draw imports puarena.experiments" in wrong[0]
    assert not trespasses(imports, {"errors"}, {"data": {"bench"}})


def test_a_room_may_know_one_module_of_another(house):
    imports = house(
        {"classics/a.py": "from puarena.pu.labels import f", "practice/labels.py": "f = 1"}
    )
    assert not trespasses(imports, set(), {"classics": {"practice.labels"}})
    assert trespasses(imports, set(), {"classics": {"practice.lab"}})


def test_cycles_are_named(house):
    lazy = "def f():\n    from puarena.{} import x"
    imports = house(
        {"a.py": lazy.format("b.c"), "b/c.py": lazy.format("d"), "d.py": "import puarena.a"}
    )
    (cycle,) = cycles_of(imports)
    assert "puarena/a.py:2: puarena.a imports puarena.b.c" in cycle
    assert "puarena/d.py:1: puarena.d imports puarena.a" in cycle
    for_types = house(
        {"d.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import puarena.a"}
    )
    assert not cycles_of(for_types)


def test_a_package_is_imported_with_its_modules(house):
    imports = house(
        {"a.py": "import puarena.b.c", "b/c.py": "", "b/__init__.py": "import puarena.a"}
    )
    assert len(cycles_of(imports)) == 1


CODE = """
def f{0}(x):
    y = x + {1}
    for i in range({1}):
        y = y * i
        if y > "{1}":
            print(y)
    z = g(y)
    while z:
        z -= 1
    return z
"""


def test_lines_that_stand_twice_are_named():
    assert stands_twice({"a.py": CODE.format("", 1), "b.py": "x = 1\n" + CODE.format("", 1)}) == [
        "a.py:2 ~ b.py:3"
    ]
    assert stands_twice({"a.py": CODE.format("", 1), "b.py": CODE.format("2", 3)}) == [
        "a.py:2 ~ b.py:2 (shape)"
    ]
    assert stands_twice({"a.py": CODE.format("", 1) + CODE.format("2", 3)}) == [
        "a.py:2 ~ a.py:13 (shape)"
    ]
    other = CODE.format("2", 3).replace("while z", "while not z")
    assert not stands_twice({"a.py": CODE.format("", 1), "b.py": other})


def test_a_list_of_fields_is_not_logic():
    fields = [f"    name_{i}: tuple[int, ...] = ({i},)" for i in range(12)]
    other = [f"    other_{i}: tuple[int, ...] = ({i},)" for i in range(12)]
    first = "class A:\n" + "\n".join(fields)
    assert not stands_twice({"a.py": first, "b.py": "class B:\n" + "\n".join(other)})
    assert stands_twice({"a.py": first, "b.py": first}) == ["a.py:1 ~ b.py:1"]
