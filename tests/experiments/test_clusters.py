"""Ray and SLURM: actors that are lost, fleets that do not fit, jobs at their time limit. Nothing is lost.

Where Ray is not installed the tests that need it are skipped; what its engine decides is tested with a stand-in.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import puarena
from puarena.errors import UserError
from puarena.experiments.executors import ray as ray_engine
from puarena.experiments.executors import slurm
from puarena.experiments.executors.base import How
from puarena.experiments.failures import Broken, Trouble
from puarena.experiments.machine import choose_device
from puarena.experiments.plan import FleetSpec, group, make_plan
from puarena.experiments.progress import Progress
from puarena.experiments.spec import Spec
from puarena.experiments.stop import Stop, Stopped
from puarena.results import open_results
from stand_still import LIMIT

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


def curves(out: Path) -> pd.DataFrame:
    frame = puarena.load(out).df().drop(columns=["seconds", "fleet"])
    return frame.sort_values(["run", "step"]).reset_index(drop=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> pd.DataFrame:
    out = tmp_path_factory.mktemp("whole")
    puarena.run(SPEC, out, device="cpu", workers=1)
    return curves(out)


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
    with pytest.raises(UserError, match="engine slurm needs submitit"):
        puarena.run(SPEC, tmp_path / "a", device="cuda", engine="slurm")
    with pytest.raises(UserError, match="engine ray needs Ray"):
        puarena.run(SPEC, tmp_path / "b", device="cuda", engine="ray", address="far:1")
    with pytest.raises(UserError, match="no CUDA device on this machine"):
        puarena.run(SPEC, tmp_path / "c", device="cuda", engine="ray")


# SLURM


@pytest.fixture
def local_jobs(monkeypatch, importable) -> None:
    pytest.importorskip("submitit", reason="needs submitit (pip install 'puarena[slurm]')")
    monkeypatch.setattr(slurm.Slurm, "cluster", "local")
    monkeypatch.setattr(slurm, "LOOK", 0.2)


def test_slurm_jobs(tmp_path, whole, local_jobs):
    outcome = puarena.run(SPEC, tmp_path, device="cpu", workers=2, engine="slurm", slurm_time=3600)
    assert (outcome.computed + outcome.elsewhere, outcome.failures) == (6, [])
    pd.testing.assert_frame_equal(curves(tmp_path), whole, check_exact=True)
    assert list((tmp_path / "claims").iterdir()) == []


def test_a_slurm_job_at_its_time_limit_goes_on_from_its_last_state(tmp_path, local_jobs):
    spec, out, outcomes = with_plugin(tmp_path, "mine").override(configs=1), tmp_path / "out", []
    puarena.run(spec, tmp_path / "whole", device="cpu", workers=1)
    (tmp_path / "epochs").unlink()
    (tmp_path / "wait").touch()
    how: dict[str, Any] = {
        "device": "cpu",
        "workers": 1,
        "engine": "slurm",
        "checkpoint_every": 1000,
    }
    driver = threading.Thread(target=lambda: outcomes.append(puarena.run(spec, out, **how)))
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
    epochs = [
        tuple(map(int, line.split())) for line in (tmp_path / "epochs").read_text().splitlines()
    ]
    later = [epoch for process, epoch in epochs if process != first]
    assert later, "a second process went on"
    assert later[0] > 2, "where the first one was"
    pd.testing.assert_frame_equal(curves(out), curves(tmp_path / "whole"), check_exact=True)


def test_slurm_parameters_and_shares():
    fleets = group(make_plan(SPEC.override(configs=10)).runs, 2)
    lists = slurm.dealt(fleets, 3)
    assert all(set(each) == set(fleets) for each in lists)
    assert len({each[0] for each in lists}) == 3
    how = How(slurm_partition="gpu", slurm_time=7200, slurm=("account=me",), cpus_per_fleet=4)
    wanted = {
        "slurm_partition": "gpu",
        "slurm_account": "me",
        "timeout_min": 120,
        "cpus_per_task": 4,
    }
    assert slurm.parameters(how, "cpu") == wanted
    assert slurm.parameters(how, "cuda") == wanted | {"gpus_per_node": 1}
    assert slurm.parameters(How(), "cpu")["timeout_min"] == slurm.TIME
    with pytest.raises(UserError, match="KEY=VALUE, and 'account' was given"):
        slurm.Slurm(how=How(slurm=("account",)))
    job: Any = SimpleNamespace(device="cpu")
    assert slurm.Errand(job, fleets, How())._executor().name == "inline"
    assert slurm.Errand(job, fleets, How(fleet_timeout=9))._executor().name == "processes"


# What the engine for Ray decides, with a stand-in for Ray


class LostError(Exception):
    """Of an actor, or of all of Ray."""


class TooLargeError(LostError):
    """The node had too little memory."""


class Stream:
    """The answers of one call."""

    def __init__(self, answers: Iterator[Any]) -> None:
        self.answers = answers

    def __next__(self) -> Any:
        return next(self.answers)


class StandIn:
    """Ray in one process: ``behave`` says what happens when an actor is given a fleet."""

    exceptions = SimpleNamespace(
        RayError=LostError,
        RayTaskError=type("Task", (LostError,), {}),
        OutOfMemoryError=TooLargeError,
    )

    def __init__(self, behave: Callable[[FleetSpec], Iterator[Any]], cores: int = 2) -> None:
        self.behave, self.cores = behave, cores
        self.actors: list[Any] = []
        self.killed: list[Any] = []
        self.tried: Counter[str] = Counter()

    def remote(self, **options: Any) -> Callable[[type], Any]:
        self.options = options
        return lambda kind: SimpleNamespace(remote=self._actor)

    def _actor(self, job: Any, threads: int) -> Any:
        def train(fleet: FleetSpec) -> Stream:
            self.tried[fleet.fleet_id] += 1
            return Stream(self.behave(fleet))

        options = SimpleNamespace(remote=train)
        stop = SimpleNamespace(remote=lambda: None)
        self.actors.append(
            SimpleNamespace(train=SimpleNamespace(options=lambda **_: options), stop=stop)
        )
        return self.actors[-1]

    def put(self, value: Any) -> Any:
        return value

    def get(self, value: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    def wait(self, streams: list[Stream], timeout: float) -> tuple[list[Stream], list[Stream]]:
        return list(streams), []

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": self.cores}}]

    def kill(self, actor: Any, no_restart: bool) -> None:
        self.killed.append(actor)


def crew_of(
    behave: Callable[[FleetSpec], Iterator[Any]], how: How | None = None, **more: Any
) -> ray_engine.Crew:
    job: Any = SimpleNamespace(device="cpu")
    return ray_engine.Crew(StandIn(behave, **more), how or How(), job, None)


@pytest.fixture(scope="module")
def fleets() -> list[FleetSpec]:
    return group(make_plan(SPEC.override(configs=4)).runs, 4)


def unheard(fleet: FleetSpec, done: int) -> None:
    pass


def test_a_fleet_whose_actor_is_lost_is_tried_again_up_to_a_limit(fleets):
    unlucky, cursed = fleets[0].fleet_id, fleets[1].fleet_id

    def behave(fleet: FleetSpec) -> Iterator[Any]:
        yield "news", 10
        if fleet.fleet_id == cursed or (
            fleet.fleet_id == unlucky and crew.ray.tried[unlucky] < ray_engine.ATTEMPTS
        ):
            yield LostError("the node is gone")
        yield "ended", None

    crew = crew_of(behave)
    ended = {each.fleet.fleet_id: each.error for each in crew.train(fleets, unheard)}
    assert len(ended) == len(fleets)
    assert ended[unlucky] is None
    assert isinstance(ended[cursed], Broken)
    assert ended[cursed].trouble.exception == "ActorLost"
    assert "lost 4 times: the node is gone" in ended[cursed].trouble.message
    assert [crew.ray.tried[name] for name in (unlucky, cursed)] == [4, 4]
    assert sum(crew.ray.tried.values()) == len(fleets) + 6
    assert len(crew.ray.killed) == 7, "a lost actor is not used again"
    assert len(crew.ray.actors) == 7 + len(crew.idle) < sum(crew.ray.tried.values()), (
        "and those that live are"
    )


def test_an_error_of_the_method_is_not_tried_again(fleets):
    error = Broken(Trouble("RuntimeError", "boom", "x.py, line 1", "node7", 1.0))
    crew = crew_of(lambda fleet: iter([("ended", error)]))
    assert [each.error for each in crew.train(fleets, unheard)] == [error] * len(fleets)
    assert set(crew.ray.tried.values()) == {1}
    assert crew.ray.killed == []


@pytest.mark.parametrize("what", ["the node", "the method"])
def test_a_fleet_that_does_not_fit_is_split(fleets, what):
    def behave(fleet: FleetSpec) -> Iterator[Any]:
        if len(fleet.runs) > 1 and what == "the node":
            yield TooLargeError("memory of the node was running low")
        yield (
            "ended",
            Broken(Trouble("MemoryError", "", "", "n", 1.0, True)) if len(fleet.runs) > 1 else None,
        )

    crew = crew_of(behave)
    ended = list(crew.train(fleets, unheard))
    assert all(each.error is None and len(each.fleet.runs) == 1 for each in ended)
    assert {run for each in ended for run in each.fleet.runs} == {
        run for fleet in fleets for run in fleet.runs
    }
    assert {each.fleet.claim for each in ended} == {fleet.claim for fleet in fleets}, (
        "one claim for all parts"
    )


def test_a_fleet_that_hangs_is_given_up(fleets):
    def behave(fleet: FleetSpec) -> Iterator[Any]:
        while fleet is fleets[0]:
            time.sleep(0.01)
            yield "news", 1
        yield "ended", None

    crew = crew_of(behave, How(fleet_timeout=0.1))
    errors = [each.error for each in crew.train(fleets, unheard) if each.error is not None]
    assert [error.trouble.exception for error in errors] == ["Timeout"]
    assert len(crew.ray.killed) == 1


def test_a_cluster_without_room(fleets, monkeypatch):
    monkeypatch.setattr(ray_engine, "OPENING", 0.1)
    crew = crew_of(lambda fleet: iter([("ended", None)]), How(cpus_per_fleet=4))
    with pytest.raises(UserError, match=r"no room for an actor with \{'CPU': 4"):
        list(crew.train(fleets, unheard))


def test_actors_on_a_cpu_see_no_gpu_and_have_one_thread():
    options = crew_of(lambda fleet: iter([])).ray.options
    assert options["runtime_env"]["env_vars"] == {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    assert (options["num_cpus"], options["num_gpus"]) == (1, 0)
    with pytest.raises(UserError, match="leave --gpus away"):
        list(
            ray_engine.Ray(None, How(gpus="all")).train([], SimpleNamespace(device="cuda"), unheard)
        )


def test_actors_that_are_stopped_keep_their_states(fleets):
    closed = []

    def work(fleet: FleetSpec) -> Iterator[int]:
        try:
            while True:
                yield 10
        finally:
            closed.append(fleet)

    trainer = ray_engine.Trainer(SimpleNamespace(prepare=lambda: None, work=work), 1)
    answers = trainer.train(fleets[0])
    assert next(answers) == ("news", 10)
    trainer.stop()
    assert list(answers) == []
    assert closed == [fleets[0]], "a work that is closed at a record keeps its state"


def test_whoever_ends_the_driver_waits_for_states(fleets):
    told: list[str] = []

    def behave(fleet: FleetSpec) -> Iterator[Any]:
        yield "news", 1
        while not told:
            yield "news", 2

    crew, stop = crew_of(behave), Stop()
    object.__setattr__(crew.how, "stop", stop)

    def news(fleet: FleetSpec, done: int) -> None:
        for actor in crew.ray.actors:
            actor.stop.remote = lambda: told.append("stop")
        stop.signal = signal.SIGTERM

    with pytest.raises(Stopped):
        list(crew.train(fleets, news))
    crew.dismiss()
    assert told == ["stop"] * 2
    assert len(crew.ray.killed) == 2


# Ray itself


class Killer(Progress):
    """Kills one process that has a claim."""

    def __init__(self, out: Path) -> None:
        super().__init__()
        self.out, self.victim = out, 0

    def news(self, fleet, done):
        super().news(fleet, done)
        for file in () if self.victim else (self.out / "claims").glob("[!.]*.1"):
            self.victim = json.loads(file.read_text())["pid"]
            os.kill(self.victim, signal.SIGKILL)
            return


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray", reason="needs Ray (pip install 'puarena[ray]')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTHONPATH", os.pathsep.join([str(Path(puarena.__file__).parents[1]), *sys.path])
        )
        ray.init(
            num_cpus=2,
            num_gpus=0,
            log_to_driver=False,
            logging_level="error",
            include_dashboard=False,
        )
        yield ray
        ray.shutdown()


def test_ray(tmp_path, whole, cluster):
    killer = Killer(tmp_path)
    outcome = puarena.run(
        SPEC, tmp_path, progress=killer, device="cpu", engine="ray", workers=2, checkpoint_every=0
    )
    assert killer.victim
    assert outcome.failures == []
    pd.testing.assert_frame_equal(curves(tmp_path), whole, check_exact=True)


def test_ray_with_methods_that_break(tmp_path, cluster):
    spec = with_plugin(tmp_path, "mine", "breaks", "large", "dies")
    outcome = puarena.run(spec, tmp_path / "out", device="cpu", engine="ray", workers=2)
    reasons = {failure.label.split()[0]: failure for failure in outcome.failures}
    assert {name: failure.exception for name, failure in reasons.items()} == {
        "breaks": "RuntimeError",
        "dies": "ActorLost",
    }
    assert (tmp_path / "tried").read_text() == ".", "an error of the method is not tried again"
    assert len((tmp_path / "died").read_text()) == ray_engine.ATTEMPTS
    assert (tmp_path / "seen").read_text() == "''", "no GPU"
    stored = open_results(tmp_path / "out").relation().df()
    assert stored.groupby("algorithm")["run"].nunique().to_dict() == {
        "upu": 2,
        "mine": 2,
        "large": 2,
    }
    assert stored[stored["algorithm"] == "large"]["fleet"].nunique() == 2, "split"


class Asked(Progress):
    """Is sent a signal at the first record."""

    def news(self, fleet, done):
        super().news(fleet, done)
        os.kill(os.getpid(), signal.SIGTERM)


def test_ray_keeps_last_states(tmp_path, cluster):
    spec = SPEC.override(algorithms=["upu"], steps=3000)
    puarena.run(spec, tmp_path / "whole", device="cpu", workers=1)
    with pytest.raises(Stopped):
        puarena.run(spec, tmp_path / "out", device="cpu", engine="ray", progress=Asked())
    assert len(list((tmp_path / "out" / "progress").glob("[!.]*"))) == 1
    assert list((tmp_path / "out" / "claims").iterdir()) == []
    puarena.run(spec, tmp_path / "out", device="cpu", engine="ray")
    pd.testing.assert_frame_equal(
        curves(tmp_path / "out"), curves(tmp_path / "whole"), check_exact=True
    )
