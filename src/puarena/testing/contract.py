"""What every algorithm promises, as checks: ``puarena check my_method.py``.

A check takes a registered name and a configuration (for another device). It trains small fleets on
a generated problem and raises ``ContractError`` with one sentence if the promise does not hold.
``check_algorithm`` runs all of them, which takes minutes; with ``quick`` it only looks at the first
steps, which takes under a second.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from puarena import catalog, metrics, paper, training
from puarena.errors import UserError
from puarena.pu import HiddenLabels, PUData, labeling
from puarena.testing.capturing import find_capture_problem
from puarena.training import Curves, Fleet, FleetConfig, Row
from puarena.training.capture import StepWatch
from puarena.training.evaluate import evaluate_runs, evaluation_mode
from puarena.training.steps import Stepper

CONFIG = FleetConfig(batch_size=32, steps=60, warmup=40, record_every=20)
QUICK_CONFIG = FleetConfig(batch_size=16, steps=3, warmup=3, record_every=1)
PRIORS = (0.3, 0.5, 0.7)
RATES = (3e-3, 1e-2, 3e-2)  # learning rates of a small fleet
GENTLE_RATES = (1e-3, 3e-3, 1e-2)  # these do not ruin losses that are summed or unbounded
MIN_AUC = 0.8
MIN_GAIN = 0.02  # of accuracy over the best constant answer
SCORED_ALONE = 5  # points that are evaluated one by one

# Columns that are computed with true labels.
ORACLE_COLUMNS = {c.column for c in metrics.CRITERIA.values() if c.oracle} | {
    m.column for m in metrics.METRICS.values()
}
MODULE_ATTRIBUTES = vars(torch.nn.Module())  # where torch keeps parameters and registered state

_quickly_checked: set[type] = set()


class ContractError(Exception):
    """A promise does not hold; the message says how."""


# -- the generated problem -------------------------------------------------------------------------


def make_toy_problem(
    prior: float,
    setting: str = labeling.DEFAULT_SETTING,
    rate: float = 0.2,
    n: int = 800,
    seed: int = 0,
    positives_in_u: bool = True,
) -> tuple[np.ndarray, PUData, HiddenLabels]:
    """Return features and one split of two Gaussian classes in four dimensions.

    The classes are three standard deviations apart.
    """
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
    hidden = HiddenLabels(
        label[u_train],
        label[u_val],
        label[test],
        propensity_train=np.full(len(p_train), rate / prior),
        propensity_val=np.full(len(p_val), rate / prior),
    )
    return x.astype(np.float32), data, hidden


def _make_rows(
    name: str, lrs: tuple[float, ...] = RATES, prior: float = 0.4, **problem: Any
) -> tuple[np.ndarray, list[Row]]:
    """Return features and runs that differ in seed and learning rate.

    The runs of a calibrated form are calibrated in both ways, if these can share a fleet.
    """
    x, data, hidden = make_toy_problem(prior, **problem)
    kinds = ("batch-union", "batch-union")
    if catalog.get(name).cls.forms_mix:
        kinds = ("weighted", "batch-union")
    rows = []
    for i, lr in enumerate(lrs):
        rows.append(Row(name, data, hidden, 11 + i, lr, calibration=kinds[i % 2]))
    return x, rows


def _train_clean(name: str, config: FleetConfig) -> Curves:
    """Return the curves of the small fleet that several checks compare with."""
    return _train_fleet(name, config)[1]


def _train_fleet(name: str, config: FleetConfig) -> tuple[Fleet, Curves]:
    """Return that fleet after training, and its curves."""
    # The class is part of the key because another plugin may use the same name.
    return _train_cached(name, catalog.get(name).cls, config)


@lru_cache(maxsize=2)
def _train_cached(name: str, cls: Any, config: FleetConfig) -> tuple[Fleet, Curves]:
    x, rows = _make_rows(name)
    fleet = Fleet(rows, config, x)
    return fleet, fleet.train()


def _require_equal(
    a: Curves,
    b: Curves,
    rows_a: list[int],
    rows_b: list[int],
    message: str,
    tolerance: float = 0.0,
    ignore: Collection[str] = (),
) -> None:
    for name in sorted(a.values.keys() - set(ignore)):
        one, other = a.values[name][:, rows_a], b.values[name][:, rows_b]
        if not np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
            raise ContractError(f"{message} (the curves of {name} differ)")


def _require_finite(curves: Curves, case: str) -> None:
    is_finite = [np.isfinite(curves.values[name]).all() for name in ("loss", "test_auc")]
    if (curves.diverged >= 0).any() or not all(is_finite):
        raise ContractError(f"with {case} its losses or outputs are not finite")


# -- the promises ----------------------------------------------------------------------------------


def learns(name: str, config: FleetConfig = CONFIG) -> None:
    """It learns a separable problem better than chance at priors 0.3, 0.5 and 0.7."""
    info = catalog.get(name)
    # A warm-up that is a share of the steps needs more of them.
    steps = 600 if any(phase.share for phase in info.cls.phases) else 300
    config = replace(config, batch_size=64, steps=steps, warmup=100, record_every=50)
    setting = labeling.DEFAULT_SETTING if info.setting == "either" else info.setting
    lrs = (3e-4, 3e-3, 3e-2, 3e-1)
    calibration = "batch-union" if info.variant else paper.CALIBRATION  # that of its profile
    # All priors are trained in one fleet, whose cost is that of its steps, not of its runs.
    features, rows = [], []
    for i, prior in enumerate(PRIORS):
        x, rows_of_prior = _make_rows(name, lrs, prior, setting=setting)
        features.append(x)
        for row in rows_of_prior:
            data = _move(row.data, i * len(x))
            rows.append(replace(row, data=data, calibration=calibration))
    fleet = Fleet(rows, config, np.concatenate(features))
    is_ranking = info.baseline or info.cls.only_ranks
    shortfall = None
    with training.use_own_stream(fleet.device):
        for _ in fleet.segments():
            shortfall = _find_shortfall(fleet.log.curves(), len(lrs), is_ranking)
            if shortfall is None:
                return  # more training cannot change the answer
    raise ContractError(str(shortfall))


def _find_shortfall(curves: Curves, runs: int, is_ranking: bool) -> str | None:
    """Return what the best of ``runs`` runs of each prior lack, or None.

    With ``is_ranking`` only the AUC counts.
    """
    auc = np.nan_to_num(curves.values["test_auc"][curves.selectable])
    accuracy = np.nan_to_num(curves.values["test_accuracy"][curves.selectable])
    for i, prior in enumerate(PRIORS):
        part = slice(i * runs, (i + 1) * runs)
        best_auc = auc[:, part].max(initial=0.0)
        best_accuracy = accuracy[:, part].max(initial=0.0)
        if best_auc < MIN_AUC:
            return f"at prior {prior} its best test AUC is {best_auc:.2f}, not {MIN_AUC} or more"
        if not is_ranking and best_accuracy <= max(prior, 1 - prior) + MIN_GAIN:
            return (
                f"at prior {prior} its best test accuracy is {best_accuracy:.2f}, that of a "
                "constant answer"
            )
    return None


def _move(data: PUData, by: int) -> PUData:
    """Return a split whose examples are ``by`` places further down."""
    names = ("p_train", "u_train", "p_val", "u_val", "test")
    return replace(data, **{name: getattr(data, name) + by for name in names})


def keeps_rows_apart(name: str, config: FleetConfig = CONFIG) -> None:
    """A run gives the same curves alone and in a fleet."""
    # Rounding depends on the fleet, and sixty steps can make its effect large in float32.
    config = replace(config, dtype="float64")
    x, rows = _make_rows(name)
    together = training.train(rows, config, x)
    for i, row in enumerate(rows):
        alone = training.train([row], config, x)
        message = f"run {i} alone and in a fleet of {len(rows)} disagree: rows leak"
        _require_equal(alone, together, [0], [i], message, 1e-5)


def repeats(name: str, config: FleetConfig = CONFIG) -> None:
    """The same seed gives the same numbers, another seed gives others."""
    x, rows = _make_rows(name)
    first, again = _train_clean(name, config), training.train(rows, config, x)
    every = list(range(len(rows)))
    _require_equal(first, again, every, every, "the same seeds gave other numbers")
    other = training.train([replace(row, seed=row.seed + 1000) for row in rows], config, x)
    if np.allclose(first.values["loss"], other.values["loss"]):
        raise ContractError(
            "another seed gave the same losses: something does not use the run's own random stream"
        )


def isolates_ruin(name: str, config: FleetConfig = CONFIG) -> None:
    """A run whose weights become NaN is marked as diverged and changes no other run."""
    x, rows = _make_rows(name)
    clean = _train_clean(name, config)
    fleet = Fleet(rows, config, x)
    with torch.no_grad():
        for network in catalog.get(name).cls.networks:
            for parameter in getattr(fleet.algorithm, network).parameters():
                parameter[1].fill_(float("nan"))
    ruined = fleet.train()
    marked = (ruined.diverged >= 0).nonzero()[0].tolist()
    marked_before = (clean.diverged >= 0).nonzero()[0].tolist()
    if set(marked) != {1, *marked_before}:
        raise ContractError(f"run 1 of 0, 1, 2 was ruined, and these were marked: {marked}")
    _require_equal(clean, ruined, [0, 2], [0, 2], "a neighbor's NaN changed a run", 1e-3)


def survives_no_positives_in_u(name: str, config: FleetConfig = CONFIG) -> None:
    """An unlabeled set without a single positive leaves losses and outputs finite."""
    x, rows = _make_rows(name, GENTLE_RATES, prior=0.3, rate=0.3, positives_in_u=False)
    _require_finite(training.train(rows, config, x), "no positive in the unlabeled set")


def takes_any_batch_size(name: str, config: FleetConfig = CONFIG) -> None:
    """Batches of 1 to 256, also larger than a set, train to finite losses and outputs."""
    x, rows = _make_rows(name, (1e-3,))
    for batch_size in (1, 2, 37, 256):
        short = replace(config, batch_size=batch_size, steps=12, warmup=8, record_every=10)
        _require_finite(training.train(rows, short, x), f"batch size {batch_size}")


def ignores_hidden_labels(name: str, config: FleetConfig = CONFIG) -> None:
    """Randomizing the hidden labels does not change training; only baselines may use them."""
    info = catalog.get(name)
    if info.supervised and info.baseline:
        return
    if info.supervised:
        what, attribute = "propensities", "knows_propensity"
        if info.cls.supervised:
            what, attribute = "labels of the unlabeled set", "supervised"
        raise ContractError(
            f"it receives the true {what} ({attribute} = True), so it cannot compete with methods "
            "that do not; learn without them, or declare a reference baseline (baseline = True)"
        )
    x, rows = _make_rows(name)
    rng = np.random.default_rng(1)
    sizes = [len(getattr(rows[0].data, part)) for part in ("u_train", "u_val", "test")]
    random_labels = HiddenLabels(*(rng.random(size) < 0.5 for size in sizes))
    a = _train_clean(name, config)
    b = training.train([replace(row, hidden=random_labels) for row in rows], config, x)
    every = list(range(len(rows)))
    message = "it changed with labels it must not see"
    _require_equal(a, b, every, every, message, ignore=ORACLE_COLUMNS)


def ignores_test_points(name: str, config: FleetConfig = CONFIG) -> None:
    """Other test points change test metrics only: training, selection and records ignore them."""
    x, rows = _make_rows(name)
    other = x.copy()
    test = rows[0].data.test
    other[test] = np.random.default_rng(2).normal(size=other[test].shape)
    a, b = _train_clean(name, config), training.train(rows, config, other)
    every = list(range(len(rows)))
    message = "it changed with test points it must not see"
    _require_equal(a, b, every, every, message, ignore={m.column for m in metrics.METRICS.values()})


def scores_points_alone(name: str, config: FleetConfig = CONFIG) -> None:
    """A point's outputs do not depend on the other points, their order or how many there are."""
    fleet, _ = _train_fleet(name, config)
    held, algorithm = fleet.held, fleet.algorithm
    index = torch.cat([held.p_val, held.u_val, held.test], -1)
    together = _watch_evaluation(fleet)
    order = torch.arange(index.shape[1]).mul(7919) % index.shape[1]  # fixed and well mixed
    picked = order[:SCORED_ALONE].tolist()
    with evaluation_mode(algorithm):
        # As in an evaluation, the threshold comes first; here the three sets are mixed.
        algorithm.threshold(fleet.passes)
        for part in (order.tolist(), *([i] for i in picked)):
            again = algorithm.outputs(fleet.inputs(index[:, part]))
            for values, found in zip(together, again, strict=True):
                expected = values[:, part]
                if not torch.allclose(found, expected, rtol=1e-3, atol=1e-4, equal_nan=True):
                    raise ContractError(
                        "the outputs of a point depend on what else is evaluated, or when: score "
                        "every point by itself"
                    )


def _watch_evaluation(fleet: Fleet) -> list[Tensor]:
    """Evaluate as at a record; return the outputs for P', U' and the test points, in this order."""
    algorithm, seen = fleet.algorithm, []
    outputs = algorithm.outputs

    def watched(x: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(outputs(x))
        return seen[-1]

    with mock.patch.object(algorithm, "outputs", watched):
        evaluate_runs(algorithm, fleet.inputs, fleet.held, fleet.passes)
    return [torch.cat(parts, -1) for parts in zip(*seen, strict=True)]


def steps_without_looking(name: str, config: FleetConfig = CONFIG) -> None:
    """A step reads no value: no ``.item()``, ``if`` on a tensor or boolean-mask indexing."""
    x, rows = _make_rows(name)
    fleet = Fleet(rows, config, x)
    for stage in training.schedule_phases(fleet.algorithm, config):
        fleet.algorithm.phase = stage.phase
        fleet.algorithm.on_phase(stage.phase, fleet.passes)
        fleet.algorithm.on_epoch(stage.phase, 0, fleet.passes)
        stepper = Stepper(fleet, stage.phase, stage.start, stage.steps)
        stepper.fill(0, 2)
        with StepWatch() as watch:
            stepper.step()
        if watch.offenses:
            offenses = ", ".join(sorted(set(watch.offenses)))
            raise ContractError(
                f"a step of phase '{stage.phase.name}' looks at tensor values: {offenses}"
            )


def captures_its_steps(name: str, config: FleetConfig = CONFIG) -> None:
    """Its steps and records can be captured on a GPU, and captured they give the same curves."""
    x, rows = _make_rows(name)
    problem = find_capture_problem(rows, x, config)
    if problem is not None:
        raise ContractError(problem)


def registers_its_state(name: str, config: FleetConfig = CONFIG) -> None:
    """Every tensor it keeps is a parameter or registered state, so it moves with the device."""
    x, rows = _make_rows(name)
    fleet = Fleet(rows, config, x)
    fleet.train()
    for key, value in vars(fleet.algorithm).items():
        if key not in MODULE_ATTRIBUTES and _holds_tensor(value):
            raise ContractError(
                f"it keeps the tensor '{key}' as a plain attribute; register it with "
                "self.state(...)"
            )
    device = torch.device(config.device).type
    for key, value in fleet.algorithm.state_dict().items():
        if value.device.type != device:
            raise ContractError(f"its state '{key}' is not on the device it trains on")


def _holds_tensor(value: object) -> bool:
    """Return whether a value is a tensor or a container with one."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple, set)):
        return any(map(_holds_tensor, value))
    return isinstance(value, Tensor)


def resumes(name: str, config: FleetConfig = CONFIG) -> None:
    """Interrupted at a record and continued in a new fleet, it gives the same curves."""
    # Epochs have two steps.
    config = replace(config, batch_size=256, steps=25, warmup=10, record_every=5)
    x, rows = _make_rows(name, (3e-3, 3e-2))
    fleet = Fleet(rows, config, x)
    states: dict[str, list[training.State]] = {}
    with training.use_own_stream(fleet.device):
        for _ in fleet.segments():
            states.setdefault(fleet.algorithm.phase.name, []).append(fleet.state())
    whole = fleet.log.curves()
    tolerance = 0.0 if fleet.device.type == "cpu" else 1e-3
    for phase, states_of_phase in states.items():
        message = (
            f"interrupted in phase '{phase}' and continued, it goes another way: what it keeps is "
            "not state"
        )
        # The first state is in the middle of an epoch, the last one before the next phase.
        for state in (states_of_phase[0], states_of_phase[-1]):
            again = Fleet(rows, config, x)
            again.restore(state)
            _require_equal(whole, again.train(), [0, 1], [0, 1], message, tolerance)


def takes_first_steps(name: str, config: FleetConfig = QUICK_CONFIG) -> None:
    """The first steps give finite losses of the right shape, and rows do not mix."""
    x, data, hidden = make_toy_problem(0.4, n=200)
    rows = [Row(name, data, hidden, seed=11 + i, lr=1e-3) for i in range(3)]
    together, alone = _train_watched(rows, x, config), _train_watched(rows[1:2], x, config)
    if not np.isfinite(together).all():
        raise ContractError("its losses are not finite in the first steps")
    if not np.allclose(together[:, 1], alone[:, 0], rtol=1e-3, atol=2e-3):
        raise ContractError(
            "a run alone and in a fleet of 3 disagree: rows mix (an average over runs, perhaps?)"
        )


def _train_watched(rows: list[Row], x: np.ndarray, config: FleetConfig) -> np.ndarray:
    """Train a fleet and check what its losses return; return the recorded losses."""
    fleet = Fleet(rows, config, x)
    algorithm = fleet.algorithm
    losses = ["objective"]
    for phase in algorithm.phases:
        losses += [update.loss for update in phase.updates]
    for loss in dict.fromkeys(losses):
        setattr(algorithm, loss, _watch(getattr(algorithm, loss), loss, len(rows)))
    return np.asarray(fleet.train().values["loss"])


def _watch(method: Callable[..., Any], name: str, runs: int) -> Callable[..., Any]:
    """Return the method with a check of what it returns."""

    def watched(*arguments: Any) -> Any:
        value = method(*arguments)
        loss = value[0] if isinstance(value, tuple) and name != "objective" else value
        wanted = f"{name} must return a tensor of [runs]; it returned"
        if not isinstance(loss, Tensor):
            raise ContractError(f"{wanted} {'None' if loss is None else type(loss).__name__}")
        if loss.shape != (runs,):
            shape = list(loss.shape)
            known = {(): "a single number", (runs, 1): "[runs, 1]"}
            found = known.get(tuple(shape), f"shape {shape} for {runs} runs")
            raise ContractError(f"{wanted} {found}")
        if not loss.is_floating_point() or (torch.is_grad_enabled() and not loss.requires_grad):
            raise ContractError(
                f"{name} returned numbers that do not depend on the network, so nothing can be "
                "learned"
            )
        return value

    return watched


Check = Callable[[str, FleetConfig], None]
CHECKS: dict[str, Check] = {
    "learns": learns,
    "keeps rows apart": keeps_rows_apart,
    "repeats": repeats,
    "isolates ruin": isolates_ruin,
    "survives no positives in u": survives_no_positives_in_u,
    "takes any batch size": takes_any_batch_size,
    "ignores hidden labels": ignores_hidden_labels,
    "ignores test points": ignores_test_points,
    "scores points alone": scores_points_alone,
    "steps without looking": steps_without_looking,
    "captured equals eager": captures_its_steps,
    "registers its state": registers_its_state,
    "resumes": resumes,
}
QUICK_CHECKS: dict[str, Check] = {"takes first steps": takes_first_steps}


# -- running the checks ----------------------------------------------------------------------------


def check_algorithm(
    name: str, device: str = "cpu", quick: bool = False
) -> Iterator[tuple[str, str | None]]:
    """Check an algorithm; yield every promise with what is wrong, or None if it holds."""
    config = replace(QUICK_CONFIG if quick else CONFIG, device=device)
    for promise, check in (QUICK_CHECKS if quick else CHECKS).items():
        try:
            check(name, config)
        except (ContractError, UserError) as error:
            yield promise, str(error)
        except (Exception, SystemExit) as error:  # a plugin may raise anything
            yield promise, _describe(error, catalog.get(name).plugin_file)
        else:
            yield promise, None


def check_all(names: Iterable[str], device: str = "cpu") -> Iterator[tuple[str, str, str | None]]:
    """Check several algorithms; yield name, promise and what is wrong, or None."""
    for name in names:
        for promise, problem in check_algorithm(name, device):
            yield name, promise, problem


def _describe(error: BaseException, plugin_file: str) -> str:
    """Return an exception as one line, with the line of the plugin's file that raised it."""
    text = " ".join(str(error).split())[:300]
    description = f"{type(error).__name__}: {text}".removesuffix(": ")
    name = Path(plugin_file).name
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        if plugin_file and Path(frame.filename).name == name:
            lines.append(frame.lineno)
    return f"{description} (line {lines[-1]})" if lines else description


def check_plugins(names: Iterable[str]) -> None:
    """Check algorithms of plugins quickly, before anything is trained; each class once."""
    for name in names:
        info = catalog.get(name)
        if info.cls in _quickly_checked:
            continue
        for _, problem in check_algorithm(name, quick=True):
            if problem:
                raise UserError(
                    f"algorithm '{name}' of plugin '{info.plugin_file}' cannot be trained: "
                    f"{problem}",
                    "invalid-plugin",
                )
        _quickly_checked.add(info.cls)
