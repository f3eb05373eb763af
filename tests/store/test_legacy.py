"""Folders and summaries written by 0.1.0 are still read, with the facts that had no columns then."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from puarena import report
from puarena.cli import app
from puarena.errors import UserError
from puarena.metrics import CRITERIA
from puarena.store import COLUMNS, Folder, open_store

OLD = Path(__file__).parent / "written_by_0_1_0"


@pytest.mark.parametrize("name", ["definition", "released", "summary.parquet"])
def test_all_columns_are_there(name: str) -> None:
    store = open_store(OLD / name)
    frame = store.relation().df()
    assert list(frame.columns)[: len(COLUMNS)] == list(COLUMNS)
    assert {record.column for record in CRITERIA.values()} - {"val_pa_ipw"} <= set(frame.columns)
    assert not frame[list(COLUMNS)].drop(columns="loss").isna().any().any()
    assert set(frame["labelling"]) == {"scar"}
    assert set(frame["precision"]) == {"float32"}
    assert store.diverged() == store.failed() == {}


def test_facts_of_names() -> None:
    frame = open_store(OLD / "definition").relation().df()
    facts = frame[["algorithm", "base", "calibrated", "variant", "frame", "supervised"]].drop_duplicates()
    assert set(facts.itertuples(index=False, name=None)) == {
        ("nnpu", "nnpu", False, "", False, False),
        ("nnpu-c", "nnpu", True, "", False, False),
        ("p3mix-c", "p3mix-c", False, "", False, False),
        ("pn-oracle", "pn-oracle", False, "", True, True),
        ("pn-naive", "pn-naive", False, "", True, False),
    }
    released = open_store(OLD / "released").relation().df()
    facts = released[["algorithm", "base", "calibrated", "variant", "profile"]].drop_duplicates()
    assert set(facts.itertuples(index=False, name=None)) == {
        ("nnpu@released", "nnpu", False, "released", "released"),
        ("nnpu-c@released", "nnpu", True, "released", "released"),
        ("pn-oracle", "pn-oracle", False, "", "released"),
    }


def test_estimated_priors_have_left_the_profile() -> None:
    frame = open_store(OLD / "definition").relation().df()
    assert set(frame["profile"]) == {"definition"}
    assert set(frame["prior_source"]) == {"true", "bbe"}
    assert (frame.loc[frame["prior_source"] == "true", "prior_used"] == 0.5).all()
    estimated = frame.loc[frame["prior_source"] == "bbe", "prior_used"]
    assert ((estimated > 0.3) & (estimated < 1) & (estimated != 0.5)).all()


@pytest.mark.parametrize("name", ["definition", "summary.parquet"])
def test_the_table_is_the_one_that_0_1_0_made(name: str, tmp_path: Path) -> None:
    report.to_csv(report.table(OLD / name), tmp_path / "table.csv")
    mine, theirs = (pd.read_csv(file) for file in (tmp_path / "table.csv", OLD / "table.csv"))
    theirs["prior_source"] = [p.partition("+")[2] or "true" for p in theirs.pop("profile")]
    keys = ["algorithm", "prior_source", "metric", "criterion"]
    columns = [*keys, "mean", "error", "std_population", "std_sample", "n", "best"]
    mine, theirs = (t[columns].sort_values(keys, ignore_index=True) for t in (mine, theirs))
    pd.testing.assert_frame_equal(mine, theirs)


@pytest.mark.parametrize(
    "command, words",
    [
        ("stats definition", "won-tied-lost"),
        ("report definition --html page.html", "pn-oracle (prior by bbe)"),
        ("merge definition released --out both", "different protocols (profile: definition and released)"),
        ("merge definition copy --out both", "20 were in several, the same within 1e-06"),
        ("export definition --out small.parquet", "20 runs, 20 of 20 records"),
        ("compare definition", "published are cifar10, imagenette, letter, usps, and the results are of digits"),
        ("report definition --criterion pa-ipw", "no PA-IPW (no column 'val_pa_ipw')"),
        ("status definition --json", '"done": 20, "diverged": 0, "failed": 0'),
    ],
)
def test_every_command_reads_it(command: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, source in (("definition", "definition"), ("copy", "definition"), ("released", "released")):
        shutil.copytree(OLD / source, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert words in " ".join(CliRunner().invoke(app, command.split()).output.split())


def test_nothing_is_added_to_it() -> None:
    old = open_store(OLD / "definition")
    with pytest.raises(UserError, match=r"was made by puarena 0\.1\.0 and this is .* use another --out"):
        Folder.create(OLD / "definition", old.spec, old.spec_hash)
