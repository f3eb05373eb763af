"""Executors of this machine: workers that die, hang or are killed, two drivers, signals. Nothing is
lost.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import puarena
from puarena import catalog, datasets
from puarena.cli import app
from puarena.errors import UserError
from puarena.experiments import duration, executors
from puarena.experiments.executors import gpu, local
from puarena.experiments.executors.base import ExecutorOptions
from puarena.experiments.executors.local import Worker, WorkerPool
from puarena.experiments.plan import group, make_plan
from puarena.experiments.progress import Progress
from puarena.experiments.spec import Spec
from puarena.experiments.status import read_status
from puarena.pu import Problem, draw_pu_data
from puarena.results import open_results
from stand_still import LIMIT, command, plugged, until
from tiny_suite import read_curves

SPEC = Spec(
    problems=[{"dataset": "digits"}],
    algorithms=["upu", "nnpu", "pn-naive"],
    splits=1,
    configs=2,
    steps=40,
    record_every=10,
)
PLUGIN = """
import ctypes, multiprocessing, os, sys, time
from pathlib import Path
from puarena.algorithms import Algorithm, logistic

class Bad(Algorithm):
    name, title, paper = "exits", "Exits", "a test"

    def objective(self, f_p, f_u):
        if multiprocessing.parent_process():  # it passes the check before the run, and breaks in a worker
            self.deed()
        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)

    def deed(self):
        Path(__file__).with_name("maps").write_text(Path("/proc/self/maps").read_text())
        os._exit(0)

class Segfaults(Bad):
    name, deed = "segfaults", lambda self: ctypes.string_at(0)

class Leaves(Bad):
    name, deed = "leaves", lambda self: sys.exit("no")

class Hangs(Bad):
    name, deed = "hangs", lambda self: time.sleep(1000)
"""
LOOK = """
import os
from pathlib import Path
from puarena.algorithms import Algorithm, logistic

class Look(Algorithm):
    name, title, paper = "look", "Look", "a test"

    def objective(self, f_p, f_u):
        if "CUDA_DEVICE_ORDER" in os.environ:  # in a worker
            words = os.environ["CUDA_VISIBLE_DEVICES"] + " " + os.environ["CUDA_DEVICE_ORDER"]
            Path(__file__).with_name(f"seen-{os.getpid()}").write_text(words)
        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> pd.DataFrame:
    out = tmp_path_factory.mktemp("whole")
    puarena.run(SPEC, out, device="cpu", workers=1)
    return read_curves(out)


def with_plugin(tmp_path: Path, *names: str) -> Spec:
    (tmp_path / "bad.py").write_text(PLUGIN)
    return SPEC.override(algorithms=[*SPEC.algorithms, *names], plugins=[str(tmp_path / "bad.py")])


def test_a_worker_that_dies_takes_nothing_with_it(tmp_path, whole):
    spec = with_plugin(tmp_path, "exits", "segfaults", "leaves")
    outcome = puarena.run(spec, tmp_path / "out", device="cpu", workers=2)
    reasons = {failure.label.split()[0]: failure.reason for failure in outcome.failures}
    assert reasons.keys() == {"exits", "segfaults", "leaves"}
    assert "ended with code 0" in reasons["exits"]
    assert "SIGSEGV" in reasons["segfaults"]
    assert "SystemExit: no" in reasons["leaves"]
    pd.testing.assert_frame_equal(read_curves(tmp_path / "out"), whole, check_exact=True)
    notes = open_results(tmp_path / "out").failures()
    assert {note.exception for note in notes} == {"WorkerLost", "SystemExit"}
    assert all(note.machine for note in notes)
    assert read_status(open_results(tmp_path / "out")).count("failed") == 6
    assert "memfd:puarena" in (tmp_path / "maps").read_text(), "workers have one copy of the data"


def test_a_fleet_that_hangs_is_given_up(tmp_path, whole):
    outcome = puarena.run(
        with_plugin(tmp_path, "hangs"), tmp_path / "out", device="cpu", workers=2, fleet_timeout=10
    )
    assert {failure.exception for failure in outcome.failures} == {"Timeout"}
    pd.testing.assert_frame_equal(read_curves(tmp_path / "out"), whole, check_exact=True)


class Killer(Progress):
    """Kills one process that has a claim."""

    def __init__(self, out: Path) -> None:
        super().__init__()
        self.out, self.victim = out, 0

    def record(self, fleet, steps):
        super().record(fleet, steps)
        for file in () if self.victim else (self.out / "claims").glob("[!.]*.1"):
            self.victim = json.loads(file.read_text())["pid"]
            os.kill(self.victim, signal.SIGKILL)
            return


def test_a_killed_worker_is_replaced(tmp_path, whole):
    killer = Killer(tmp_path)
    outcome = puarena.run(
        SPEC, tmp_path, device="cpu", workers=2, progress=killer, checkpoint_every=0
    )
    assert killer.victim
    assert outcome.failures == []
    pd.testing.assert_frame_equal(read_curves(tmp_path), whole, check_exact=True)
    assert list((tmp_path / "claims").iterdir()) == []


def sleep(connection, arrays):
    """What a worker process does that is of no use."""
    time.sleep(100)


def close(connection, arrays):
    connection.close()
    time.sleep(100)


@pytest.mark.parametrize("what", [sleep, close])
def test_a_worker_that_is_of_no_use_is_ended(monkeypatch, what):
    monkeypatch.setattr(local, "EXIT_SECONDS", 0.5)
    monkeypatch.setattr(local, "READY_SECONDS", 1.0)
    monkeypatch.setattr(local, "serve", what)
    job = SimpleNamespace(source=SimpleNamespace(datasets={}))
    pool = WorkerPool([{}], job, executors.Executor, ExecutorOptions())
    with pytest.raises(UserError) as error:
        list(pool.train(group(make_plan(SPEC).runs)))
    assert error.value.code == "out-of-resources"
    assert pool.workers == []


def test_two_drivers_share_a_folder_and_one_is_killed(tmp_path):
    spec, flag = plugged(tmp_path, SPEC)
    puarena.run(spec, tmp_path / "whole", device="cpu", workers=1)
    flag.write_text("wait")
    claims = tmp_path / "out" / "claims"
    with (
        command(tmp_path, spec, "--workers", "1") as first,
        command(tmp_path, spec, "--workers", "1") as second,
    ):
        until(lambda: claims.exists() and len(list(claims.glob("[!.]*.1"))) == 2, first)
        first.kill()
        flag.unlink()
        error = second.communicate(timeout=LIMIT)[1]
        assert second.returncode == 0, error
    frame = puarena.load(tmp_path / "out").df()
    assert not frame.duplicated(["run", "step"]).any()
    pd.testing.assert_frame_equal(
        read_curves(tmp_path / "out"), read_curves(tmp_path / "whole"), check_exact=True
    )
    assert (
        list(claims.glob("[!.]*")) == []
    )  # a file half written by the killed one goes with the next run


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_keeps_a_last_state(tmp_path, number):
    spec, flag = plugged(tmp_path, SPEC)
    flag.write_text("wait")
    claims = tmp_path / "out" / "claims"
    with command(tmp_path, spec, "--workers", "1") as process:
        until(lambda: claims.exists() and list(claims.glob("[!.]*.1")), process)
        process.send_signal(number)
        flag.unlink()
        error = process.communicate(timeout=LIMIT)[1]
    assert process.returncode == 128 + number, error
    assert number.name in error
    assert len(list((tmp_path / "out" / "progress").glob("[!.]*"))) == 1
    assert list(claims.iterdir()) == []


def test_the_time_is_up(tmp_path):
    spec = SPEC.override(steps=100_000)
    outcome = puarena.run(spec, tmp_path / "out", device="cpu", workers=1, seconds=1)
    assert outcome.stopped == "the time is up"
    assert len(list((tmp_path / "out" / "progress").glob("[!.]*"))) == 1
    (tmp_path / "spec.yaml").write_text(json.dumps(spec.to_dict()))
    words = [
        "run",
        str(tmp_path / "spec.yaml"),
        "--out",
        str(tmp_path / "out"),
        "--device",
        "cpu",
        "--workers",
        "1",
    ]
    done = CliRunner().invoke(app, [*words, "--for", "1s"])
    assert done.exit_code == 3, done.output
    assert "continues after" in done.stderr
    for wrong in ("soon", "0", "2 weeks"):
        done = CliRunner().invoke(app, [*words, "--for", wrong])
        assert (done.exit_code, "--for" in done.stderr) == (2, True)


def test_nobody_reads_what_a_run_says(tmp_path):
    (tmp_path / "spec.yaml").write_text(
        json.dumps(SPEC.override(algorithms=["upu"], configs=1).to_dict())
    )
    words = [
        "run",
        tmp_path / "spec.yaml",
        "--out",
        tmp_path / "out",
        "--device",
        "cpu",
        "--workers",
        "1",
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(puarena.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-m", "puarena", *map(str, words)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    process.stderr.close()
    assert process.wait(LIMIT) == 0
    assert len(open_results(tmp_path / "out").done_runs()) == 1


def test_reading_runs_no_code(tmp_path):
    trap = tmp_path / "trap"
    plugin = tmp_path / "bad.py"
    spec = with_plugin(tmp_path, "leaves")
    puarena.run(spec, tmp_path / "out", device="cpu", workers=1)
    plugin.write_text(f"open({str(trap)!r}, 'w')")
    script = "import sys; from puarena.cli import app; app(['status', sys.argv[1]])"
    environment = os.environ | {"PYTHONPATH": str(Path(puarena.__file__).parents[1])}
    for _ in ("planned.parquet", "no such file"):
        call = [sys.executable, "-c", script, tmp_path / "out"]
        words = subprocess.check_output(call, text=True, env=environment, timeout=LIMIT)
        assert "planned 8  done 8" in words
        assert not trap.exists()
        (tmp_path / "out" / "planned.parquet").unlink(missing_ok=True)


def test_inline_runs_use_one_thread_or_what_was_asked(tmp_path):
    import torch

    seen = []

    class Threads(Progress):
        def record(self, fleet, steps):
            seen.append(torch.get_num_threads())

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for threads in (None, 2):
            one = SPEC.override(algorithms=["upu"], configs=1)
            puarena.run(
                one,
                tmp_path / f"{threads}",
                device="cpu",
                workers=1,
                threads=threads,
                progress=Threads(),
            )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1] * 4 + [2] * 4


def test_what_a_doctor_moves_aside_is_computed_again(tmp_path, whole):
    puarena.run(SPEC, tmp_path, device="cpu", workers=1)
    first, second, *_ = sorted((tmp_path / "shards").iterdir())
    first.write_bytes(first.read_bytes()[:-100])
    second.write_bytes(second.read_bytes().replace(b"PAR1", b"PAR2", 1))
    planned = tmp_path / "planned.parquet"
    planned.write_bytes(planned.read_bytes()[:-1])
    (tmp_path / "progress" / f"{first.stem}.safetensors").write_bytes(b"half a state")
    (tmp_path / "failures" / "x.json").write_text("{")
    words = ["doctor", str(tmp_path)]
    assert CliRunner().invoke(app, words).exit_code == 1
    mended = CliRunner().invoke(app, [*words, "--repair"])
    assert (mended.exit_code, mended.stdout.count("; moved to ")) == (0, 5), mended.output
    assert CliRunner().invoke(app, words).exit_code == 0
    outcome = puarena.run(SPEC, tmp_path, device="cpu", workers=1)
    assert outcome.computed == 2 * 1
    pd.testing.assert_frame_equal(read_curves(tmp_path), whole, check_exact=True)


def look_at(connection, arrays):
    """In a worker: send what the datasets are, and where their arrays lie."""
    dataset = local.attach_datasets(connection.recv(), arrays)["tiny"]
    for array in (dataset.features, dataset.evaluation):
        connection.send((array.shape, array.dtype.str, array.tobytes()))
    connection.send(Path("/proc/self/maps").read_text().count("memfd:puarena"))
    dataset.features[:] = 0  # which the other processes do not see
    connection.send(None)


def test_worker_processes_have_one_copy_of_images(monkeypatch):
    monkeypatch.setattr(local, "serve", look_at)
    images = np.random.default_rng(0).integers(0, 256, (40, 3, 8, 8), np.uint8)
    seen = images[:, :, 1:-1, 1:-1].copy()
    about = {
        "classes": np.arange(40) % 2,
        "class_names": ("a", "b"),
        "cases": {1: (1,)},
        "size": 20,
    }
    dataset = datasets.Dataset(
        name="tiny",
        features=images,
        evaluation=seen,
        train=np.arange(30),
        test=np.arange(30, 40),
        **about,
    )
    bare, arrays = local.share_datasets({"tiny": dataset})
    assert bare["tiny"].features is None, "the bytes are not sent"
    for _ in range(2):
        worker = Worker({}, arrays)
        worker.send(bare)
        for array in (images, seen):
            received = worker.connection.recv()
            assert received == (array.shape, array.dtype.str, array.tobytes())
        assert worker.connection.recv() == 2
        assert worker.connection.recv() is None
        worker.kill()


def test_worker_processes_without_shared_memory(tmp_path, whole, monkeypatch):
    def too_large(*given):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    monkeypatch.setattr("puarena.experiments.executors.local.os.ftruncate", too_large)
    assert puarena.run(SPEC, tmp_path, device="cpu", workers=2).failures == []
    pd.testing.assert_frame_equal(read_curves(tmp_path), whole, check_exact=True)


def test_a_process_for_every_gpu(tmp_path, monkeypatch):
    """As where there are GPUs, except that each process then trains on its CPU."""
    monkeypatch.setattr(gpu, "list_gpus", lambda: ["0", "1", "7"])
    monkeypatch.setattr(gpu, "Streams", local.Inline)
    monkeypatch.setattr(gpu.GPUs, "devices", ("cpu",))
    (tmp_path / "look.py").write_text(LOOK)
    spec = SPEC.override(algorithms=["look", "upu"], plugins=[str(tmp_path / "look.py")], configs=3)
    outcome = puarena.run(spec, tmp_path / "out", device="cpu", gpus="0,7")
    assert outcome.failures == []
    seen = {tuple(file.read_text().split()) for file in tmp_path.glob("seen-*")}
    assert seen == {("0", "PCI_BUS_ID"), ("7", "PCI_BUS_ID")}
    assert len(list(tmp_path.glob("seen-*"))) == 2, "a process each"


def test_gpus_are_named():
    assert gpu.choose_gpus("all", ["0", "1"]) == gpu.choose_gpus(None, ["0", "1"]) == ["0", "1"]
    assert gpu.choose_gpus("1", ["0", "1"]) == ["1"]
    for gpus, code in (("0,2", "unknown-name"), (",", "invalid-value")):
        with pytest.raises(UserError) as error:
            gpu.choose_gpus(gpus, ["0", "1"])
        assert error.value.code == code
    fleets = group(make_plan(SPEC.override(configs=10)).runs, 2)
    one, eight = (gpu.GPUs(ExecutorOptions(gpus=count)) for count in ("1", "8"))
    seconds = [100.0] * len(fleets)
    assert eight.estimate(fleets, seconds) < one.estimate(fleets, seconds) / 3


def test_plan_says_how_long_other_engines_take_and_refuses_as_run_does(tmp_path):
    words = [
        "demo",
        "--device",
        "cpu",
        "--datasets",
        "digits",
        "--algorithms",
        "nnpu",
        "--steps",
        "2000",
    ]
    ray = CliRunner().invoke(app, ["plan", *words, "--engine", "ray", "--gpus", "8"])
    assert ray.exit_code == 0, ray.output
    assert "with ray on 8 GPUs" in ray.stdout
    for wrong in (["--cases", "9"], ["--rates", "0.9"]):
        refused = [
            CliRunner().invoke(app, [command, *words, *wrong, *more])
            for command, more in (("plan", []), ("run", ["--out", str(tmp_path / "out")]))
        ]
        assert [done.exit_code for done in refused] == [2, 2]
        assert refused[0].stderr == refused[1].stderr


@pytest.mark.parametrize("name", ["letter", "usps", "cifar10"])
def test_plan_refuses_as_run_does_what_it_has_no_files_of(name, monkeypatch, tmp_path):
    """The draw that ``run`` makes, of a dataset with these classes, against a plan without its
    files.
    """
    info = datasets.info(name)
    monkeypatch.setenv("PUARENA_CACHE", str(tmp_path))
    monkeypatch.delenv("PUARENA_DATA", raising=False)
    classes = np.repeat(np.arange(info.class_count), 3000)
    here = datasets.Dataset(
        name=name,
        features=np.zeros((len(classes), 1), np.float32),
        classes=classes,
        class_names=info.class_names,
        cases=dict(info.cases),
        size=info.size,
        test_fraction=0.2,
    )
    for rate in (0.9, 0.6, 0.0001):
        with pytest.raises(UserError) as drawn:
            draw_pu_data(here, Problem(name, 1, "os", rate), 0)
        done = CliRunner().invoke(
            app,
            [
                "plan",
                "demo",
                "--device",
                "cpu",
                "--datasets",
                name,
                "--algorithms",
                "nnpu",
                "--rates",
                str(rate),
            ],
        )
        assert (done.exit_code, done.stderr) == (2, f"error: {drawn.value}\n")


@pytest.mark.parametrize(
    "words, named",
    [
        (["--gpus", "all"], "gpus, ray"),
        (["--set", "address=auto"], "ray"),
        (["--set", "slurm_partition=p"], "slurm"),
        (["--set", "gpus_per_fleet=0.5"], "ray, slurm"),
        (["--engine", "inline", "--set", "fleet_timeout=9s"], "gpus, processes, ray, slurm"),
        (["--engine", "ray", "--gpus", "0,1"], "gpus_per_fleet"),
    ],
)
def test_an_option_that_an_engine_would_ignore_is_refused(tmp_path, words, named):
    spec = ["demo", "--algorithms", "nnpu", "--steps", "10", "--device", "cpu"]
    done = CliRunner().invoke(app, ["run", *spec, "--out", str(tmp_path / "out"), *words])
    assert done.exit_code == 2, done.output
    assert words[-1].partition("=")[0].removeprefix("--") in done.stderr or "gpus" in done.stderr
    assert named in done.stderr


def test_full_passes_cost_time(monkeypatch):
    monkeypatch.setattr(duration, "measure_speed", lambda *given: duration.Speed(1e6, 1e6, 1e6))
    plan = make_plan(SPEC.override(algorithms=["lbe", "nnpu"]))
    fleets = [fleet for fleet in group(plan.runs) if fleet.first.algorithm == "lbe"]
    with_passes = duration.estimate_fleets(plan, fleets, "cpu")
    plain = replace(catalog.get("lbe"), passes_every_epoch=False)
    monkeypatch.setattr(catalog, "get", lambda name: plain)
    without = duration.estimate_fleets(plan, fleets, "cpu")
    assert with_passes[0] > without[0]


def test_every_batch_size_of_a_table_is_measured_while_there_is_time(monkeypatch):
    probed, now = [], [0.0]

    def measure(shape, runs, device, seconds):
        probed.append(shape.batch_size)
        now[0] += 4
        return duration.Speed(1e6, 1e6, 1e6)

    monkeypatch.setattr(duration, "measure_speed", measure)
    monkeypatch.setattr(duration.time, "monotonic", lambda: now[0])
    plan = make_plan(SPEC.override(algorithms=["nnpu"], configs=8))
    fleets = group(plan.runs)
    whole = duration.estimate_fleets(plan, fleets, "cpu")
    sizes = sorted({run.batch_size for run in plan.runs})
    assert len(sizes) > 2
    assert len(probed) == len(set(probed)) == min(len(sizes), 4)
    probed.clear()
    monkeypatch.setattr(duration, "MEASURE_SECONDS", 6.0)
    assert duration.estimate_fleets(plan, fleets, "cpu") == whole
    assert len(probed) == 2


def test_a_probe_measures_processor_time_and_ends_in_time(monkeypatch):
    """So that other programs on the same cores do not count, and nobody waits for minutes."""
    (run, *_) = make_plan(SPEC).runs
    plan = make_plan(SPEC)
    shape = duration.shape_of(plan, group([run])[0])
    processor = iter([1.0, 2.0, 4.0, 5.0])
    monkeypatch.setattr(duration.time, "thread_time", lambda: next(processor))
    speed = duration.measure_speed(shape, 1, "cpu")
    steps = duration.PROBE_STEPS["cpu"]
    work = steps * duration.work_of_step(shape) + shape.evaluated
    assert speed == pytest.approx((work / 2, work, work))
    processor = iter([1.0, 3.0])  # no more is asked for
    assert duration.measure_speed(shape, 1, "cpu", 0.0).usual == pytest.approx(work / 2)


@pytest.mark.parametrize("engine, extra", [("ray", "puarena[ray]"), ("slurm", "puarena[slurm]")])
def test_an_engine_that_is_not_installed(tmp_path, monkeypatch, engine, extra):
    for name in ("ray", "submitit"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError) as error:
        puarena.run(SPEC, tmp_path, device="cpu", engine=engine)
    assert error.value.code == "missing-dependency"
    assert extra in str(error.value)


def test_a_run_in_a_thread(tmp_path):
    """No signal can be noted there."""
    outcomes = []
    thread = threading.Thread(
        target=lambda: outcomes.append(puarena.run(SPEC, tmp_path, device="cpu", workers=1))
    )
    thread.start()
    thread.join(LIMIT)
    assert outcomes[0].computed == 6
