"""PU learning with scikit-learn's manners: a table of positives and unlabeled rows to predictions in five lines."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from puarena import algorithms
from puarena.data import labelling
from puarena.errors import UserError
from puarena.fleet import FleetConfig
from puarena.practice import probability, training
from puarena.practice.labels import read_labels
from puarena.practice.scoring import PRACTICAL, criterion_value
from puarena.practice.training import Candidate, Prepared, Trained

SMALLEST = 0.01  # an estimated prior keeps this distance from what cannot be


class PUClassifier(ClassifierMixin, BaseEstimator):
    """A classifier from positives and unlabeled rows.

    Holds out part of both, trains a network by a registered algorithm, keeps the checkpoint that the criterion prefers
    and turns its logits into probabilities; no step needs a negative.

    Parameters
    ----------
    algorithm : str, default="nnpu"
        A name of ``puarena list algorithms``.
    prior : float or "estimate", default="estimate"
        Share of positives: in the whole sample in the one-sample setting, in the unlabeled rows in the two-sample
        setting. ``"estimate"`` or ``"estimate:<method>"`` asks :func:`puarena.priors.estimate_prior`.
    setting : {"one-sample", "two-sample"}, default="one-sample"
        One-sample: one sample was drawn and some of its positives are labeled. Two-sample: positives were collected
        apart from the unlabeled rows.
    calibrated : bool or "auto", default="auto"
        Whether to use the algorithm's calibrated form (``"<name>-c"``), which corrects a two-sample method for
        one-sample data. ``"auto"``: in the one-sample setting, where there is one.
    network : str or callable, default="mlp"
        ``"mlp"`` (one hidden layer of 500 units), or a function of the number of features that returns a
        ``torch.nn.Module`` with one or two outputs.
    selection : str or None, default="pa"
        Which checkpoint to keep: the best by a criterion of ``puarena list criteria`` that needs no true label, or the
        last.
    threshold : {"model", "pa"}, default="model"
        Where ``predict`` cuts: the algorithm's own threshold, or the one with the best proxy accuracy.
    steps : int, default=2000
        Training steps. The benchmark's protocol has 20,000.
    batch_size : int, default=128
        Labeled and unlabeled rows per step, each.
    lr, momentum : float, default=0.01, 0.9
        Of stochastic gradient descent.
    warmup : int, optional
        Steps of a first stage, for algorithms that have one, in addition to ``steps``; default: a tenth of them.
    validation_fraction : float, default=0.1
        Share of the labeled and of the unlabeled rows that is held out.
    standardize : bool, default=True
        Whether to bring every feature to mean 0 and deviation 1.
    positive_label : optional
        The value of ``y`` that marks labeled positives; every other value is unlabeled. Default: ``y`` has two values
        and the greater one is it (1 of {1, 0} and {1, -1}, True of bools).
    random_state : int, RandomState or None, default=None
        Decides the split, the initial weights and the batches.
    device : str, default="auto"
        ``"cpu"``, ``"cuda"``, or a GPU if there is one.
    hyper : dict, optional
        The algorithm's own hyperparameters (``puarena explain <algorithm>``).

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The value that stands for negative (and for unlabeled in ``y``), and the positive one.
    prior_ : float
        The prior that was used.
    curve_ : list of dict
        The history: ``step``, ``phase``, ``selectable``, ``loss`` and every criterion on the held-out rows.
    best_step_, best_score_ : int, float
        Step of the checkpoint that was kept, and its criterion (PA where ``selection`` is None).
    threshold_ : float
        Where ``predict`` cuts the network's logit.
    algorithm_ : str
        The registered name that was trained, with ``-c`` for a calibrated form.
    n_features_in_, feature_names_in_ : int, ndarray
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena import PUClassifier
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(400) % 2 == 0
    >>> X = rng.normal(size=(400, 2)) + 3 * truth[:, None]
    >>> y = truth & (rng.random(400) < 0.5)  # half of the positives are labeled, everything else is not
    >>> clf = PUClassifier("nnpu", prior=0.5, steps=200, random_state=0).fit(X, y)
    >>> bool(np.mean(clf.predict(X) == truth) > 0.9)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "algorithm": [str],
        "prior": [Interval(Real, 0, 1, closed="neither"), str],
        "setting": [StrOptions({word for setting in labelling.settings() for word in (setting.title, setting.code)})],
        "calibrated": ["boolean", StrOptions({"auto"})],
        "network": [str, callable],
        "selection": [StrOptions(set(PRACTICAL)), None],
        "threshold": [StrOptions({"model", "pa"})],
        "steps": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "lr": [Interval(Real, 0, None, closed="neither")],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "warmup": [Interval(Integral, 0, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "standardize": ["boolean"],
        "positive_label": "no_validation",  # type: ignore[dict-item]
        "random_state": ["random_state"],
        "device": [str],
        "hyper": [dict, None],
    }

    def __init__(
        self,
        algorithm: str = "nnpu",
        *,
        prior: float | str = "estimate",
        setting: str = "one-sample",
        calibrated: bool | str = "auto",
        network: training.Network = "mlp",
        selection: str | None = "pa",
        threshold: str = "model",
        steps: int = 2000,
        batch_size: int = 128,
        lr: float = 1e-2,
        momentum: float = 0.9,
        warmup: int | None = None,
        validation_fraction: float = 0.1,
        standardize: bool = True,
        positive_label: Any = None,
        random_state: Any = None,
        device: str = "auto",
        hyper: dict[str, Any] | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.prior = prior
        self.setting = setting
        self.calibrated = calibrated
        self.network = network
        self.selection = selection
        self.threshold = threshold
        self.steps = steps
        self.batch_size = batch_size
        self.lr = lr
        self.momentum = momentum
        self.warmup = warmup
        self.validation_fraction = validation_fraction
        self.standardize = standardize
        self.positive_label = positive_label
        self.random_state = random_state
        self.device = device
        self.hyper = hyper

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    # -- fitting -----------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> PUClassifier:
        """Fit to rows ``X`` and ``y``, which says which of them are labeled positives.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Finite numbers; sparse matrices are refused.
        y : array-like of shape (n_samples,)
            Values in {1, 0}, {1, -1}, bools, or ``positive_label`` and anything else.

        Returns
        -------
        PUClassifier
            Itself.
        """
        data, labeled = self._prepare(X, y)
        prior = self._prior(data, labeled)
        candidate = Candidate(self._registered(), prior, float(self.lr), float(self.momentum), dict(self.hyper or {}))
        (trained,) = self._train(data, [candidate])
        return self._adopt(data, trained)

    def _prepare(self, X: Any, y: Any) -> tuple[Prepared, npt.NDArray[np.bool_]]:
        """Check parameters and input, standardise, and hold out rows."""
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32))
        check_classification_targets(y)
        labels = read_labels(y, self.positive_label)
        labeled, self.classes_ = labels.positive, labels.classes
        rng = check_random_state(self.random_state)
        x, center, scale = training.standardized(X, self.standardize)
        if not np.isfinite(x).all():
            raise ValueError("Input X contains a value too large for dtype('float32') after standardization.")
        p_train, p_val = training.hold_out(np.flatnonzero(labeled), self.validation_fraction, rng)
        u_train, u_val = training.hold_out(np.flatnonzero(~labeled), self.validation_fraction, rng)
        seed = int(rng.randint(2**31 - 1))
        setting = labelling.get(self.setting)
        return Prepared(x, center, scale, p_train, u_train, p_val, u_val, setting, seed), labeled

    def _prior(self, data: Prepared, labeled: npt.NDArray[np.bool_]) -> float:
        """Return the prior to use: the given one if the data allow it, or an estimate."""
        lowest = data.setting.lowest_prior(data.rate)
        if not isinstance(self.prior, str):
            if self.prior <= lowest:
                raise ValueError(
                    f"prior={self.prior:g} contradicts setting='one-sample': {data.rate:.3g} of the rows are labeled "
                    "positives, and the prior of the whole sample must be greater; give a greater prior, or "
                    "setting='two-sample' if the positives were collected apart from the unlabeled rows."
                )
            return float(self.prior)
        word, _, method = self.prior.partition(":")
        if word != "estimate":
            raise ValueError(f"prior={self.prior!r} is neither a number nor 'estimate' nor 'estimate:<method>'.")
        value = _estimate(data, labeled, self.setting, method or "bbe")
        least = lowest + (1 - lowest) * SMALLEST
        return float(min(max(value, least), 1 - (1 - least) * SMALLEST))

    def _registered(self, name: str | None = None) -> str:
        """Return the registered name to train, calibrated if so asked."""
        try:
            entry = algorithms.get(name or self.algorithm)
        except UserError as error:
            raise ValueError(str(error)) from None
        if entry.supervised:
            raise ValueError(
                f"'{entry.name}' is trained with true labels of the unlabeled rows; choose a PU algorithm."
            )
        form = entry.calibrated_form
        if self.calibrated == "auto":
            return form if form and labelling.get(self.setting).one_sample else entry.name
        if self.calibrated and not form and not entry.calibrated:
            raise ValueError(f"'{entry.name}' has no calibrated form; use calibrated='auto' or False.")
        return form or entry.name if self.calibrated else entry.name

    def _train(self, data: Prepared, candidates: Sequence[Candidate], batch_size: int | None = None) -> list[Trained]:
        config = FleetConfig(
            batch_size=batch_size or self.batch_size,
            steps=self.steps,
            warmup=self.steps // 10 if self.warmup is None else self.warmup,
            record_every=max(10, self.steps // 100),
            network=self.network,
            device=_device(self.device),
            keep=self.selection,
        )
        try:
            return training.train(data, candidates, config)
        except UserError as error:
            raise ValueError(str(error)) from None

    def _adopt(self, data: Prepared, trained: Trained) -> PUClassifier:
        """Take over a trained model: calibrate it and set the fitted attributes."""
        if trained.best_step < 0 or (self.selection is None and trained.diverged >= 0):
            raise ValueError(f"training diverged by step {trained.diverged}; use a smaller lr (it is {self.lr:g}).")
        self.model_ = trained.model
        self.algorithm_ = trained.model.algorithm
        self.prior_ = trained.model.prior
        self.curve_ = trained.curve
        self.best_step_, self.best_score_ = trained.best_step, trained.best_value
        p, u = data.held_out()
        raw = self.model_.logits(data.x.astype(np.float64) * data.scale + data.center)
        one_sample = data.setting.one_sample
        scores = probability.PUScores(raw[p], raw[u], self.prior_, one_sample)
        self.shift_ = probability.fit_threshold(scores) if self.threshold == "pa" else 0.0
        shifted = probability.PUScores(raw[p] - self.shift_, raw[u] - self.shift_, self.prior_, one_sample)
        self.probability_ = probability.fit_probability(shifted)
        self.threshold_ = self.model_.cut + self.shift_
        return self

    # -- predicting --------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the logit less the threshold, shape (n_samples,); rows above zero are predicted positive."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32))
        decision = self.model_.logits(X) - self.shift_
        return np.where(decision == 0, np.finfo(np.float64).tiny, decision)  # on the threshold is positive

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted class of every row, shape (n_samples,)."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probabilities of both classes, shape (n_samples, 2); see :mod:`puarena.practice.probability`.

        They are calibrated with positive and unlabeled rows alone, and exceed one half where ``predict`` says positive.
        """
        check_is_fitted(self)
        positive = self.probability_(self.decision_function(X))
        return np.column_stack([1 - positive, positive])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on rows with *true* labels; for PU labels use :func:`puarena.proxy_accuracy`."""
        return float(super().score(X, y, sample_weight))

    def sensitivity(self, X: Any, y: Any, shifts: Sequence[float] = (-0.1, 0.1)) -> list[dict[str, float]]:
        """Say what a wrong prior would change: fit again with the prior shifted, all as one fleet.

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
            ``changed`` (share of rows predicted otherwise than with shift 0), and the proxy accuracy ``pa`` on the
            held-out rows with the prior of shift 0.
        """
        check_is_fitted(self)
        again = type(self)(**self.get_params(deep=False))
        data, _ = again._prepare(X, y)
        lowest = data.setting.lowest_prior(data.rate)
        room = SMALLEST * (1 - lowest)
        priors = [min(max(self.prior_ + shift, lowest + room), 1 - room) for shift in (0.0, *shifts)]
        make = (self._registered(), float(self.lr), float(self.momentum), dict(self.hyper or {}))
        trained = again._train(data, [Candidate(make[0], prior, *make[1:]) for prior in priors])
        p, u = data.held_out()
        raw = data.x.astype(np.float64) * data.scale + data.center
        report: list[dict[str, float]] = []
        base: npt.NDArray[Any] = np.zeros(0)
        for prior, run in zip(priors, trained, strict=True):
            decision = run.model.logits(raw)
            if self.threshold == "pa":
                decision = decision - probability.fit_threshold(
                    probability.PUScores(decision[p], decision[u], prior, data.setting.one_sample)
                )
            base = base if report else decision >= 0
            held = probability.PUScores(decision[p], decision[u], priors[0], data.setting.one_sample)
            report.append(
                {
                    "shift": round(prior - priors[0], 12),
                    "prior": prior,
                    "positive": float((decision >= 0).mean()),
                    "changed": float(((decision >= 0) != base).mean()),
                    "pa": criterion_value("pa", held.p, held.u, held.prior, held.one_sample),
                }
            )
        return report

    # -- keeping -----------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the fitted model to a folder, without pickle; ``puarena.load_model`` reads it."""
        from puarena.practice.saving import save_model

        check_is_fitted(self)
        return save_model(self, path)


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return str(torch.device(name))
    except RuntimeError:
        raise ValueError(f"device={name!r} is not one: use 'auto', 'cpu' or 'cuda'.") from None


def _estimate(data: Prepared, labeled: npt.NDArray[np.bool_], setting: str, method: str) -> float:
    """Estimate the prior from standardised features."""
    from puarena.priors import estimate_prior

    y = labeled.astype(int)
    found = estimate_prior(data.x, y, setting=setting, method=method, random_state=data.seed, n_bootstrap=0)
    return float(found.value)
