"""Fleets that do not fit in a GPU's memory are halved: with the real job, claims and folder, on a
GPU or a pretended one, and on two of them.
"""

from __future__ import annotations

import sys

import pytest
import torch

import puarena
from pretended_streams import PretendedStreams
from puarena import training
from puarena.experiments.executors import gpu
from puarena.experiments.executors.base import split_fleet
from puarena.experiments.executors.local import _without
from puarena.experiments.plan import group, make_plan
from puarena.experiments.progress import Progress
from puarena.experiments.spec import Spec
from puarena.results import Folder
from puarena.testing.pretended import pretend
from puarena.training.steps import Stepper

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda")]
SPEC = Spec(
    problems=[{"dataset": "digits"}],
    algorithms=["upu", "upu-c"],
    splits=2,
    configs=3,
    draws="shared",
    steps=20,
    record_every=10,
)
MOST = 2  # runs that fit


class OutOfResources(Exception):  # noqa: N818
    """As Triton's, which is no RuntimeError."""


class Said(Progress):
    """Keeps messages."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def message(self, text):
        self.messages.append(text)


@pytest.fixture
def limit(monkeypatch):
    """Make fleets of more than ``most`` runs fail, so many ``times``."""

    def fail(error, where="at the start", most=MOST, times=1000):
        failed = []
        owner, name = (
            (training.Fleet, "__init__")
            if where == "at the start"
            else (torch.cuda.CUDAGraph, "capture_begin")
        )
        plain = getattr(owner, name)
        training_now = []

        def limited(self, *given, **options):
            runs = len(given[0]) if where == "at the start" else training_now[-1]
            if runs > most and len(failed) < times:
                failed.append(runs)
                raise error
            return plain(self, *given, **options)

        def advance(self, *given):
            training_now.append(len(self.fleet.rows))
            return do(self, *given)

        do = Stepper.advance
        monkeypatch.setattr(Stepper, "advance", advance)
        monkeypatch.setattr(owner, name, limited)
        return failed

    return fail


MEMORY = torch.cuda.OutOfMemoryError("CUDA out of memory")


@pytest.mark.filterwarnings("error:.*uncaptured")
@pytest.mark.parametrize(
    "how, options",
    [
        # One fleet of many: its halves are in flight together.
        ({"error": MEMORY, "most": 1, "times": 1}, {"fleet_size": 2}),
        ({"error": OutOfResources("shared memory")}, {"workers": 1}),
        (
            {"error": RuntimeError("CUDA error: out of memory"), "where": "in a capture"},
            {"workers": 1},
        ),
    ],
)
def test_every_run_of_a_halved_fleet_is_trained_once(how, options, limit, tmp_path):
    failed, said = limit(**how), Said()
    outcome = puarena.run(SPEC, tmp_path, device="cuda", progress=said, **options)
    assert failed
    assert outcome.failures == []
    assert (outcome.computed, outcome.elsewhere) == (outcome.planned, 0)
    assert said.messages == [], "no half is taken for another process's"
    frame = puarena.load(tmp_path).df()
    assert len(frame) == 2 * len(frame["run"].unique()) == 2 * outcome.planned
    assert list((tmp_path / "claims").iterdir()) == []


def test_a_run_that_does_not_fit_alone_fails(limit, tmp_path):
    limit(MEMORY, most=0)
    spec = SPEC.override(configs=1)
    outcome = puarena.run(spec, tmp_path, device="cuda", progress=False)
    assert {failure.exception for failure in outcome.failures} == {"OutOfMemoryError"}
    assert sum(failure.runs for failure in outcome.failures) == outcome.planned


def test_what_is_left_of_a_halved_fleet_keeps_its_claim(tmp_path):
    """A worker that dies after one half has ended leaves the other half to another worker."""
    store = Folder.create(tmp_path, SPEC.to_dict(), "abc")
    whole = group(make_plan(SPEC).runs, device="cuda")[0]
    first, second = split_fleet(whole)
    (left,) = _without([whole], first)
    assert left.claim == first.claim == second.claim == whole.claim
    quarter, _ = split_fleet(left)
    assert quarter.claim == whole.claim
    assert store.claim(whole.claim, *first.part) is not None
    assert store.claim(whole.claim, *left.part) is not None, "they have no common run"
    assert store.claim(whole.claim, *second.part) is None, "what is left is the second half"
    assert store.claim(whole.claim, *whole.part) is None
    assert store.claimed() == {whole.claim}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_two_gpus_of_which_one_is_full_and_one_loses_its_process(tmp_path, monkeypatch):
    """With a process for each GPU, as where there are two; only the GPUs are pretended."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpu, "Streams", PretendedStreams)
    out = tmp_path / "out"
    with pretend(cards=2):
        outcome = puarena.run(SPEC, out, device="cuda", gpus="all", progress=False)
    assert outcome.failures == []
    assert (outcome.computed, outcome.elsewhere) == (outcome.planned, 0)
    assert (tmp_path / "was-full").exists()
    assert (tmp_path / "was-killed").exists()
    assert {file.name.split("-")[1] for file in tmp_path.glob("gpu-*")} == {"0", "1"}
    assert list((out / "claims").glob("*+*")) == []
    frame = puarena.load(out).df()
    assert len(frame) == 2 * len(frame["run"].unique()) == 2 * outcome.planned
    assert set(frame["device"]) == {"cuda"}
