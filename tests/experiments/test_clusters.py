"""Ray and SLURM: tasks and nodes that are lost, fleets that do not fit, jobs at their time limit.

Where Ray is not installed the tests that need it are skipped; what its executor decides is tested
with a stand-in.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import puarena
from puarena.errors import UserError
from puarena.experiments import executors
from puarena.experiments.executors import ray as ray_executor
from puarena.experiments.executors import slurm
from puarena.experiments.executors.base import ExecutorOptions
from puarena.experiments.machine import choose_device
from puarena.experiments.plan import FleetSpec, group, make_plan
from puarena.experiments.progress import Progress
from puarena.experiments.spec import Spec
from puarena.experiments.stop import Stopped
from puarena.experiments.worker import FleetUpdate, failed
from puarena.results import open_results
from stand_still import LIMIT
from tiny_suite import read_curves

SPEC = Spec(
    problems=[{"dataset": "digits"}],
    algorithms=["upu", "nnpu", "pn-naive"],
    splits=1,
    configs=2,
    steps=40,
    record_every=10,
    hyper={"*": {"batch_size": 64}},  # so that both configurations are in one fleet
)
PLUGIN = """
import multiprocessing, os, time
from pathlib import Path
from puarena.algorithms import Algorithm, logistic

HERE = Path(__file__).parent

class Mine(Algorithm):
    name, title, paper = "mine", "Mine", "a test"

    def objective(self, f_p, f_u):
        if f_p.shape[-1] != 16:  # it passes the check before the run
            self.deed(len(f_p))
        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)

    def on_epoch(self, phase, epoch, passes):
        with open(HERE / "epochs", "a") as file:
            file.write(f"{os.getpid()} {epoch}\\n")
        until = time.monotonic() + 100
        while epoch == 2 and (HERE / "wait").exists() and time.monotonic() < until:
            time.sleep(0.02)

    def deed(self, runs):
        (HERE / "seen").write_text(repr(os.environ.get("CUDA_VISIBLE_DEVICES")))

class Breaks(Mine):
    name = "breaks"

    def deed(self, runs):
        with open(HERE / "tried", "a") as file:
            file.write(".")
        raise RuntimeError("broken on purpose")

class Large(Mine):
    name = "large"

    def deed(self, runs):
        if runs > 1:
            raise MemoryError("too many runs")

class Dies(Mine):
    name = "dies"

    def deed(self, runs):
        with open(HERE / "died", "a") as file:
            file.write(".")
        os._exit(1)
"""


def with_plugin(folder: Path, *names: str) -> Spec:
    (folder / "mine.py").write_text(PLUGIN)
    return SPEC.override(algorithms=["upu", *names], plugins=[str(folder / "mine.py")])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> pd.DataFrame:
    out = tmp_path_factory.mktemp("whole")
    puarena.run(SPEC, out, device="cpu", workers=1)
    return read_curves(out)


@pytest.fixture
def importable(monkeypatch) -> None:
    """For processes that others start."""
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(puarena.__file__).parents[1]), *sys.path])
    )


def test_a_driver_without_a_gpu_sends_work_to_machines_that_have_one(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert choose_device("cuda", elsewhere=True) == "cuda"
    for name in ("ray", "submitit"):
        monkeypatch.setitem(sys.modules, name, None)
    how: dict[str, Any]
    for how, token in (
        ({"engine": "slurm"}, "submitit"),
        ({"engine": "ray", "address": "far:1"}, "Ray"),
        ({"engine": "ray"}, "CUDA"),
    ):
        with pytest.raises(UserError, match=token):
            puarena.run(SPEC, tmp_path, device="cuda", **how)


# SLURM


@pytest.fixture
def local_jobs(monkeypatch, importable) -> None:
    pytest.importorskip("submitit", reason="needs submitit (pip install 'puarena[slurm]')")
    monkeypatch.setattr(slurm.Slurm, "cluster", "local")
    monkeypatch.setattr(slurm, "QUEUE_SECONDS", 0.2)


def test_slurm_jobs(tmp_path, whole, local_jobs):
    outcome = puarena.run(SPEC, tmp_path, device="cpu", workers=2, engine="slurm", slurm_time=3600)
    assert (outcome.computed + outcome.elsewhere, outcome.failures) == (6, [])
    pd.testing.assert_frame_equal(read_curves(tmp_path), whole, check_exact=True)
    limit = time.monotonic() + LIMIT
    while list((tmp_path / "claims").iterdir()):  # of the job that stored the last fleet just now
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_slurm_job_at_its_time_limit_continues_from_its_checkpoint(tmp_path, local_jobs):
    spec, out, outcomes = with_plugin(tmp_path, "mine").override(configs=1), tmp_path / "out", []
    puarena.run(spec, tmp_path / "whole", device="cpu", workers=1)
    (tmp_path / "epochs").unlink()
    (tmp_path / "wait").touch()
    how: dict[str, Any] = {"workers": 1, "engine": "slurm", "checkpoint_every": 1000}
    driver = threading.Thread(
        target=lambda: outcomes.append(puarena.run(spec, out, device="cpu", **how))
    )
    driver.start()
    limit = time.monotonic() + LIMIT
    while not (tmp_path / "epochs").exists() or " 2" not in (tmp_path / "epochs").read_text():
        assert time.monotonic() < limit
        time.sleep(0.05)
    first = int((tmp_path / "epochs").read_text().split()[0])
    os.kill(first, signal.SIGUSR2)  # as SLURM does
    time.sleep(0.2)
    (tmp_path / "wait").unlink()
    driver.join(LIMIT)
    assert outcomes[0].failures == []
    assert any("Requeued job" in file.read_text() for file in (out / "slurm").rglob("*_log.*"))
    lines = (tmp_path / "epochs").read_text().splitlines()
    epochs = [tuple(map(int, line.split())) for line in lines]
    later = [epoch for process, epoch in epochs if process != first]
    assert later, "a second process continued"
    assert later[0] > 2, "from where the first one was"
    pd.testing.assert_frame_equal(
        read_curves(out), read_curves(tmp_path / "whole"), check_exact=True
    )


class LostJob:
    """A job that was killed on a cluster without accounting: submitit never learns of it."""

    job_id = "7_0"

    def done(self) -> bool:
        return False


@pytest.mark.parametrize("stored", [True, False])
def test_a_slurm_job_that_is_killed_is_noticed(tmp_path, monkeypatch, stored):
    """The driver waited for it without end."""
    (tmp_path / "squeue").write_text("#!/bin/sh\necho 7_1\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    for name, seconds in (("QUEUE_SECONDS", 0.05), ("LOST_SECONDS", 0.2)):
        monkeypatch.setattr(slurm, name, seconds)
    fleets = group(make_plan(SPEC).runs, 2)
    store = SimpleNamespace(has_shard=lambda fleet: stored, claimed=set)
    job: Any = SimpleNamespace(store=store)
    collected = slurm.Slurm()._collect([LostJob()], fleets, job)
    ended = [update for update in collected if update is not None]
    assert [update.fleet for update in ended] == fleets
    assert {update.ending for update in ended} == {"stored" if stored else "failed"}
    queue = slurm.JobQueue(None)
    assert not queue.has_lost("7_1")
    monkeypatch.setenv("PATH", "")
    assert not slurm.JobQueue(None).has_lost("7_0"), "squeue did not answer"


def test_slurm_parameters_and_shares():
    fleets = group(make_plan(SPEC.override(configs=10)).runs, 2)
    lists = slurm.share_fleets(fleets, 3)
    assert all(set(each) == set(fleets) for each in lists)
    assert len({each[0] for each in lists}) == 3
    given = {"slurm_partition": "gpu", "slurm_time": 7200, "slurm": ("account=me",)}
    options = ExecutorOptions(**given, cpus_per_fleet=4)
    wanted = {
        "slurm_signal_delay_s": slurm.SIGNAL_SECONDS,
        "slurm_partition": "gpu",
        "slurm_account": "me",
        "timeout_min": 120,
        "cpus_per_task": 4,
    }
    assert slurm.job_parameters(options, "cpu") == wanted
    assert slurm.job_parameters(options, "cuda") == wanted | {"gpus_per_node": 1}
    default = slurm.job_parameters(ExecutorOptions(), "cpu")
    assert default["timeout_min"] == slurm.JOB_MINUTES
    wrong: dict[str, Any]
    for wrong, token in (({"slurm": ("account",)}, "'account'"), ({"slurm_time": 60}, "5m")):
        with pytest.raises(UserError, match=token) as error:
            slurm.Slurm(ExecutorOptions(**wrong))
        assert error.value.code == "invalid-value"


@pytest.mark.parametrize("timeout, name", [(None, "inline"), (9, "processes")])
def test_what_trains_on_a_node(monkeypatch, timeout, name):
    seen = []
    job: Any = SimpleNamespace(device="cpu", prepare=lambda: None)

    class Chosen:
        def train(self, fleets, job):
            yield FleetUpdate(fleets[0], 1)
            yield FleetUpdate(fleets[0], 2, "stored")

    def choose(device, fleets, name, options):
        seen.append((name, options.fleet_timeout))
        return Chosen()

    monkeypatch.setattr(executors, "choose", choose)
    fleets = group(make_plan(SPEC).runs, 2)
    options = ExecutorOptions(fleet_timeout=timeout)
    assert len(executors.train_here(job, fleets, options, lambda: False)) == 1
    assert executors.train_here(job, fleets, options, lambda: True) == [], "it stops at a record"
    assert seen == [(name, timeout)] * 2


# What the executor for Ray decides, with a stand-in for Ray


class LostError(Exception):
    """Of a task, or of all of Ray."""


class TooLargeError(LostError):
    """The node had too little memory."""


class TaskError(LostError):
    """Raised by the task itself."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class StandIn:
    """Ray in one process: ``behave`` says what comes of a task."""

    exceptions = SimpleNamespace(
        RayError=LostError, RayTaskError=TaskError, OutOfMemoryError=TooLargeError
    )

    def __init__(self, behave: Callable[[FleetSpec], Any], cores: int = 2) -> None:
        self.behave, self.cores = behave, cores
        self.tried: Counter[str] = Counter()
        self.cancelled: list[Any] = []
        self.most = 0

    def remote(self, **options: Any) -> Callable[[Any], Any]:
        self.options = options

        def submit(job: Any, job_id: str, options: ExecutorOptions, fleet: FleetSpec) -> Any:
            self.tried[fleet.fleet_id] += 1
            return fleet

        return lambda function: SimpleNamespace(remote=submit)

    def put(self, value: Any) -> Any:
        return value

    def get(self, fleet: FleetSpec) -> Any:
        result = self.behave(fleet)
        if isinstance(result, Exception):
            raise result
        return result

    def wait(self, tasks: list[Any], timeout: float, num_returns: int = 1) -> tuple[list, list]:
        self.most = max(self.most, len(tasks))
        return tasks, []

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"Alive": True, "Resources": {"CPU": self.cores}},
            {"Alive": False, "Resources": {"CPU": 100}},
        ]

    def cancel(self, task: Any, force: bool = False) -> None:
        self.cancelled.append(task)


def tasks_of(
    behave: Callable[[FleetSpec], Any], options: ExecutorOptions | None = None, **more: Any
) -> ray_executor.RayTasks:
    job: Any = SimpleNamespace(device="cpu")
    return ray_executor.RayTasks(StandIn(behave, **more), options or ExecutorOptions(), job)


def stored(fleet: FleetSpec) -> list[FleetUpdate]:
    return [FleetUpdate(fleet, fleet.steps, "stored")]


def endings(tasks: ray_executor.RayTasks, fleets: list[FleetSpec]) -> list[FleetUpdate]:
    return [update for update in tasks.train(fleets) if update is not None]


@pytest.fixture(scope="module")
def fleets() -> list[FleetSpec]:
    return group(make_plan(SPEC.override(configs=4)).runs, 4)


def test_a_fleet_whose_task_is_lost_fails_alone(fleets):
    """Ray itself has tried it again as often as it was told."""
    cursed = fleets[1]
    tasks = tasks_of(lambda fleet: LostError("node gone") if fleet is cursed else stored(fleet))
    assert tasks.ray.options["max_retries"] == ray_executor.RETRIES
    ended = {update.fleet: update for update in endings(tasks, fleets)}
    assert set(ended) == set(fleets)
    assert [fleet for fleet in fleets if ended[fleet].failure] == [cursed]
    failure = ended[cursed].failure
    assert (failure.exception, "node gone" in failure.message) == ("TaskLost", True)


def test_an_error_of_the_method_is_not_tried_again(fleets):
    tasks = tasks_of(lambda fleet: [failed(fleet, "RuntimeError", "boom")])
    assert [update.failure.message for update in endings(tasks, fleets)] == ["boom"] * len(fleets)
    assert set(tasks.ray.tried.values()) == {1}


def test_a_mistake_of_the_user_ends_the_run(fleets):
    tasks = tasks_of(lambda fleet: TaskError(UserError("no data here", "missing-data")))
    with pytest.raises(UserError) as error:
        endings(tasks, fleets)
    assert error.value.code == "missing-data"


@pytest.mark.parametrize("what", ["the node", "the method"])
def test_a_fleet_that_does_not_fit_is_split(fleets, what):
    def behave(fleet: FleetSpec) -> Any:
        if len(fleet.runs) == 1:
            return stored(fleet)
        if what == "the node":
            return TooLargeError("memory of the node was running low")
        return [failed(fleet, "MemoryError", "", out_of_memory=True)]

    ended = endings(tasks_of(behave), fleets)
    assert {(update.ending, len(update.fleet.runs)) for update in ended} == {("stored", 1)}
    runs = {run for fleet in fleets for run in fleet.runs}
    assert {run for update in ended for run in update.fleet.runs} == runs
    claims = {fleet.claim for fleet in fleets}
    assert {update.fleet.claim for update in ended} == claims, "one claim for all parts"


def test_workers_limit_the_tasks(fleets):
    tasks = tasks_of(stored, ExecutorOptions(workers=1))
    assert len(endings(tasks, fleets)) == len(fleets)
    assert tasks.ray.most == 1


def test_a_cluster_without_room(fleets, monkeypatch):
    monkeypatch.setattr(ray_executor, "ROOM_SECONDS", 0.1)
    tasks = tasks_of(stored, ExecutorOptions(cpus_per_fleet=4))
    tasks.ray.wait = lambda tasks, timeout, num_returns=1: ([], [])
    with pytest.raises(UserError, match="4 CPU") as error:
        endings(tasks, fleets)
    assert error.value.code == "out-of-resources"
    assert set(tasks.ray.cancelled) == set(fleets)


def test_tasks_on_a_cpu_see_no_gpu_and_have_one_thread():
    options = tasks_of(stored).ray.options
    variables = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    assert options["runtime_env"]["env_vars"] == variables
    assert (options["num_cpus"], options["num_gpus"]) == (1, 0)


def test_whoever_stops_waits_for_checkpoints(fleets):
    tasks = tasks_of(stored)
    waited = []

    def wait(running: list[Any], timeout: float, num_returns: int = 1) -> tuple[list, list]:
        waited.append((num_returns, timeout))
        return [], []

    tasks.ray.wait = wait
    training = tasks.train(fleets)
    assert next(training) is None
    training.close()
    assert set(tasks.ray.cancelled) == set(fleets)
    assert waited[-1] == (len(fleets), ray_executor.SAVE_SECONDS)


# Ray itself


SCRIPT = """
import subprocess, sys
import puarena, puarena.experiments.progress

def addresses():
    lines = subprocess.check_output(["ss", "-Hltn"], text=True).splitlines()
    return {line.split()[3] for line in lines}

before = addresses()

class Look(puarena.experiments.progress.Progress):
    def end(self, fleet, failure=None):
        open_to_all = {each for each in addresses() - before if "127.0.0.1" not in each}
        print("open to other machines:", open_to_all)

out = puarena.run(SPEC, sys.argv[1], device="cpu", engine="ray", progress=Look())
print("computed", out.computed)
"""


@pytest.fixture
def separate_ray():
    """The environment of processes that have a Ray of their own."""
    pytest.importorskip("ray", reason="needs Ray (pip install 'puarena[ray]')")
    names = [file.read_text().strip() for file in Path("/proc").glob("[0-9]*/comm")]
    if "raylet" in names:
        pytest.skip("another Ray is running on this machine")
    path = os.pathsep.join([str(Path(puarena.__file__).parents[1]), *sys.path])
    # Ray's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as folder:
        yield os.environ | {"PYTHONPATH": path, "RAY_TMPDIR": folder}


def run_script(out: Path, environment: dict[str, str]) -> str:
    spec = SPEC.override(algorithms=["upu"], configs=1).to_dict()
    call = [sys.executable, "-c", f"SPEC = {spec!r}" + SCRIPT, str(out)]
    return subprocess.check_output(call, env=environment, text=True, timeout=LIMIT)


def test_a_ray_that_is_started_listens_on_loopback_only(tmp_path, separate_ray):
    answer = run_script(tmp_path / "out", separate_ray)
    assert "other machines: set()" in answer
    assert "computed 1" in answer


def test_a_ray_that_is_running_is_connected_to(tmp_path, separate_ray):
    """It was refused with a ValueError, because the number of its cores was given."""
    program = Path(sys.executable).with_name("ray")
    if not program.exists():
        pytest.skip("needs the command ray")
    more = ["--num-cpus=1", "--include-dashboard=false", "--port=0"]
    command = [str(program), "start", "--head", "--block", *more]
    head = subprocess.Popen(command, env=separate_ray, stdout=subprocess.PIPE, text=True)
    try:
        assert any("Ray runtime started" in line for line in head.stdout)
        assert "computed 1" in run_script(tmp_path / "out", separate_ray)
    finally:
        head.terminate()
        head.communicate(timeout=LIMIT)


def test_a_ray_that_was_killed_is_not_waited_for(tmp_path, separate_ray):
    """It leaves a file that says it is running."""
    left = Path(separate_ray["RAY_TMPDIR"]) / "ray" / "ray_current_cluster"
    left.parent.mkdir()
    left.write_text("127.0.0.1:9")
    assert "computed 1" in run_script(tmp_path / "out", separate_ray)


class Killer(Progress):
    """Kills one process that has a claim, from a thread: Ray's tasks report only their endings."""

    def __init__(self, out: Path) -> None:
        super().__init__()
        self.out, self.victim = out, 0

    def start(self, fleets, resumed):
        super().start(fleets, resumed)
        threading.Thread(target=self.kill, daemon=True).start()

    def kill(self):
        until = time.monotonic() + LIMIT
        while not self.victim and time.monotonic() < until:
            for file in (self.out / "progress").glob("[!.]*"):
                claim = self.out / "claims" / f"{file.stem}.1"
                if claim.exists():
                    self.victim = json.loads(claim.read_text())["pid"]
                    os.kill(self.victim, signal.SIGKILL)
                    return
            time.sleep(0.005)


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray", reason="needs Ray (pip install 'puarena[ray]')")
    with pytest.MonkeyPatch.context() as patch:
        path = [str(Path(puarena.__file__).parents[1]), *sys.path]
        patch.setenv("PYTHONPATH", os.pathsep.join(path))
        quiet = {"log_to_driver": False, "logging_level": "error", "include_dashboard": False}
        ray.init(num_cpus=2, num_gpus=0, **quiet)
        yield ray
        ray.shutdown()


def test_ray(tmp_path, cluster):
    spec = SPEC.override(steps=1000)
    puarena.run(spec, tmp_path / "whole", device="cpu", workers=1)
    killer = Killer(tmp_path / "out")
    how: dict[str, Any] = {"engine": "ray", "workers": 2, "checkpoint_every": 0}
    outcome = puarena.run(spec, tmp_path / "out", progress=killer, device="cpu", **how)
    assert killer.victim
    assert outcome.failures == []
    pd.testing.assert_frame_equal(
        read_curves(tmp_path / "out"), read_curves(tmp_path / "whole"), check_exact=True
    )


def test_ray_with_methods_that_break(tmp_path, cluster):
    spec = with_plugin(tmp_path, "mine", "breaks", "large", "dies")
    outcome = puarena.run(spec, tmp_path / "out", device="cpu", engine="ray", workers=2)
    failures = {failure.label.split()[0]: failure.exception for failure in outcome.failures}
    assert failures == {"breaks": "RuntimeError", "dies": "TaskLost"}
    assert (tmp_path / "tried").read_text() == ".", "an error of the method is not tried again"
    assert len((tmp_path / "died").read_text()) == ray_executor.RETRIES + 1
    assert (tmp_path / "seen").read_text() == "''", "no GPU"
    frame = open_results(tmp_path / "out").relation().df()
    runs = frame.groupby("algorithm")["run"].nunique().to_dict()
    assert runs == {"upu": 2, "mine": 2, "large": 2}
    assert frame[frame["algorithm"] == "large"]["fleet"].nunique() == 2, "split"


def test_a_fleet_that_hangs_on_ray_is_given_up(tmp_path, cluster):
    (tmp_path / "wait").touch()
    spec = with_plugin(tmp_path, "mine")
    how: dict[str, Any] = {"engine": "ray", "workers": 2, "fleet_timeout": 8}
    outcome = puarena.run(spec, tmp_path / "out", device="cpu", **how)
    assert [failure.exception for failure in outcome.failures] == ["Timeout"]


def test_ray_keeps_last_checkpoints(tmp_path, cluster):
    spec, out = with_plugin(tmp_path, "mine").override(algorithms=["mine"]), tmp_path / "out"
    puarena.run(spec, tmp_path / "whole", device="cpu", workers=1)
    (tmp_path / "epochs").unlink()
    (tmp_path / "wait").touch()

    def interrupt() -> None:
        until = time.monotonic() + LIMIT
        while not (tmp_path / "epochs").exists() and time.monotonic() < until:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(2)
        (tmp_path / "wait").unlink()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(Stopped):
        puarena.run(spec, out, device="cpu", engine="ray", checkpoint_every=1000)
    assert len(list((out / "progress").glob("[!.]*"))) == 1
    assert list((out / "claims").iterdir()) == []
    puarena.run(spec, out, device="cpu", engine="ray")
    pd.testing.assert_frame_equal(
        read_curves(out), read_curves(tmp_path / "whole"), check_exact=True
    )
