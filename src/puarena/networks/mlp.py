"""The protocol's multilayer perceptron: one hidden layer of 500 ReLU units, two outputs, ``f = z1 -
z0``.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from puarena import random
from puarena.networks import kernels, products
from puarena.networks.base import Descend, RunNetwork

Parts = tuple[Tensor, Tensor, Tensor, Tensor]
TILE = 1 << 19  # hidden units that one batched product makes on the CPU: two megabytes in float32
# Examples of a run that are evaluated at a time, so that their hidden units stay in a core's cache
CACHED_ROWS = 512


class _Logit(torch.autograd.Function):
    """``f = relu(x W1 + b1) (w2[1] - w2[0]) + b2[1] - b2[0]`` with its gradient written out.

    Only the difference of the two output columns matters for the logit, so the second layer is a
    weighted sum and its columns get opposite gradients. The hidden units' gradient is ``g`` times
    the readout where they are active, so the first layer's is one product of the scaled inputs with
    the pattern of active units, ``([x g, g]^T active) readout``.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, theta: Tensor, views: LayerViews) -> Tensor:
        ctx.views = views
        if kernels.available(theta):
            from puarena.networks.kernels.mlp import finish_forward

            hidden = [torch.bmm(x, views.weight_1)]
            f = finish_forward(hidden[0], theta, x.shape[-1])
        else:
            hidden = []
            forward = wide_forward if views.is_wide(x) else plain_forward
            f = forward(x, views, hidden)
        ctx.save_for_backward(x, theta, *hidden)
        return f

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (g,) = grads
        out: Tensor | None
        x, theta, *hidden = ctx.saved_tensors
        if kernels.available(theta):
            from puarena.networks.kernels.mlp import start_backward

            out = torch.empty_like(theta)
            g_hidden = start_backward(g, hidden[0], theta, out, x.shape[-1])
            torch.bmm(
                x.transpose(1, 2), g_hidden, out=split(out, x.shape[-1], hidden[0].shape[-1])[0]
            )
        else:
            if ctx.views.is_wide(x):
                out = wide_backward(x, ctx.views, hidden, g, getattr(ctx, "descent", None))
            else:
                out = plain_backward(x, ctx.views, hidden, g)
        return None, out, None  # inputs are data


class LayerViews:
    """The parts of ``theta``, together and of every run, cut once: updates are in place."""

    def __init__(self, theta: Tensor, features: int, units: int) -> None:
        self.theta, self.units = theta.detach(), units
        self.weight_1, self.bias_1, weight_2, bias_2 = split(self.theta, features, units)
        self.low, self.high, self.offsets = weight_2[:, 0], weight_2[:, 1], bias_2[:, 0].unbind(-1)
        self.first_layers = list(
            zip(
                self.weight_1.unbind(),
                self.weight_1.transpose(1, 2).unbind(),
                self.bias_1[:, 0].unbind(),
                strict=True,
            )
        )
        self.threshold = products.find_threshold(self.theta, features)

    def of(self, theta: Tensor) -> bool:
        """Are these the parts of this tensor?"""
        return self.theta.data_ptr() == theta.data_ptr()

    def is_wide(self, x: Tensor) -> bool:
        """Does a step multiply these inputs run by run, with oneDNN?"""
        return x.shape[1] * x.shape[2] >= self.threshold

    def readout(self) -> Tensor:
        """What the hidden units are weighted with, ``[runs, units]``."""
        return self.high - self.low

    def offset(self) -> Tensor:
        """What is added to their sum, ``[runs]``."""
        return self.offsets[1] - self.offsets[0]


def units_of(x: Tensor, weight: Tensor, transposed: Tensor, bias: Tensor, wide: bool) -> Tensor:
    """The hidden units of one run, ``[n, units]``, without a gradient.

    Of many examples oneDNN is at least as fast at any width.
    """
    many = (
        2 * len(x) >= CACHED_ROWS
        and x.dtype == torch.float32
        and x.is_cpu
        and products.load_linear() is not None
    )
    if wide or many:
        return products.make_units(x, transposed, bias)
    return torch.addmm(bias, x, weight).relu_()


def evaluated(x: Tensor, views: LayerViews) -> Tensor:
    """The logits without anything kept, run by run in parts."""
    f, wide = x.new_empty(x.shape[:2]), views.is_wide(x)
    each = zip(f.unbind(), x.unbind(), views.readout().unbind(), views.first_layers, strict=True)
    for into, inputs, readout, first in each:
        if len(inputs) <= CACHED_ROWS:
            torch.mv(units_of(inputs, *first, wide), readout, out=into)
            continue
        for part, of_part in zip(inputs.split(CACHED_ROWS), into.split(CACHED_ROWS), strict=True):
            torch.mv(units_of(part, *first, wide), readout, out=of_part)
    return f.add_(views.offset().unsqueeze(1))


def plain_forward(x: Tensor, views: LayerViews, hidden: list[Tensor]) -> Tensor:
    """Return the logits, and append the hidden units to ``hidden``: of one run, or of several that
    fit in a tile.
    """
    readout = views.readout()
    if len(x) == 1:
        weight, _, bias = views.first_layers[0]
        hidden.append(torch.addmm(bias, x[0], weight).relu_())
        return torch.mv(hidden[0], readout[0]).add_(views.offset()).unsqueeze(0)
    f = x.new_empty(x.shape[:2])
    for run in tiles(len(x), x.shape[1], views.units):
        hidden.append(torch.baddbmm(views.bias_1[run], x[run], views.weight_1[run]).relu_())
        torch.sum(hidden[-1] * readout[run].unsqueeze(1), -1, out=f[run])
    return f.add_(views.offset().unsqueeze(1))


def plain_backward(x: Tensor, views: LayerViews, hidden: list[Tensor], g: Tensor) -> Tensor:
    """Return the gradient of all parameters; ``hidden`` is what ``plain_forward`` made."""
    if len(x) == 1:
        return _alone_backward(x[0], views.readout()[0], hidden[0], g[0]).unsqueeze(0)
    (runs, n, features), units = x.shape, views.units
    out = torch.empty_like(views.theta)
    _, _, g_weight_2, g_bias_2 = split(out, features, units)
    first_layer = out[:, : (features + 1) * units].view(
        runs, features + 1, units
    )  # weights, then biases
    scaled = torch.cat([x * g.unsqueeze(-1), g.unsqueeze(-1)], -1).transpose(1, 2)
    readout = views.readout().unsqueeze(1)
    for run, h in zip(tiles(runs, n, units), hidden, strict=True):
        torch.bmm(g[run].unsqueeze(1), h, out=g_weight_2[run, 1:])
        torch.mul(torch.bmm(scaled[run], h.sign()), readout[run], out=first_layer[run])
    torch.neg(g_weight_2[:, 1], out=g_weight_2[:, 0])
    torch.sum(g, -1, out=g_bias_2[:, 0, 1])
    torch.neg(g_bias_2[..., 1], out=g_bias_2[..., 0])
    return out


def _alone_backward(x: Tensor, readout: Tensor, h: Tensor, g: Tensor) -> Tensor:
    """The gradient of a single run's parameters, one after the other, in as few calls as can be."""
    column = g.unsqueeze(1)
    first_layer = torch.mm(torch.cat([x * column, column], 1).t(), h.sign())
    first_layer *= readout
    of_readout, of_offset = torch.mv(h.t(), g), column.sum(0)
    return torch.cat([first_layer.view(-1), -of_readout, of_readout, -of_offset, of_offset])


def wide_forward(x: Tensor, views: LayerViews, hidden: list[Tensor]) -> Tensor:
    """Do what ``plain_forward`` does for many inputs: run by run, with oneDNN's products."""
    f = x.new_empty(x.shape[:2])
    each = zip(f.unbind(), x.unbind(), views.readout().unbind(), views.first_layers, strict=True)
    for into, inputs, readout, (_, transposed, bias) in each:
        hidden.append(products.make_units(inputs, transposed, bias))
        torch.mv(hidden[-1], readout, out=into)
    return f.add_(views.offset().unsqueeze(1))


class Descent:
    """Sums the gradients of the first weights over their uses in a loss, and has them descend.

    The gradient of a run is in the cache when its last part has been computed.
    """

    def __init__(self, descend: Descend, size: int, uses: int) -> None:
        self.descend, self.size, self.left = descend, size, uses
        self.sums: dict[int, Tensor] = {}
        self.rest: Tensor | None = None

    def take(self, run: int, gradient: Tensor) -> None:
        """Add what a use gives for the first weights of a run."""
        if run in self.sums:
            gradient.add_(self.sums[run])
        if self.left > 1:
            self.sums[run] = gradient
        else:
            self.descend(run, gradient)

    def close(self, out: Tensor) -> Tensor | None:
        """Add what a use gives for the other parameters; return their sum after the last use."""
        rest = out[:, self.size :]
        if self.rest is not None:
            rest += self.rest
        self.rest = rest
        self.left -= 1
        return None if self.left else out


def wide_backward(
    x: Tensor, views: LayerViews, hidden: list[Tensor], g: Tensor, descent: Descent | None
) -> Tensor | None:
    """Do what ``plain_backward`` does for many inputs, with the gradient of the hidden units.

    The gradient of a run's first weights goes to ``descent`` instead if there is one.
    """
    _, n, features = x.shape
    out = torch.empty_like(views.theta)
    g_weight_1, g_bias_1, g_weight_2, g_bias_2 = split(out, features, views.units)
    each = zip(
        x.transpose(1, 2).unbind(),
        views.readout().unbind(),
        hidden,
        g.unbind(),
        g.unsqueeze(2).unbind(),
        g_weight_1.unbind(),
        g_bias_1[:, 0].unbind(),
        g_weight_2[:, 1].unbind(),
        strict=True,
    )
    ones = g.new_ones(n)
    for run, (inputs, readout, h, slope, column, of_weight, of_bias, of_readout) in enumerate(each):
        active = torch.ops.aten.threshold_backward.default(column * readout, h, 0)
        gradient = products.multiply(inputs, active)
        if descent is None:
            of_weight.copy_(gradient)
        else:
            descent.take(run, gradient.view(-1))
        torch.mv(active.t(), ones, out=of_bias)
        torch.mv(h.t(), slope, out=of_readout)
    torch.neg(g_weight_2[:, 1], out=g_weight_2[:, 0])
    torch.sum(g, -1, out=g_bias_2[:, 0, 1])
    torch.neg(g_bias_2[..., 1], out=g_bias_2[..., 0])
    return out if descent is None else descent.close(out)


def find_uses(loss: Tensor, parameter: Tensor) -> list[Any]:
    """Return the nodes of a loss's graph that use a parameter."""
    uses, seen, waiting = [], set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for following, _ in node.next_functions:
            if following is not None and getattr(following, "variable", None) is parameter:
                uses.append(node)
            else:
                waiting.append(following)
    return uses


def tiles(runs: int, n: int, units: int) -> list[slice]:
    """Cut the runs into groups whose hidden units stay in a core's cache."""
    step = max(1, TILE // max(1, n * units))
    return [slice(run, run + step) for run in range(0, runs, step)]


def split(theta: Tensor, features: int, hidden: int) -> Parts:
    """Return views of the rows of ``theta``: ``[features, hidden]``, ``[1, hidden]``, ``[2,
    hidden]``, ``[1, 2]``.
    """
    runs, a, b = len(theta), features * hidden, (features + 1) * hidden
    return (
        theta[:, :a].view(runs, features, hidden),
        theta[:, a:b].view(runs, 1, hidden),
        theta[:, b : b + 2 * hidden].view(runs, 2, hidden),
        theta[:, b + 2 * hidden :].view(runs, 1, 2),
    )


class MLP(RunNetwork):
    """A stack of independent perceptrons: ``[runs, batch, features] -> [runs, batch]`` logits.

    All weights of a run lie in one row of ``weight``, so that an update is a few operations on one
    tensor. Weights and biases start uniform in ``±1/sqrt(fan_in)`` like PyTorch's linear layer,
    each run from its own seed.
    """

    name = "mlp"
    family = "mlp"
    images = False
    meaning = "one hidden layer of 500 ReLU units; images are flattened"
    capacity: ClassVar[Mapping[str, int]] = {"cpu": 64, "cuda": 256}
    probe: ClassVar[Mapping[str, tuple[int, int]]] = {"cpu": (2, 128), "cuda": (32, 128)}

    def __init__(
        self,
        seeds: Tensor,
        shape: tuple[int, ...],
        stream: str = "init",
        dtype: torch.dtype = torch.float32,
        precision: str = "float32",
        hidden: int = 500,
    ) -> None:
        super().__init__(seeds, shape, stream, dtype, precision)
        features = prod(shape)
        self.features, self.hidden = features, hidden
        size = (features + 3) * hidden + 2
        theta = 2 * random.uniform(seeds, stream, (size,), dtype=torch.float64) - 1
        for part, fan_in in zip(
            split(theta, features, hidden), (features, features, hidden, hidden), strict=True
        ):
            part.mul_(fan_in**-0.5)
        self.weight = nn.Parameter(theta.to(dtype))
        self._views: LayerViews | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_views": None}  # a copy cuts its own

    def parts(self) -> Parts:
        """Return views of both layers' weights and biases, as ``split`` does."""
        return split(self.weight, self.features, self.hidden)

    def decays(self) -> list[Tensor]:
        """Return where weight decay acts, one mask per parameter: on weights, not on biases."""
        mask = torch.ones_like(self.weight[:1])
        _, bias_1, _, bias_2 = split(mask, self.features, self.hidden)
        bias_1.zero_()
        bias_2.zero_()
        return [mask]

    def heads(self, x: Tensor) -> Tensor:
        """Return both outputs, ``[runs, batch, 2]``."""
        weight_1, bias_1, weight_2, bias_2 = self.parts()
        hidden = torch.baddbmm(bias_1, x.flatten(2), weight_1).relu()
        return torch.baddbmm(bias_2, hidden, weight_2.transpose(1, 2))

    def descend_early(self, loss: Tensor, descend: Descend) -> int:
        """Have the first weights descend if wide products give all of their gradient."""
        uses = find_uses(loss, self.weight)
        for node in uses:
            is_logit = getattr(node, "_forward_cls", None) is _Logit
            if not is_logit or not node.views.is_wide(node.saved_tensors[0]):
                return 0
        size = self.features * self.hidden
        descent = Descent(descend, size, len(uses))
        for node in uses:
            node.descent = descent
        return size if uses else 0

    def forward(self, x: Tensor) -> Tensor:
        """Return the logit ``z1 - z0``, ``[runs, batch]``; inputs get no gradient."""
        x = x.flatten(2)
        if self._views is None or not self._views.of(self.weight):
            self._views = LayerViews(self.weight, self.features, self.hidden)
        if torch.is_grad_enabled() or kernels.available(self.weight):
            return _Logit.apply(x, self.weight, self._views)
        return evaluated(x, self._views)
