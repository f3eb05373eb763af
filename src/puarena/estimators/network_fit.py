"""How :class:`PUClassifier` trains networks: one run on held-out rows, or a member per fold as one fleet."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from puarena import catalog
from puarena.errors import UserError
from puarena.estimators import probability, training
from puarena.estimators.learners import PUTable
from puarena.estimators.scoring import criterion_value
from puarena.estimators.training import Candidate, Model, Prepared, Trained
from puarena.pu import labeling
from puarena.pu.labels import resample_by_weight
from puarena.training import FleetConfig

SMALLEST = 0.01  # an estimated prior keeps this distance from what cannot be
WEIGHTED = {"pa": "pa-ipw"}  # criteria in their form with propensities
SHORT = {"steps": 200, "batch_size": 64}  # a member of the portfolio's ensemble


class SettingWarning(UserWarning):
    """A method that was made for data of another kind."""


class NetworkFit(BaseEstimator):
    """The part of :class:`PUClassifier` that knows fleets."""

    def _registered(self, name: str | None = None) -> str:
        """Return the registered name to train, calibrated if so asked."""
        try:
            entry = catalog.get(name or self.algorithm)
        except UserError as error:
            raise ValueError(str(error)) from None
        if entry.supervised and not entry.knows_propensity:
            raise ValueError(
                f"'{entry.name}' is trained with true labels of the unlabeled rows; choose a PU algorithm."
            )
        form, one_sample = entry.calibrated_form, labeling.get_setting(self.setting).one_sample
        if self.calibrated == "auto":
            if one_sample and not form and not entry.calibrated and entry.setting == "two-sample":
                warnings.warn(
                    f"{entry.title} is made for two samples and has no calibrated form, and these data are one sample: "
                    "its predictions are biased towards negative.",
                    SettingWarning,
                    stacklevel=4,
                )
            if not one_sample and (entry.calibrated or entry.setting == "one-sample"):
                advice = (
                    "its correction is wrong here: use the plain form"
                    if entry.calibrated
                    else "it may be biased"
                )
                warnings.warn(
                    f"{entry.title} is made for one sample, and these data are two: {advice}.",
                    SettingWarning,
                    stacklevel=4,
                )
            return form if form and one_sample else entry.name
        if self.calibrated and not form and not entry.calibrated:
            raise ValueError(
                f"'{entry.name}' has no calibrated form; use calibrated='auto' or False."
            )
        return form or entry.name if self.calibrated else entry.name

    def _prepare(self, table: PUTable) -> Prepared:
        """Standardize, and hold out rows."""
        rng = check_random_state(table.seed)
        x, center, scale = training.standardized(table.dense, self.standardize)
        if not np.isfinite(x).all():
            raise ValueError(
                "Input X contains a value too large for dtype('float32') after standardization."
            )
        labeled = table.labels.positive
        p_train, p_val = training.hold_out(np.flatnonzero(labeled), self.validation_fraction, rng)
        u_train, u_val = training.hold_out(np.flatnonzero(~labeled), self.validation_fraction, rng)
        p_train, u_train = (
            resample_by_weight(rows, table.weight, rng) for rows in (p_train, u_train)
        )
        rows = (p_train, u_train, p_val, u_val)
        return Prepared(
            x, center, scale, *rows, table.setting, table.seed, table.rate, table.propensity
        )

    def _train(
        self, data: Prepared, candidates: Sequence[Candidate], **other: Any
    ) -> list[Trained]:
        steps = int(other.get("steps") or self.steps)
        batch_size = int(other.get("batch_size") or self.batch_size)
        config = FleetConfig(
            batch_size=batch_size,
            steps=steps,
            warmup=steps // 10 if self.warmup is None else self.warmup,
            record_every=max(10, steps // 100),
            network=self.network,
            device=_device(self.device),
            keep=WEIGHTED.get(self.selection, self.selection)
            if data.propensity is not None
            else self.selection,
        )
        try:
            return training.train(data, candidates, config, self._progress(candidates))
        except UserError as error:
            raise ValueError(str(error)) from None

    def _say(self, text: str) -> None:
        """Report on the way, if so asked."""
        if self.verbose:
            print(f"{type(self).__name__}: {text}", flush=True)

    def _progress(self, candidates: Sequence[Candidate]) -> Callable[[int, int], None]:
        """What is told of training after a record, ten times in all."""
        name = candidates[0].algorithm + (
            f" ({len(candidates)} runs)" if len(candidates) > 1 else ""
        )
        told = 0

        def on_record(step: int, total: int) -> None:
            nonlocal told
            if 10 * step // total > told:
                told = 10 * step // total
                self._say(f"{name}: step {step:,} of {total:,}")

        return on_record

    def _candidate(self, name: str, prior: float) -> Candidate:
        return Candidate(name, prior, self._lr(name), float(self.momentum), dict(self.hyper or {}))

    def _lr(self, name: str) -> float:
        """The learning rate: as given, or the algorithm's own."""
        return float(catalog.get(name).cls.lr if self.lr is None else self.lr)

    def _train_folds(
        self, table: PUTable, fold: npt.NDArray[np.int64], name: str, **other: Any
    ) -> list[Model]:
        """A member per fold, each holding out another one; folds are trimmed to equal sizes to be one fleet."""
        whole = self._prepare(table)
        rng = check_random_state(table.seed)
        parts = []
        for k in range(int(fold.max()) + 1):
            held = fold == k
            own = []
            for outside in (True, False):
                for side in (table.labels.positive, ~table.labels.positive):
                    rows = np.flatnonzero(side & (held != outside))
                    own.append(rng.permutation(rows if len(rows) else np.flatnonzero(side)))
            own[:2] = [resample_by_weight(rows, table.weight, rng) for rows in own[:2]]
            parts.append(own)
        sizes = [min(len(own[i]) for own in parts) for i in range(4)]
        base = self._candidate(name, table.prior)
        runs = [
            Candidate(
                name,
                base.prior,
                base.lr,
                base.momentum,
                base.hyper,
                tuple(r[:n] for r, n in zip(o, sizes, strict=True)),
            )
            for o in parts
        ]
        trained = self._train(whole, runs, **other)
        good = [
            run
            for run in trained
            if run.best_step >= 0 and (self.selection is not None or run.diverged < 0)
        ]
        if len(good) < len(trained):
            raise ValueError(
                f"training diverged by step {max(t.diverged for t in trained)}; use a smaller lr (it is {base.lr:g})."
            )
        self.curve_, self.best_step_, self.best_score_ = (
            trained[0].curve,
            trained[0].best_step,
            trained[0].best_value,
        )
        return [run.model for run in trained]

    def _adopt(self, table: PUTable, data: Prepared, trained: Trained) -> Any:
        """Take over a trained model: calibrate it and set the fitted attributes."""
        if trained.best_step < 0 or (self.selection is None and trained.diverged >= 0):
            lr = self._lr(trained.model.algorithm)
            raise ValueError(
                f"training diverged by step {trained.diverged}; use a smaller lr (it is {lr:g})."
            )
        self.model_ = trained.model
        self.algorithm_ = self.learner_ = trained.model.algorithm
        self.curve_ = trained.curve
        self.best_step_, self.best_score_ = trained.best_step, trained.best_value
        self.report_ = [{"learner": self.algorithm_, "chosen": True, "why": "the only one"}]
        p, u = data.held_out()
        raw = self.model_.logits(table.dense)
        scores = probability.PUScores(raw[p], raw[u], self.prior_, data.setting.one_sample)
        if data.propensity is not None:
            scores = scores.labeled_by(data.propensity[p], data.propensity[u])
        self._cut(scores)
        self.probability_ = probability.fit_probability(scores.shifted(self.shift_))
        self.threshold_ = self.model_.cut + self.shift_
        return self

    def _cut(self, scores: probability.PUScores) -> None:
        self.shift_ = probability.fit_threshold(scores) if self.threshold == "pa" else 0.0

    def sensitivity(
        self, X: Any, y: Any, shifts: Sequence[float] = (-0.1, 0.1)
    ) -> list[dict[str, float]]:
        """Say what a wrong prior would change: fit again with the prior shifted (networks as one fleet).

        Parameters
        ----------
        X, y : as for ``fit``
            The training data.
        shifts : sequence of float, default=(-0.1, 0.1)
            Added to ``prior_``; priors that the data or (0, 1) do not allow are moved to the nearest possible one.

        Returns
        -------
        list of dict
            For shift 0 and every other: ``shift``, ``prior``, ``positive`` (share of rows predicted positive),
            ``changed`` (share of rows predicted otherwise than with shift 0), and the proxy accuracy ``pa`` with the
            prior of shift 0 (of networks on the held-out rows).
        """
        check_is_fitted(self)
        again = type(self)(**{**self.get_params(deep=False), "prior": self.prior_})
        table = again._table(X, y)
        lowest = table.setting.lowest_prior(table.rate)
        room = SMALLEST * (1 - lowest)
        priors = [
            min(max(self.prior_ + shift, lowest + room), 1 - room) for shift in (0.0, *shifts)
        ]
        labeled = table.labels.positive
        p, u = np.flatnonzero(labeled), np.flatnonzero(~labeled)
        if hasattr(self, "model_"):
            data = again._prepare(table)
            p, u = data.held_out()
            runs = again._train(
                data, [self._candidate(self._registered(), prior) for prior in priors]
            )
            decisions = [run.model.logits(table.dense) for run in runs]
        else:
            decisions = [
                again.set_params(prior=prior).fit(X, y).decision_function(X) for prior in priors
            ]
        report: list[dict[str, float]] = []
        base = np.zeros(0, bool)
        for prior, decision in zip(priors, decisions, strict=True):
            if self.threshold == "pa" and hasattr(self, "model_"):
                scores = probability.PUScores(
                    decision[p], decision[u], prior, table.setting.one_sample
                )
                decision = decision - probability.fit_threshold(scores)
            base = base if report else decision >= 0
            report.append(
                {
                    "shift": round(prior - priors[0], 12),
                    "prior": prior,
                    "positive": float((decision >= 0).mean()),
                    "changed": float(((decision >= 0) != base).mean()),
                    "pa": criterion_value(
                        "pa", decision[p], decision[u], priors[0], table.setting.one_sample
                    ),
                }
            )
        return report


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return str(torch.device(name))
    except RuntimeError:
        raise ValueError(f"device={name!r} is not one: use 'auto', 'cpu' or 'cuda'.") from None
