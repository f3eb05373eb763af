"""The straightforward way to train one run: what benchmarks/speed.py compares with.

One network at a time, a ``DataLoader`` that collates samples one by one, ``.item()`` after every
step, three passes over validation data and one over test data every 100 steps. The algorithms'
objectives are the library's own (a stack of one run), so that only the way of training differs. It
is a yardstick: nothing of the library imports it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from puarena import algorithms, catalog
from puarena.algorithms import Batch, Setup
from puarena.pu import HiddenLabels, PUData
from puarena.random import Draws


class Points(Dataset):
    """Samples one by one: features, position in the set, label."""

    def __init__(self, features: Tensor, index: Tensor, label: Tensor) -> None:
        self.features, self.index, self.label = features, index, label

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, i: int) -> tuple[Tensor, int, Tensor]:
        return self.features[self.index[i]], i, self.label[i]


class OneRun(nn.Module):
    """A plain two-layer perceptron behind the library's ``[runs, batch, …]`` shapes, for a single
    run.
    """

    def __init__(self, features: int, hidden: int = 500) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def heads(self, x: Tensor) -> Tensor:
        return self.layers(x[0]).unsqueeze(0)

    def forward(self, x: Tensor) -> Tensor:
        z = self.heads(x)
        return z[..., 1] - z[..., 0]


class Passes:
    """Full passes over the training data through a loader."""

    def __init__(self, **sets: Points) -> None:
        self.sets = sets

    def _all(self, network: nn.Module, name: str) -> Tensor:
        with torch.no_grad():
            parts = [
                network(x.unsqueeze(0)) for x, _, _ in DataLoader(self.sets[name], batch_size=256)
            ]
        return torch.cat(parts, -1)

    def p(self, network: nn.Module) -> Tensor:
        return self._all(network, "p")

    def u(self, network: nn.Module) -> Tensor:
        return self._all(network, "u")

    def val_p(self, network: nn.Module) -> Tensor:
        return self._all(network, "val_p")

    def val_u(self, network: nn.Module) -> Tensor:
        return self._all(network, "val_u")

    def x_p(self, position: Tensor) -> Tensor:
        points = self.sets["p"]
        return points.features[points.index[position[0]]].unsqueeze(0)


def forever(loader: DataLoader) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    while True:
        yield from loader


def evaluate(
    algorithm: algorithms.Algorithm, sets: dict[str, Points], prior: float, passes: Passes
) -> dict[str, float]:
    """Three validation criteria and the test accuracy, each with a pass of its own."""
    algorithm.eval()
    cut = algorithm.threshold(passes)
    shift = 0.0 if cut is None else cut.item()

    def outputs(name: str) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            pairs = [
                (algorithm.outputs(x.unsqueeze(0))[0][0], y)
                for x, _, y in DataLoader(sets[name], batch_size=256)
            ]
        return torch.cat([f for f, _ in pairs]) - shift, torch.cat([y for _, y in pairs])

    found = {}
    for criterion in ("pa", "pauc", "oa"):
        (f_p, _), (f_u, y_u) = outputs("p_val"), outputs("u_val")
        if criterion == "pa":
            found[criterion] = (
                2 * prior * (f_p >= 0).float().mean() + (torch.cat([f_p, f_u]) < 0).float().mean()
            ).item()
        elif criterion == "pauc":
            found[criterion] = (f_p[:, None] > f_u[None, :]).float().mean().item()
        else:
            found[criterion] = ((f_u >= 0) == (y_u > 0)).float().mean().item()
    f, y = outputs("test")
    found["accuracy"] = ((f >= 0) == (y > 0)).float().mean().item()
    algorithm.train()
    return found


def steps_per_second(
    name: str, features: Tensor, data: PUData, hidden: HiddenLabels, batch_size: int, seconds: float
) -> float:
    """Train one run for about ``seconds`` and return its steps per second of processor time,
    evaluation every 100 steps included.
    """
    entry = catalog.get(name)
    index = {
        key: torch.tensor(getattr(data, key))
        for key in ("p_train", "u_train", "p_val", "u_val", "test")
    }
    truth = {"u_train": hidden.u_train, "u_val": hidden.u_val, "test": hidden.test}
    label = {
        k: torch.tensor(truth[k]).float() if k in truth else torch.ones(len(v))
        for k, v in index.items()
    }
    sets = {key: Points(features, index[key], label[key]) for key in index}
    n_p, n_u = len(index["p_train"]), len(index["u_train"])
    one = torch.ones(1, dtype=torch.float64)
    setup = Setup(
        prior=one * data.prior,
        shifted_prior=one * data.shifted_prior,
        rate=(one * n_p / (n_p + n_u)).float(),
        one_sample=torch.tensor([data.setting == "os"]),
        n_p=n_p,
        n_u=n_u,
        batch_p=min(batch_size, n_p),
        batch_u=min(batch_size, n_u),
        calibration=("weighted" if entry.calibrated else "none",),
        dtype=torch.float32,
    )
    algorithm = entry.cls(setup)
    algorithm.attach(lambda _: OneRun(features.shape[1]))
    loaders = [
        forever(DataLoader(sets[key], batch_size=size, shuffle=True, drop_last=True))
        for key, size in (("p_train", setup.batch_p), ("u_train", setup.batch_u))
    ]
    passes, seeds = (
        Passes(p=sets["p_train"], u=sets["u_train"], val_p=sets["p_val"], val_u=sets["u_val"]),
        torch.tensor([7]),
    )
    phase, steps = algorithm.phases[-1], 20_000
    for earlier in algorithm.phases:  # every phase begins once; the last is the one that is timed
        algorithm.on_phase(earlier, passes)
    optimizers = {
        n: torch.optim.SGD(getattr(algorithm, n).parameters(), lr=1e-3, momentum=0.9)
        for n in algorithm.networks
    }
    began, step = time.process_time(), 0
    while step % 100 or time.process_time() - began < seconds or step == 0:
        if step % setup.epoch == 0:
            algorithm.on_epoch(phase, step // setup.epoch, passes)
        (x_p, i_p, _), (x_u, i_u, y_u) = next(loaders[0]), next(loaders[1])
        drawn = algorithm.draws(Draws(seeds, step, 1), phase)
        plan = algorithm.schedule(phase, step, steps, step // setup.epoch)
        batch = Batch(
            x=torch.cat([x_p, x_u]).unsqueeze(0),
            n_p=len(x_p),
            position={"p": i_p[None], "u": i_u[None]},
            draw={k: v[0] for k, v in drawn.items()},
            at={k: torch.tensor(v) for k, v in plan.items()},
            strong=torch.cat([x_p, x_u]).unsqueeze(0) if algorithm.strong_view else None,
            label_u=y_u[None] if algorithm.supervised else None,
        )
        for update in phase.updates:
            result = getattr(algorithm, update.loss)(batch)
            loss = result[0] if isinstance(result, tuple) else result
            for n in update.trains:
                optimizers[n].zero_grad()
            loss.sum().backward()
            for n in update.trains:
                optimizers[n].step()
        loss.item()
        with torch.no_grad():
            algorithm.after_step(batch)
        step += 1
        if step % 100 == 0:
            evaluate(algorithm, sets, data.prior, passes)
    return step / (time.process_time() - began)


def convolve(c_in: int, c_out: int, kernel: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(c_out)
    )


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            convolve(c_in, c_out, 3, stride), nn.ReLU(), convolve(c_out, c_out, 3, 1)
        )
        same = stride == 1 and c_in == c_out
        self.shortcut = nn.Identity() if same else convolve(c_in, c_out, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.inner(x) + self.shortcut(x))


def seconds_per_image_step(images: Tensor, batch_size: int, steps: int) -> float:
    """Train a plain ResNet-32 with nnPU's objective and return the seconds of processor time per
    step, without records and augmentation. Layouts and threads are torch's defaults.
    """
    blocks, width = [], 16
    for stage, channels in enumerate((16, 32, 64)):
        for at in range(5):
            blocks.append(Block(width, channels, 2 if stage and not at else 1))
            width = channels
    stem, pool = [convolve(3, 16, 3, 1), nn.ReLU()], [nn.AvgPool2d(8), nn.Flatten()]
    network = nn.Sequential(*stem, *blocks, *pool, nn.Linear(64, 2))
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    points = Points(images, torch.arange(len(images)), torch.ones(len(images)))
    loader = forever(DataLoader(points, batch_size=2 * batch_size, shuffle=True, drop_last=True))
    began = 0.0
    for step in range(-1, steps):  # the first one is not timed
        if step == 0:
            began = time.process_time()
        z = network(next(loader)[0].float() / 255)
        f_p, f_u = (z[:, 1] - z[:, 0]).split(batch_size)
        positive, negative = torch.sigmoid(-f_p).mean(), torch.sigmoid(f_p).mean()
        loss = 0.4 * positive + torch.relu(torch.sigmoid(f_u).mean() - 0.4 * negative)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
    return (time.process_time() - began) / steps
