"""Who trains: workers that die, hang or are killed, two drivers in one folder, Ray, SLURM, signals. Nothing is lost."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import puarena
from puarena.bench import executors
from puarena.bench.executors import gpus, slurm
from puarena.bench.executors.base import How
from puarena.bench.plan import group, make_plan
from puarena.bench.progress import Lines, Progress
from puarena.bench.spec import Spec
from puarena.bench.status import standing
from puarena.cli import app
from puarena.errors import UserError
from puarena.store import open_store

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
    name, title, paper = "bad", "Bad", "a test"

    def objective(self, f_p, f_u):
        if multiprocessing.parent_process():  # it passes the check before the run, and breaks in a worker
            {deed}
        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)
"""


def curves(out: Path) -> pd.DataFrame:
    frame = puarena.load(out).df().drop(columns=["seconds", "fleet"])
    return frame.sort_values(["run", "step"]).reset_index(drop=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> pd.DataFrame:
    out = tmp_path_factory.mktemp("whole")
    puarena.run(SPEC, out, device="cpu", workers=1)
    return curves(out)


def with_plugin(tmp_path: Path, deed: str) -> Spec:
    (tmp_path / "bad.py").write_text(PLUGIN.format(deed=deed))
    return SPEC.override(algorithms=[*SPEC.algorithms, "bad"], plugins=[str(tmp_path / "bad.py")])


@pytest.mark.parametrize(
    "deed, reason",
    [
        ("os._exit(0)", "ended with code 0"),
        ("ctypes.string_at(0)", "SIGSEGV"),
        ("sys.exit('no')", "SystemExit: no"),
    ],
)
def test_a_worker_that_dies_takes_nothing_with_it(tmp_path, whole, deed, reason):
    outcome = puarena.run(with_plugin(tmp_path, deed), tmp_path / "out", device="cpu", workers=2)
    assert {failure.label.split()[0] for failure in outcome.failures} == {"bad"}
    assert all(reason in failure.reason for failure in outcome.failures)
    frame = curves(tmp_path / "out")
    pd.testing.assert_frame_equal(frame, whole, check_exact=True)
    note = open_store(tmp_path / "out").failures()[0]
    assert note["exception"] in {"WorkerLost", "SystemExit"}
    assert note["machine"]
    assert standing(open_store(tmp_path / "out")).count("failed") == 2


def test_a_fleet_that_hangs_is_given_up(tmp_path, whole):
    spec = with_plugin(tmp_path, "time.sleep(1000)")
    outcome = puarena.run(spec, tmp_path / "out", device="cpu", workers=2, fleet_timeout=20)
    assert {failure.exception for failure in outcome.failures} == {"Timeout"}
    pd.testing.assert_frame_equal(curves(tmp_path / "out"), whole, check_exact=True)


def test_a_killed_worker_is_replaced(tmp_path, whole):
    killed = []

    class Killer(Progress):
        def news(self, fleet, done):
            super().news(fleet, done)
            claims = [json.loads(file.read_text()) for file in (tmp_path / "claims").glob("[!.]*")]
            if len(killed) < 2 and claims:
                killed.append(claims[0]["pid"])
                os.kill(claims[0]["pid"], signal.SIGKILL)

    outcome = puarena.run(SPEC, tmp_path, device="cpu", workers=2, progress=Killer(), checkpoint_every=0)
    assert len(killed) == 2
    assert outcome.failures == []
    pd.testing.assert_frame_equal(curves(tmp_path), whole, check_exact=True)
    assert list((tmp_path / "claims").iterdir()) == []


def test_workers_share_the_data(tmp_path):
    spec = with_plugin(tmp_path, f"Path({str(tmp_path / 'maps')!r}).write_text(Path('/proc/self/maps').read_text())")
    assert puarena.run(spec, tmp_path / "out", device="cpu", workers=2).failures == []
    assert "memfd:puarena" in (tmp_path / "maps").read_text()


def driver(tmp_path: Path, *more: str) -> subprocess.Popen:
    (tmp_path / "spec.yaml").write_text(json.dumps(SPEC.override(steps=400, configs=4).to_dict()))
    command = [sys.executable, "-m", "puarena", "run", tmp_path / "spec.yaml", "--out", tmp_path / "out"]
    command += ["--device", "cpu", "--workers", "1", *more]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(puarena.__file__).parents[1])}
    return subprocess.Popen([str(word) for word in command], env=environment, stderr=subprocess.PIPE, text=True)


def until(condition, seconds: float = 120) -> None:
    limit = time.monotonic() + seconds
    while not condition() and time.monotonic() < limit:
        time.sleep(0.02)
    assert condition()


def test_two_drivers_share_a_folder_and_one_is_killed(tmp_path):
    spec = SPEC.override(steps=400, configs=4)
    puarena.run(spec, tmp_path / "whole", device="cpu", workers=1)
    first, second = driver(tmp_path), driver(tmp_path)
    claims = tmp_path / "out" / "claims"
    until(lambda: claims.exists() and len(list(claims.glob("[!.]*"))) == 2)
    first.kill()
    first.wait()
    error = second.communicate()[1]
    assert second.returncode == 0, error
    frame = puarena.load(tmp_path / "out").df()
    assert not frame.duplicated(["run", "step"]).any()
    pd.testing.assert_frame_equal(curves(tmp_path / "out"), curves(tmp_path / "whole"), check_exact=True)
    assert sorted(claims.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_keeps_a_last_state(tmp_path, number):
    process = driver(tmp_path)
    claims = tmp_path / "out" / "claims"
    until(lambda: claims.exists() and list(claims.glob("[!.]*")))
    process.send_signal(number)
    error = process.communicate(timeout=120)[1]
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
    words = ["run", str(tmp_path / "spec.yaml"), "--out", str(tmp_path / "out"), "--device", "cpu", "--workers", "1"]
    done = CliRunner().invoke(app, [*words, "--for", "1s"])
    assert done.exit_code == 3, done.output
    assert "goes on after" in done.stderr
    for wrong in ("soon", "0", "2 weeks"):
        done = CliRunner().invoke(app, [*words, "--for", wrong])
        assert (done.exit_code, "--for takes a time" in done.stderr) == (2, True)


def test_a_display_that_breaks_does_not_end_training(tmp_path, whole):
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    outcome = puarena.run(SPEC, tmp_path, device="cpu", workers=1, progress=Lines(Full(), every=0))
    assert outcome.failures == []
    pd.testing.assert_frame_equal(curves(tmp_path), whole, check_exact=True)


def test_reading_runs_no_code(tmp_path):
    trap = tmp_path / "trap"
    plugin = tmp_path / "bad.py"
    spec = with_plugin(tmp_path, "pass")
    puarena.run(spec, tmp_path / "out", device="cpu", workers=1)
    plugin.write_text(f"open({str(trap)!r}, 'w')")
    script = "import sys; from puarena.cli import app; app(['status', sys.argv[1]])"
    environment = os.environ | {"PYTHONPATH": str(Path(puarena.__file__).parents[1])}
    for _ in ("planned.parquet", "no such file"):
        words = subprocess.check_output([sys.executable, "-c", script, tmp_path / "out"], text=True, env=environment)
        assert "planned 8  done 8" in words
        assert not trap.exists()
        (tmp_path / "out" / "planned.parquet").unlink(missing_ok=True)


def test_inline_runs_use_one_thread_or_what_was_asked(tmp_path):
    import torch

    seen = []

    class Threads(Progress):
        def news(self, fleet, done):
            seen.append(torch.get_num_threads())

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for threads in (None, 2):
            one = SPEC.override(algorithms=["upu"], configs=1)
            puarena.run(one, tmp_path / f"{threads}", device="cpu", workers=1, threads=threads, progress=Threads())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1] * 4 + [2] * 4
    with pytest.raises(UserError, match="threads is 0"):
        puarena.run(SPEC, tmp_path / "no", device="cpu", threads=0)


def test_gpus_are_named():
    assert gpus.named("all", ["0", "1"]) == gpus.named(None, ["0", "1"]) == ["0", "1"]
    assert gpus.named("1", ["0", "1"]) == ["1"]
    with pytest.raises(UserError, match=r"no GPU '2' here; choose all, or some of: 0, 1"):
        gpus.named("0,2", ["0", "1"])
    with pytest.raises(UserError, match="names no GPU"):
        gpus.named(",", ["0"])
    fleets = group(make_plan(SPEC.override(configs=10)).runs, 2)
    assert executors.choose("cuda", None, fleets, how=How(gpus="all")).name == "gpus"
    one, eight = (executors.choose("cuda", None, fleets, "gpus", How(gpus=n)) for n in ("1", "8"))
    seconds = [100.0] * len(fleets)
    assert eight.duration(fleets, seconds) < one.duration(fleets, seconds) / 3


def test_plan_says_how_long_other_engines_take_and_refuses_as_run_does(tmp_path):
    words = ["demo", "--device", "cpu", "--datasets", "digits", "--algorithms", "nnpu", "--steps", "2000"]
    ray = CliRunner().invoke(app, ["plan", *words, "--engine", "ray", "--gpus", "8"])
    assert ray.exit_code == 0, ray.output
    assert "with ray on 8 GPUs like this one" in ray.stdout
    for wrong in (["--cases", "9"], ["--rates", "0.9"]):
        refused = [
            CliRunner().invoke(app, [command, *words, *wrong, *more])
            for command, more in (("plan", []), ("run", ["--out", str(tmp_path / "out")]))
        ]
        assert [done.exit_code for done in refused] == [2, 2]
        assert refused[0].stderr == refused[1].stderr


def test_full_passes_are_counted():
    from puarena.bench.duration import Speed, _seconds, shape_of

    both = make_plan(SPEC.override(algorithms=["lbe", "nnpu"]))
    fleets = {fleet.first.algorithm: fleet for fleet in group(both.runs)}
    shape = shape_of(both, fleets["lbe"])
    with_passes, without = (
        _seconds(fleets["lbe"], shape, Speed(0, 0.0, record, 2, shape)) for record in (shape.evaluated * 1e-3, 0.0)
    )
    records = 40 // 10 * shape.evaluated * 1e-3
    assert with_passes - without > records


def test_slurm_jobs(tmp_path, whole, monkeypatch):
    pytest.importorskip("submitit", reason="needs submitit (pip install 'puarena[slurm]')")
    monkeypatch.setattr(slurm.Slurm, "cluster", "local")
    monkeypatch.setattr(slurm, "LOOK", 0.2)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(puarena.__file__).parents[1]), *sys.path]))
    outcome = puarena.run(SPEC, tmp_path, device="cpu", workers=2, engine="slurm", slurm=(("time", "3600"),))
    assert (outcome.computed + outcome.elsewhere, outcome.failures) == (6, [])
    pd.testing.assert_frame_equal(curves(tmp_path), whole, check_exact=True)
    assert list((tmp_path / "claims").iterdir()) == []


def test_slurm_parameters_and_shares():
    fleets = group(make_plan(SPEC.override(configs=10)).runs, 2)
    lists = slurm.dealt(fleets, 3)
    assert all(set(each) == set(fleets) for each in lists)
    assert len({each[0] for each in lists}) == 3
    how = How(slurm=(("partition", "gpu"), ("time", "7200"), ("account", "me")), cpus_per_fleet=4)
    wanted = {"slurm_partition": "gpu", "slurm_account": "me", "timeout_min": 120, "cpus_per_task": 4}
    assert slurm.parameters(how, "cpu") == wanted
    assert slurm.parameters(how, "cuda") == wanted | {"gpus_per_node": 1}
    errand = slurm.Errand(None, fleets, 2)
    pytest.importorskip("submitit", reason="needs submitit (pip install 'puarena[slurm]')")
    assert errand.checkpoint().function is errand, "queued again, the same goes on from the states"


def test_ray(tmp_path, whole, monkeypatch):
    pytest.importorskip("ray", reason="needs Ray (pip install 'puarena[ray]')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(puarena.__file__).parents[1]), *sys.path]))
    killed = []

    class Killer(Progress):
        def news(self, fleet, done):
            super().news(fleet, done)
            claims = [json.loads(file.read_text()) for file in (tmp_path / "claims").glob("[!.]*")]
            if not killed and claims:
                killed.append(claims[0]["pid"])
                os.kill(claims[0]["pid"], signal.SIGKILL)

    how = {"device": "cpu", "engine": "ray", "workers": 2, "checkpoint_every": 0}
    outcome = puarena.run(SPEC, tmp_path, progress=Killer(), **how)
    assert killed
    assert outcome.failures == []
    pd.testing.assert_frame_equal(curves(tmp_path), whole, check_exact=True)


@pytest.mark.parametrize("engine, extra", [("ray", "puarena[ray]"), ("slurm", "puarena[slurm]")])
def test_an_engine_that_is_not_installed(tmp_path, monkeypatch, engine, extra):
    for name in ("ray", "submitit"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=r"install it with: pip install '" + extra.replace("[", r"\[")):
        puarena.run(SPEC, tmp_path, device="cpu", engine=engine)


def test_claims_are_given_up_with_their_threads_alive(tmp_path):
    """A run in a thread, where no signal can be noted, works as well."""
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(puarena.run(SPEC, tmp_path, device="cpu", workers=1)))
    thread.start()
    thread.join()
    assert outcomes[0].computed == 6
