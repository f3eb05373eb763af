"""The wheel is small and complete, and works in a fresh environment away from the source."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from puarena.errors import PACKAGES

ROOT = Path(__file__).parents[2]
LIMIT = 5_000_000  # bytes of an archive
CODE = """
import puarena
from puarena import PUClassifier
from puarena.cli import app
print(puarena.__file__)
assert PUClassifier("nnpu").get_params()["algorithm"] == "nnpu"
app(["list", "algorithms", "--json"])
"""
PYTHON = Path("Scripts", "python.exe") if os.name == "nt" else Path("bin", "python")


def build(kind: str, source: Path, out: Path) -> Path:
    """Build an archive with the tool that ``make dist`` has."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (file,) = out.iterdir()
    assert file.stat().st_size < LIMIT
    return file


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """The source archive."""
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel."""
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory, wheel) -> Path:
    """An environment with the wheel, and the dependencies of the running Python."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home / "env", with_pip=False)
    python = home / "env" / PYTHON
    options = ["install", "--quiet", "--no-deps", "--no-index"]
    command = [sys.executable, "-m", "pip", "--python", python, *options, wheel]
    subprocess.run(command, check=True, cwd=home, env=_environment())
    (packages,) = (home / "env").rglob("site-packages")
    (packages / "dependencies.pth").write_text(
        "\n".join(path for path in sys.path if path.endswith("-packages"))
    )
    return home


def _environment() -> dict[str, str]:
    """Return the environment variables except those that lead to the source tree."""
    away = ("PYTHONPATH", "PYTHONHOME")
    return {name: value for name, value in os.environ.items() if name not in away}


def run(home: Path, program: str, *words: object) -> str:
    """Run a program of the fresh environment in its home; return what it printed."""
    command = [str(home / "env" / PYTHON.parent / program), *map(str, words)]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fresh_environment_has_all_that_is_promised(fresh):
    place, listed = run(fresh, "python", "-c", CODE).split("\n", 1)
    assert Path(place).is_relative_to(fresh / "env")
    assert {"nnpu", "nnpu-c", "nnpu@released", "elkan-noto"} <= {
        each["name"] for each in json.loads(listed)
    }
    demo = "demo --algorithms nnpu,vpu --steps 20 --workers 1 --out demo"
    assert "nnpu" in run(fresh, "puarena", *demo.split())
    assert "VPU" in (fresh / "demo" / "page.html").read_text()
    report = "report published:tabular --metric accuracy --criterion pa --html page.html"
    run(fresh, "puarena", *report.split())
    assert (fresh / "page.html").stat().st_size > 100_000


def test_the_source_archive_builds_the_same_wheel(archive, wheel, tmp_path):
    with tarfile.open(archive) as file:
        file.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert build("wheel", source, tmp_path / "wheel").read_bytes() == wheel.read_bytes()


def test_the_wheel_has_every_file_of_the_package_and_the_published_results(wheel):
    with zipfile.ZipFile(wheel) as file:
        held = {name.partition("/")[2] for name in file.namelist() if name.startswith("puarena/")}
    package = ROOT / "src" / "puarena"
    files = [file for file in package.rglob("*.*") if "__pycache__" not in file.parts]
    wanted = {str(file.relative_to(package)) for file in files if file.is_file()}
    for path in (ROOT / "results").rglob("*"):
        if path.is_file():
            wanted.add(str(Path("published", path.relative_to(ROOT / "results"))))
    assert {
        "report/published/results-case1.csv",
        "report/page/templates/page.html.j2",
        "py.typed",
    } <= held
    assert wanted <= held


def test_the_source_archive_has_what_contributors_need(archive):
    with tarfile.open(archive) as file:
        held = {name.partition("/")[2] for name in file.getnames()}
    assert {"Makefile", "LICENSE", "pyproject.toml", "tests/conftest.py", "docs/index.md"} <= held
    assert not [name for name in held if name.startswith(".ci")]


def test_what_reports_need_is_a_part_of_what_all_needs(wheel):
    with zipfile.ZipFile(wheel) as file:
        (about,) = [name for name in file.namelist() if name.endswith("/METADATA")]
        metadata = file.read(about).decode()
    needs: dict[str, set[str]] = {}
    for requirement in re.findall(r"^Requires-Dist: (.+)$", metadata, re.M):
        package, _, marker = requirement.partition("; ")
        extra = re.search(r"extra == ['\"]([^'\"]+)", marker)
        needs.setdefault(extra[1] if extra else "", set()).add(package)
    assert needs["report"] < needs[""]
    modules = {re.split(r"[<>=]", line)[0] for line in needs[""] - needs["report"]}
    assert modules == set(PACKAGES.values())  # named where only reports are installed
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    listed = re.search(r"pip install --no-deps puarena\s+pip install ([^`]+)", page)
    assert listed
    assert set(re.findall(r'"(.+?)"', listed[1])) == needs["report"]
