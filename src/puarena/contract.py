"""What every algorithm promises, as checks that anyone can run on their own: ``puarena check my_method.py``.

Each check takes a registered name (and a configuration, for another device), trains small fleets on a made-up
problem, and raises ``ContractError`` with one sentence when the promise does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puarena import algorithms, fleet
from puarena.data import HiddenLabels, PUData, labelling
from puarena.fleet import Curves, Fleet, FleetConfig, Row
from puarena.fleet.capture import StepWatch
from puarena.fleet.steps import Stepper

PRIORS = (0.3, 0.5, 0.7)
CONFIG = FleetConfig(batch_size=32, steps=60, warmup=40, record_every=20)


class ContractError(Exception):
    """A promise that does not hold, in one sentence."""


def toy_problem(
    prior: float,
    setting: str = labelling.DEFAULT,
    rate: float = 0.2,
    n: int = 800,
    seed: int = 0,
    positives_in_u: bool = True,
) -> tuple[np.ndarray, PUData, HiddenLabels]:
    """Return features and one split of two Gaussian classes in four dimensions, three standard deviations apart."""
    rng = np.random.default_rng(seed)
    n_p = round(rate * n)
    kind = labelling.get(setting)
    shifted = kind.prior_in_u(prior, rate)
    label = np.zeros(n + 500, dtype=bool)
    label[: n_p + (round(shifted * (n - n_p)) if positives_in_u else 0)] = True
    label[n:] = rng.random(500) < prior
    x = rng.normal(size=(len(label), 4)) + 0.75 * (2 * label[:, None] - 1)
    p, u, test = rng.permutation(n_p), n_p + rng.permutation(n - n_p), np.arange(n, n + 500)
    p_val, p_train, u_val, u_train = *np.split(p, [n_p // 5]), *np.split(u, [(n - n_p) // 5])
    data = PUData(p_train, u_train, p_val, u_val, test, prior, rate, shifted, kind)
    chances = [np.full(len(part), min(1.0, rate / prior)) for part in (p_train, p_val)]
    hidden = HiddenLabels(label[u_train], label[u_val], label[test], chances[0], chances[1])
    return x.astype(np.float32), data, hidden


def _rows(
    name: str, lrs: tuple[float, ...] = (3e-3, 1e-2, 3e-2), prior: float = 0.4, **problem: Any
) -> tuple[np.ndarray, list[Row]]:
    x, data, hidden = toy_problem(prior, **problem)
    return x, [Row(name, data, hidden, seed=11 + i, lr=lr) for i, lr in enumerate(lrs)]


def _same(a: Curves, b: Curves, rows_a: list[int], rows_b: list[int], message: str, exact: bool = False,
          only: Callable[[str], bool] = lambda name: True) -> None:  # fmt: skip
    tolerance = {"rtol": 0.0, "atol": 0.0} if exact else {"rtol": 1e-3, "atol": 2e-3}
    for name in filter(only, a.values):
        if not np.allclose(a.values[name][:, rows_a], b.values[name][:, rows_b], equal_nan=True, **tolerance):
            raise ContractError(f"{message} (the curves of {name} differ)")


def learns(name: str, config: FleetConfig = CONFIG) -> None:
    """It learns a separable problem better than chance at priors 0.3, 0.5 and 0.7."""
    entry = algorithms.get(name)
    config = replace(config, batch_size=64, steps=600, warmup=200, record_every=50)
    assumed = entry.cls.setting
    setting = labelling.DEFAULT if entry.calibrated or assumed == "either" else assumed
    for prior in PRIORS:
        x, rows = _rows(name, (3e-4, 3e-3, 3e-2, 3e-1), prior, setting=setting)
        curves = fleet.train(rows, config, x)
        auc = np.nanmax(curves.values["test_auc"][curves.selectable])
        if not auc >= 0.8:
            raise ContractError(f"at prior {prior} its best test AUC is {auc:.2f}, not 0.8 or more")
        chance = max(prior, 1 - prior)
        accuracy = np.nanmax(curves.values["test_accuracy"][curves.selectable])
        if not (entry.cls.frame or entry.cls.rough) and not accuracy > chance + 0.02:
            raise ContractError(f"at prior {prior} its best test accuracy is {accuracy:.2f}, that of a constant answer")


def keeps_rows_apart(name: str, config: FleetConfig = CONFIG) -> None:
    """A run gives the same curves alone and in a fleet."""
    x, rows = _rows(name)
    together = fleet.train(rows, config, x)
    for i, row in enumerate(rows):
        alone = fleet.train([row], config, x)
        _same(alone, together, [0], [i], f"run {i} alone and in a fleet of {len(rows)} disagree: rows leak")


def repeats(name: str, config: FleetConfig = CONFIG) -> None:
    """The same seed gives the same numbers, another seed gives others."""
    x, rows = _rows(name)
    first, again = fleet.train(rows, config, x), fleet.train(rows, config, x)
    everything = list(range(len(rows)))
    _same(first, again, everything, everything, "the same seeds gave other numbers", exact=True)
    other = fleet.train([replace(row, seed=row.seed + 1000) for row in rows], config, x)
    if np.allclose(first.values["loss"], other.values["loss"]):
        raise ContractError("another seed gave the same losses: something does not use the run's own random stream")


def isolates_ruin(name: str, config: FleetConfig = CONFIG) -> None:
    """A run whose weights turn NaN is marked and harms no other."""
    x, rows = _rows(name)
    clean = fleet.train(rows, config, x)
    ruined = Fleet(rows, config, x)
    with torch.no_grad():
        for network in algorithms.get(name).cls.networks:
            for parameter in getattr(ruined.algorithm, network).parameters():
                parameter[1].fill_(float("nan"))
    curves = ruined.train()
    if curves.diverged[1] < 0 or (curves.diverged[[0, 2]] >= 0).any():
        marked = np.flatnonzero(curves.diverged >= 0).tolist()
        raise ContractError(f"run 1 of 0, 1, 2 was ruined, and these were marked: {marked}")
    _same(clean, curves, [0, 2], [0, 2], "a neighbour's NaN changed a run")


def survives_no_positives_in_u(name: str, config: FleetConfig = CONFIG) -> None:
    """An unlabeled set without a single positive leaves the outputs finite."""
    x, rows = _rows(name, prior=0.3, rate=0.3, positives_in_u=False)
    curves = fleet.train(rows, config, x)
    if (curves.diverged >= 0).any() or not np.isfinite(curves.values["test_auc"]).all():
        raise ContractError("with no positive in the unlabeled set its outputs are not finite")


def takes_any_batch_size(name: str, config: FleetConfig = CONFIG) -> None:
    """Batches of 1 to 256, also larger than a set, train to finite outputs."""
    for batch_size in (1, 2, 37, 256):
        x, rows = _rows(name, (1e-3,))
        curves = fleet.train(rows, replace(config, batch_size=batch_size, steps=12, warmup=8, record_every=10), x)
        if not np.isfinite(curves.values["test_auc"]).all():
            raise ContractError(f"with batch size {batch_size} its outputs are not finite")


def ignores_hidden_labels(name: str, config: FleetConfig = CONFIG) -> None:
    """Turning every hidden label round changes neither losses nor what needs no labels."""
    if algorithms.get(name).cls.supervised:
        return
    x, rows = _rows(name)
    names = ("u_train", "u_val", "test")
    turned = [replace(r, hidden=replace(r.hidden, **{n: ~getattr(r.hidden, n) for n in names})) for r in rows]
    a, b = fleet.train(rows, config, x), fleet.train(turned, config, x)
    everything = list(range(len(rows)))
    unlabeled = lambda column: column in ("loss", "val_pa", "val_pauc")  # noqa: E731
    _same(a, b, everything, everything, "it changed with labels it must not see", exact=True, only=unlabeled)


def steps_without_looking(name: str, config: FleetConfig = CONFIG) -> None:
    """A step never reads a value back: no ``.item()``, no ``if`` on a tensor, no boolean-mask indexing."""
    x, rows = _rows(name)
    some = Fleet(rows, config, x)
    for stretch in fleet.timetable(some.algorithm, config):
        some.algorithm.phase = stretch.phase
        some.algorithm.on_phase(stretch.phase, some.passes)
        some.algorithm.on_epoch(stretch.phase, 0, some.passes)
        stepper = Stepper(some, stretch.phase, stretch.start, stretch.steps)
        stepper.fill(0, 2)
        with StepWatch() as watch:
            stepper.step()
        if watch.found:
            what = ", ".join(sorted(set(watch.found)))
            raise ContractError(f"a step of phase '{stretch.phase.name}' looks at tensor values: {what}")


def registers_its_state(name: str, config: FleetConfig = CONFIG) -> None:
    """Every tensor it keeps is a parameter or registered state, so that it moves with the device."""
    x, rows = _rows(name)
    some = Fleet(rows, config, x)
    some.train()
    stray = [key for key, value in vars(some.algorithm).items() if isinstance(value, Tensor)]
    if stray:
        raise ContractError(f"it keeps the tensor '{stray[0]}' as a plain attribute; register it with self.state(...)")
    kind = torch.device(config.device).type
    left = [key for key, value in some.algorithm.state_dict().items() if value.device.type != kind]
    if left:
        raise ContractError(f"its state '{left[0]}' is not on the device it trains on")


def resumes(name: str, config: FleetConfig = CONFIG) -> None:
    """Interrupted at a record and continued in a new fleet, it gives the curves of an uninterrupted one."""
    config = replace(config, batch_size=256, steps=25, warmup=10, record_every=5)  # epochs of two steps
    x, rows = _rows(name, (3e-3, 3e-2))
    some = Fleet(rows, config, x)
    states: dict[str, list[fleet.State]] = {}
    with fleet.own_stream(some.device):
        for _ in some.segments():
            states.setdefault(some.algorithm.phase.name, []).append(some.state())
    whole = some.log.curves()
    exact = some.device.type == "cpu"
    for phase, taken in states.items():
        for state in (taken[0], taken[-1]):  # in the middle of an epoch; before the next phase
            again = Fleet(rows, config, x)
            again.restore(state)
            message = f"interrupted in phase '{phase}' and continued, it goes another way: what it keeps is not state"
            _same(whole, again.train(), [0, 1], [0, 1], message, exact)


CHECKS: dict[str, Callable[..., None]] = {
    check.__name__.replace("_", " "): check
    for check in (
        learns, keeps_rows_apart, repeats, isolates_ruin, survives_no_positives_in_u, takes_any_batch_size,
        ignores_hidden_labels, steps_without_looking, registers_its_state, resumes,
    )
}  # fmt: skip


def check_all(names: list[str], device: str = "cpu") -> Iterator[tuple[str, str, str | None]]:
    """Check algorithms; yield each name with each promise and what is wrong with it, or None."""
    config = replace(CONFIG, device=device)
    for name in names:
        for promise, check in CHECKS.items():
            try:
                check(name, config)
            except ContractError as error:
                yield name, promise, str(error)
            except Exception as error:  # a plugin may raise anything: that is a broken promise too
                yield name, promise, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            else:
                yield name, promise, None
