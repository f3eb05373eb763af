"""Files that are damaged or mean harm end in one sentence: no traceback, no hang, no explosion of memory."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from puarena.cli import app
from puarena.errors import UserError
from puarena.experiments.plan import MAX_PLAN_RUNS
from puarena.results import Folder
from puarena.results.published import read_card
from sample_results import curves


def refused(words: list[str]) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2, (done.output, done.exception)
    assert done.stderr.startswith(("error: ", "Usage: ")), done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "text, words",
    [
        (
            "problems: [{dataset: digits}]\nsplits: 1000000",
            "10,000,000 runs, and a plan has at most",
        ),
        ("problems: [{dataset: digits}]\nsplits: 1000000000000000000", "runs, and"),
        ("x: 2001-99-99", "not valid YAML"),
    ],
)
def test_specs(tmp_path, text, words):
    (tmp_path / "spec.yaml").write_text(text)
    assert words in refused(["plan", str(tmp_path / "spec.yaml"), "--algorithms", "nnpu"])
    assert MAX_PLAN_RUNS >= 100_000


def test_json_that_no_stack_holds(tmp_path):
    """In every file of a results folder and a card."""
    store = Folder.create(
        tmp_path / "out", {"name": "demo", "problems": [{"dataset": "digits"}]}, "abc"
    )
    store.write_shard("a", curves("a"))
    deep = "[" * 200_000
    for name in ("claims/x.1", ".running-a-1.json"):
        (store.path / name).write_text(deep)
        assert CliRunner().invoke(app, ["status", str(store.path)]).exit_code == 0
        assert store.claimed() in (set(), {"x"})
    for name in ("failures/x.json", "spec.json"):
        (store.path / name).write_text(deep)
        refused(["status", str(store.path)])
    (tmp_path / "card.json").write_text(deep)
    with pytest.raises(UserError, match="is not JSON"):
        read_card(tmp_path / "card.parquet")
