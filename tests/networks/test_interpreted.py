"""The Triton kernels against plain torch: on a GPU compiled, elsewhere in Triton's interpreter."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from puarena import networks, random, training
from puarena.networks import kernels
from puarena.networks.mlp import MLP
from puarena.networks.resnet import ResNet
from puarena.testing.pretended import pretend
from puarena.training import Fleet, FleetConfig
from toys import rows, toy

triton = pytest.importorskip("triton")
HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
EXACT = 1e-4 if HAS_GPU else 3e-6  # products of tensor cores are rounded otherwise


class Small(ResNet):
    """Two stages, a shortcut with a convolution, channels that are no powers of two."""

    name = "small-resnet"
    meaning = "for tests"
    stages = ((1, 16), (1, 24))
    pool = None


class Wide(ResNet):
    """The tiles of large residual networks, whole and cut."""

    name = "wide-resnet"
    meaning = "for tests"
    stages = ((1, 64), (1, 160))
    pool = None


@pytest.fixture(autouse=True)
def bf16_products(monkeypatch):
    """Triton's interpreter keeps bfloat16 as 16 bits and multiplies these as integers."""
    if HAS_GPU:
        return
    from triton import language as tl
    from triton.runtime import interpreter

    def widen(handle):
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        wide = (handle.data.astype(np.uint32) << 16).view(np.float32)
        return interpreter.TensorHandle(wide, tl.float32)

    plain = interpreter.InterpreterBuilder.create_dot
    monkeypatch.setattr(
        interpreter.InterpreterBuilder,
        "create_dot",
        lambda self, a, b, *rest: plain(self, widen(a), widen(b), *rest),
    )


def draw(name, *shape):
    """Normal numbers, the same everywhere."""
    seeds = torch.tensor([3], device=DEVICE)
    return random.normal(seeds, name, shape)[0]


def gap(a, b):
    """The largest difference, relative to the largest value."""
    return float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(1e-9))


def passes(make, fused, dtype, precision, x, monkeypatch):
    """Outputs, gradient and buffers of a network in training, and its outputs in evaluation."""
    monkeypatch.setattr(kernels, "available", lambda theta: fused)
    network = make(torch.arange(len(x), device=DEVICE), tuple(x.shape[2:]), "f", dtype, precision)
    with torch.no_grad():
        network.weight += 0.1 * draw("stir", *network.weight.shape) * (network.weight != 0)
    f = network(x.to(dtype))
    weights = draw("weights", *f.shape).to(dtype)
    (gradient,) = torch.autograd.grad((f * weights).sum(), network.weight)
    network.eval()
    with torch.no_grad():
        seen = network(x.to(dtype))
    return {"f": f.detach(), "gradient": gradient, "seen": seen, **dict(network.named_buffers())}


@pytest.mark.parametrize(
    "runs, n, features, hidden", [(1, 5, 3, 7), (3, 33, 16, 500), (2, 64, 40, 130)]
)
def test_perceptrons(runs, n, features, hidden, monkeypatch):
    def make(*given):
        return MLP(*given, hidden=hidden)

    x = draw("x", runs, n, features)
    truth = passes(make, False, torch.float64, "float32", x, monkeypatch)
    ours = passes(make, True, torch.float32, "float32", x, monkeypatch)
    for name, values in truth.items():
        assert gap(ours[name], values) < EXACT, name


@pytest.mark.parametrize("runs, n", [(1, 1), (3, 1025), (2, 9502)])
def test_updates(runs, n):
    from puarena.networks.kernels.mlp import sgd_

    p, g, buffer = (draw(name, runs, n).float() for name in ("p", "g", "buffer"))
    rate, momentum = -draw("rate", runs).abs().float(), draw("momentum", runs).abs().float()
    moved = buffer.double() * momentum[:, None] + g
    wanted = p + moved * rate[:, None]
    sgd_(p, g, buffer, rate, momentum)
    assert gap(buffer, moved) < 1e-6
    assert gap(p, wanted) < 1e-6


@pytest.mark.parametrize(
    "make, precision, shape",
    [
        (Small, "float32", (2, 3, 5)),
        (Small, "bf16", (2, 3, 8)),
        (Wide, "float32", (1, 2, 6)),
        (Wide, "bf16", (1, 2, 6)),
    ],
)
def test_residual_networks(make, precision, shape, monkeypatch):
    """Outputs, gradients and running statistics."""
    runs, n, side = shape
    x = draw("images", runs, n, 3, side, side)
    truth = passes(make, False, torch.float64, "float32", x, monkeypatch)
    ours = passes(make, True, torch.float32, precision, x, monkeypatch)
    theirs = passes(make, False, torch.float32, precision, x, monkeypatch)
    assert {"mean", "variance"} < set(truth)
    for name, values in truth.items():
        # The interpreter cuts what it stores as bfloat16 where a GPU rounds.
        limit = EXACT if precision == "float32" else 0.02
        assert gap(ours[name], values) < max(limit, 3 * gap(theirs[name], values)), name


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU, and there may be no second one")
@pytest.mark.parametrize("make, shape", [(MLP, (5,)), (Small, (3, 5, 5))])
def test_kernels_are_launched_where_their_tensors_are(make, shape):
    """Triton launches on the current device, which is the first one here."""
    from puarena.networks.kernels.mlp import sgd_

    found = []
    for device in ("cpu", "cuda:1"):
        with pretend(cards=2, kernels_too=True) as usage:
            network = make(torch.arange(2, device=device), shape)
            x = draw("x", 2, 3, *shape).float().to(device)
            f = network(x)
            (gradient,) = torch.autograd.grad(f.square().sum(), network.weight)
            p, buffer = network.weight.detach().clone(), torch.zeros_like(gradient)
            sgd_(p, gradient, buffer, -torch.ones_like(f[:, 0]), torch.zeros_like(f[:, 0]))
            found.append([each.detach().cpu() for each in (f, gradient, p)])
    assert len(usage.launches) == (3 if make is MLP else 7)
    for ours, plain in zip(found[1], found[0], strict=True):
        assert gap(ours, plain) < 1e-4


# -- compiled for GPUs that are not there ------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="Triton compiles on Linux")
@pytest.mark.parametrize("words", ["--few 86", "--widest 80 89 90"])
def test_kernels_compile_and_fit_in_shared_memory(words):
    """All variants of all networks: ``python tests/networks/compiled.py``."""
    command = [sys.executable, str(Path(__file__).parent / "compiled.py"), *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("variants of 9 kernels") == len(words.split()) - 1


# -- fleets whose captured steps and records launch kernels ----------------------------------------


def train_both(some, config, x):
    """Train captured with kernels, and on the CPU without; return the curves and the launches."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pretend(kernels_too=True) as usage:
            fleet = Fleet(some, replace(config, device="cuda"), x)
            ours = fleet.train()
    assert fleet.evaluate.graph is not None
    return ours, training.train(some, config, x), usage


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU, where tests/training/test_gpu.py says this")
@pytest.mark.parametrize("name", ["nnpu-c", "dist-pu"])
def test_fleets_of_perceptrons(name):
    x, data, hidden = toy(n=100)
    config = FleetConfig(batch_size=8, steps=12, warmup=6, record_every=4)
    ours, plain, usage = train_both(rows(name, 2, data, hidden), config, x)
    assert set(usage.launches) == {"forward_kernel", "backward_kernel", "update"}
    for column, values in plain.values.items():
        np.testing.assert_allclose(ours.values[column], values, rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(
    HAS_GPU, reason="there is a GPU, where tests/training/test_image_fleet.py trains"
)
def test_a_fleet_of_residual_networks(monkeypatch):
    monkeypatch.setitem(networks._plugins, Small.name, Small)
    x, data, hidden = toy(n=40, features=48)
    config = FleetConfig(batch_size=3, steps=12, warmup=4, record_every=4, network=Small.name)
    few = replace(data, test=data.test[:10])
    labels = replace(hidden, test=hidden.test[:10])
    images = x.reshape(-1, 3, 4, 4)
    ours, plain, usage = train_both(rows("nnpu", 1, few, labels), config, images)
    assert usage.graphs == 3  # one step, ten of them, a record
    assert set(usage.launches) == {
        "convolve",
        "settle",
        "normalize",
        "normalize_sums",
        "normalize_backward",
        "weight_gradient",
        "update",
    }
    np.testing.assert_allclose(ours.values["loss"], plain.values["loss"], rtol=1e-3, atol=1e-3)
