"""What PUClassifier and PUNetClassifier share: tables in, predictions and probabilities out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from puarena.datasets.encoding import (
    EMBEDDINGS,
    WORDS,
    TableEncoder,
    TableWarning,
    describe_new_values,
    is_frame,
)
from puarena.errors import PUWarning, UserError, unknown_name
from puarena.estimators.calibration import SlopeCalibration, average_posterior, fit_posterior
from puarena.estimators.cuts import CUTS, HeldOutRows, keep_rows
from puarena.estimators.doubts import (
    warn_of_frequency,
    warn_of_groups,
    warn_of_guessed_label,
    warn_of_leaks,
    warn_of_scored_labels,
)
from puarena.estimators.importance import RowSample
from puarena.estimators.learners import EncodedRows, Ensemble, PUTable, TriedLearner
from puarena.estimators.model_selection import (
    METRICS_OF_COUNTS,
    PU_CRITERIA,
    compute_criterion,
    count_positives,
    warn_of_calibrator,
)
from puarena.estimators.persistence import save_model
from puarena.estimators.prior_knowledge import (
    QUANTILES,
    PriorKnowledge,
    make_quantiles,
    read_prior,
)
from puarena.priors import adjust_prior
from puarena.priors.estimate import (
    check_bounds,
    draw_sample,
    estimate_from_sample,
    warn_of_doubts,
)
from puarena.priors.methods.saturation import (
    SaturationFit,
    compute_quantiles,
    find_shortest_interval,
    fit_saturation,
)
from puarena.pu import labeling
from puarena.pu.labels import Labels, check_weights, fill_unlabeled, find_missing, read_labels

Floats = npt.NDArray[np.float64]

PREDICTED_ROWS = 50_000  # rows predicted at once
MIN_PRIOR_DISTANCE = 1e-4  # an estimated prior keeps this distance from impossible values
NORMAL_95 = 1.96  # half the width of a 95 % interval, in standard errors


class TableClassifier(ClassifierMixin, BaseEstimator):
    """Base of the classifiers of tables; subclasses have the parameters below and ``fit``."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "prior": [Interval(Real, 0, 1, closed="neither"), str, tuple, list, np.ndarray],
        "label_frequency": [Interval(Real, 0, 1, closed="right"), tuple, list, np.ndarray, None],
        "setting": [
            StrOptions(
                {name for each in labeling.list_settings() for name in (each.title, each.code)}
            )
        ],
        "selection": [StrOptions(set(PU_CRITERIA)), None],
        "threshold": [StrOptions(set(CUTS))],
        "costs": [tuple, list, np.ndarray, None],
        "budget": [Interval(Real, 0, None, closed="neither"), None],
        "positive_label": "no_validation",  # type: ignore[dict-item]
        "text": [StrOptions({WORDS, EMBEDDINGS})],
        "max_samples": [Interval(Integral, 10, None, closed="left")],
        "random_state": ["random_state"],
        "device": [str],
        "verbose": ["verbose"],
    }

    prior: float | str | Sequence[float]
    label_frequency: float | Sequence[float] | None
    setting: str
    selection: str | None
    threshold: str
    costs: Any
    budget: float | None
    positive_label: Any
    text: str
    max_samples: int
    random_state: Any
    verbose: int

    classes_: npt.NDArray[Any]
    encoder_: TableEncoder | None
    learner_: str
    model_: Ensemble
    prior_: float
    prior_interval_: tuple[float, float]
    prior_quantiles_: Floats  # in steps of one percent
    held_out_: HeldOutRows
    probability_: SlopeCalibration
    shift_: float  # from the model's own threshold to the one in use
    threshold_: float
    sample_: RowSample | None  # rows for ``report``; in no file
    notes_: list[str]  # the warnings of ``fit``

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "sample_"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        return tags

    # -- warnings ----------------------------------------------------------------------------------

    @contextmanager
    def _collect_notes(self) -> Iterator[None]:
        """Keep this package's warnings for ``report``, and issue all of them afterwards.

        They are issued where ``fit`` was called, which is two frames above.
        """
        caught: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", PUWarning)
                yield
            own = [item for item in caught if issubclass(item.category, PUWarning)]
            self.notes_ = list(dict.fromkeys(str(item.message) for item in own))
        finally:
            for item in caught:
                if issubclass(item.category, PUWarning):
                    warnings.warn(item.message, stacklevel=4)
                else:
                    warnings.warn_explicit(item.message, item.category, item.filename, item.lineno)

    # -- reading tables ----------------------------------------------------------------------------

    def _read_table(
        self, X: Any, y: Any, sample_weight: Any = None, propensity: Any = None, groups: Any = None
    ) -> PUTable:
        """Check the input, estimate the prior, and encode the rows that are used."""
        y, positive_label = fill_unlabeled(y, self.positive_label)
        X, y = self._check_input(X, y)
        check_classification_targets(y)
        labels = read_labels(y, positive_label)
        self.classes_ = labels.classes
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
            if (weight < 0).any():
                row = int((weight < 0).argmax())
                raise UserError(
                    f"sample_weight of row {row} is {weight[row]:g}; weights are 0 or more",
                    "invalid-value",
                )
        check_weights(weight, labels.positive)
        if propensity is not None:
            propensity = _check_propensity(propensity, len(labels.positive))
        if groups is not None:
            # Numbers: rows without a group are one, and values of several types can be told apart.
            groups = pd.factorize(np.asarray(groups), use_na_sentinel=False)[0]
            check_consistent_length(X, groups)
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        rows = self._draw_rows(labels.positive, rng)
        rate, data_rows = float(labels.positive.mean()), len(labels.positive)
        used = X if len(rows) == data_rows else _safe_indexing(X, rows)
        self.encoder_ = None if sparse.issparse(X) else TableEncoder(text=self.text).fit(used)
        if groups is None and self.encoder_ is not None and is_frame(used):
            warn_of_groups(used, self.encoder_.dropped)
        known = self._set_prior(X, labels, propensity, seed)
        if len(rows) < data_rows:
            labels = read_labels(np.asarray(y)[rows], self.classes_[1])
            weight = None if weight is None else weight[rows]
            propensity = None if propensity is None else propensity[rows]
            groups = None if groups is None else groups[rows]
        if positive_label is None:
            warn_of_guessed_label(self.classes_)
        return PUTable(
            rows=self._encode_training(used, labels.positive, seed),
            labels=labels,
            weight=weight,
            prior=self.prior_,
            setting=labeling.get_setting(self.setting),
            seed=seed,
            rate=rate,
            data_rows=data_rows,
            propensity=propensity,
            groups=groups,
            bounds=(known.low, known.high),
            learns_prior=self._learns_prior(known),
        )

    def _check_input(self, X: Any, y: Any = "no_validation") -> Any:
        """Check ``X``, and ``y`` if it is given; a data frame stays one."""
        reset = not isinstance(y, str)
        if type(X).__module__.startswith("pyarrow"):
            X = X.to_pandas()
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
        if not reset:
            X = self._add_left_out(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        if not reset:
            self._warn_of_new_values(X)
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

    def _warn_of_new_values(self, X: Any) -> None:
        """Warn of values of categories that fitting has not seen; they count as missing."""
        if self.encoder_ is None:
            return
        for name, values in self.encoder_.find_new_values(X).items():
            warnings.warn(describe_new_values(name, values), TableWarning, stacklevel=5)

    def _add_left_out(self, X: Any) -> Any:
        """Return a frame with the columns that fitting left out, if only these are missing."""
        encoder, names = self.encoder_, list(getattr(self, "feature_names_in_", ()))
        missing = [name for name in names if name not in X.columns]
        if encoder is None or not missing or not set(missing) <= set(encoder.dropped):
            return X
        if hasattr(X, "reindex"):
            return X.reindex(columns=names)
        import polars

        return X.with_columns(polars.lit(None).alias(name) for name in missing).select(names)

    def _draw_rows(
        self, positive: npt.NDArray[np.bool_], rng: np.random.RandomState
    ) -> npt.NDArray[np.int64]:
        """Return the rows to use: all, or ``max_samples`` of the labeled and of the unlabeled."""
        sides = [np.flatnonzero(positive), np.flatnonzero(~positive)]
        if max(map(len, sides)) <= self.max_samples:
            return np.arange(len(positive))
        chosen = [rng.permutation(side)[: self.max_samples] for side in sides]
        return np.sort(np.concatenate(chosen))

    def _encode(self, X: Any, rates: Floats | None = None) -> EncodedRows:
        """Turn checked input into numbers; ``rates`` are those of the rows that are fitted to."""
        if self.encoder_ is None:
            return EncodedRows(X)
        return EncodedRows(*self.encoder_.encode(X, rates))

    def _encode_training(self, X: Any, labeled: npt.NDArray[np.bool_], seed: int) -> EncodedRows:
        """Turn the rows that are fitted to into numbers, and warn of features that know labels."""
        if self.encoder_ is None:
            return self._encode(X)
        encoded = self._encode(X, self.encoder_.fit_rates(X, labeled, seed))
        names = self.encoder_.dense_names
        warn_of_leaks(encoded.dense[:, : len(names)], names, labeled)
        return encoded

    # -- the prior ---------------------------------------------------------------------------------

    def _set_prior(
        self, X: Any, labels: Labels, propensity: Floats | None, seed: int
    ) -> PriorKnowledge:
        """Set ``prior_`` and its interval: the given prior if it is possible, or an estimate."""
        setting = labeling.get_setting(self.setting)
        rate, negatives = float(labels.positive.mean()), float(labels.negative.mean())
        known = read_prior(self.prior, self.label_frequency, setting, rate, negatives)
        if known.is_exact:
            self._keep_prior(known.low, (known.low, known.low))
        elif self._learns_prior(known) and propensity is None:
            # The learners that are stacked need none; their held-out scores tell it.
            self._keep_prior(float(setting.prior_from_u(0.5, rate)), (known.low, known.high))
        elif propensity is not None:
            self._keep_prior(*self._weigh_labels(labels.positive, propensity), known)
        else:
            sample = draw_sample(
                X, labels.positive, random_state=seed % 2**31, encoder=self.encoder_
            )
            sample.bounds = (known.low, known.high)
            found = estimate_from_sample(sample, setting, [known.method])
            warn_of_doubts(found, sample)
            self._keep_prior(found.value, found.interval, known)
        return known

    def _learns_prior(self, known: PriorKnowledge) -> bool:
        """Return whether the prior is estimated from the held-out scores of the model itself."""
        return False

    def _keep_prior(
        self, value: float, interval: tuple[float, float], known: PriorKnowledge | None = None
    ) -> None:
        """Set the attributes of the prior; an estimate is moved to where the prior can be."""
        if known is not None:
            margin = (1 - known.low) * MIN_PRIOR_DISTANCE
            lowest, highest = known.low + margin, min(known.high, 1 - margin)
            value, *ends = np.clip([value, *interval], lowest, max(lowest, highest)).tolist()
            interval = (ends[0], ends[1])
        self.prior_, self.prior_interval_ = float(value), interval
        self.prior_quantiles_ = make_quantiles(self.prior_, interval)

    def _keep_distribution(self, fit: SaturationFit) -> None:
        """Set the attributes of the prior from its distribution."""
        self.prior_quantiles_ = compute_quantiles(fit.priors, fit.weights, QUANTILES)
        self.prior_ = fit.prior
        self.prior_interval_ = find_shortest_interval(fit.priors, fit.weights)

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
        assert tried.posterior is not None
        p, u = (tried.posterior(side) for side in tried.split_score(table))
        self.probability_ = SlopeCalibration()
        self._keep_held_out(p, u, table)
        self.threshold_ = self.shift_

    def _keep_held_out(self, p: Floats, u: Floats, table: PUTable) -> None:
        """Keep decisions on rows that were not fitted to, and cut as the parameters say."""
        if table.setting.one_sample:
            warn_of_frequency(table.rate, self.prior_)
        self.held_out_ = keep_rows(
            p,
            u,
            self.probability_(p),
            self.probability_(u),
            prior=self.prior_,
            rate=table.rate,
            unlabeled=round((1 - table.rate) * table.data_rows),
            one_sample=table.setting.one_sample,
        )
        self.shift_ = self.held_out_.find_cut(self.threshold, self.costs, self.budget)

    def set_threshold(
        self, threshold: str, *, costs: Any = None, budget: float | None = None
    ) -> Any:
        """Cut elsewhere, without fitting again; probabilities stay the same.

        Parameters
        ----------
        threshold : {"model", "pa", "f1", "prior", "cost", "budget"}
            As the parameter of this name.
        costs, budget : optional
            As the parameters of these names; by default they stay.

        Returns
        -------
        estimator
            The same estimator.
        """
        check_is_fitted(self)
        if threshold not in CUTS:
            raise unknown_name("threshold", str(threshold), CUTS)
        costs = self.costs if costs is None else costs
        budget = self.budget if budget is None else budget
        shift = self.held_out_.find_cut(threshold, costs, budget)
        self.threshold, self.costs, self.budget = threshold, costs, budget
        self.threshold_ += shift - self.shift_
        self.shift_ = shift
        return self

    def set_prior(
        self, prior: float | Sequence[float], label_frequency: float | Sequence[float] | None = None
    ) -> Any:
        """Change what is known of the prior, without fitting again; the ranking stays the same.

        Parameters
        ----------
        prior : float, (low, high) or "estimate"
            As the parameter of this name, such as the interval of
            :func:`puarena.estimators.update_with_checks`.
        label_frequency : float or (low, high), optional
            As the parameter of this name.

        Returns
        -------
        estimator
            The same estimator, which is as if it had been fitted with this prior.
        """
        check_is_fitted(self)
        posterior, held = self.model_.posterior, self.held_out_
        if posterior is None:
            raise UserError(
                "a single network is trained for its prior: fit it again with prior=…",
                "not-supported",
            )
        setting = labeling.get_setting(self.setting)
        known = read_prior(prior, label_frequency, setting, held.rate)
        p, u = held.decision[held.labeled], held.decision[~held.labeled]
        fit = fit_saturation(p, u, setting, held.rate, (known.low, known.high))
        moved = average_posterior(p, u, fit, setting, held.rate)
        self._keep_distribution(fit)
        self.prior, self.label_frequency = prior, label_frequency
        again = replace(posterior, log_odds=moved(posterior.log_odds))
        self.model_ = replace(self.model_, posterior=again)
        p, u = moved(p), moved(u)
        self.held_out_ = keep_rows(
            p,
            u,
            expit(p),
            expit(u),
            prior=self.prior_,
            rate=held.rate,
            unlabeled=held.unlabeled,
            one_sample=held.one_sample,
        )
        self.shift_ = self.held_out_.find_cut(self.threshold, self.costs, self.budget)
        self.threshold_ = self.shift_
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the log-odds less the cut; rows above zero are predicted positive.

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
        decision = self._decide(X) - self.shift_
        # A row on the threshold is predicted positive.
        return np.where(decision == 0, np.finfo(np.float64).tiny, decision)

    def _decide(self, X: Any) -> Floats:
        """Return the decision of every row before the cut."""
        warn_of_calibrator()
        parts = [np.zeros(0)]
        for start in range(0, X.shape[0], PREDICTED_ROWS):
            parts.append(self.model_.decide(self._encode(X[start : start + PREDICTED_ROWS])))
        return np.concatenate(parts)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted class of every row, shape (n_samples,)."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def predict_proba(self, X: Any, prior: float | None = None) -> Floats:
        """Return the probabilities of both classes, shape (n_samples, 2).

        They are calibrated with positive and unlabeled rows alone, and do not depend on where
        ``predict`` cuts. With ``threshold="model"`` they exceed one half exactly if ``predict``
        returns the positive class.

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
        positive = self.probability_(self._decide(self._check_input(X)))
        if prior is not None:
            positive = adjust_prior(positive, self.prior_, prior)
        return np.column_stack([1 - positive, positive])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on rows with *true* labels.

        For PU labels use :func:`puarena.proxy_accuracy` or :class:`puarena.PUScorer`.
        """
        check_is_fitted(self)
        if find_missing(np.asarray(y)).any():
            raise UserError(
                "score(X, y) is for true classes, and y has missing values: use "
                "proxy_accuracy(model, X, y) for labeled and unlabeled rows",
                "missing-data",
            )
        share, rate = float(np.mean(np.asarray(y) == self.classes_[1])), self.held_out_.rate
        if self.held_out_.one_sample:
            warn_of_scored_labels(share, len(y), rate, self.prior_)
        return float(super().score(X, y, sample_weight))

    def save(self, path: str | Path) -> Path:
        """Write the fitted model to a file without pickle; ``puarena.load_model`` reads it."""
        check_is_fitted(self)
        return save_model(self, path)

    def report(self, path: str | Path, title: str = "") -> Path:
        """Write one page about the fit, which works offline; open it in a browser.

        It has the data, the share of positives and its doubt, the learners, held-out scores,
        calibration and lift, importances of columns, the cut and what it costs, warnings, and a
        model card. Importances need rows of the table: they are missing if the model was loaded
        from a file.

        Parameters
        ----------
        path : str or Path
            A file, such as ``"fit.html"``; it is replaced if it exists.
        title : str, optional
            The title of the page.

        Returns
        -------
        Path
            The file.
        """
        from puarena.estimators.fit_page import write_fit_page

        return write_fit_page(self, path, title)

    def sensitivity(
        self, X: Any = None, y: Any = None, priors: Sequence[float] | None = None
    ) -> list[dict[str, float]]:
        """Return what the predictions would be with other priors.

        A model that was fitted without a prior (``"auto"``, a classifier of scikit-learn) is
        calibrated again, which needs no training; a network is trained again for every prior.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features), optional
            The rows to predict; of networks the training data, which they need. Default: the rows
            that were held out in fitting.
        y : array-like of shape (n_samples,), optional
            Of networks: their labels, as for ``fit``.
        priors : sequence of float, optional
            Default: both ends of its interval and the quartiles between them; if it is known, from
            half of it to twice it.

        Returns
        -------
        list of dict
            For ``prior_`` and every other: ``prior``, ``positive`` (share of the rows predicted
            positive), ``changed`` (share predicted otherwise than with ``prior_``), and of rows
            that were not fitted to ``precision``, ``recall``, ``f1`` and proxy accuracy ``pa``, if
            this prior is right.
        """
        check_is_fitted(self)
        wanted = self._list_priors(priors)
        held = self.held_out_
        decision, weight = held.decision, held.weight
        if X is not None:
            decision = self._decide(self._check_input(X))
            weight = np.ones(len(decision))
        setting = labeling.get_setting(self.setting)
        p, u = held.decision[held.labeled], held.decision[~held.labeled]
        decisions, rows = [], []
        for prior in wanted:
            posterior = fit_posterior(p, u, prior, setting, held.rate)
            side_p, side_u = posterior(p), posterior(u)
            q_p, q_u = expit(side_p), expit(side_u)
            again = keep_rows(
                side_p,
                side_u,
                q_p,
                q_u,
                prior=prior,
                rate=held.rate,
                unlabeled=held.unlabeled,
                one_sample=held.one_sample,
            )
            cut = again.find_cut(self.threshold, self.costs, self.budget)
            decisions.append(posterior(decision) - cut)
            rows.append((side_p - cut, side_u - cut))
        return report_sensitivity(wanted, decisions, weight, rows, held)

    def _list_priors(self, priors: Sequence[float] | None) -> list[float]:
        """Return ``prior_`` and the priors to compare with it, each possible."""
        setting, rate = labeling.get_setting(self.setting), self.held_out_.rate
        lowest = setting.lowest_prior(rate)
        wanted = list(priors or ())
        for each in wanted:
            check_bounds((each, each), setting, rate, f"priors={priors!r}")
        low, high = self.prior_interval_
        if priors is None and low < high:
            quartiles = np.interp([0.25, 0.5, 0.75], QUANTILES, self.prior_quantiles_).tolist()
            wanted = [low, *quartiles, high]
        elif priors is None:
            wanted = [self.prior_ * factor for factor in (0.5, 0.7, 1.4, 2.0)]
        margin = MIN_PRIOR_DISTANCE * (1 - lowest)
        both = [self.prior_, *wanted]
        return [min(max(float(each), lowest + margin), 1 - margin) for each in both]

    def _log(self, text: str) -> None:
        """Print progress if ``verbose``."""
        if self.verbose:
            print(f"{type(self).__name__}: {text}", flush=True)


def report_sensitivity(
    priors: Sequence[float],
    decisions: Sequence[Floats],
    weight: Floats,
    rows: Sequence[tuple[Floats, Floats]],
    held: HeldOutRows,
) -> list[dict[str, float]]:
    """Return a line for every prior from decisions on rows, with weights, and on held-out ones."""
    report = []
    for prior, decision, (p, u) in zip(priors, decisions, rows, strict=True):
        counts = count_positives(p, u, prior, held.one_sample, rate=held.rate)
        line = {
            "prior": prior,
            "positive": float(np.average(decision >= 0, weights=weight)),
            "changed": float(np.average((decision >= 0) != (decisions[0] >= 0), weights=weight)),
        }
        line |= {name: float(metric(counts)) for name, metric in METRICS_OF_COUNTS.items()}
        line["pa"] = compute_criterion("pa", p, u, prior, held.one_sample, held.rate)
        report.append(line)
    return report


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
