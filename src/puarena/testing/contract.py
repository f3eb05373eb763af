"""What every algorithm promises, as checks that anyone can run on their own: ``puarena check my_method.py``.

Each check takes a registered name (and a configuration, for another device), trains small fleets on a made-up
problem, and raises ``ContractError`` with one sentence when the promise does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puarena import catalog, metrics, paper, training
from puarena.pu import HiddenLabels, PUData, labeling
from puarena.training import Curves, Fleet, FleetConfig, Row
from puarena.training.capture import StepWatch
from puarena.training.steps import Stepper

PRIORS = (0.3, 0.5, 0.7)
RATES = (3e-3, 1e-2, 3e-2)  # learning rates of a small fleet
GENTLE = (
    1e-3,
    3e-3,
    1e-2,
)  # none of them is a ruin by itself, also of losses that are summed or without bound
ORACLE = {c.column for c in metrics.CRITERIA.values() if c.oracle} | {
    m.column for m in metrics.METRICS.values()
}
CONFIG = FleetConfig(batch_size=32, steps=60, warmup=40, record_every=20)
MODULE = vars(torch.nn.Module())  # where torch keeps parameters and registered state


class ContractError(Exception):
    """A promise that does not hold, in one sentence."""


def toy_problem(
    prior: float,
    setting: str = labeling.DEFAULT_SETTING,
    rate: float = 0.2,
    n: int = 800,
    seed: int = 0,
    positives_in_u: bool = True,
) -> tuple[np.ndarray, PUData, HiddenLabels]:
    """Return features and one split of two Gaussian classes in four dimensions, three standard deviations apart."""
    rng = np.random.default_rng(seed)
    n_p = round(rate * n)
    kind = labeling.get_setting(setting)
    shifted = kind.prior_in_u(prior, rate)
    label = np.zeros(n + 500, dtype=bool)
    label[: n_p + (round(shifted * (n - n_p)) if positives_in_u else 0)] = True
    label[n:] = rng.random(500) < prior
    x = rng.normal(size=(len(label), 4)) + 0.75 * (2 * label[:, None] - 1)
    p, u, test = rng.permutation(n_p), n_p + rng.permutation(n - n_p), np.arange(n, n + 500)
    p_val, p_train, u_val, u_train = *np.split(p, [n_p // 5]), *np.split(u, [(n - n_p) // 5])
    data = PUData(p_train, u_train, p_val, u_val, test, prior, rate, shifted, kind)
    of_train, of_val = (np.full(len(part), rate / prior) for part in (p_train, p_val))
    hidden = HiddenLabels(
        label[u_train], label[u_val], label[test], propensity_train=of_train, propensity_val=of_val
    )  # all alike
    return x.astype(np.float32), data, hidden


def _rows(
    name: str, lrs: tuple[float, ...] = RATES, prior: float = 0.4, **problem: Any
) -> tuple[np.ndarray, list[Row]]:
    """Return features and runs that differ in seed and learning rate; a calibrated form is calibrated in both ways."""
    x, data, hidden = toy_problem(prior, **problem)
    kinds = ("weighted", "batch-union") if catalog.get(name).cls.forms_mix else ("batch-union",) * 2
    return x, [
        Row(name, data, hidden, 11 + i, lr, calibration=kinds[i % 2]) for i, lr in enumerate(lrs)
    ]


def _clean(name: str, config: FleetConfig) -> Curves:
    """The curves of the small fleet that several promises are held against."""
    cls: Any = catalog.get(name).cls  # another plugin may come under the same name
    return _trained(name, cls, config)


@lru_cache(maxsize=2)
def _trained(name: str, cls: Any, config: FleetConfig) -> Curves:
    x, rows = _rows(name)
    return training.train(rows, config, x)


def _same(
    a: Curves,
    b: Curves,
    rows_a: list[int],
    rows_b: list[int],
    message: str,
    tolerance: float = 0.0,
    without: Collection[str] = (),
) -> None:
    for name in (column for column in a.values if column not in without):
        one, other = a.values[name][:, rows_a], b.values[name][:, rows_b]
        if not np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
            raise ContractError(f"{message} (the curves of {name} differ)")


def _finite(curves: Curves, case: str) -> None:
    if (curves.diverged >= 0).any() or not all(
        np.isfinite(curves.values[c]).all() for c in ("loss", "test_auc")
    ):
        raise ContractError(f"with {case} its losses or outputs are not finite")


def learns(name: str, config: FleetConfig = CONFIG) -> None:
    """It learns a separable problem better than chance at priors 0.3, 0.5 and 0.7."""
    entry = catalog.get(name)
    long = any(
        phase.share for phase in entry.cls.phases
    )  # who warms up for a part of the steps needs more of them
    config = replace(config, batch_size=64, steps=600 if long else 300, warmup=100, record_every=50)
    setting = labeling.DEFAULT_SETTING if entry.setting == "either" else entry.setting
    lrs = (3e-4, 3e-3, 3e-2, 3e-1)
    usual = "batch-union" if entry.variant else paper.CALIBRATION  # as its profile calibrates
    features, rows = [], []
    for i, prior in enumerate(PRIORS):  # one fleet: its cost is that of its steps, not of its runs
        x, of_prior = _rows(name, lrs, prior, setting=setting)
        features.append(x)
        rows += [
            replace(row, data=_moved(row.data, i * len(x)), calibration=usual) for row in of_prior
        ]
    some = Fleet(rows, config, np.concatenate(features))
    shortfall = None
    with training.use_own_stream(some.device):
        for _ in some.segments():
            shortfall = _shortfall(
                some.log.curves(), len(lrs), ranking=entry.baseline or entry.cls.only_ranks
            )
            if shortfall is None:  # the rest of the training would show nothing more
                return
    raise ContractError(str(shortfall))


def _shortfall(curves: Curves, runs: int, ranking: bool) -> str | None:
    """What the best of so many runs of each prior lack (where only the ranking is promised: of that)."""
    auc, accuracy = (
        np.nan_to_num(curves.values[c][curves.selectable]) for c in ("test_auc", "test_accuracy")
    )
    for i, prior in enumerate(PRIORS):
        best_auc, best_accuracy = (
            part[:, i * runs : (i + 1) * runs].max(initial=0.0) for part in (auc, accuracy)
        )
        if best_auc < 0.8:
            return f"at prior {prior} its best test AUC is {best_auc:.2f}, not 0.8 or more"
        if not ranking and best_accuracy <= max(prior, 1 - prior) + 0.02:
            return f"at prior {prior} its best test accuracy is {best_accuracy:.2f}, that of a constant answer"
    return None


def _moved(data: PUData, by: int) -> PUData:
    """Return a split whose examples stand so many places further down."""
    places = {
        name: getattr(data, name) + by for name in ("p_train", "u_train", "p_val", "u_val", "test")
    }
    return replace(data, **places)


def keeps_rows_apart(name: str, config: FleetConfig = CONFIG) -> None:
    """A run gives the same curves alone and in a fleet."""
    config = replace(
        config, dtype="float64"
    )  # rounding depends on the fleet; in float32 sixty steps can make it large
    x, rows = _rows(name)
    together = training.train(rows, config, x)
    for i, row in enumerate(rows):
        alone = training.train([row], config, x)
        _same(
            alone,
            together,
            [0],
            [i],
            f"run {i} alone and in a fleet of {len(rows)} disagree: rows leak",
            1e-5,
        )


def repeats(name: str, config: FleetConfig = CONFIG) -> None:
    """The same seed gives the same numbers, another seed gives others."""
    x, rows = _rows(name)
    first, again = _clean(name, config), training.train(rows, config, x)
    everything = list(range(len(rows)))
    _same(first, again, everything, everything, "the same seeds gave other numbers")
    other = training.train([replace(row, seed=row.seed + 1000) for row in rows], config, x)
    if np.allclose(first.values["loss"], other.values["loss"]):
        raise ContractError(
            "another seed gave the same losses: something does not use the run's own random stream"
        )


def isolates_ruin(name: str, config: FleetConfig = CONFIG) -> None:
    """A run whose weights turn NaN is marked and harms no other."""
    x, rows = _rows(name)
    clean = _clean(name, config)
    ruined = Fleet(rows, config, x)
    with torch.no_grad():
        for network in catalog.get(name).cls.networks:
            for parameter in getattr(ruined.algorithm, network).parameters():
                parameter[1].fill_(float("nan"))
    curves = ruined.train()
    marked, without_ruin = ((c.diverged >= 0).nonzero()[0].tolist() for c in (curves, clean))
    if set(marked) != {1, *without_ruin}:
        raise ContractError(f"run 1 of 0, 1, 2 was ruined, and these were marked: {marked}")
    _same(clean, curves, [0, 2], [0, 2], "a neighbor's NaN changed a run", 1e-3)


def survives_no_positives_in_u(name: str, config: FleetConfig = CONFIG) -> None:
    """An unlabeled set without a single positive leaves losses and outputs finite."""
    x, rows = _rows(name, GENTLE, prior=0.3, rate=0.3, positives_in_u=False)
    curves = training.train(rows, config, x)
    _finite(curves, "no positive in the unlabeled set")


def takes_any_batch_size(name: str, config: FleetConfig = CONFIG) -> None:
    """Batches of 1 to 256, also larger than a set, train to finite losses and outputs."""
    for batch_size in (1, 2, 37, 256):
        x, rows = _rows(name, (1e-3,))
        curves = training.train(
            rows, replace(config, batch_size=batch_size, steps=12, warmup=8, record_every=10), x
        )
        _finite(curves, f"batch size {batch_size}")


def ignores_hidden_labels(name: str, config: FleetConfig = CONFIG) -> None:
    """Other hidden labels, drawn by lot, change nothing but what is measured with them; only a baseline may see them."""
    entry = catalog.get(name)
    if entry.supervised and entry.baseline:
        return
    if entry.supervised:
        what = (
            "labels of the unlabeled set (supervised"
            if entry.cls.supervised
            else "propensities (knows_propensity"
        )
        raise ContractError(
            f"it is handed the true {what} = True), so it cannot compete with methods that do without; learn without "
            "them, or declare it a reference baseline (baseline = True)"
        )
    x, rows = _rows(name)
    hidden, rng = rows[0].hidden, np.random.default_rng(1)
    lots = HiddenLabels(
        *(rng.random(len(part)) < 0.5 for part in (hidden.u_train, hidden.u_val, hidden.test))
    )
    a, b = (
        _clean(name, config),
        training.train([replace(row, hidden=lots) for row in rows], config, x),
    )
    everything = list(range(len(rows)))
    _same(a, b, everything, everything, "it changed with labels it must not see", without=ORACLE)


def steps_without_looking(name: str, config: FleetConfig = CONFIG) -> None:
    """A step never reads a value back: no ``.item()``, no ``if`` on a tensor, no boolean-mask indexing."""
    x, rows = _rows(name)
    some = Fleet(rows, config, x)
    for stretch in training.schedule_phases(some.algorithm, config):
        some.algorithm.phase = stretch.phase
        some.algorithm.on_phase(stretch.phase, some.passes)
        some.algorithm.on_epoch(stretch.phase, 0, some.passes)
        stepper = Stepper(some, stretch.phase, stretch.start, stretch.steps)
        stepper.fill(0, 2)
        with StepWatch() as watch:
            stepper.step()
        if watch.offenses:
            what = ", ".join(sorted(set(watch.offenses)))
            raise ContractError(
                f"a step of phase '{stretch.phase.name}' looks at tensor values: {what}"
            )


def registers_its_state(name: str, config: FleetConfig = CONFIG) -> None:
    """Every tensor it keeps is a parameter or registered state, so that it moves with the device."""
    x, rows = _rows(name)
    some = Fleet(rows, config, x)
    some.train()
    stray = [
        key
        for key, value in vars(some.algorithm).items()
        if key not in MODULE and _holds_tensor(value)
    ]
    if stray:
        raise ContractError(
            f"it keeps the tensor '{stray[0]}' as a plain attribute; register it with self.state(...)"
        )
    kind = torch.device(config.device).type
    left = [key for key, value in some.algorithm.state_dict().items() if value.device.type != kind]
    if left:
        raise ContractError(f"its state '{left[0]}' is not on the device it trains on")


def _holds_tensor(value: object) -> bool:
    """Is it a tensor, or a list, tuple, set or dictionary that has one?"""
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, Tensor) or (
        isinstance(value, (list, tuple, set)) and any(map(_holds_tensor, value))
    )


def resumes(name: str, config: FleetConfig = CONFIG) -> None:
    """Interrupted at a record and continued in a new fleet, it gives the curves of an uninterrupted one."""
    config = replace(
        config, batch_size=256, steps=25, warmup=10, record_every=5
    )  # epochs of two steps
    x, rows = _rows(name, (3e-3, 3e-2))
    some = Fleet(rows, config, x)
    states: dict[str, list[training.State]] = {}
    with training.use_own_stream(some.device):
        for _ in some.segments():
            states.setdefault(some.algorithm.phase.name, []).append(some.state())
    whole = some.log.curves()
    tolerance = 0.0 if some.device.type == "cpu" else 1e-3
    for phase, of_phase in states.items():
        for state in (
            of_phase[0],
            of_phase[-1],
        ):  # in the middle of an epoch; before the next phase
            again = Fleet(rows, config, x)
            again.restore(state)
            message = f"interrupted in phase '{phase}' and continued, it goes another way: what it keeps is not state"
            _same(whole, again.train(), [0, 1], [0, 1], message, tolerance)


CHECKS: dict[str, Callable[..., None]] = {
    check.__name__.replace("_", " "): check
    for check in (
        learns,
        keeps_rows_apart,
        repeats,
        isolates_ruin,
        survives_no_positives_in_u,
        takes_any_batch_size,
        ignores_hidden_labels,
        steps_without_looking,
        registers_its_state,
        resumes,
    )
}


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
