"""What must be true on a GPU: captured steps equal eager ones, and what cannot be captured still
runs and says so.

Without a GPU they run on a pretended one, where the same operations give the same bits. That every
form of every algorithm is captured, steps and records, is a promise of the contract
(``tests/algorithms/test_contract.py``, "captured equals eager").
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from puarena import catalog, training
from puarena.algorithms import Algorithm, logistic
from puarena.errors import UserError
from puarena.estimators.network import PUNetClassifier
from puarena.testing.pretended import MixedDevicesError, NotPermittedError, PretendedGraph, pretend
from puarena.training import Fleet, FleetConfig
from puarena.training.capture import Replay, captured
from toys import rows, toy

HAS_GPU = torch.cuda.is_available()
TESTS = Path(__file__).parents[1]
pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cuda")]
CONFIG = FleetConfig(batch_size=32, steps=120, warmup=60, record_every=25, device="cuda")
# With one phase, two, one that ends early, a warm-up, hooks between steps, a threshold, a teacher.
FEW = ["nnpu-c", "sar-oracle", "pulda", "self-pu", "ntc-tmi", "holistic-pu", "vpu@released"]
FORMS = [*catalog.names("puarena"), *catalog.names("released")] if HAS_GPU else FEW


def same(a, b, gap):
    for column, values in b.values.items():
        if not HAS_GPU:
            gap = 0
        np.testing.assert_allclose(a.values[column], values, rtol=gap, atol=gap, err_msg=column)


def train_captured(some, config, x):
    """Train, and see that nothing was left uncaptured."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an uncaptured step would warn
        fleet = Fleet(some, config, x)
        curves = fleet.train()
    assert fleet.evaluate.graph is not None
    return curves


@pytest.mark.parametrize("name", FORMS)
def test_captured_and_eager_curves_agree(name):
    x, data, hidden = toy()
    some = rows(name, 5, data, hidden)
    eager = training.train(some, replace(CONFIG, capture=False), x)
    same(train_captured(some, CONFIG, x), eager, 3e-3)


@pytest.mark.parametrize(
    "name", [n for n in catalog.names("puarena") if catalog.get(n).cls.authors_optimizer]
)
def test_authors_optimizers_are_captured(name):
    x, data, hidden = toy()
    some = rows(name, 3, data, hidden)
    config = replace(CONFIG, optimizer="authors", dtype="float64", steps=60, warmup=30)
    # On a pretended device a CPU's eager steps are the same, and cost less.
    eager = replace(config, capture=False) if HAS_GPU else replace(config, device="cpu")
    same(train_captured(some, config, x), training.train(some, eager, x), 3e-3)


@pytest.mark.parametrize("name", ["nnpu", "vpu", "dist-pu"])
def test_the_gpu_makes_the_choices_of_the_cpu(name):
    x, data, hidden = toy()
    some = rows(name, 3, data, hidden)
    gpu, cpu = (
        training.train(some, CONFIG, x),
        training.train(some, replace(CONFIG, device="cpu"), x),
    )
    same(gpu, cpu, 2e-2)


def test_captured_steps_read_every_block(monkeypatch):
    """Blocks of steps are copied to where the first one was."""
    monkeypatch.setattr("puarena.training.steps.MAX_BLOCK_STEPS", 20)
    x, data, hidden = toy()
    # Four records: a record is captured at its third call.
    some, config = rows("dist-pu", 2, data, hidden), replace(CONFIG, steps=100)
    same(
        train_captured(some, config, x),
        training.train(some, replace(config, device="cpu"), x),
        2e-2,
    )


def test_steps_that_come_few_at_a_time_are_captured():
    """As with records or epochs of fewer steps than a warm-up has."""
    x = torch.zeros(3, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()), warnings.catch_warnings():
        warnings.simplefilter("error")
        replay = Replay(lambda: x.add_(1), "few", capture=True)
        for _ in range(12):
            replay(2)
        torch.cuda.current_stream().synchronize()
    assert replay.graphs
    assert x.tolist() == [24, 24, 24]


class _Sound(Algorithm):
    title = "sound"

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)


class _Looks(_Sound):
    """Cannot be captured: it branches on a value."""

    title = "looks"

    def objective(self, f_p, f_u):
        value = super().objective(f_p, f_u)
        return value * 2 if value.sum() > 0 else value


class _LooksAtARecord(_Sound):
    """Has a record that cannot be captured."""

    title = "records"

    def threshold(self, passes):
        return torch.full_like(self.prior, 0 * float(self.prior.sum()))


def train_defect(cls, monkeypatch, **changes):
    monkeypatch.setitem(catalog.get_all(), "defect", catalog.describe_algorithm(cls, "plugin")[0])
    x, data, hidden = toy()
    return Fleet(rows("defect", 2, data, hidden), replace(CONFIG, **changes), x)


@pytest.mark.parametrize(
    "cls, token", [(_Looks, r"item.* of test_gpu.py"), (_LooksAtARecord, "records")]
)
def test_what_cannot_be_captured_runs_uncaptured_with_one_warning(cls, token, monkeypatch):
    with pytest.warns(UserWarning, match=f"uncaptured|{token}") as seen:
        curves = train_defect(cls, monkeypatch).train()
    (said,) = [str(each.message) for each in seen if "uncaptured" in str(each.message)]
    assert "defect" in said
    assert np.isfinite(curves.values["test_auc"]).all()


# -- out of memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "graph, error",
    [
        (1, torch.cuda.OutOfMemoryError("CUDA out of memory")),
        (2, RuntimeError("CUDA error: out of memory")),  # as a graph that is made executable
        (3, RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")),
    ],
)
def test_a_capture_without_memory_is_not_taken_for_an_uncapturable_step(graph, error, monkeypatch):
    """The first two graphs are those of steps, the third is that of a record."""
    began = []
    begin = torch.cuda.CUDAGraph.capture_begin

    def fail(self, *args, **kwargs):
        began.append(self)
        if len(began) == graph:
            raise error
        begin(self, *args, **kwargs)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", fail)
    x, data, hidden = toy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(type(error), match=r"memory|ALLOC"):
            training.train(rows("nnpu", 2, data, hidden), CONFIG, x)


def test_a_step_without_memory_in_a_capture_says_so(monkeypatch):
    class Large(_Sound):
        title = "large"

        def objective(self, f_p, f_u):
            if torch.cuda.is_current_stream_capturing():
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            return super().objective(f_p, f_u)

    with pytest.raises(torch.cuda.OutOfMemoryError):
        train_defect(Large, monkeypatch).train()
    assert not torch.cuda.is_current_stream_capturing()


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU, and make test-gpu runs them on it")
def test_goldens():
    """In a process of its own: which device they are for is read when they are imported."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "pretended_gpu"]
    files = sorted(map(str, (TESTS / "algorithms").glob("test_golden*.py")))
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    environment = {**os.environ, "PUARENA_TEST_DEVICE": "cuda", "PYTHONPATH": path}
    done = subprocess.run([*command, *files], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
    assert len(files) > 3


# -- the pretended device itself, where there is no GPU to ask -------------------------------------


@pytest.fixture
def usage():
    if HAS_GPU:
        pytest.skip("there is a GPU")
    with pretend(cards=2) as used:
        yield used


def test_a_graph_freezes_all_but_the_contents_of_tensors(usage):
    x, number = torch.zeros(3, device="cuda"), [1.0]
    with torch.cuda.stream(torch.cuda.Stream()), captured() as graph:
        y = x * 2 + number[0]
        x += 1
    assert (x.tolist(), usage.graphs) == ([0, 0, 0], 1)  # a capture runs nothing
    number[0] = 5.0
    x.copy_(torch.arange(3.0).cuda())
    graph.replay()
    assert (y.tolist(), x.tolist()) == ([1, 3, 5], [1, 2, 3])
    x = torch.ones(3, device="cuda")  # another tensor under the name: not the graph's
    graph.replay()
    assert (y.tolist(), x.tolist()) == ([3, 5, 7], [1, 1, 1])


def test_a_capture_moves_no_running_statistics(usage):
    """Batch normalization writes into them, and does not declare it."""
    x, later = torch.tensor([[1.0, 2.0], [3.0, 6.0]]), torch.tensor([[0.0, 4.0], [2.0, 9.0]])
    plain, mean = torch.zeros(2), torch.zeros(2, device="cuda")
    wanted = torch.nn.functional.batch_norm(later, plain, torch.ones(2), training=True)
    variance, given = torch.ones(2, device="cuda"), x.cuda()
    with torch.cuda.stream(torch.cuda.Stream()), captured() as graph:
        seen = torch.nn.functional.batch_norm(given, mean, variance, training=True)
    assert mean.tolist() == [0, 0]
    given.copy_(later.cuda())
    graph.replay()
    assert (mean.tolist(), seen.tolist()) == (plain.tolist(), wanted.tolist())


@pytest.mark.parametrize(
    "act",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.sum() > 0),
        lambda x: x[x > 0],
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: x.nonzero(),
        lambda x: x + torch.tensor(1.0, device="cuda"),
        lambda x: x.new_tensor(1.0),
        lambda x: x.copy_(torch.ones(3)),
        lambda x: torch.cuda.synchronize(),
        lambda x: torch.ones(3, device="cuda:1") + 1,
    ],
)
def test_what_a_capture_forbids(act, usage):
    x = torch.ones(3, device="cuda")
    act(x)
    with (
        torch.cuda.stream(torch.cuda.Stream()),
        pytest.raises(NotPermittedError),
        captured(),
    ):
        act(x)
    assert len(usage.refusals) == 1
    assert not torch.cuda.is_current_stream_capturing()


def test_the_default_stream_is_not_captured(usage):
    with pytest.raises(NotPermittedError, match="default"):
        PretendedGraph().capture_begin()


def test_devices_are_not_mixed(usage):
    here = torch.ones(3, device="cuda:0")
    for other in (torch.ones(3), torch.ones(3, device="cuda:1")):
        with pytest.raises(MixedDevicesError):
            here + other
    assert (here + torch.tensor(2.0)).tolist() == [3, 3, 3]  # a single number may be the host's
    assert here.to("cuda:1").device == torch.device("cuda:1")
    with pytest.raises(TypeError):
        here.numpy()


def test_a_fleet_on_the_second_gpu(usage):
    x, data, hidden = toy()
    some, config = rows("nnpu", 2, data, hidden), replace(CONFIG, steps=60)
    curves = [train_captured(some, replace(config, device=f"cuda:{n}"), x) for n in (0, 1)]
    same(*curves, 0)


@pytest.mark.parametrize("device, there", [("cuda:2", "cuda:1"), ("mps", "mps"), ("gpu", "gpu")])
def test_devices_that_are_not_there_are_refused(device, there, usage):
    x, s = np.arange(40.0).reshape(-1, 1), np.arange(40) < 10
    with pytest.raises(UserError, match=there):
        PUNetClassifier(prior=0.5, device=device, steps=1).fit(x, s)
    with pytest.raises(RuntimeError, match="ordinal"):
        torch.ones(1, device="cuda:2")


def test_nothing_is_left_pretended():
    if HAS_GPU:
        pytest.skip("there is a GPU")
    with pytest.raises(KeyError), pretend(cards=3):
        raise KeyError(torch.cuda.device_count())
    assert torch.cuda.device_count() == 1  # the fixture's
    assert torch.ones(2, device="cuda").is_cuda
