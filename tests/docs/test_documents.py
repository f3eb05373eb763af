"""Every shell line and Python block of README and docs that can run is run, smaller than a reader
would.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from documents import DOCUMENTS, ROOT, SHELL, Block, blocks
from givens import FILES, VARIABLES
from typer.testing import CliRunner

from puarena import catalog
from puarena.cli import app
from run_python import run_python

HAS_DATA = "PUARENA_DATA" in os.environ
DATASET = "letter" if HAS_DATA else "digits"
SMALLER = {  # options added to a command where the line does not have them
    "run": {
        "--steps": "20",
        "--configs": "1",
        "--splits": "3",
        "--algorithms": "pn-oracle,nnpu,nnpu-c,vpu",
        "--datasets": DATASET,
        "--cases": "1",
        "--workers": "1",
        "--device": "cpu",
    },
    "plan": {"--algorithms": "nnpu,nnpu-c", "--device": "cpu"},
    "fit": {"--steps": "20"},
}
CANNOT_RUN = {  # what no test can do, by the words of a line
    r"^make |^source ": "sets up an environment of its own",
    r"^puarena data fetch": "downloads",
    r"cifar10|imagenette|images|resnet|pictures": "needs a GPU or the files of images",
    r"--watch": "waits for somebody to end it",
}
NEEDS_DATA = r"letter|usps|^puarena compare"

ALL = [block for document in DOCUMENTS for block in blocks(document)]
PYTHON = [block for block in ALL if block.language == "python"]
LINES = [line for block in ALL if block.language in SHELL for line in block.commands()]


def reason_to_skip(line: Block) -> str | None:
    """Why a line or block cannot run here, or None."""
    if "skip" in line.markers:
        return line.markers["skip"]
    if line.language in SHELL:
        for words, reason in CANNOT_RUN.items():
            if re.search(words, line.text):
                return reason
        if not HAS_DATA and re.search(NEEDS_DATA, line.text):
            return "needs the files of letter and usps: set PUARENA_DATA"
    return None


def smaller(command: str) -> list[str]:
    """The arguments of a line with options that keep it short."""
    arguments = shlex.split(command)[1:]
    options = SMALLER.get(" ".join(arguments[:2]), SMALLER.get(arguments[0], {}))
    return [
        *arguments,
        *(w for name, value in options.items() if name not in arguments for w in (name, value)),
    ]


def _prepare(block: Block, folder: Path) -> None:
    for name in block.given:
        if name not in VARIABLES and not (folder / name).exists():
            FILES[name](folder / name)
    if "file" in block.markers:
        (folder / block.markers["file"]).write_text(block.code + "\n")


@pytest.mark.parametrize(
    "line", [line for line in [*LINES, *PYTHON] if reason_to_skip(line)], ids=str
)
def test_what_cannot_run_says_why(line):
    pytest.skip(f"'{line.text.splitlines()[0]}': {reason_to_skip(line)}")


@pytest.mark.parametrize(
    "document", [d.name for d in DOCUMENTS if any(line.document == d.name for line in LINES)]
)
def test_shell_lines(document, tmp_path, monkeypatch):
    """One after the other in one folder, as a reader would: later lines use what earlier ones
    wrote.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PUARENA_CACHE", str(tmp_path / "cache"))
    problems = []
    for block in (b for b in ALL if b.document == document):
        _prepare(block, tmp_path)
        for line in block.commands() if block.language in SHELL else ():
            if not reason_to_skip(line):
                result = CliRunner().invoke(app, smaller(line.text))
                if result.exit_code != 0:
                    problems.append(f"{line}: {line.text}\n{result.output}{result.exception!r}")
    assert not problems, "\n".join(problems)


def _xfail(block: Block):
    reason = block.markers.get("fails until")
    return pytest.param(
        block, marks=[pytest.mark.xfail(strict=True, reason=f"until {reason}")] if reason else []
    )


@pytest.mark.parametrize("block", [_xfail(b) for b in PYTHON if not reason_to_skip(b)], ids=str)
def test_python_blocks(block, tmp_path):
    """Saved as a script and run, as a reader would."""
    _prepare(block, tmp_path)
    variables = [VARIABLES[name] for name in block.given if name in VARIABLES]
    (tmp_path / "script.py").write_text("\n".join([*variables, block.code]))
    run_python("script.py", cwd=tmp_path)


# -- these tests can fail ------------------------------------------------------------

SAMPLE = """Some words.

    puarena list algorithms|datasets     # a comment
    puarena merge a b --out c;  puarena status c

<!-- test: skip it is long -->

    make demo

<!-- test: given X, tiny.yaml -->
<!-- test: replace "demo" with "tiny.yaml" -->
```python
def f():

    return "demo"
```

```yaml
puarena: no
```

```sh
$ puarena demo
```
- a list

    puarena: in a list is prose
"""


def test_blocks_are_found(tmp_path):
    (tmp_path / "a.md").write_text(SAMPLE)
    shell, make, python, yaml, fenced, *_ = found = blocks(tmp_path / "a.md")
    commands = [
        "puarena list algorithms",
        "puarena list datasets",
        "puarena merge a b --out c",
        "puarena status c",
    ]
    assert [line.text for line in shell.commands()] == commands
    assert [str(line) for line in shell.commands()] == ["a.md:3", "a.md:3", "a.md:4", "a.md:4"]
    assert reason_to_skip(make) == "it is long"
    assert python.code == 'def f():\n\n    return "tiny.yaml"'
    assert python.given == ["X", "tiny.yaml"]
    assert (yaml.language, yaml.markers) == ("yaml", {})
    assert [line.text for line in fenced.commands()] == ["puarena demo"]
    assert len(found) <= 6


def test_every_document_is_read():
    readme = [line for line in LINES if line.document == "README.md"]
    assert len(readme) >= 5
    assert any(not reason_to_skip(line) for line in readme)
    assert any(block.document == "README.md" for block in PYTHON)


@pytest.mark.parametrize(
    "line", [line for line in LINES if "the same line" in line.markers.get("skip", "")], ids=str
)
def test_what_is_run_elsewhere_stands_there(line):
    """To the letter, in a document that the reason names, where it is run."""
    words = line.markers["skip"].replace("README ", "README.md ").split()
    there = [other for other in LINES if other.document in words and "skip" not in other.markers]
    assert {line.document for line in there} == {word for word in words if word.endswith(".md")}
    assert line.text in [_as_written(other) for other in there]


def _as_written(line: Block) -> str:
    this, _, that = line.markers.get("replace", "").partition(" with ")
    return line.text.replace(that, this) if that else line.text


def test_lines_are_made_smaller_where_they_do_not_say_how_large():
    assert smaller("puarena fit data.csv --steps 7") == ["fit", "data.csv", "--steps", "7"]
    assert smaller("puarena fit data.csv") == ["fit", "data.csv", "--steps", "20"]


# -- the page of methods -----------------------------------------------------

ROW = re.compile(r"^\| (`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*) \|(.*)\|$", re.MULTILINE)


def test_the_tables_of_methods_are_true():
    section = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z0-9-]+)`", section))
    ours = {
        name: entry for name, entry in catalog.get_all().items() if entry.origin != "plugin"
    }  # of other tests
    plain = {
        name: entry for name, entry in ours.items() if not entry.variant and not entry.calibrated
    }
    assert set(plain) <= named, "every method is named"
    for names, cells in ROW.findall(section):
        _, assumes, prior, calibrated = (cell.strip(" `") for cell in cells.split("|"))
        for entry in (plain[name] for name in re.findall(r"`(.+?)`", names)):
            if not entry.baseline:
                said = (assumes, prior == "yes", calibrated)
                assert said == (entry.setting, entry.needs_prior, entry.calibrated_form), entry.name


def test_the_tables_of_the_results_are_those_that_are_published(tmp_path):
    written = tmp_path / "tabular.md"
    result = CliRunner().invoke(
        app, ["report", "published:tabular-definition", "--markdown", str(written)]
    )
    assert result.exit_code == 0, result.output
    assert written.read_text(encoding="utf-8").strip() in (ROOT / "docs/results.md").read_text(
        encoding="utf-8"
    )
