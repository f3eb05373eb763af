"""What PUClassifier and PUNetClassifier share: tables in, predictions and probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from puarena.datasets.encoding import TableEncoder, is_frame
from puarena.errors import UserError, unknown_name
from puarena.estimators.calibration import (
    PUScores,
    SlopeCalibration,
    fit_slopes,
    fit_threshold,
)
from puarena.estimators.learners import EncodedRows, Ensemble, PUTable, TriedLearner
from puarena.estimators.model_selection import PU_CRITERIA, compute_criterion
from puarena.estimators.persistence import save_model
from puarena.priors import METHODS, adjust_prior, method_named
from puarena.priors.estimate import (
    ALL_METHODS,
    draw_sample,
    estimate_from_sample,
    warn_of_doubts,
)
from puarena.pu import labeling
from puarena.pu.labels import Labels, check_weights, read_labels

Floats = npt.NDArray[np.float64]

CHUNK_ROWS = 50_000  # rows predicted at once
MIN_PRIOR_DISTANCE = 0.01  # an estimated prior keeps this distance from impossible values
NORMAL_95 = 1.96  # half the width of a 95 % interval, in standard errors


class TableClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers of tables; subclasses have the parameters below and ``fit``."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "prior": [Interval(Real, 0, 1, closed="neither"), str],
        "setting": [
            StrOptions(
                {name for each in labeling.list_settings() for name in (each.title, each.code)}
            )
        ],
        "selection": [StrOptions(set(PU_CRITERIA)), None],
        "threshold": [StrOptions({"model", "pa"})],
        "positive_label": "no_validation",  # type: ignore[dict-item]
        "max_samples": [Interval(Integral, 10, None, closed="left")],
        "random_state": ["random_state"],
        "device": [str],
        "verbose": ["verbose"],
    }

    prior: float | str
    setting: str
    selection: str | None
    threshold: str
    positive_label: Any
    max_samples: int
    random_state: Any
    verbose: int

    classes_: npt.NDArray[Any]
    encoder_: TableEncoder | None
    learner_: str
    model_: Ensemble
    prior_: float
    prior_interval_: tuple[float, float]
    probability_: SlopeCalibration
    shift_: float  # from the model's own threshold to the one in use
    threshold_: float

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        return tags

    # -- reading tables ----------------------------------------------------------------------------

    def _read_table(
        self, X: Any, y: Any, sample_weight: Any = None, propensity: Any = None
    ) -> PUTable:
        """Check the input, estimate the prior, and encode the rows that are used."""
        X, y = self._check_input(X, y)
        check_classification_targets(y)
        labels = read_labels(y, self.positive_label)
        self.classes_ = labels.classes
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        check_weights(weight, labels.positive)
        if propensity is not None:
            propensity = _check_propensity(propensity, len(labels.positive))
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        rows = self._draw_rows(labels.positive, rng)
        rate, data_rows = float(labels.positive.mean()), len(labels.positive)
        used = X if len(rows) == data_rows else _safe_indexing(X, rows)
        self.encoder_ = None if sparse.issparse(X) else TableEncoder().fit(used)
        self._set_prior(X, labels, propensity, seed)
        if len(rows) < data_rows:
            labels = read_labels(np.asarray(y)[rows], self.classes_[1])
            weight = None if weight is None else weight[rows]
            propensity = None if propensity is None else propensity[rows]
        return PUTable(
            rows=self._encode(used),
            labels=labels,
            weight=weight,
            prior=self.prior_,
            setting=labeling.get_setting(self.setting),
            seed=seed,
            rate=rate,
            data_rows=data_rows,
            propensity=propensity,
        )

    def _check_input(self, X: Any, y: Any = "no_validation") -> Any:
        """Check ``X``, and ``y`` if it is given; a data frame stays one."""
        reset = not isinstance(y, str)
        if not is_frame(X):
            return validate_data(
                self,
                X,
                y,
                reset=reset,
                dtype=(np.float64, np.float32),
                accept_sparse=["csr"] if self.__sklearn_tags__().input_tags.sparse else False,
                ensure_all_finite="allow-nan",
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        if not reset:
            return X
        if not X.shape[0] or not X.shape[1]:
            message = f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s)"
            raise UserError(message, "missing-data")
        if y is None:
            name = type(self).__name__
            raise UserError(
                f"{name} requires y to be passed, but the target y is None", "missing-data"
            )
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return X, y

    def _draw_rows(
        self, positive: npt.NDArray[np.bool_], rng: np.random.RandomState
    ) -> npt.NDArray[np.int64]:
        """Return the rows to use: all, or ``max_samples`` of the labeled and of the unlabeled."""
        sides = [np.flatnonzero(positive), np.flatnonzero(~positive)]
        if max(map(len, sides)) <= self.max_samples:
            return np.arange(len(positive))
        chosen = [rng.permutation(side)[: self.max_samples] for side in sides]
        return np.sort(np.concatenate(chosen))

    def _encode(self, X: Any) -> EncodedRows:
        """Turn checked input into numbers."""
        if self.encoder_ is None:
            return EncodedRows(X)
        return EncodedRows(self.encoder_.dense(X), self.encoder_.tree(X))

    # -- the prior ---------------------------------------------------------------------------------

    def _set_prior(self, X: Any, labels: Labels, propensity: Floats | None, seed: int) -> None:
        """Set ``prior_`` and its interval: the given prior if it is possible, or an estimate."""
        setting = labeling.get_setting(self.setting)
        rate = float(labels.positive.mean())
        lowest = setting.lowest_prior(rate)
        if not isinstance(self.prior, str):
            if self.prior <= lowest:
                raise UserError(
                    f"prior={self.prior:g} contradicts setting='one-sample': {rate:.3g} of the "
                    "rows are labeled positives, and the prior of the whole sample must be "
                    "greater; give a greater prior, or setting='two-sample' if the positives were "
                    "collected separately from the unlabeled rows",
                    "conflict",
                )
            self.prior_ = float(self.prior)
            self.prior_interval_ = (self.prior_, self.prior_)
            return
        method = method_named(self.prior) if self.prior else ""
        if method not in (*METHODS, ALL_METHODS):
            if self.prior.startswith("estimate:"):
                raise unknown_name("method", method, [*METHODS, ALL_METHODS])
            raise UserError(
                f"prior={self.prior!r} is neither a number nor 'estimate' nor 'estimate:<method>'",
                "invalid-value",
            )
        if propensity is not None:
            value, interval = self._weigh_labels(labels.positive, propensity)
        else:
            sample = draw_sample(
                X, labels.positive, random_state=seed % 2**31, encoder=self.encoder_
            )
            found = estimate_from_sample(sample, setting, [method])
            warn_of_doubts(found, sample)
            value, interval = found.value, found.interval
        # In one sample, known negatives bound the prior from above.
        highest = 1 - float(labels.negative.mean()) if setting.one_sample else 1.0
        lowest += (1 - lowest) * MIN_PRIOR_DISTANCE
        highest = max(min(1 - (1 - lowest) * MIN_PRIOR_DISTANCE, highest), lowest)
        low, high = (float(np.clip(end, lowest, highest)) for end in interval)
        self.prior_ = float(np.clip(value, lowest, highest))
        self.prior_interval_ = (low, high)

    def _weigh_labels(
        self, labeled: npt.NDArray[np.bool_], propensity: Floats
    ) -> tuple[float, tuple[float, float]]:
        """Return the prior from labels and propensities, with its 95 % interval.

        A labeled row with propensity e counts as 1/e positives (Horvitz and Thompson).
        """
        if not labeling.get_setting(self.setting).one_sample:
            raise UserError(
                "with propensities and setting='two-sample' the share of positives must be given: "
                "prior=...",
                "missing-data",
            )
        weights = labeled / propensity
        value, error = float(weights.mean()), float(weights.std() / np.sqrt(len(labeled)))
        return value, (value - NORMAL_95 * error, value + NORMAL_95 * error)

    # -- fitted models -----------------------------------------------------------------------------

    def _set_ensemble(self, tried: TriedLearner, table: PUTable) -> None:
        """Keep a cross-fitted ensemble; its posterior gives the probabilities."""
        self.learner_, self.model_ = tried.name, tried.ensemble
        assert tried.ensemble.posterior is not None
        decision = tried.ensemble.posterior(tried.score)
        labeled = table.labels.positive
        one_sample = table.setting.one_sample
        scores = PUScores(decision[labeled], decision[~labeled], table.prior, one_sample)
        self._set_threshold(scores)
        # A shifted threshold needs other probabilities, which are above one half beyond it.
        self.probability_ = SlopeCalibration()
        if self.shift_:
            self.probability_ = fit_slopes(scores.shift(self.shift_))
        self.threshold_ = self.shift_

    def _set_threshold(self, scores: PUScores) -> None:
        self.shift_ = fit_threshold(scores) if self.threshold == "pa" else 0.0

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds less the threshold; rows above zero are predicted positive.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The decision of every row.
        """
        check_is_fitted(self)
        X = self._check_input(X)
        parts = [np.zeros(0)]
        for start in range(0, X.shape[0], CHUNK_ROWS):
            parts.append(self.model_.decide(self._encode(X[start : start + CHUNK_ROWS])))
        decision = np.concatenate(parts) - self.shift_
        # A row on the threshold is predicted positive.
        return np.where(decision == 0, np.finfo(np.float64).tiny, decision)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted class of every row, shape (n_samples,)."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def predict_proba(self, X: Any, prior: float | None = None) -> Floats:
        """Return the probabilities of both classes, shape (n_samples, 2).

        They are calibrated with positive and unlabeled rows alone, and exceed one half exactly if
        ``predict`` returns the positive class.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The rows.
        prior : float, optional
            The share of positives among rows like these, if it is another than ``prior_``, such as
            an estimate of :func:`puarena.priors.estimate_prior_shift`. ``predict`` does not know
            it.
        """
        check_is_fitted(self)
        positive = self.probability_(self.decision_function(X))
        if prior is not None:
            positive = adjust_prior(positive, self.prior_, prior)
        return np.column_stack([1 - positive, positive])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on rows with *true* labels.

        For PU labels use :func:`puarena.proxy_accuracy` or :class:`puarena.PUScorer`.
        """
        return float(super().score(X, y, sample_weight))

    def save(self, path: str | Path) -> Path:
        """Write the fitted model to a file without pickle; ``puarena.load_model`` reads it."""
        check_is_fitted(self)
        return save_model(self, path)

    def sensitivity(
        self, X: Any, y: Any, shifts: Sequence[float] = (-0.1, 0.1)
    ) -> list[dict[str, float]]:
        """Return what a wrong prior would change, by fitting again with other priors.

        Parameters
        ----------
        X, y : as for ``fit``
            The training data.
        shifts : sequence of float, default=(-0.1, 0.1)
            Added to ``prior_``; impossible priors are moved to the nearest possible one.

        Returns
        -------
        list of dict
            For shift 0 and every other: ``shift``, ``prior``, ``positive`` (share of rows predicted
            positive), ``changed`` (share of rows predicted otherwise than with shift 0), and the
            proxy accuracy ``pa`` with the prior of shift 0 (of networks on held-out rows).
        """
        check_is_fitted(self)
        again = type(self)(**{**self.get_params(deep=False), "prior": self.prior_})
        table = again._read_table(X, y)
        lowest = table.setting.lowest_prior(table.rate)
        margin = MIN_PRIOR_DISTANCE * (1 - lowest)
        wanted = [self.prior_ + shift for shift in (0.0, *shifts)]
        priors = [min(max(prior, lowest + margin), 1 - margin) for prior in wanted]
        decisions, p, u = again._decide_by_prior(X, y, table, priors)
        report = []
        for prior, decision in zip(priors, decisions, strict=True):
            changed = (decision >= 0) != (decisions[0] >= 0)
            one_sample = table.setting.one_sample
            pa = compute_criterion("pa", decision[p], decision[u], priors[0], one_sample)
            report.append(
                {
                    "shift": round(prior - priors[0], 12),
                    "prior": prior,
                    "positive": float((decision >= 0).mean()),
                    "changed": float(changed.mean()),
                    "pa": pa,
                }
            )
        return report

    def _decide_by_prior(
        self, X: Any, y: Any, table: PUTable, priors: Sequence[float]
    ) -> tuple[list[Floats], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return decisions of fits with several priors, and the rows of P and U to judge them."""
        decisions = []
        for prior in priors:
            decisions.append(self.set_params(prior=prior).fit(X, y).decision_function(X))
        labeled = read_labels(y, self.positive_label).positive
        return decisions, np.flatnonzero(labeled), np.flatnonzero(~labeled)

    def _log(self, text: str) -> None:
        """Print progress if ``verbose``."""
        if self.verbose:
            print(f"{type(self).__name__}: {text}", flush=True)


def _check_propensity(propensity: Any, rows: int) -> Floats:
    """Return the propensities of all rows, each above 0 and at most 1."""
    values = np.asarray(propensity, np.float64)
    if values.shape != (rows,):
        raise UserError(
            f"propensity has shape {values.shape}, and there are {rows} rows; give one for each",
            "invalid-value",
        )
    wrong = np.flatnonzero(~((values > 0) & (values <= 1)))
    if len(wrong):
        raise UserError(
            f"propensity of row {wrong[0]} is {values[wrong[0]]:g}; it is the chance of a label of "
            "a positive row, above 0 and at most 1",
            "invalid-value",
        )
    return values
