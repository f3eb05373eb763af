"""Residual networks on the run axis: against plain torch modules, row by row, and the kernels
against both.
"""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from puarena import networks, random
from puarena.errors import UserError
from puarena.networks import kernels
from puarena.networks.resnet import ResNet
from puarena.networks.resnet_layout import Layout, Unit

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is first imported
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SEEDS = torch.tensor([5, 6, 7], device=DEVICE)
SMALL = ((1, 16), (2, 24), (1, 40))  # channels that are no powers of two


class Basic(nn.Module):
    """A residual network as one would write it for a single run."""

    def __init__(self, plan: Layout) -> None:
        super().__init__()
        self.plan = plan
        self.convs = nn.ModuleList(
            nn.Conv2d(u.c_in, u.c_out, u.kernel, u.stride, u.kernel // 2, bias=False)
            for u in plan.units
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(u.c_out) for u in plan.units)
        self.pool = nn.AvgPool2d(plan.pool)
        self.linear = nn.Linear(plan.features, 2)

    def unit(self, unit: Unit, x: torch.Tensor) -> torch.Tensor:
        return self.norms[unit.number](self.convs[unit.number](x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.unit(self.plan.stem, x).relu()
        for block in self.plan.blocks:
            inner = self.unit(block.second, self.unit(block.first, x).relu())
            x = (inner + (self.unit(block.shortcut, x) if block.shortcut else x)).relu()
        return self.linear(self.pool(x).permute(0, 2, 3, 1).flatten(1))

    @classmethod
    def of(cls, network: ResNet, run: int) -> Basic:
        """The same network with the parameters of one run."""
        plan, units = network.layout, len(network.layout.units)
        made = cls(plan).to(network.weight)
        parts = [part[run] for part in network.weight.detach().split(plan.sizes, 1)]
        with torch.no_grad():
            for u in plan.units:
                kernel = (
                    parts[u.number].view(u.kernel, u.kernel, u.c_in, u.c_out).permute(3, 2, 0, 1)
                )
                made.convs[u.number].weight.copy_(kernel)
                made.norms[u.number].weight.copy_(parts[units + u.number])
                made.norms[u.number].bias.copy_(parts[2 * units + u.number])
            made.linear.weight.copy_(parts[-3].view(2, -1))
            made.linear.bias.copy_(parts[-2])
        return made

    def flat_gradient(self) -> torch.Tensor:
        kernels = [c.weight.grad.permute(2, 3, 1, 0).flatten() for c in self.convs]
        scales, shifts = [n.weight.grad for n in self.norms], [n.bias.grad for n in self.norms]
        whole = torch.cat(
            [*kernels, *scales, *shifts, self.linear.weight.grad.flatten(), self.linear.bias.grad]
        )
        return torch.cat([whole, whole.new_zeros(self.plan.sizes[-1])])


def stirred(
    side: int = 9,
    dtype: torch.dtype = torch.float64,
    precision: str = "float32",
    stages: tuple = SMALL,
    **how: object,
) -> ResNet:
    """A small network whose scales and shifts are not the initial ones; ``how``: its ``pool`` and
    ``large``.
    """
    cls = type("Small", (ResNet,), {"stages": stages, **how})
    network = cls(SEEDS, (3, side, side), dtype=dtype, precision=precision)
    with torch.no_grad():
        network.weight += 0.05 * random.normal(SEEDS, "stir", (network.weight.shape[1],)).to(dtype)
    return network


def images(n: int = 6, side: int = 9, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return random.normal(SEEDS, "images", (n, 3, side, side)).to(dtype)


@pytest.mark.parametrize("side, pool, large", [(9, None, None), (16, 2, None), (12, None, 8)])
def test_outputs_gradients_and_statistics_are_those_of_plain_modules(side, pool, large):
    network, x = stirred(side, pool=pool, large=large), images(side=side)
    weights = random.normal(SEEDS, "weights", (6,))
    (network(x) * weights).sum().backward()
    network.eval()
    for run in range(3):
        plain = Basic.of(network, run)
        z = plain(x[run])
        ((z[:, 1] - z[:, 0]) * weights[run]).sum().backward()
        torch.testing.assert_close(
            network.weight.grad[run], plain.flat_gradient(), rtol=1e-8, atol=1e-10
        )
        means = torch.cat([n.running_mean for n in plain.norms])
        variances = torch.cat([n.running_var for n in plain.norms])
        torch.testing.assert_close(network.mean[run], means)
        torch.testing.assert_close(network.variance[run], variances)
        torch.testing.assert_close(network.heads(x)[run], plain.eval()(x[run]))


@pytest.mark.parametrize("name", ["resnet32", "resnet34"])
def test_the_published_architectures(name):
    network = networks.build(name, SEEDS[:1], (3, 32, 32), "f", torch.float32)
    plan = network.layout
    kinds = [(u.kernel, u.stride, u.c_in, u.c_out) for u in plan.units]
    if name == "resnet32":
        assert len(plan.blocks) == 15
        assert (kinds[0], plan.map, plan.pool, plan.features) == ((3, 1, 3, 16), 8, 8, 64)
        convolutions = (
            3 * 16 * 9
            + 10 * 16 * 16 * 9
            + 16 * 32 * 10
            + 9 * 32 * 32 * 9
            + 32 * 64 * 10
            + 9 * 64 * 64 * 9
        )
        assert sum(u.weights for u in plan.units) == convolutions
        assert sum(plan.sizes[:-1]) == convolutions + 2 * (11 * 16 + 11 * 32 + 11 * 64) + 130
    else:
        assert [b.first.c_out for b in plan.blocks] == [64] * 3 + [128] * 4 + [256] * 6 + [512] * 3
        assert (kinds[0], plan.map, plan.pool, plan.features) == ((3, 1, 3, 64), 4, 4, 512)
    assert [b.shortcut is not None for b in plan.blocks].count(True) == (
        2 if name == "resnet32" else 3
    )
    assert all(b.first.stride == (2 if b.shortcut else 1) for b in plan.blocks)
    first = network.weight[0].detach().split(plan.sizes)[1]
    assert float(first.std()) == pytest.approx((2 / (9 * plan.units[1].c_out)) ** 0.5, rel=0.05)


def test_larger_images():
    published = networks.build("resnet32", SEEDS[:1], (3, 64, 64), "f", torch.float32).layout
    assert (published.map, published.pool, published.features) == (16, 8, 256)
    paper = networks.build("resnet34", SEEDS[:1], (3, 64, 64), "f", torch.float32).layout
    assert (paper.stem.stride, paper.map, paper.features) == (2, 4, 512)


def test_a_run_sees_nothing_of_another():
    network, x = stirred(), images()
    other = x.clone()
    other[1] = float("nan")
    a = network(x)
    network = stirred()
    b = network(other)
    torch.testing.assert_close(a[[0, 2]], b[[0, 2]], rtol=0, atol=0)
    assert b[1].isnan().all()
    assert network.mean[[0, 2]].isfinite().all()


def test_batch_normalization_sees_the_batch_and_evaluation_the_running_statistics():
    network, x = stirred(), images()
    assert not torch.allclose(network(x)[:, :3], network(x[:, :3]))
    network.eval()
    before = network.mean.clone()
    torch.testing.assert_close(network(x)[:, :3], network(x[:, :3]))
    torch.testing.assert_close(network.mean, before, rtol=0, atol=0)


def test_weight_decay_leaves_normalization_and_biases_alone():
    network = stirred()
    (mask,) = network.decays()
    plan = network.layout
    assert mask.shape == (1, sum(plan.sizes))
    assert int(mask.sum()) == sum(u.weights for u in plan.units) + 2 * plan.features


def test_bf16_is_close_to_float32():
    x = images(dtype=torch.float32)
    exact, rough = (stirred(dtype=torch.float32, precision=p)(x) for p in ("float32", "bf16"))
    assert rough.dtype == torch.float32
    assert not torch.equal(exact, rough)
    torch.testing.assert_close(rough, exact, rtol=0.05, atol=0.1)


def test_wrong_inputs_are_named():
    with pytest.raises(UserError, match=r"\(16,\)"):
        networks.build("resnet32", SEEDS, (16,), "f", torch.float32)
    with pytest.raises(
        UserError, match="the precision of resnet34 is 'fp8'; choose one of: float32, bf16"
    ):
        networks.build("resnet34", SEEDS, (3, 32, 32), "f", torch.float32, "fp8")


def test_a_perceptron_takes_images_too():
    network = networks.build("mlp", SEEDS, (3, 4, 4), "f", torch.float64)
    x = images(5, 4)
    torch.testing.assert_close(network(x), network(x.flatten(2)))


# -- the kernels: on a GPU compiled, elsewhere in Triton's interpreter ---------------


def _passes(
    fused: bool, monkeypatch: pytest.MonkeyPatch, side: int, precision: str, **how: object
) -> tuple:
    """Outputs, gradients and statistics: of the kernels in float32, of torch's operations in
    float64.
    """
    monkeypatch.setattr(kernels, "available", lambda theta: fused)
    dtype = torch.float32 if fused else torch.float64
    network = stirred(side, dtype, precision=precision, stages=((1, 16), (1, 24)), **how)
    x = images(3, side, dtype)
    f = network(x)
    (f * random.normal(SEEDS, "weights", (3,))).sum().backward()
    network.eval()
    with torch.no_grad():
        seen = network(x)
    return f.detach(), network.weight.grad, network.mean, network.variance, seen


@pytest.mark.parametrize("side, pool", [(5, None), (8, 2)])
def test_kernels_give_what_torch_gives(side, pool, monkeypatch):
    pytest.importorskip("triton")
    plain = _passes(False, monkeypatch, side, "float32", pool=pool)
    fused = _passes(True, monkeypatch, side, "float32", pool=pool)
    for a, b in zip(plain, fused, strict=True):
        torch.testing.assert_close(a, b.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device (make test-gpu)")
@pytest.mark.parametrize("name", ["resnet32", "resnet34"])
def test_kernels_are_as_exact_as_cudnn(name, monkeypatch):
    def gradient(fused: bool, precision: str, dtype: torch.dtype) -> torch.Tensor:
        monkeypatch.setattr(kernels, "available", lambda theta: fused)
        network = networks.build(name, SEEDS, (3, 32, 32), "f", dtype, precision)
        network(images(32, 32, dtype)).square().sum().backward()
        return network.weight.grad.double()

    truth = gradient(False, "float32", torch.float64)
    for precision in ("float32", "bf16"):
        ours, theirs = (
            float((gradient(f, precision, torch.float32) - truth).norm()) for f in (True, False)
        )
        assert ours < 1.5 * theirs + 1e-9, precision


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device (make test-gpu)")
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_kernels_repeat_themselves_bit_by_bit(precision, monkeypatch):
    once, again = (_passes(True, monkeypatch, 16, precision) for _ in range(2))
    for a, b in zip(once, again, strict=True):
        assert torch.equal(a, b)
