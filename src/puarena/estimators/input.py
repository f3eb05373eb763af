"""What :class:`PUClassifier` makes of the table it is given: checked rows, labels, the prior, and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from puarena.datasets.encoding import TableEncoder, is_frame
from puarena.estimators.learners import PUTable
from puarena.estimators.network_fit import SMALLEST
from puarena.estimators.propensity import check_propensity, prior_by_propensity
from puarena.pu import labeling
from puarena.pu.labels import check_weights, read_labels


class TableInput(BaseEstimator):
    """The part of :class:`PUClassifier` that reads tables."""

    def _table(self, X: Any, y: Any, sample_weight: Any = None, propensity: Any = None) -> PUTable:
        """Check parameters and input, estimate the prior, and encode the rows that are used."""
        self._validate_params()
        X, y = self._checked(X, y)
        check_classification_targets(y)
        labels = read_labels(y, self.positive_label)
        self.classes_ = labels.classes
        weight = (
            None
            if sample_weight is None
            else _check_sample_weight(sample_weight, X, dtype=np.float64)
        )
        check_weights(weight, labels.positive)
        chance = check_propensity(self, propensity, labels.positive)
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        rate, n = float(labels.positive.mean()), len(labels.positive)
        setting = labeling.get_setting(self.setting)
        most = 1 - float(labels.negative.mean()) if setting.one_sample else 1.0
        self.prior_ = self._prior(X, labels.positive, setting, rate, most, seed, chance)
        sides = [np.flatnonzero(side) for side in (labels.positive, ~labels.positive)]
        if max(map(len, sides)) > self.max_samples:
            rows = np.sort(
                np.concatenate([rng.permutation(side)[: self.max_samples] for side in sides])
            )
            X, labels = _safe_indexing(X, rows), read_labels(np.asarray(y)[rows], self.classes_[1])
            weight, chance = (
                None if values is None else values[rows] for values in (weight, chance)
            )
        self.encoder_ = None if sparse.issparse(X) else TableEncoder().fit(X)
        dense, tree = self._forms(X)
        return PUTable(
            dense, tree, labels, weight, self.prior_, setting, seed, rate, n, self.n_jobs, chance
        )

    def _checked(self, X: Any, y: Any = "no_validation") -> Any:
        """The input: a frame stays one."""
        reset = not isinstance(y, str)
        if is_frame(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if not reset:
                return X
            if not X.shape[0] or not X.shape[1]:
                raise ValueError(
                    f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s)."
                )
            if y is None:
                raise ValueError("PUClassifier requires y to be passed, but the target y is None.")
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
            return X, y
        sparsely = ["csr"] if self.__sklearn_tags__().input_tags.sparse else False
        return validate_data(
            self,
            X,
            y,
            reset=reset,
            dtype=(np.float64, np.float32),
            accept_sparse=sparsely,
            ensure_all_finite="allow-nan",
        )

    def _forms(self, X: Any) -> tuple[Any, Any]:
        if self.encoder_ is None:
            return X, None
        return self.encoder_.dense(X), self.encoder_.tree(X)

    def _prior(
        self,
        X: Any,
        labeled: Any,
        setting: labeling.Setting,
        rate: float,
        most: float,
        seed: int,
        propensity: Any = None,
    ) -> float:
        """Return the prior to use: the given one if the data allow it, or an estimate."""
        lowest = setting.lowest_prior(rate)
        if not isinstance(self.prior, str):
            if self.prior <= lowest:
                raise ValueError(
                    f"prior={self.prior:g} contradicts setting='one-sample': {rate:.3g} of the rows are labeled "
                    "positives, and the prior of the whole sample must be greater; give a greater prior, or "
                    "setting='two-sample' if the positives were collected apart from the unlabeled rows."
                )
            self.prior_interval_ = (float(self.prior), float(self.prior))
            return float(self.prior)
        from puarena.priors import METHODS, estimate_prior, method_named

        method = method_named(self.prior) if self.prior else ""
        if method not in METHODS and not self.prior.startswith("estimate:"):
            raise ValueError(
                f"prior={self.prior!r} is neither a number nor 'estimate' nor 'estimate:<method>'."
            )
        if propensity is not None:
            value, ends = prior_by_propensity(labeled, propensity, setting)
        else:
            found = estimate_prior(
                X, labeled.astype(int), setting.code, method, random_state=seed % 2**31
            )
            value, ends = found.value, found.interval
        least = lowest + (1 - lowest) * SMALLEST
        highest = max(min(1 - (1 - least) * SMALLEST, most), least)
        self.prior_interval_ = tuple(float(np.clip(end, least, highest)) for end in ends)  # type: ignore[assignment]
        return float(np.clip(value, least, highest))
