"""What every algorithm promises, as checks that anyone can run on their own: ``puarena check my_method.py``.

Each check takes a registered name, trains small fleets on a made-up problem, and raises ``Broken`` with one sentence
when the promise does not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from puarena import algorithms, fleet
from puarena.data import HiddenLabels, PUData
from puarena.fleet import Curves, Fleet, FleetConfig, Row
from puarena.fleet.steps import Stepper

PRIORS = (0.3, 0.5, 0.7)
CONFIG = FleetConfig(batch_size=32, steps=60, warmup=40, record_every=20)


class Broken(Exception):
    """A promise that does not hold, in one sentence."""


def toy_problem(
    prior: float, setting: str = "os", rate: float = 0.2, n: int = 800, seed: int = 0, positives_in_u: bool = True
) -> tuple[np.ndarray, PUData, HiddenLabels]:
    """Return features and one split of two Gaussian classes in four dimensions, three standard deviations apart."""
    rng = np.random.default_rng(seed)
    n_p = round(rate * n)
    shifted = (prior - rate) / (1 - rate) if setting == "os" else prior
    label = np.zeros(n + 500, dtype=bool)
    label[: n_p + (round(shifted * (n - n_p)) if positives_in_u else 0)] = True
    label[n:] = rng.random(500) < prior
    x = rng.normal(size=(len(label), 4)) + 0.75 * (2 * label[:, None] - 1)
    p, u, test = rng.permutation(n_p), n_p + rng.permutation(n - n_p), np.arange(n, n + 500)
    p_val, p_train, u_val, u_train = *np.split(p, [n_p // 5]), *np.split(u, [(n - n_p) // 5])
    data = PUData(p_train, u_train, p_val, u_val, test, prior, rate, shifted, "os" if setting == "os" else "ts")
    return x.astype(np.float32), data, HiddenLabels(label[u_train], label[u_val], label[test])


def _rows(name: str, lrs: tuple[float, ...] = (3e-3, 1e-2, 3e-2), prior: float = 0.4, **problem: Any) -> tuple[np.ndarray, list[Row]]:
    x, data, hidden = toy_problem(prior, **problem)
    return x, [Row(name, data, hidden, seed=11 + i, lr=lr) for i, lr in enumerate(lrs)]


def _same(a: Curves, b: Curves, rows_a: list[int], rows_b: list[int], message: str, exact: bool = False,
          only: Callable[[str], bool] = lambda name: True) -> None:  # fmt: skip
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": 1e-3, "atol": 2e-3}
    for name in filter(only, a.values):
        if not np.allclose(a.values[name][:, rows_a], b.values[name][:, rows_b], equal_nan=True, **tolerance):
            raise Broken(f"{message} (the curves of {name} differ)")


def learns(name: str) -> None:
    """It learns a separable problem better than chance at priors 0.3, 0.5 and 0.7."""
    entry = algorithms.get(name)
    config = FleetConfig(batch_size=64, steps=600, warmup=200, record_every=50)
    setting = "ts" if entry.cls.setting == "two-sample" and not entry.calibrated else "os"
    for prior in PRIORS:
        x, rows = _rows(name, (3e-3, 3e-2, 3e-1), prior, setting=setting)
        curves = fleet.train(rows, config, x)
        auc = np.nanmax(curves.values["test_auc"][curves.selectable])
        if not auc >= 0.8:
            raise Broken(f"at prior {prior} its best test AUC on a separable problem is {auc:.2f}, not 0.8 or more")
        chance = max(prior, 1 - prior)
        accuracy = np.nanmax(curves.values["test_accuracy"][curves.selectable])
        if not entry.cls.frame and not accuracy > chance + 0.02:
            raise Broken(f"at prior {prior} its best test accuracy is {accuracy:.2f}, no better than a constant answer")


def keeps_rows_apart(name: str) -> None:
    """A run gives the same curves alone and in a fleet."""
    x, rows = _rows(name)
    together = fleet.train(rows, CONFIG, x)
    for i, row in enumerate(rows):
        alone = fleet.train([row], CONFIG, x)
        _same(alone, together, [0], [i], f"run {i} alone and in a fleet of {len(rows)} disagree: rows leak")


def repeats(name: str) -> None:
    """The same seed gives the same numbers, another seed gives others."""
    x, rows = _rows(name)
    first, again = fleet.train(rows, CONFIG, x), fleet.train(rows, CONFIG, x)
    everything = list(range(len(rows)))
    _same(first, again, everything, everything, "the same seeds gave other numbers", exact=True)
    other = fleet.train([replace(row, seed=row.seed + 1000) for row in rows], CONFIG, x)
    if np.allclose(first.values["loss"], other.values["loss"]):
        raise Broken("another seed gave the same losses: something does not use the run's own random stream")


def isolates_ruin(name: str) -> None:
    """A run whose weights turn NaN is marked and harms no other."""
    x, rows = _rows(name)
    clean = fleet.train(rows, CONFIG, x)
    ruined = Fleet(rows, CONFIG, x)
    with torch.no_grad():
        for network in algorithms.get(name).cls.networks:
            for parameter in getattr(ruined.algorithm, network).parameters():
                parameter[1].fill_(float("nan"))
    curves = ruined.train()
    if curves.diverged[1] < 0 or (curves.diverged[[0, 2]] >= 0).any():
        raise Broken(f"one of three runs was ruined, and these were marked: {np.flatnonzero(curves.diverged >= 0).tolist()}")
    _same(clean, curves, [0, 2], [0, 2], "a neighbour's NaN changed a run")


def survives_no_positives_in_u(name: str) -> None:
    """An unlabeled set without a single positive leaves the outputs finite."""
    x, rows = _rows(name, prior=0.3, rate=0.3, positives_in_u=False)
    curves = fleet.train(rows, CONFIG, x)
    if (curves.diverged >= 0).any() or not np.isfinite(curves.values["test_auc"]).all():
        raise Broken("with no positive in the unlabeled set its outputs are not finite")


def takes_any_batch_size(name: str) -> None:
    """Batches of 1 to 256, also larger than a set, train to finite outputs."""
    for batch_size in (1, 2, 37, 256):
        x, rows = _rows(name, (1e-3,))
        curves = fleet.train(rows, replace(CONFIG, batch_size=batch_size, steps=12, warmup=8, record_every=10), x)
        if not np.isfinite(curves.values["test_auc"]).all():
            raise Broken(f"with batch size {batch_size} its outputs are not finite")


def ignores_hidden_labels(name: str) -> None:
    """Turning every hidden label round changes neither losses nor what needs no labels."""
    if algorithms.get(name).cls.supervised:
        return
    x, rows = _rows(name)
    turned = [replace(r, hidden=HiddenLabels(~r.hidden.u_train, ~r.hidden.u_val, ~r.hidden.test)) for r in rows]
    a, b = fleet.train(rows, CONFIG, x), fleet.train(turned, CONFIG, x)
    everything = list(range(len(rows)))
    unlabeled = lambda column: column in ("loss", "val_pa", "val_pauc")  # noqa: E731
    _same(a, b, everything, everything, "it changed with labels it must not see", exact=True, only=unlabeled)


class _StepWatch(TorchDispatchMode):
    """Notes operations that force a look at the values of a tensor."""

    forbidden = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "is_nonzero")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operation = func.overloadpacket.__name__
        masks = operation in ("index", "index_put", "index_put_") and any(
            isinstance(i, Tensor) and i.dtype == torch.bool for i in (args[1] or ())
        )
        if operation in self.forbidden or masks:
            self.found.append("boolean-mask indexing" if masks else operation)
        return func(*args, **(kwargs or {}))


def steps_without_looking(name: str) -> None:
    """A step never reads a value back: no ``.item()``, no ``if`` on a tensor, no boolean-mask indexing."""
    x, rows = _rows(name)
    some = Fleet(rows, CONFIG, x)
    for stretch in fleet.timetable(some.algorithm, CONFIG):
        some.algorithm.on_phase(stretch.phase, some.passes)
        some.algorithm.on_epoch(stretch.phase, 0, some.passes)
        stepper = Stepper(some, stretch.phase, stretch.start, stretch.steps)
        stepper.fill(0, 2)
        with _StepWatch() as watch:
            stepper.step()
        if watch.found:
            raise Broken(f"a step of phase '{stretch.phase.name}' looks at tensor values: {', '.join(sorted(set(watch.found)))}")


def registers_its_state(name: str) -> None:
    """Every tensor it keeps is a parameter or registered state, so that it moves with the device."""
    x, rows = _rows(name)
    some = Fleet(rows, CONFIG, x)
    some.train()
    stray = [key for key, value in vars(some.algorithm).items() if isinstance(value, Tensor)]
    if stray:
        raise Broken(f"it keeps the tensor '{stray[0]}' as a plain attribute; register it with self.state(...)")
    if torch.cuda.is_available():
        on_device = Fleet(rows, replace(CONFIG, device="cuda"), x)
        on_device.train()
        left = [key for key, value in on_device.algorithm.state_dict().items() if value.device.type != "cuda"]
        if left:
            raise Broken(f"its state '{left[0]}' did not move to the device")


CHECKS: dict[str, Callable[[str], None]] = {
    check.__name__.replace("_", " "): check
    for check in (
        learns, keeps_rows_apart, repeats, isolates_ruin, survives_no_positives_in_u, takes_any_batch_size,
        ignores_hidden_labels, steps_without_looking, registers_its_state,
    )
}  # fmt: skip
