"""Reading, merging and exporting results: nothing is lost or doubled, and a conflict is one error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import puarena
from puarena.cli import app
from puarena.datasets import remote
from puarena.experiments.plan import make_plan
from puarena.experiments.spec import Spec
from puarena.report import aggregate, load, select, table, to_csv
from puarena.report.export import export, portable
from puarena.results import Folder, Summary, open_results
from puarena.results.combine import BY_METHOD, merge
from sample_results import curves
from user_errors import raises_user_error

SPEC = Spec(
    name="whole",
    problems=[{"dataset": "digits", "cases": [1, 2]}],
    algorithms=["upu", "nnpu", "pn-naive"],
    splits=2,
    configs=2,
    steps=100,
    record_every=50,
)


def made(path: Path, spec: Spec, only: Any = None, **fixed: Any) -> Path:
    """A results folder with made-up curves of the spec's runs, six runs to a fleet."""
    plan = make_plan(spec)
    store = Folder.create(path, plan.spec.to_dict(), plan.spec.hash())
    frames = []
    for run in plan.runs:
        if only is not None and not only(run):
            continue
        values = dict.fromkeys(("test_accuracy", "test_auc"), int(run.run_id[:4], 16) / 70000)
        about = {
            "dataset": run.problem.dataset,
            "case": run.problem.case,
            "setting": "os",
            "rate": 0.3,
            "prior": 0.5,
        }
        mine = curves(
            "f",
            runs=1,
            algorithm=run.algorithm,
            split=run.split,
            config=run.config,
            **about,
            **values,
        )
        frames.append(mine.assign(run=run.run_id))
    for i in range(0, len(frames), 6):
        fleet = f"fleet-{frames[i]['run'].iloc[0]}"
        store.write_shard(fleet, pd.concat(frames[i : i + 6]).assign(fleet=fleet, **fixed))
    return path


def sorted_curves(path: Path) -> pd.DataFrame:
    return load(path).df().drop(columns="fleet").sort_values(["run", "step"]).reset_index(drop=True)


def test_parts_of_one_spec_become_the_whole(tmp_path: Path) -> None:
    whole = made(tmp_path / "whole", SPEC)
    a = made(tmp_path / "a", SPEC, lambda run: run.algorithm == "upu")
    b = made(tmp_path / "b", SPEC, lambda run: run.algorithm != "upu")
    done = merge([a, b], tmp_path / "c")
    assert (done.runs, done.shared, done.counts) == (24, 0, (8, 16))
    pd.testing.assert_frame_equal(sorted_curves(tmp_path / "c"), sorted_curves(whole))
    store = open_results(tmp_path / "c")
    assert store.spec_hash == open_results(whole).spec_hash  # 'puarena run' goes on with it
    assert [part.folder for part in store.info.sources] == ["a", "b"]
    assert [part.runs for part in store.info.sources] == [8, 16]
    assert to_csv(table(tmp_path / "c")) == to_csv(table(whole))
    assert not list(tmp_path.glob(".*"))


def test_filters_of_one_spec_are_united(tmp_path: Path) -> None:
    a = made(tmp_path / "a", SPEC.override(cases=[1]))
    b = made(tmp_path / "b", SPEC.override(cases=[2]))
    merge([a, b], tmp_path / "c")
    store = open_results(tmp_path / "c")
    assert store.spec_hash == make_plan(SPEC).spec.hash()
    assert (store.spec.name, store.spec.title) == ("whole", "")
    assert set(store.known_runs()) == store.done_runs()
    assert len(store.done_runs()) == 24


def test_a_united_spec_plans_only_what_its_sources_planned(tmp_path: Path) -> None:
    a = made(tmp_path / "a", SPEC.override(cases=[1], algorithms=["upu"], splits=1))
    b = made(tmp_path / "b", SPEC.override(cases=[2], algorithms=["nnpu"], name="other"))
    merge([a, b], tmp_path / "c")
    store = open_results(tmp_path / "c")
    assert store.spec.algorithms == ("upu", "nnpu")
    assert (store.spec.splits, store.spec.name) == (2, "merged")
    assert len(store.known_runs()) == 2 + 4
    assert set(store.known_runs()) <= store.done_runs()
    d = made(tmp_path / "d", SPEC.override(algorithms=["pn-naive"]))
    merge([tmp_path / "c", d], tmp_path / "e")
    sources = open_results(tmp_path / "e").info.sources
    assert [part.folder for part in sources] == ["c/a", "c/b", "d"]
    assert len(open_results(tmp_path / "e").known_runs()) == 6 + 8


def test_the_same_run_twice(tmp_path: Path) -> None:
    a = made(tmp_path / "a", SPEC.override(algorithms=["upu", "nnpu"]))
    b = made(
        tmp_path / "b", SPEC.override(algorithms=["nnpu", "pn-naive"]), seconds=9.0, device="cuda"
    )
    done = merge([a, b], tmp_path / "c")
    assert (done.runs, done.shared, done.counts) == (24, 8, (16, 8))
    frame = load(tmp_path / "c").df()
    assert len(frame) == 24 * 3
    assert set(frame[frame["algorithm"] == "nnpu"]["device"]) == {"x"}  # of the first folder
    other = made(tmp_path / "d", SPEC.override(algorithms=["nnpu"]), test_accuracy=0.123)
    with raises_user_error("conflict", str(a), str(other), "nnpu on digits"):
        merge([a, other], tmp_path / "e")
    assert not (tmp_path / "e").exists()
    done = merge([other, a], tmp_path / "e", overlap="first")
    assert (done.runs, done.shared, done.counts) == (16, 8, (8, 8))
    frame = load(tmp_path / "e").df()
    assert set(frame[frame["algorithm"] == "nnpu"]["test_accuracy"]) == {0.123}


def test_merging_runs_no_plugin(tmp_path: Path) -> None:
    """Not even for a network that only a plugin has: the folders may be of strangers."""
    (tmp_path / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    common = {"network": "theirs", "plugins": [str(tmp_path / "theirs.py")], "algorithms": ["upu"]}
    for name in ("cifar10", "usps"):
        Folder.create(tmp_path / name, {"problems": [{"dataset": name}], **common}, name)
    merge([tmp_path / "cifar10", tmp_path / "usps"], tmp_path / "both")
    spec = open_results(tmp_path / "both").spec
    assert [part.dataset for part in spec.problems] == ["cifar10", "usps"]
    assert not (tmp_path / "ran").exists()


def test_joining_fetches_no_table_that_a_folder_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    monkeypatch.setattr(remote, "_fetch", lambda source, *_: fetched.append(source))
    (tmp_path / "theirs.yaml").write_text("file: hf:x/y@1\nlabel: y\npositive: [1]\n")
    for name, dataset in (("a", "digits"), ("b", str(tmp_path / "theirs.yaml"))):
        spec = SPEC.to_dict() | {"problems": [{"dataset": dataset}]}
        Folder.create(tmp_path / name, spec, name)
    joined = open_results([tmp_path / "a", tmp_path / "b"])
    assert len(joined.spec.problems) == 2
    assert fetched == []


def test_users_files_need_not_be_here(tmp_path: Path) -> None:
    spec = SPEC.to_dict() | {"problems": [{"dataset": str(tmp_path / "gone.yaml")}]}
    for name in ("a", "b"):
        Folder.create(tmp_path / name, spec, "the same")
    assert merge([tmp_path / "a", tmp_path / "b"], tmp_path / "c").runs == 0


@pytest.mark.parametrize(
    "key, value", [("steps", 200), ("seed", 1), ("profile", "released"), ("record_every", 25)]
)
def test_other_protocols_are_refused(tmp_path: Path, key: str, value: Any) -> None:
    small = SPEC.override(algorithms=["upu"], splits=1)
    a, b = made(tmp_path / "a", small), made(tmp_path / "b", small.override(**{key: value}))
    with raises_user_error("conflict", f"{key}: "):
        merge([a, b], tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_other_hyperparameters_are_refused_only_where_both_use_them(tmp_path: Path) -> None:
    a = made(tmp_path / "a", SPEC.override(algorithms=["upu"], hyper={"upu": {"lr": 0.1}}))
    b = made(tmp_path / "b", SPEC.override(algorithms=["upu", "nnpu"], splits=1))
    c = made(tmp_path / "c", SPEC.override(algorithms=["nnpu"]))
    with raises_user_error("conflict", "upu", '{"lr": 0.1}'):
        merge([a, b], tmp_path / "d")
    merge([a, c], tmp_path / "d")
    assert open_results(tmp_path / "d").spec.hyper == {"upu": {"lr": 0.1}}


def test_mistakes(tmp_path: Path) -> None:
    a = made(tmp_path / "a", SPEC)
    b = Path(shutil.copytree(a, tmp_path / "b"))
    info = json.loads((b / "spec.json").read_text())
    (b / "spec.json").write_text(json.dumps(info | {"versions": {"puarena": "0.0.7"}}))
    with raises_user_error("conflict", "0.0.7"):
        merge([a, b], tmp_path / "c")
    (b / "spec.json").write_text(json.dumps(info | {"format": 99}))
    with raises_user_error("wrong-format", "format 99"):
        merge([a, b], tmp_path / "c")
    with raises_user_error("invalid-value", "two"):
        merge([a], tmp_path / "c")
    with raises_user_error("conflict", str(a)):
        merge([a, a], a)
    with raises_user_error("unknown-name", "frist", "'first'"):
        merge([a, a], tmp_path / "c", overlap="frist")
    with raises_user_error("cannot-write", "spec.json"):
        merge([a, a], tmp_path / "a" / "spec.json" / "c")
    (a / "shards" / "x.parquet").write_text("nonsense")
    with raises_user_error("damaged-file", "x.parquet"):
        merge([a, a], tmp_path / "c")


def test_failures_are_kept_unless_another_folder_has_the_runs(tmp_path: Path) -> None:
    a, b = (
        made(tmp_path / "a", SPEC.override(cases=[1])),
        made(tmp_path / "b", SPEC.override(cases=[2])),
    )
    one = make_plan(SPEC.override(cases=[2])).run_ids[0]
    open_results(b).write_failure("f", [one, "gone"], "out of memory")
    merge([a, b], tmp_path / "c")
    assert open_results(tmp_path / "c").failed() == {"gone": "out of memory"}


def test_merging_into_an_empty_folder_and_again(tmp_path: Path) -> None:
    a = made(tmp_path / "a", SPEC)
    (tmp_path / "c").mkdir()
    done = merge([a, a, a], tmp_path / "c")
    assert (done.runs, done.shared, done.counts) == (24, 24, (24, 0, 0))


# summaries


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with random curves, ties, NaN and a failure."""
    path = tmp_path_factory.mktemp("summary") / "out"
    plan = make_plan(SPEC)
    store = Folder.create(path, plan.spec.to_dict(), plan.spec.hash())
    frames = []
    for i, run in enumerate(plan.runs):
        about = {
            "dataset": "digits",
            "case": run.problem.case,
            "setting": "os",
            "rate": 0.3,
            "prior": 0.5,
        }
        about |= {"algorithm": run.algorithm, "split": run.split, "config": run.config}
        frame = curves("f", runs=1, records=9, **about).assign(run=run.run_id)
        if run.algorithm == "nnpu":
            frame["val_pa"] = float("nan")
        frames.append(frame.assign(val_oa=(frame["val_oa"] * 5 + i).round() / 100))
    for fleet in ("f0", "f1"):
        store.write_shard(fleet, pd.concat(frames[fleet == "f1" :: 2]).assign(fleet=fleet))
    store.write_failure("lost", ["xyz"], "out of memory")
    return path


def test_a_summary_gives_the_same_tables(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "it's a=b.parquet"
    counts = export(folder, file)
    assert (counts["runs"], counts["of"]) == (24, 24 * 9)
    assert 24 <= counts["records"] < 24 * 9 / 2
    pd.testing.assert_frame_equal(select(file), select(folder))
    pd.testing.assert_frame_equal(aggregate(select(file)), aggregate(select(folder)))
    assert to_csv(table(file)) == to_csv(table(folder))
    store = open_results(file)
    assert isinstance(store, Summary)
    assert store.spec == open_results(folder).spec
    assert store.failures() == open_results(folder).failures()
    assert len(set(store.known_runs()) & store.done_runs()) == 24
    assert store.facts.records == 24 * 9
    assert len(puarena.load(file).df()) == counts["records"]
    assert export(file, tmp_path / "again.parquet")["records"] == counts["records"]


def test_a_summary_is_read_only_and_checked(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.parquet"
    export(folder, file)
    assert not hasattr(open_results(file), "write_shard")
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    shard = next(folder.glob("shards/*"))
    (tmp_path / "t.txt").write_text("hello")
    for wrong in (file, shard, tmp_path / "t.txt"):
        with raises_user_error("wrong-format", str(wrong)):
            table(wrong)
    damaged = bytearray(whole)
    damaged[4:400] = bytes(396)
    file.write_bytes(damaged)
    with raises_user_error("damaged-file", str(file)):
        table(file)
    with raises_user_error("no-results", "empty"):
        export(Folder.create(tmp_path / "empty", SPEC, "abc"), file)
    with raises_user_error("cannot-write", "nowhere"):
        export(folder, tmp_path / "nowhere" / "s.parquet")


def test_a_published_summary_names_no_folder_of_the_machine() -> None:
    spec = {
        "problems": [{"dataset": "/home/me/own.yaml"}, {"dataset": "letter"}],
        "plugins": ["C:\\me\\mine.py"],
    }
    assert portable(spec) == {
        "problems": [{"dataset": "own.yaml"}, {"dataset": "letter"}],
        "plugins": ["mine.py"],
    }
    assert spec["plugins"] == ["C:\\me\\mine.py"]


def test_summaries_can_be_merged(folder: Path, tmp_path: Path) -> None:
    export(folder, tmp_path / "s.parquet")
    other = made(tmp_path / "b", SPEC.override(algorithms=["upu-c"]))
    done = merge([tmp_path / "s.parquet", other], tmp_path / "c")
    assert done.runs == 24 + 8
    chosen = select(tmp_path / "c")
    old = chosen[chosen["algorithm"] != "upu-c"].reset_index(drop=True)
    pd.testing.assert_frame_equal(old, select(folder))
    assert [part.kind for part in open_results(tmp_path / "c").info.sources] == [
        "summary",
        "results folder",
    ]
    done = merge([tmp_path / "s.parquet", folder], tmp_path / "d")  # the whole curves win
    assert done.counts == (0, 24)


def test_commands(folder: Path, tmp_path: Path) -> None:
    def call(*args: object) -> Any:
        return CliRunner().invoke(app, [str(arg) for arg in args])

    done = call("export", folder, "--out", tmp_path / "s.parquet")
    assert done.exit_code == 0, done.output
    assert "24 runs" in done.stdout
    assert "upu" in call("report", tmp_path / "s.parquet").stdout
    assert json.loads(call("status", tmp_path / "s.parquet", "--json").stdout)["done"] == 24
    made(tmp_path / "b", SPEC.override(algorithms=["upu-c"]))
    done = call("merge", folder, tmp_path / "b", "--out", tmp_path / "c")
    assert done.exit_code == 0, done.output
    assert "32 runs" in done.stdout
    assert json.loads(call("status", tmp_path / "c", "--json").stdout)["done"] == 32
    assert "upu-c" in call("report", tmp_path / "c").stdout
    wrong = call("merge", folder, folder, "--out", folder)
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (2, 1)


# several results read as one


def test_reading_several_is_reading_their_merge(tmp_path: Path) -> None:
    a = made(tmp_path / "a", SPEC.override(algorithms=["upu", "nnpu"]))
    b = made(tmp_path / "b", SPEC.override(algorithms=["nnpu", "pn-naive"]))
    merge([a, b], tmp_path / "c")
    together = open_results([a, b])
    columns = ["run", "step"]
    pd.testing.assert_frame_equal(
        together.relation().df().drop(columns="fleet").sort_values(columns, ignore_index=True),
        sorted_curves(tmp_path / "c"),
    )
    assert to_csv(table([a, b])) == to_csv(table(tmp_path / "c"))
    assert together.spec == open_results(tmp_path / "c").spec
    other = made(tmp_path / "d", SPEC.override(steps=200))
    with raises_user_error("conflict", "steps: 100 and 200"):
        open_results([a, other])


def test_methods_are_shown_from_the_first_that_has_them(tmp_path: Path) -> None:
    a = made(tmp_path / "a", SPEC.override(algorithms=["upu"], splits=1), test_auc=0.1)
    b = made(tmp_path / "b", SPEC.override(algorithms=["upu", "nnpu"], steps=200), test_auc=0.2)
    both = open_results([a, b], BY_METHOD)
    values = both.relation().project("algorithm, test_auc").distinct().fetchall()
    assert sorted(values) == [("nnpu", 0.2), ("upu", 0.1)]
    protocol, rows = both.info.notes
    assert "steps: 100 and 200" in protocol
    assert "splits: 1 and 2" in protocol
    assert "1 is in both" in rows
    c = made(tmp_path / "c", SPEC.override(datasets=["letter"]))
    with raises_user_error("missing-data", "letter"):
        open_results([a, c], BY_METHOD)


def test_a_table_that_was_edited_between_two_runs_is_not_joined(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("file: own.csv\nlabel: y\npositive: [[1]]\n")
    spec = SPEC.to_dict() | {"problems": [{"dataset": str(tmp_path / "own.yaml")}]}
    for name, digits in (("a", "1234"), ("b", "1234"), ("c", "5678")):
        revisions = {str(tmp_path / "own.yaml"): f"own:{digits}"}
        spec_hash = Spec.load(spec).hash(revisions)
        Folder.create(tmp_path / name, spec, spec_hash, revisions=revisions)
    (tmp_path / "own.yaml").unlink()  # it is not needed for this
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "ab")
    with raises_user_error("conflict", "'own'"):
        merge([tmp_path / "a", tmp_path / "c"], tmp_path / "ac")
