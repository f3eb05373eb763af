"""Workflows, constraints, hooks, forms and checklists agree with the project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import puarena
from puarena import catalog, datasets, metrics, networks
from puarena.experiments import executors, suites
from puarena.pu import labeling
from puarena.report.figures import find_figures
from test_architecture import DOCUMENT, table_of

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
BOUND = re.compile(r'"([A-Za-z][\w-]*)>=([\d.]+)"')
PIN = re.compile(r"^([a-z][\w-]*)==([\d.]+?)(?:\.\*)?(?:\s|$)", re.M)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def workflow(name: str) -> dict[str, Any]:
    content = yaml.safe_load(read(f".github/workflows/{name}.yml"))
    return {
        "on" if key is True else key: value for key, value in content.items()
    }  # YAML 1.1 reads `on` as yes


def steps(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in content["jobs"].values() for step in job["steps"]]


def commands(content: dict[str, Any]) -> str:
    return "\n".join(step["run"] for step in steps(content) if "run" in step)


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


# -- versions ----------------------------------------------------------------------


def test_every_supported_python_is_tested_on_linux_and_macos():
    matrix = workflow("test")["jobs"]["test"]["strategy"]["matrix"]
    classifiers = re.findall(r"Programming Language :: Python :: (3\.\d+)", PROJECT)
    assert matrix["python"] == classifiers
    minors = [number(version)[1] for version in classifiers]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert f'requires-python = ">={classifiers[0]}"' in PROJECT
    assert {system.split("-")[0] for system in matrix["os"]} == {"ubuntu", "macos"}
    tried = {(job["python"], Path(job["constraints"]).stem) for job in matrix["include"]}
    assert tried == {(classifiers[0], "oldest"), (classifiers[-1], "newest")}
    assert all((ROOT / file).is_file() for file in matrix["constraints"])
    assert all((ROOT / job["constraints"]).is_file() for job in matrix["include"])


def test_constraints_are_both_ends_of_what_is_required():
    required = PROJECT[
        PROJECT.index("\ndependencies = [") : PROJECT.index(
            "\n]", PROJECT.index("\ndependencies = [")
        )
    ]
    bounds = {name.lower(): number(version) for name, version in BOUND.findall(required)}
    assert {"torch", "scikit-learn", "duckdb"} <= set(bounds)
    ends = {
        end: {
            name: number(version) for name, version in PIN.findall(read(f"constraints/{end}.txt"))
        }
        for end in ("oldest", "newest")
    }
    assert set(bounds) <= set(ends["oldest"])
    assert set(bounds) == set(ends["newest"])
    for name, least in bounds.items():
        width = max(len(least), 2)
        assert (*least, 0)[:width] == (*ends["oldest"][name], 0)[:width], (
            f"{name}: oldest.txt and pyproject.toml differ"
        )
        assert ends["newest"][name] >= least
    pinned = dict(PIN.findall(read("constraints.txt")))
    assert pinned["torch"] == dict(PIN.findall(read("constraints/newest.txt")))["torch"]


def test_extras_ask_for_no_less_than_the_package_does():
    required, extras = (
        PROJECT[: PROJECT.index("[project.optional")],
        PROJECT[PROJECT.index("[project.optional") :],
    )
    bounds = dict(BOUND.findall(required))
    same = [(name, version) for name, version in BOUND.findall(extras) if name in bounds]
    assert len(same) > 5
    assert [pair for pair in same if bounds[pair[0]] != pair[1]] == []


def test_the_version_is_one():
    (version,) = re.findall(r'^version = "(.+)"$', PROJECT, re.M)
    assert puarena.__version__ == version
    assert yaml.safe_load(read("CITATION.cff"))["version"] == version


# -- workflows, hooks, templates -----------------------------------------------------


def test_workflows_call_what_there_is():
    targets = set(re.findall(r"^([a-z][\w-]*):", read("Makefile"), re.M))
    assert {"setup", "test", "lint", "docs", "dist"} <= targets
    assert [file.stem for file in WORKFLOWS] == ["docs", "release", "submission", "test"]
    for file in WORKFLOWS:
        called = set(re.findall(r"\bmake ([a-z][\w-]*)", commands(workflow(file.stem))))
        assert called <= targets, file.name
        assert called, file.name
    (tested,) = [
        step["run"] for step in steps(workflow("test")) if "make test " in step.get("run", "")
    ]
    # The oldest releases have other types.
    assert "matrix.constraints == 'constraints/oldest.txt' && 'LINT='" in tested
    assert re.search(r"^LINT \?= lint\ntest: setup \$\(LINT\)$", read("Makefile"), re.M)
    assert "make docs " in commands(workflow("docs"))
    assert "mkdocs build --strict" in read("Makefile")


def test_only_a_tag_publishes_and_no_token_is_stored():
    release = workflow("release")
    assert release["on"] == {"push": {"tags": ["v*"]}}
    build, publish = release["jobs"]["build"], release["jobs"]["publish"]
    assert "make dist" in commands({"jobs": {"build": build}})
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["needs"] == "build"
    assert "permissions" not in build
    assert all(workflow(file.stem)["permissions"] == {"contents": "read"} for file in WORKFLOWS)
    assert "secrets." not in "".join(file.read_text(encoding="utf-8") for file in WORKFLOWS)
    deploy = workflow("docs")["jobs"]["deploy"]
    assert "refs/heads/main" in deploy["if"]


def test_hooks_are_what_lint_runs():
    (local,) = yaml.safe_load(read(".pre-commit-config.yaml"))["repos"]
    assert (
        local["repo"] == "local"
    )  # so that no second list of versions can differ from pyproject.toml's
    lint = re.search(r"^lint:.*\n((?:\t.+\n)+)", read("Makefile"), re.M)
    assert lint
    lines = [line.strip().replace("$(BIN)", ".venv/bin").split() for line in lint[1].splitlines()]
    assert [hook["entry"].split()[:2] for hook in local["hooks"][:2]] == [
        line[:2] for line in lines[:2]
    ]
    assert local["hooks"][2]["entry"].split() == lines[2]
    folders = [word for word in lines[0][2:] if not word.startswith("-")]
    for hook in local["hooks"][:2]:
        assert hook["files"] == f"^({'|'.join(folders)})/"
        assert all((ROOT / folder).is_dir() for folder in folders)


@pytest.mark.parametrize(
    "file", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda file: file.stem
)
def test_issue_forms_are_forms(file):
    form = yaml.safe_load(file.read_text(encoding="utf-8"))
    if file.stem == "config":
        assert set(form) == {"blank_issues_enabled"}
        return
    assert form["name"]
    assert form["description"]
    asked = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in asked}) == len(asked) > 1
    assert {field["type"] for field in asked} <= {"input", "textarea", "dropdown", "checkboxes"}
    assert all(field["attributes"]["label"] for field in asked)


# -- CONTRIBUTING --------------------------------------------------------------------


def test_the_picture_of_the_packages_is_the_table_of_rooms():
    picture = re.search(r"<!-- packages -->\n```text\n(.+?)\n\n", read("CONTRIBUTING.md"), re.S)
    assert picture
    base, known = table_of(DOCUMENT.read_text(encoding="utf-8"))
    lines = [re.split(r" {6,}", line.strip())[0].split() for line in picture[1].splitlines()]
    assert sorted(room for line in lines for room in line) == sorted(known)
    assert set(lines[-1]) == base
    level = {room: at for at, line in enumerate(lines) for room in line}
    for room, others in known.items():
        above = {other for other in others - {"all"} if level[other.split(".")[0]] < level[room]}
        assert not above, f"{room} may know {above}, which is above it"


def test_what_the_checklists_name_is_there():
    text = read("CONTRIBUTING.md")
    named = re.findall(r"`((?:src|tests|docs|constraints)/[^`\s]+|[A-Z_]+\.md|[a-z]+\.toml)`", text)
    paths = [path for path in named if "NAME" not in path]
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert all((ROOT / path).parent.is_dir() for path in named)
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert [link for link in links if not (ROOT / link).is_file()] == []
    targets = set(re.findall(r"^([a-z][\w-]*):", read("Makefile"), re.M))
    assert set(re.findall(r"\bmake ([a-z][\w-]*)", text)) - {"this", "it", "part"} <= targets


def test_what_can_be_added_is_found_where_the_picture_says():
    """Every kind of thing of the table in the picture has at least one member there."""
    picture = read("CONTRIBUTING.md").split("<!-- packages -->")[1].split("```")[1]
    rows = dict(re.findall(r"^  ([a-z ]+?)  +src/puarena/([\w/.]+)", picture, re.M))
    members = {
        "algorithm": catalog.get("nnpu").cls,
        "dataset": datasets.readers()["digits"],
        "labeling mechanism": type(labeling.get_mechanism("class")),
        "criterion": metrics.CRITERIA["pa"].compute,
        "test metric": metrics.METRICS["auc"].compute,
        "network": networks.get("mlp"),
        "suite": suites.get,
        "executor": executors.executor_types()["inline"],
        "figure": type(find_figures()[0]),
    }
    assert set(rows) == set(members)
    for kind, place in rows.items():
        module = getattr(members[kind], "__module__", None) or members[kind].__name__
        inside = module.replace(".", "/").removeprefix("puarena/") + ".py"
        assert inside.startswith(place), kind
