"""From a table to trained models: the split, the fleet, and the plain data that a fitted model consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from puarena import algorithms, catalog, metrics, networks, paper
from puarena.algorithms import Setup
from puarena.pu import HiddenLabels, PUData, labeling
from puarena.training import Fleet, FleetConfig, Row
from puarena.training.evaluate import evaluation_mode

CHUNK = 4096  # rows predicted at once
CURVE = {"loss": "loss", **{c.column: name for name, c in metrics.CRITERIA.items() if not c.oracle}}

Network = str | Callable[[int], torch.nn.Module]
Floats = npt.NDArray[np.floating[Any]]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Prepared:
    """A table ready for training: standardized features, who is labeled, and which rows are held out."""

    x: Floats  # float32
    center: Floats
    scale: Floats
    p_train: Indices
    u_train: Indices
    p_val: Indices
    u_val: Indices
    setting: labeling.Setting
    seed: int
    true_rate: float | None = None  # where only a part of the rows is here
    propensity: npt.NDArray[np.float64] | None = None  # of every row, where it is known

    @property
    def rate(self) -> float:
        """Share of labeled rows."""
        if self.true_rate is not None:
            return self.true_rate
        n_p = len(np.union1d(self.p_train, self.p_val))
        return n_p / len(self.x)

    def shifted(self, prior: float) -> float:
        """Class prior inside the unlabeled rows."""
        return self.setting.prior_in_u(prior, self.rate)

    def held_out(self, at_least: int = 20) -> tuple[Indices, Indices]:
        """Rows to judge a fitted model by: those held out, or all where they are too few."""
        few = min(len(self.p_val), len(self.u_val)) < at_least
        if not few:
            return self.p_val, self.u_val
        return np.union1d(self.p_train, self.p_val), np.union1d(self.u_train, self.u_val)


@dataclass(frozen=True)
class Candidate:
    """One run: an algorithm's registered name and its numbers, and rows of its own where runs differ in these."""

    algorithm: str
    prior: float
    lr: float
    momentum: float
    hyper: dict[str, Any] = field(default_factory=dict)
    rows: tuple[Indices, Indices, Indices, Indices] | None = None  # p_train, u_train, p_val, u_val


@dataclass
class Model:
    """What a fitted model is, as plain data; ``logits`` predicts with it in double precision."""

    algorithm: str
    network: Network
    hyper: dict[str, Any]
    setting: str  # its code
    prior: float
    shifted_prior: float
    sizes: dict[str, int]  # n_p, n_u, batch_p, batch_u, steps
    center: Floats
    scale: Floats
    weights: dict[str, Floats]
    cut: float = 0.0

    _built: algorithms.Algorithm | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": None}

    def built(self) -> algorithms.Algorithm:
        """The algorithm with its trained parameters, in double precision on the CPU."""
        if self._built is None:
            entry = catalog.get(self.algorithm)
            s = self.sizes

            def per_run(value: float) -> torch.Tensor:
                return torch.tensor([value], dtype=torch.float64)

            algorithm = entry.cls(
                Setup(
                    prior=per_run(self.prior),
                    shifted_prior=per_run(self.shifted_prior),
                    rate=per_run(s["n_p"] / (s["n_p"] + s["n_u"])),
                    one_sample=torch.tensor([labeling.get_setting(self.setting).one_sample]),
                    n_p=s["n_p"],
                    n_u=s["n_u"],
                    batch_p=s["batch_p"],
                    batch_u=s["batch_u"],
                    steps=s["steps"],
                    calibration=(paper.CALIBRATION if entry.calibrated else "none",),
                    hyper={name: [value] for name, value in self.hyper.items()},
                )
            )
            seeds, shape = torch.zeros(1, dtype=torch.int64), (len(self.center),)
            algorithm.attach(
                lambda name: networks.build(self.network, seeds, shape, name, torch.float64)
            )
            own = dict(algorithm.named_parameters())
            if {n: tuple(p.shape) for n, p in own.items()} != {
                n: w.shape for n, w in self.weights.items()
            }:
                raise ValueError(f"the weights are not those of {self.algorithm} with this network")
            with torch.no_grad():
                for name, parameter in own.items():
                    parameter.copy_(torch.from_numpy(np.array(self.weights[name])))
            algorithm.eval()
            self._built = algorithm
        return self._built

    def plain(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Facts and arrays, from which ``restored`` makes it again; a network that is a function is not among them."""
        arrays = {
            "center": self.center,
            "scale": self.scale,
            **{f"weight:{n}": w for n, w in self.weights.items()},
        }
        names = ("algorithm", "hyper", "setting", "prior", "shifted_prior", "sizes", "cut")
        facts = {name: getattr(self, name) for name in names}
        return {**facts, "network": self.network if isinstance(self.network, str) else None}, arrays

    @classmethod
    def restored(
        cls, facts: dict[str, Any], arrays: dict[str, Floats], network: Network | None = None
    ) -> Model:
        """The model that ``plain`` described."""
        weights = {
            n.removeprefix("weight:"): w for n, w in arrays.items() if n.startswith("weight:")
        }
        known = {**facts, "network": facts["network"] or network}
        model = cls(**known, center=arrays["center"], scale=arrays["scale"], weights=weights)
        if len(model.center) != len(model.scale):
            raise ValueError("its centers and its scales differ in number")
        model.built()
        return model

    def logits(self, X: Floats) -> npt.NDArray[np.float64]:
        """Return the decision logit of every row, positive at or above zero."""
        algorithm = self.built()
        parts = [np.empty(0)]
        for at in range(0, len(X), CHUNK):
            x = (np.asarray(X[at : at + CHUNK], np.float64) - self.center) / self.scale
            with torch.no_grad():
                decision, _ = algorithm.outputs(torch.from_numpy(x).unsqueeze(0))
            parts.append(decision[0].numpy() - self.cut)
        return np.concatenate(parts)


@dataclass
class Trained:
    """A model and how it came about."""

    model: Model
    curve: list[dict[str, Any]]
    best_step: int
    best_value: float
    diverged: int  # the step of the record that found the run not finite, or -1


def standardized(X: Floats, on: bool) -> tuple[Floats, Floats, Floats]:
    """Return the features for training in float32, and the center and scale that were applied."""
    wide = X.astype(np.float64)
    center = wide.mean(0) if on else np.zeros(X.shape[1])
    scale = wide.std(0) if on else np.ones(X.shape[1])
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(center)), scale, 1.0)
    return np.ascontiguousarray((wide - center) / scale, dtype=np.float32), center, scale


def hold_out(rows: Indices, fraction: float, rng: np.random.RandomState) -> tuple[Indices, Indices]:
    """Split rows into training and held-out ones, at least one each; a single row is both."""
    order = rng.permutation(rows)
    if len(rows) == 1:
        return order, order
    n = min(max(1, round(fraction * len(rows))), len(rows) - 1)
    return order[n:], order[:n]


@contextmanager
def _threads(few: bool) -> Iterator[None]:
    """One thread for a small fleet: handing out its tiny operations costs more than doing them."""
    before = torch.get_num_threads()
    if few:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train(
    data: Prepared,
    candidates: Sequence[Candidate],
    config: FleetConfig,
    on_record: Callable[[int, int], None] | None = None,
) -> list[Trained]:
    """Train runs of one algorithm class on the same split as one fleet; each keeps its best checkpoint.

    ``config.keep`` names the criterion; without one the last state of a run is its model. ``on_record(step, steps)`` is
    called after every record.
    """
    nothing = np.zeros(0, np.int64)
    rows = []
    for c in candidates:
        own_rows = c.rows or (data.p_train, data.u_train, data.p_val, data.u_val)
        chances = [
            None if data.propensity is None else data.propensity[own_rows[i]] for i in (0, 2)
        ]
        unknown = (
            np.zeros(len(own_rows[1]), bool),
            np.zeros(len(own_rows[3]), bool),
            np.zeros(0, bool),
        )
        hidden = HiddenLabels(*unknown, propensity_train=chances[0], propensity_val=chances[1])
        own = PUData(
            *own_rows,
            nothing,
            prior=c.prior,
            rate=data.rate,
            shifted_prior=data.shifted(c.prior),
            setting=data.setting,
        )
        rows.append(
            Row(
                c.algorithm,
                own,
                hidden,
                data.seed,
                lr=c.lr,
                momentum=c.momentum,
                hyper=dict(c.hyper),
            )
        )
    with _threads(few=config.device == "cpu" and len(rows) == 1):
        fleet = Fleet(rows, config, data.x)
        curves = fleet.train(on_record)
        if fleet.best is not None:
            fleet.best.restore()
        with evaluation_mode(fleet.algorithm):
            threshold = fleet.algorithm.threshold(fleet.passes)
    cuts = np.zeros(len(rows)) if threshold is None else threshold.double().cpu().numpy()
    weights = {n: p.detach().cpu().numpy() for n, p in fleet.algorithm.named_parameters()}
    setup = fleet.algorithm.setup
    sizes = {name: getattr(setup, name) for name in ("n_p", "n_u", "batch_p", "batch_u", "steps")}
    trained = []
    for i, c in enumerate(candidates):
        model = Model(
            c.algorithm,
            config.network,
            dict(c.hyper),
            data.setting.code,
            c.prior,
            data.shifted(c.prior),
            sizes,
            data.center,
            data.scale,
            {n: w[i : i + 1].copy() for n, w in weights.items()},
            float(cuts[i]),
        )
        curve: list[dict[str, Any]] = [
            {"step": int(step), "phase": phase, "selectable": bool(selectable)}
            | {
                CURVE[name]: float(values[at, i])
                for name, values in curves.values.items()
                if name in CURVE
            }
            for at, (step, phase, selectable) in enumerate(
                zip(curves.step, curves.phase, curves.selectable, strict=True)
            )
        ]
        best = int(curves.step[-1]) if fleet.best is None else int(fleet.best.step[i])
        value = curve[-1]["pa"] if fleet.best is None else float(fleet.best.value[i])
        trained.append(Trained(model, curve, best, value, int(curves.diverged[i])))
    return trained
