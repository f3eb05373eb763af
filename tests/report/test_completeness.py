"""What is missing, failed or diverged is said first, and so are differences of protocols."""

from __future__ import annotations

import io
import json

import pandas as pd
import pytest

import puarena
from bad_inputs import call
from puarena.experiments.plan import make_plan
from puarena.experiments.suites import get
from puarena.pu import Problem
from puarena.report import describe_missing_runs, describe_untrained_runs
from puarena.report.compare import (
    compare,
    comparison_to_csv,
    describe_protocols,
    describe_rankings,
)
from puarena.report.export import export
from puarena.results import Folder, Summary
from puarena.results.planned import Planned
from sample_results import SPEC, curves


def test_a_suite_that_is_run_as_it_is_keeps_its_words():
    suite = get("demo")
    assert suite.override() == suite
    assert suite.override(splits=suite.splits) == suite
    changed = suite.override(splits=5)
    assert (changed.title, changed.name) == ("", "demo")
    assert "5 splits" in changed.description


def test_cases_that_a_dataset_lacks_are_left_out_with_a_note():
    plan = make_plan(get("demo").override(algorithms=["nnpu"], cases=[1, 7]))
    assert {run.problem.case for run in plan.runs} == {1}
    assert plan.notes == ("digits has no case 7: left out",)


def keep(folder: Folder, algorithms: dict[str, str]) -> None:
    """Plan runs by name, each of an algorithm."""
    about = Problem("d", prior=0.5).to_columns() | {"fleet": "f0"}
    rows = {run: about | {"run": run, "algorithm": name} for run, name in algorithms.items()}
    folder.keep_planned(Planned(rows))


@pytest.fixture
def folder(tmp_path):
    store = Folder.create(tmp_path / "f", SPEC | {"steps": 20}, "0" * 16)
    store.write_shard("f0", curves("f0", runs=3, dataset="d", setting="os", algorithm="nnpu"))
    return store


def test_nothing_is_said_where_everything_is_there(folder):
    assert describe_missing_runs(folder.path) == []
    keep(folder, {f"f0-{i}": "nnpu" for i in range(3)})
    assert describe_missing_runs(folder.path) == []
    assert describe_missing_runs(puarena.load(folder.path).df()) == []


def test_what_is_missing_failed_or_diverged_is_said_first(folder):
    keep(folder, {f"f0-{i}": "nnpu" for i in range(3)} | {f"v-{i}": "vpu" for i in range(5)})
    broken = curves(
        "f1", runs=2, dataset="d", setting="os", algorithm="upu", status="diverged at step 20"
    )
    folder.write_shard("f1", broken)
    folder.write_failure("f2", ["v-0", "v-1"], "RuntimeError: on purpose")
    assert describe_missing_runs(folder.path) == [
        "3 of 8 runs; missing: vpu on d (5).",
        "2 runs failed: RuntimeError: on purpose (2).",
        "2 runs of 5 diverged: upu on d (2).",
    ]
    for command in ("report", "stats"):
        text = call(f"{command} {{f}}", f=folder.path).stdout
        assert text.startswith("3 of 8 runs; missing: vpu on d (5).\n"), command
    as_json = call("stats {f} --json", f=folder.path)
    assert isinstance(json.loads(as_json.stdout), list)
    assert as_json.stderr.startswith("3 of 8 runs")


def test_only_the_first_kinds_are_named(folder):
    keep(folder, {f"{name}-{i}": f"a{name}" for name in range(9) for i in range(name + 1)})
    (sentence,) = describe_missing_runs(folder.path)
    assert sentence.startswith("0 of 45 runs; missing: a8 on d (9), a7 on d (8), ")
    assert sentence.endswith("and 10 others.")


def test_an_edited_spec_is_noticed(folder):
    file = folder.path / "spec.json"
    info = json.loads(file.read_text())
    file.write_text(json.dumps(info | {"spec": info["spec"] | {"steps": 20_000}}))
    result = call("report {f}", f=folder.path)
    assert result.exit_code == 2
    assert "was edited" in result.stderr
    file.write_text(json.dumps(info))
    assert call("report {f}", f=folder.path).exit_code == 0


def published(folder, **spec):
    """Results on letter under a protocol."""
    store = Folder.create(
        folder, {**SPEC, "steps": 20_000, "configs": 10, "splits": 3, **spec}, "0" * 16
    )
    for name in ("nnpu", "upu", "vpu"):
        store.write_shard(
            name, curves(name, dataset="letter", case=1, setting="os", algorithm=name)
        )
    return store


def test_compare_names_the_differences_of_the_protocols_first(tmp_path):
    same = compare(published(tmp_path / "a"), metrics="accuracy", criteria="pa")
    assert describe_protocols(same) == []
    assert "within two published standard errors" in same[0].verdict
    other = published(tmp_path / "b", steps=20, hyper={"*": {"lr": 0.1}})
    found = compare(other, metrics="accuracy", criteria="pa")
    words = "training steps: 20 here, 20,000 published; hyperparameters fixed here (lr)"
    assert describe_protocols(found) == [f"The two protocols differ: {words}."]
    assert "within two" not in found[0].verdict + describe_rankings(found)
    assert "protocols differ" in describe_rankings(found)
    assert all(
        not row for row in pd.read_csv(io.StringIO(comparison_to_csv(found)))["in_errors"].notna()
    )
    assert call("compare {o}", o=other.path).stdout.startswith(
        "The two protocols differ: training steps"
    )


def make_run(name, loss, pauc, size=40):
    """Return the curves of a run with the last losses and PAUC given."""
    frame = curves(name, runs=1, records=len(loss), algorithm="pan", dataset="d")
    frame["loss"], frame["val_pauc"] = loss, pauc
    return frame.assign(val_size_p=size, val_size_u=2 * size)


def test_runs_that_did_not_train_are_marked():
    falling = [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    frozen = [1.0, 0.9, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]
    sound = make_run("a", falling, 0.7)
    assert describe_untrained_runs(sound) == []
    # The standard error of a random ranking of 40 and 80 points is 0.056.
    assert describe_untrained_runs(make_run("b", falling, 0.62)) == []
    few = make_run("c", falling, 0.5, size=4)  # too few points to say so
    assert describe_untrained_runs(few) == []
    bad = [make_run("d", falling, 0.6), make_run("e", frozen, 0.9), make_run("f", frozen, 0.4)]
    (sentence,) = describe_untrained_runs(pd.concat([sound, few, *bad], ignore_index=True))
    assert all(token in sentence for token in ("3 runs of 5", "pan on d (3)"))
    diverged = make_run("g", frozen, 0.4).assign(status="diverged at step 3")
    assert describe_untrained_runs(diverged) == []


@pytest.mark.parametrize("lr, trains", [(None, True), (0.03, False)])
def test_pan_trains_in_the_demo(tmp_path, lr, trains):
    """With the demo's rate for other methods its discriminator saturates, and that is seen."""
    hyper = get("demo").hyper | ({} if trains else {"pan": {"lr": lr}})
    choice = {"algorithms": ["pan"], "splits": 1, "cases": [1], "hyper": hyper}
    out = tmp_path / "pan"
    puarena.run("demo", out, **choice, device="cpu", engine="inline", progress=False)
    assert bool(describe_untrained_runs(out)) != trains


def test_a_summary_keeps_which_runs_did_not_train(tmp_path):
    store = Folder.create(tmp_path / "r", SPEC, "0" * 16)
    frozen = [1.0, 0.9, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]
    store.write_shard("a", make_run("a", frozen, 0.4))
    (sentence,) = describe_untrained_runs(store)
    for i in range(2):  # a summary of a summary keeps it, too
        export(store, tmp_path / f"{i}.parquet", ["short"])
        store = Summary(tmp_path / f"{i}.parquet")
        assert describe_untrained_runs(store) == []  # the curves are gone
        assert sentence in store.info.notes
        assert "did not train" in " ".join(call("report {o}", o=store.path).stdout.split())
