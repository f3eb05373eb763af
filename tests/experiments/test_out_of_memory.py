"""Fleets that do not fit in a GPU's memory are halved: with the real job, claims and folder, on a
GPU or a pretended one.
"""

from __future__ import annotations

import pytest
import torch

import puarena
from puarena import training
from puarena.experiments.executors.base import split_fleet
from puarena.experiments.executors.local import _without
from puarena.experiments.plan import group, make_plan
from puarena.experiments.progress import Progress
from puarena.experiments.spec import Spec
from puarena.results import Folder

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda")]
SPEC = Spec(
    problems=[{"dataset": "digits"}],
    algorithms=["upu", "upu-c"],
    splits=2,
    configs=4,
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
def small(monkeypatch):
    """Make the memory too small for more runs; return how many fleets were in flight together."""
    flying, together = set(), []
    make, train = training.Fleet.__init__, training.Fleet.segments

    def segments(fleet):
        flying.add(fleet)
        together.append(len(flying))
        try:
            yield from train(fleet)
        finally:
            flying.discard(fleet)

    def break_off(where, error):
        if where == "at the start":

            def limited(self, rows, *rest, **options):
                if len(rows) > MOST:
                    raise error
                make(self, rows, *rest, **options)

            monkeypatch.setattr(training.Fleet, "__init__", limited)
        else:
            begin = torch.cuda.CUDAGraph.capture_begin

            def begin_limited(graph, *rest, **options):
                if max(len(fleet.rows) for fleet in flying) > MOST:
                    raise error
                begin(graph, *rest, **options)

            monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", begin_limited)
        monkeypatch.setattr(training.Fleet, "segments", segments)
        return together

    return break_off


MEMORY = torch.cuda.OutOfMemoryError("CUDA out of memory")


@pytest.mark.filterwarnings("error:.*uncaptured")
@pytest.mark.parametrize(
    "where, error, workers",
    [
        ("at the start", MEMORY, None),
        ("at the start", OutOfResources("shared memory"), None),
        ("at the start", MEMORY, 1),
        ("in a capture", MEMORY, 1),
    ],
)
def test_every_run_of_a_halved_fleet_is_trained_once(where, error, workers, small, tmp_path):
    together, said = small(where, error), Said()
    assert max(len(fleet.runs) for fleet in group(make_plan(SPEC).runs, device="cuda")) > MOST
    outcome = puarena.run(SPEC, tmp_path, device="cuda", workers=workers, progress=said)
    assert outcome.failures == []
    assert (outcome.computed, outcome.elsewhere) == (outcome.planned, 0)
    assert said.messages == [], "no half is taken for another process's"
    if workers is None:
        assert max(together) > 1, "halves are in flight together"
    frame = puarena.load(tmp_path).df()
    assert len(frame) == 2 * len(frame["run"].unique()) == 2 * outcome.planned
    assert list((tmp_path / "claims").iterdir()) == []


def test_a_run_that_does_not_fit_alone_fails(small, monkeypatch, tmp_path):
    monkeypatch.setitem(globals(), "MOST", 0)
    small("at the start", MEMORY)
    outcome = puarena.run(SPEC, tmp_path, device="cuda", progress=False)
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
