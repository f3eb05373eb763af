"""Products by oneDNN and the update in one pass: the same numbers, whatever a run's company."""

from __future__ import annotations

import subprocess
import sys
from math import inf
from pathlib import Path

import numpy as np
import pytest
import torch

from puarena.errors import UserError
from puarena.networks import RunNetwork, products
from puarena.networks.mlp import MLP
from puarena.training import Fleet, FleetConfig, optim
from puarena.training.optim import RunSGD
from toys import rows, toy

FEATURES, EXAMPLES = 130, 70  # more inputs than MIN_INPUTS, and no multiple of a vector's length

TASKS = Path("/proc/self/task")

needs_onednn = pytest.mark.skipif(
    products.load_linear() is None, reason="this torch has no linear layer of oneDNN"
)


@pytest.fixture
def onednn(monkeypatch):
    """Take oneDNN whatever this processor is."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.delenv(products.VARIABLE, raising=False)


def differentiate(runs, x, slopes):
    """Return the logits of perceptrons of these seeds, and the gradient of a weighted sum."""
    net = MLP(torch.tensor(runs), (x.shape[-1],))
    f = net(x)
    (gradient,) = torch.autograd.grad((f * slopes).sum(), [net.weight])
    return f.detach(), gradient


def draw(runs):
    torch.manual_seed(3)
    return torch.randn(runs, EXAMPLES, FEATURES), torch.randn(runs, EXAMPLES)


@needs_onednn
def test_both_libraries_give_the_same(onednn, monkeypatch):
    x, slopes = draw(3)
    fast = differentiate([1, 2, 3], x, slopes)
    monkeypatch.setenv(products.VARIABLE, "mkl")
    for got, want in zip(fast, differentiate([1, 2, 3], x, slopes), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        assert not torch.equal(got, want)  # two libraries; equal bits are one library twice


@needs_onednn
def test_a_run_has_the_same_bits_alone_and_beside_a_ruined_run(onednn):
    x, slopes = draw(3)
    x[1] = float("nan")
    together, alone = differentiate([1, 2, 3], x, slopes), differentiate([3], x[2:], slopes[2:])
    for got, want in zip(together, alone, strict=True):
        assert torch.equal(got[2:], want)
        assert torch.isfinite(got[0]).all()


@needs_onednn
@pytest.mark.skipif(not TASKS.exists(), reason="needs the list of a process's threads")
def test_onednn_keeps_to_the_threads_of_torch(onednn):
    code = (
        "import os, torch; torch.set_num_threads(1);"
        "from puarena.networks.mlp import MLP; net, x = MLP(torch.arange(2), (256,)), "
        "torch.ones(2, 128, 256); tasks = lambda: len(os.listdir('/proc/self/task'));"
        "before = tasks(); net(x).sum().backward(); print(before, tasks())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = out.stdout.split()
    assert before == after


@pytest.mark.parametrize("capability", ["AVX2", "DEFAULT"])
def test_other_processors_and_narrow_tables_keep_the_usual_products(
    capability, onednn, monkeypatch
):
    monkeypatch.setattr(products, "load_linear", lambda: print)  # as if it were there
    numbers = torch.zeros(1)
    assert products.find_threshold(numbers, FEATURES) == products.MIN_INPUTS
    assert products.find_threshold(numbers, 16) == inf
    assert products.find_threshold(numbers.double(), FEATURES) == inf
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert products.find_threshold(numbers, FEATURES) == inf


def test_an_unknown_choice(monkeypatch):
    monkeypatch.setenv(products.VARIABLE, "blas")
    with pytest.raises(UserError) as error:
        MLP(torch.tensor([1]), (3,))(torch.zeros(1, 2, 3))
    assert error.value.code == "invalid-value"
    assert "blas" in str(error.value)


@pytest.mark.parametrize("nesterov", [False, True])
def test_an_update_by_run_is_that_of_all_runs(nesterov, monkeypatch):
    """Rates of the step, momenta of each run, a run that is left alone and one that is stopped."""
    lr, momentum = torch.tensor([1e-3, 3e-2, 0.1, 0.2]), torch.tensor([0.9, 0.5, 0.99, 0.7])
    size, fused = MLP(torch.arange(4), (FEATURES,)).weight[0].numel(), []
    for least in (size, size + 1):
        monkeypatch.setattr(optim, "MIN_FUSED_NUMBERS", least)
        net = MLP(torch.arange(4), (FEATURES,))
        sgd = RunSGD(net, lr, momentum, nesterov=nesterov)
        torch.manual_seed(0)
        for step in range(4):
            if step == 2:
                sgd.freeze(torch.tensor([False, False, True, False]))
            g = torch.randn_like(net.weight)
            sgd.step([g], torch.tensor(0.5**step), torch.tensor([True, True, True, step == 0]))
        fused.append([net.weight.detach(), *sgd.buffers])
        assert any(sgd.rows) == (least == size)
    for got, want in zip(*fused, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)
    assert not fused[0][0][2].any()  # a stopped run's parameters stay zero


def test_an_update_by_run_takes_gradients_of_any_strides():
    found = []
    for turn in (lambda g: g, lambda g: g.transpose(1, 2).contiguous().transpose(1, 2)):
        net = RunNetwork(torch.arange(2), (3,))
        net.register_parameter("weight", torch.nn.Parameter(torch.ones(2, 200, 300)))
        sgd = RunSGD(net, torch.full((2,), 0.1), torch.full((2,), 0.9))
        assert any(sgd.rows)
        torch.manual_seed(0)
        sgd.step([turn(torch.randn(2, 200, 300))])
        found.append(net.weight.detach())
    assert torch.equal(*found)


def descend(x, slopes, steps, early):
    """Return the parameters after some steps, momenta, and what the last one did early."""
    net = MLP(torch.arange(len(x)), (FEATURES,))
    lr, momentum = torch.tensor([1e-3, 3e-2, 0.1]), torch.tensor([0.9, 0.5, 0.99])
    sgd = RunSGD(net, lr, momentum)
    for step in range(steps):
        loss, factor = (net(x) * slopes).sum(-1), torch.tensor(0.5**step)
        if early:
            sgd.prepare(loss, factor, None)
        grads = torch.autograd.grad(loss, [net.weight], torch.ones(len(x)))
        sgd.step(grads, factor)
    return net.weight.detach(), sgd.buffers[0], sgd.early


@needs_onednn
def test_weights_descend_in_the_backward_pass(onednn):
    x, slopes = draw(3)
    early, late = descend(x, slopes, 3, True), descend(x, slopes, 3, False)
    assert (early[2], late[2]) == (FEATURES * 500, 0)
    for got, want in zip(early[:2], late[:2], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


@needs_onednn
def test_weights_that_a_loss_uses_several_times_descend_by_the_sum(onednn):
    x, slopes = draw(3)
    found = []
    for prepared in (True, False):
        net = MLP(torch.arange(3), (FEATURES,))
        sgd = RunSGD(net, torch.full((3,), 1e-3), torch.full((3,), 0.9))
        loss = (net(x) * slopes).sum(-1) + net(x.flip(0)).square().sum(-1) - net(x + 1).sum(-1)
        if prepared:
            sgd.prepare(loss, None, None)
        sgd.step(torch.autograd.grad(loss, [net.weight], torch.ones(3)))
        assert sgd.early == prepared * FEATURES * 500
        found.append((net.weight.detach(), sgd.buffers[0]))
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@needs_onednn
def test_weights_of_runs_that_are_left_alone_do_not_descend(onednn):
    """Neither does their momentum, even if their gradient is not finite."""
    x, slopes = draw(3)
    slopes[1] = float("nan")
    net = MLP(torch.arange(3), (FEATURES,))
    sgd = RunSGD(net, torch.full((3,), 1e-3), torch.full((3,), 0.9))
    sgd.buffers[0].fill_(0.5)
    before, active = net.weight.detach().clone(), torch.tensor([True, False, True])
    loss = (net(x) * slopes).sum(-1)
    sgd.prepare(loss, None, active)
    sgd.step(torch.autograd.grad(loss, [net.weight], torch.ones(3)), None, active)
    assert sgd.early == FEATURES * 500
    for now, was in ((net.weight, before), (sgd.buffers[0], torch.full_like(before, 0.5))):
        assert torch.equal(now[1], was[1])
        assert (now != was).flatten(1).any(-1).tolist() == [True, False, True]
        assert torch.isfinite(now).all()


@needs_onednn
def test_logits_without_a_gradient_are_those_of_a_step(onednn):
    x, _ = draw(3)
    net = MLP(torch.arange(3), (FEATURES,))
    f = net(x).detach()
    with torch.no_grad():
        assert torch.equal(net(x), f)


@needs_onednn
@pytest.mark.parametrize(
    "lose",
    [
        lambda net, x: net(x).sum(-1) + net(x[:, ::2]).sum(-1),  # too few examples
        lambda net, x: net(x).sum(-1) + net.weight.square().sum(-1),
        lambda net, x: net(x).sum(-1) + net.heads(x).sum((1, 2)),
        lambda net, x: net.heads(x).sum((1, 2)),
        lambda net, x: net(x[:, :5]).sum(-1),
    ],
)
def test_weights_wait_for_the_sum_of_their_gradients(lose, onednn):
    """Where a loss uses them without a product of oneDNN, or with few inputs."""
    x, _ = draw(3)
    found = []
    for prepared in (True, False):
        net = MLP(torch.arange(3), (FEATURES,))
        sgd = RunSGD(net, torch.full((3,), 1e-3), torch.full((3,), 0.9))
        loss = lose(net, x)
        if prepared:
            sgd.prepare(loss, None, None)
        assert sgd.early == 0
        sgd.step(torch.autograd.grad(loss, [net.weight], torch.ones(3)))
        found.append(net.weight.detach())
    assert torch.equal(*found)


@needs_onednn
@pytest.mark.parametrize("name", ["nnpu", "vpu"])
def test_an_interrupted_fleet_of_wide_inputs_has_the_same_bits(name, onednn):
    x, data, hidden = toy(features=FEATURES)
    config = FleetConfig(batch_size=40, steps=20, record_every=10)
    whole = Fleet(rows(name, 3, data, hidden), config, x)
    want = whole.train()
    first = Fleet(rows(name, 3, data, hidden), config, x)
    next(first.segments())
    second = Fleet(rows(name, 3, data, hidden), config, x)
    second.restore(first.state())
    got = second.train()
    early = {each.early for each in whole.optimizers.values()}
    assert early == ({FEATURES * 500} if name == "nnpu" else {0})
    for key, values in want.values.items():
        np.testing.assert_array_equal(got.values[key], values, err_msg=key)


@needs_onednn
@pytest.mark.parametrize("name", ["nnpu", "cvir", "vpu", "pan", "lbe", "holistic-pu"])
def test_a_fleet_learns_the_same_by_both_libraries(name, onednn, monkeypatch):
    """And by updates in the backward pass and after it, to rounding."""
    x, data, hidden = toy(features=FEATURES)
    learned = []
    for choice in ("auto", "mkl"):
        monkeypatch.setenv(products.VARIABLE, choice)
        fleet = Fleet(rows(name, 2, data, hidden), FleetConfig(64, 8, 2, record_every=5), x)
        fleet.train()
        learned.append([parameter.detach() for parameter in fleet.algorithm.parameters()])
    for got, want in zip(*learned, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
    assert not all(torch.equal(*each) for each in zip(*learned, strict=True))
