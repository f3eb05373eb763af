"""Running: what is missing and nothing else, interrupted and failed fleets, rows of the store."""

from __future__ import annotations

import contextlib
import json
import weakref

import numpy as np
import pytest
import torch

import puarena
from puarena import training
from puarena.errors import UserError
from puarena.experiments import executors
from puarena.experiments.executors.base import ExecutorOptions
from puarena.experiments.executors.gpu import Streams
from puarena.experiments.executors.local import count_cores
from puarena.experiments.machine import choose_device
from puarena.experiments.plan import group, make_plan
from puarena.experiments.progress import Progress
from puarena.experiments.spec import Spec
from puarena.experiments.status import read_status
from puarena.experiments.worker import FleetUpdate, failed
from puarena.metrics import CRITERIA, METRICS
from puarena.results import COLUMNS, open_results

SPEC = Spec(
    problems=[{"dataset": "digits"}],
    algorithms=["upu", "upu-c", "pn-naive"],
    splits=2,
    configs=2,
    # So that the splits of a configuration have the same batch size, and share a fleet
    draws="shared",
    steps=20,
    record_every=10,
)
ROWS = 3 * 2 * 2 * 2  # algorithms, splits, configurations, records


class Watch(Progress):
    """Remembers which fleets were trained."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def end(self, fleet, failure=None):
        super().end(fleet, failure)
        self.seen.append(fleet.fleet_id)


def breaking(error: BaseException, at: int):
    """``fleet.Fleet`` that raises at its ``at``-th call."""
    calls = []

    def make(*args, **kwargs):
        calls.append(1)
        if len(calls) == at:
            raise error
        return training.engine.Fleet(*args, **kwargs)

    return make


def test_rows_of_the_store(tmp_path):
    watch = Watch()
    outcome = puarena.run(SPEC, out=tmp_path, device="cpu", progress=watch)
    assert (outcome.planned, outcome.stored, outcome.computed, outcome.failures) == (12, 0, 12, [])
    assert (watch.runs_done, watch.fleets_done, watch.steps_done) == (12, 4, 12 * 20)
    frame = puarena.load(tmp_path).df()
    # Metrics of observed labels, or of no truth at all, have no column in simulated experiments.
    metrics = [record for record in METRICS.values() if record.needs in ("decision", "score")]
    values = [record.column for record in (*CRITERIA.values(), *metrics)]
    sizes = ["val_positive_p", "val_positive_u", "val_size_p", "val_size_u"]
    assert set(frame.columns) == {*COLUMNS, *values, *sizes}
    assert len(frame) == ROWS
    assert set(frame["run"]) == set(make_plan(SPEC).run_ids)
    assert set(frame["step"]) == {10, 20}
    assert set(frame["prior"]) == {0.5}
    assert (frame["n_p"] < frame["n_u"]).all()
    assert set(frame["status"]) == {"ok"}
    assert (frame.groupby("run")["seconds"].diff().dropna() > 0).all()
    assert json.loads(frame["hyper"].iloc[0])["momentum"] == 0.9
    assert np.isfinite(frame[[*values, *sizes]].to_numpy()).all()
    facts = frame.drop_duplicates("algorithm").set_index("algorithm")
    assert facts["base"].to_dict() == {"upu": "upu", "upu-c": "upu", "pn-naive": "pn-naive"}
    assert facts["calibrated"].to_dict() == {"upu": False, "upu-c": True, "pn-naive": False}
    assert facts["baseline"].to_dict() == {"upu": False, "upu-c": False, "pn-naive": True}
    for name, value in {
        "profile": "definition",
        "variant": "",
        "supervised": False,
        "labeling": "scar",
    }.items():
        assert set(frame[name]) == {value}
    assert (set(frame["prior_source"]), set(frame["prior_used"])) == ({"true"}, {0.5})
    assert set(frame["precision"]) == {"float32"}
    assert set(frame["version"]) == {puarena.__version__}
    table = puarena.table(tmp_path)
    assert {row.method.algorithm for row in table[0].rows} == {"upu", "upu-c", "pn-naive"}


def test_interrupted_and_resumed(tmp_path, monkeypatch):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    puarena.run(SPEC, out=whole, device="cpu")
    monkeypatch.setattr(training, "Fleet", breaking(KeyboardInterrupt(), at=2))
    with pytest.raises(KeyboardInterrupt):
        puarena.run(SPEC, out=broken, device="cpu")
    monkeypatch.undo()
    store = open_results(broken)
    done = store.done_runs()
    assert 0 < len(done) < 12
    assert read_status(store).counts["missing"] == 12 - len(done)
    before = {shard: shard.stat().st_mtime_ns for shard in store.shards()}

    outcome = puarena.run(SPEC, out=broken, device="cpu")
    assert (outcome.stored, outcome.computed) == (len(done), 12 - len(done))
    assert all(shard.stat().st_mtime_ns == time for shard, time in before.items())
    a, b = (
        puarena.load(path)
        .df()
        .sort_values(["run", "step"])
        .reset_index(drop=True)[["run", "step", "test_auc"]]
        for path in (whole, broken)
    )
    assert a["run"].equals(b["run"])
    np.testing.assert_allclose(a["test_auc"], b["test_auc"], atol=1e-6)

    watch = Watch()
    assert puarena.run(SPEC, out=broken, device="cpu", progress=watch).computed == 0
    assert watch.seen == []


def test_a_failed_fleet_does_not_stop_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "Fleet", breaking(RuntimeError("boom\nand more"), at=1))
    outcome = puarena.run(SPEC, out=tmp_path, device="cpu")
    monkeypatch.undo()
    assert len(outcome.failures) == 1
    lost = outcome.failures[0].runs
    assert outcome.failures[0].reason.startswith("RuntimeError: boom and more (")
    assert outcome.computed == 12 - lost
    store = open_results(tmp_path)
    assert read_status(store).counts == {
        "planned": 12,
        "done": 12 - lost,
        "diverged": 0,
        "failed": lost,
        "missing": 0,
    }
    (note,) = store.failures()
    assert (note.exception, note.attempt, note.message) == ("RuntimeError", 1, "boom and more")
    assert note.place.startswith("test_bench_run.py, line")
    assert note.machine
    assert note.seconds >= 0
    assert (
        puarena.run(SPEC, out=tmp_path, device="cpu").failed_before == lost
    )  # not again by itself
    outcome = puarena.run(SPEC, out=tmp_path, device="cpu", retry_failed=True)
    assert (outcome.computed, outcome.failures) == (lost, [])
    assert read_status(store).counts["done"] == 12
    assert store.failures() == []


def test_runs_of_different_shapes_are_trained_apart(tmp_path, monkeypatch):
    calls = []

    def make(rows, *args, **kwargs):
        calls.append(len(rows))
        return training.engine.Fleet(rows, *args, **kwargs)

    monkeypatch.setattr(training, "Fleet", make)
    monkeypatch.setattr(training, "shape_of", lambda row: row.seed % 2)  # as if their data differed
    puarena.run(SPEC, out=tmp_path, device="cpu")
    assert sum(calls) == 12
    assert len(calls) > len(open_results(tmp_path).shards())
    assert len(puarena.load(tmp_path).df()) == ROWS


def test_another_spec_is_refused(tmp_path):
    tiny = SPEC.override(algorithms=["pn-naive"], splits=1, configs=1)
    puarena.run(tiny, out=tmp_path, device="cpu")
    with pytest.raises(UserError, match="another spec"):
        puarena.run(tiny.override(seed=1), out=tmp_path, device="cpu")


def test_bad_data_is_known_before_anything_is_trained(tmp_path):
    with pytest.raises(UserError, match="digits"):
        puarena.run(SPEC.override(rates=[0.3, 0.9]), out=tmp_path / "out", device="cpu")
    assert not (tmp_path / "out").exists()


def test_devices():
    assert choose_device("cpu") == "cpu"
    with pytest.raises(UserError, match="tpu"):
        choose_device("tpu")
    with pytest.raises(UserError, match="CUDA_VISIBLE_DEVICES=1"):
        choose_device("cuda:1")
    if not torch.cuda.is_available():
        assert choose_device("auto") == "cpu"
        with pytest.raises(UserError, match="no CUDA device"):
            choose_device("cuda")


def test_a_users_table_from_yaml(tmp_path):
    rng = np.random.default_rng(0)
    label = rng.random(600) < 0.4
    x = rng.normal(size=(600, 3)) + 2 * label[:, None]
    lines = [
        "a,b,c,y",
        *(f"{p},{q},{r},{int(s)}" for (p, q, r), s in zip(x.round(4), label, strict=True)),
    ]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    (tmp_path / "own.yaml").write_text("file: table.csv\nlabel: y\npositive: [1]\n")
    (tmp_path / "spec.yaml").write_text(
        "problems: [{dataset: own.yaml, rates: [0.2]}]\nalgorithms: nnpu\nsplits: 1\nconfigs: 1\nsteps: 10\n"
    )
    puarena.run(tmp_path / "spec.yaml", out=tmp_path / "out", device="cpu")
    frame = puarena.load(tmp_path / "out").df()
    assert set(frame["dataset"]) == {"own"}
    assert 0.3 < frame["prior"].iloc[0] < 0.5


PLUGIN = """
from puarena.algorithms import Algorithm, logistic

class Mine(Algorithm):
    name, title, paper = "mine", "Mine", "a test"

    def objective(self, f_p, f_u):
        if {breaks}:
            raise RuntimeError("broken on purpose")
        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)
"""


def test_worker_processes_give_the_numbers_of_one_process(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN.format(breaks=False))
    spec = SPEC.override(algorithms=["upu", "mine"], plugins=[str(tmp_path / "mine.py")])
    watch = Watch()
    puarena.run(spec, out=tmp_path / "one", device="cpu", workers=1)
    outcome = puarena.run(spec, out=tmp_path / "two", device="cpu", workers=2, progress=watch)
    assert (outcome.computed, outcome.failures) == (8, [])
    assert watch.steps_done == watch.steps == 8 * 20
    columns = ["run", "step", "test_auc", "val_pa", "loss"]
    one, two = (
        puarena.load(tmp_path / name)
        .df()
        .sort_values(["run", "step"])
        .reset_index(drop=True)[columns]
        for name in ("one", "two")
    )
    assert one[["run", "step"]].equals(two[["run", "step"]])
    np.testing.assert_allclose(one[columns[2:]], two[columns[2:]], rtol=1e-5, atol=1e-6)


def test_a_failure_in_a_worker_process_is_noted(tmp_path):
    (tmp_path / "mine.py").write_text(
        PLUGIN.format(breaks="f_p.shape[-1] != 16")
    )  # not in the quick check
    spec = SPEC.override(algorithms=["upu", "mine"], plugins=[str(tmp_path / "mine.py")])
    outcome = puarena.run(spec, out=tmp_path / "out", device="cpu", workers=2)
    assert {f.reason.split(" (")[0] for f in outcome.failures} == {
        "RuntimeError: broken on purpose"
    }
    assert read_status(open_results(tmp_path / "out")).counts["done"] == 4


def test_an_executor_is_chosen():
    small = group(make_plan(SPEC).runs, 64)
    large = group(make_plan(SPEC.override(steps=20_000)).runs, 64)

    def name(device, fleets, engine=None, **options):
        return executors.choose(device, fleets, engine, ExecutorOptions(**options)).name

    assert name("cpu", small) == "inline"
    assert name("cpu", small, workers=3) == "processes"
    assert name("cpu", small[:1], workers=3) == "inline"
    assert name("cpu", small, fleet_timeout=9) == "processes"
    assert name("cpu", large) == ("processes" if count_cores() > 1 else "inline")
    assert name("cpu", small, "processes") == "processes"
    assert name("cuda", small) == "streams"
    assert name("cuda", small, gpus="all") == "gpus"
    for token, code, wrong in (
        ("streams", "unknown-name", {"engine": "streams"}),
        ("0", "invalid-value", {"workers": 0}),
        ("0", "invalid-value", {"threads": 0}),
        ("address", "conflict", {"address": "auto"}),
    ):
        with pytest.raises(UserError, match=token) as refused:
            name("cpu", small, **wrong)
        assert refused.value.code == code


def test_estimates_of_executors():
    fleets = group(make_plan(SPEC).runs, 64)
    seconds = [1.0, 5.0, 2.0, 3.0]

    def estimate(device, workers):
        executor = executors.choose(device, fleets, None, ExecutorOptions(workers=workers))
        return executor.estimate(fleets, seconds)

    assert estimate("cpu", 1) == 11
    assert estimate("cpu", 2) == 4 + 6
    assert estimate("cuda", None) == 5.5


EXECUTOR = """
from puarena.experiments.executors.local import Inline

class Backwards(Inline):
    name = "backwards"

    def train(self, fleets, job):
        yield from super().train(fleets[::-1], job)
"""


def test_an_executor_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "backwards.py").write_text(EXECUTOR)
    monkeypatch.setattr(executors, "__path__", [*executors.__path__, str(tmp_path)])
    forwards, backwards = Watch(), Watch()
    puarena.run(SPEC, out=tmp_path / "a", device="cpu", progress=forwards)
    outcome = puarena.run(
        SPEC, out=tmp_path / "b", device="cpu", progress=backwards, engine="backwards"
    )
    assert (outcome.computed, outcome.failures) == (12, [])
    assert len(forwards.seen) > 1
    assert backwards.seen == forwards.seen[::-1]


def test_whoever_trains_a_fleet_stores_it(tmp_path):
    """A driver that ends when a fleet was trained, and before it has heard of that, loses nothing."""

    class Deaf(Progress):
        def end(self, fleet, failure=None):
            raise KeyboardInterrupt

    for workers in (1, 2):
        out = tmp_path / str(workers)
        with pytest.raises(KeyboardInterrupt):
            puarena.run(SPEC, out=out, device="cpu", workers=workers, progress=Deaf())
        assert open_results(out).done_runs()


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_fleet_that_does_not_fit_in_gpu_memory_is_split(monkeypatch, at_once):
    """Streams are stood in for, so that what happens on out-of-memory is tested without a GPU."""
    monkeypatch.setattr(torch.cuda, "Stream", object)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    fleets = group(make_plan(SPEC).runs, 64)
    tried, stored, alive = [], [], weakref.WeakSet()

    class Large:
        """What a fleet has in memory, and as a fleet it refers to itself."""

        def __init__(self):
            self.me = self

    class Job:
        def train(self, fleet, in_flight):
            assert in_flight == at_once
            tried.append(len(fleet.runs))
            memory = Large()
            alive.add(memory)
            assert len(alive) <= at_once, "the memory of other fleets is freed"
            yield FleetUpdate(fleet, 1)
            if len(fleet.runs) > 2:
                yield failed(fleet, "OutOfMemoryError", "too large", out_of_memory=True)
            elif fleet.runs[0].algorithm == "pn-naive" and fleet.runs[0].config == 1:
                yield failed(fleet, "RuntimeError", "boom")
            else:
                stored.extend(run.run_id for run in fleet.runs)
                yield FleetUpdate(fleet, fleet.steps, "stored")

    updates = list(Streams(ExecutorOptions(at_once)).train(fleets, Job()))
    assert max(tried) > 2, "the test must have something to split"
    ended = [update for update in updates if update.ending]
    failures = [update for update in ended if update.failure]
    lost = [run.run_id for update in failures for run in update.fleet.runs]
    assert {update.failure.message for update in failures} == {"boom"}
    planned = sorted(make_plan(SPEC).run_ids)
    assert sorted([*stored, *lost]) == planned
    assert sorted(run.run_id for update in ended for run in update.fleet.runs) == planned
    assert all(len(update.fleet.runs) <= 2 for update in ended)
    assert len(updates) - len(ended) == len(tried)
