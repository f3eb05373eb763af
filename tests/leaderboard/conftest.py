"""Results and published results of the tiny suite."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import puarena
from puarena.experiments import suites
from puarena.results import published
from tiny_suite import PLUGIN, TINY, call


@pytest.fixture(scope="module", autouse=True)
def tiny():
    """A suite of two methods that takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suites, "SUITES", [*suites.SUITES, TINY])
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Results of the tiny suite."""
    out = tmp_path_factory.mktemp("made") / "results"
    assert not puarena.run("tiny", out, device="cpu", workers=1).failures
    return out


@pytest.fixture
def shelf(made, tmp_path, monkeypatch):
    """A folder of published results in place of the package's, with the tiny suite in it."""
    monkeypatch.setattr(published, "folder", lambda: tmp_path / "shelf")
    done = call(
        "publish",
        made,
        "--out",
        tmp_path / "shelf",
        "--commit",
        "abc",
        "--machine",
        "a desk",
        "--wall",
        "2",
    )
    assert done.exit_code == 0, done.output
    return tmp_path / "shelf"


@pytest.fixture
def copy(made, tmp_path):
    """Results that a test may spoil."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """A method of one's own in the tiny suite."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "mine.py").write_text(PLUGIN)
    spec = TINY.override(algorithms=["mine", "vpu"], plugins=[str(folder / "mine.py")])
    assert not puarena.run(spec, folder / "results", device="cpu", workers=1).failures
    return folder / "results"
