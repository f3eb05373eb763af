"""PU learning with scikit-learn's manners: a table of positives and unlabeled rows to predictions in five lines."""

from __future__ import annotations

import html
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from puarena.estimators import portfolio, probability, training
from puarena.estimators.choosing import AUTO, Choosing
from puarena.estimators.input import TableInput
from puarena.estimators.learners import PUTable
from puarena.estimators.network_fit import NetworkFit
from puarena.estimators.saving import save_model
from puarena.estimators.scoring import PRACTICAL
from puarena.estimators.showing import Showing
from puarena.estimators.stream import PartialFit
from puarena.pu import labeling

CHUNK = 50_000  # rows predicted at once
WORDS = {word for setting in labeling.list_settings() for word in (setting.title, setting.code)}


class PUClassifier(
    Showing, PartialFit, TableInput, Choosing, NetworkFit, ClassifierMixin, BaseEstimator
):
    """A classifier from positives and unlabeled rows.

    Estimates the share of positives, fits learners that tell labeled from unlabeled rows, chooses among them on rows
    they have not seen, and turns their scores into probabilities; no step needs a negative.

    Parameters
    ----------
    algorithm : str or classifier, default="auto"
        ``"auto"``: a linear model, bagged trees and an ensemble of networks, and all of them together, chosen by
        ``selection`` (``report_`` says how). Or a name of ``puarena list algorithms``, classics included. Or any
        scikit-learn classifier, which is told labeled from unlabeled rows.
    prior : float or "estimate", default="estimate"
        Share of positives: in the whole sample in the one-sample setting, in the unlabeled rows in the two-sample
        setting. ``"estimate"`` or ``"estimate:<method>"`` asks :func:`puarena.priors.estimate_prior`.
    setting : {"one-sample", "two-sample"}, default="one-sample"
        One-sample: one sample was drawn and some of its positives are labeled. Two-sample: positives were collected
        apart from the unlabeled rows.
    base : classifier, optional
        What a classic wraps (``PUClassifier("elkan-noto-weighted", base=RandomForestClassifier())``).
    calibrated : bool or "auto", default="auto"
        Whether to use the algorithm's calibrated form, which corrects a two-sample method for one-sample data.
        ``"auto"``: in the one-sample setting, where there is one; a warning where there is none.
    network : str or callable, default="mlp"
        ``"mlp"`` (one hidden layer of 500 units), or a function of the number of features that returns a
        ``torch.nn.Module`` with one or two outputs.
    selection : str or None, default="pa"
        Which learner, and which checkpoint of a network, to keep: the best by a criterion of ``puarena list criteria``
        that needs no true label; None: the last checkpoint.
    threshold : {"model", "pa"}, default="model"
        Where ``predict`` cuts: at the algorithm's own threshold (of learners, at probability one half), or where
        proxy accuracy is best.
    members : int or "auto", default="auto"
        Networks of a named algorithm: 1 holds out rows once; more are trained as one fleet, each holding out another
        part of the rows, and averaged. ``"auto"``: 5 with fewer than 200 labels, else 1.
    steps : int, default=2000
        Training steps of a named algorithm. The benchmark's protocol has 20,000.
    batch_size : int, default=128
        Labeled and unlabeled rows per step, each.
    lr : float, optional
        Learning rate; default: the algorithm's own, 0.01 (0.001 of PUe, whose risk falls without end).
    momentum : float, default=0.9
        Of stochastic gradient descent.
    warmup : int, optional
        Steps of a first stage, for algorithms that have one, in addition to ``steps``; default: a tenth of them.
    validation_fraction : float, default=0.1
        Share of the labeled and of the unlabeled rows that is held out when ``members`` is 1.
    standardize : bool, default=True
        Whether networks see every feature with mean 0 and deviation 1.
    positive_label : optional
        The value of ``y`` that marks labeled positives; needed where ``y`` is text other than "positive",
        "unlabeled" and "negative".
    max_samples : int, default=50000
        Of more labeled, or more unlabeled, rows a random part of this size is used.
    random_state : int, RandomState or None, default=None
        Decides folds, initial weights and batches.
    device : str, default="auto"
        ``"cpu"``, ``"cuda"``, or a GPU if there is one.
    hyper : dict, optional
        The algorithm's own hyperparameters (``puarena explain <algorithm>``).
    n_jobs : int, optional
        Threads for trees, and of ``"bagging-pu"``.
    verbose : int, default=0
        With 1 the prior and every learner are reported as they are done, and training ten times on its way.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The value that stands for negative (and for unlabeled in ``y``), and the positive one.
    prior_, prior_interval_ : float, tuple of float
        The prior that was used, and where it lies with 95 % confidence if it was estimated.
    report_ : list of dict
        What was tried, with its criteria and seconds, what was chosen, and why.
    learner_, algorithm_ : str
        The learner that was chosen; the registered name that was trained.
    curve_, best_step_, best_score_ : list of dict, int, float
        Of a named algorithm (of its first member): the history with every criterion on the held-out rows, and the
        checkpoint that was kept.
    threshold_ : float
        Where ``predict`` cuts the network's logit, or the learners' log-odds.
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
    >>> clf = PUClassifier(prior=0.5, random_state=0).fit(X, y)
    >>> bool(np.mean(clf.predict(X) == truth) > 0.9)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "algorithm": [str, HasMethods(["fit", "predict"])],
        "prior": [Interval(Real, 0, 1, closed="neither"), str],
        "setting": [StrOptions(WORDS)],
        "base": [HasMethods(["fit", "predict"]), None],
        "calibrated": ["boolean", StrOptions({"auto"})],
        "network": [str, callable],
        "selection": [StrOptions(set(PRACTICAL)), None],
        "threshold": [StrOptions({"model", "pa"})],
        "members": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "steps": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "lr": [Interval(Real, 0, None, closed="neither"), None],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "warmup": [Interval(Integral, 0, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "standardize": ["boolean"],
        "positive_label": "no_validation",  # type: ignore[dict-item]
        "max_samples": [Interval(Integral, 10, None, closed="left")],
        "random_state": ["random_state"],
        "device": [str],
        "hyper": [dict, None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        algorithm: Any = AUTO,
        *,
        prior: float | str = "estimate",
        setting: str = "one-sample",
        base: Any = None,
        calibrated: bool | str = "auto",
        network: training.Network = "mlp",
        selection: str | None = "pa",
        threshold: str = "model",
        members: int | str = "auto",
        steps: int = 2000,
        batch_size: int = 128,
        lr: float | None = None,
        momentum: float = 0.9,
        warmup: int | None = None,
        validation_fraction: float = 0.1,
        standardize: bool = True,
        positive_label: Any = None,
        max_samples: int = 50_000,
        random_state: Any = None,
        device: str = "auto",
        hyper: dict[str, Any] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.prior = prior
        self.setting = setting
        self.base = base
        self.calibrated = calibrated
        self.network = network
        self.selection = selection
        self.threshold = threshold
        self.members = members
        self.steps = steps
        self.batch_size = batch_size
        self.lr = lr
        self.momentum = momentum
        self.warmup = warmup
        self.validation_fraction = validation_fraction
        self.standardize = standardize
        self.positive_label = positive_label
        self.max_samples = max_samples
        self.random_state = random_state
        self.device = device
        self.hyper = hyper
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = self.algorithm == AUTO if isinstance(self.algorithm, str) else True
        return tags

    # -- fitting -----------------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, propensity: Any = None
    ) -> PUClassifier:
        """Fit to rows ``X`` and ``y``, which says which of them are labeled positives.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Numbers; in a data frame (pandas, polars) also text, categories and bools. Values may be missing. Sparse
            matrices where the learner takes them (``"auto"``: its linear model).
        y : array-like of shape (n_samples,)
            Values in {1, 0}, {1, -1} or bools; {1, 0, -1} or "positive", "unlabeled", "negative" where some negatives
            are known; or ``positive_label`` and anything else.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of rows. Networks see rows as often as their weights say.
        propensity : array-like of shape (n_samples,), optional
            How likely each row was to be labeled, were it positive: for ``"sar-oracle"``, which needs it. The prior
            is then estimated from it in the one-sample setting, and checkpoints are chosen by PA weighted with it.

        Returns
        -------
        PUClassifier
            Itself.
        """
        self._check_base()
        table = self._table(X, y, sample_weight, propensity)
        self._say(
            f"prior {self.prior_:.3f} ({self.prior_interval_[0]:.3f} to {self.prior_interval_[1]:.3f})"
        )
        if hasattr(self.algorithm, "partial_fit"):
            self._begin(table, y)
        if self._named() and self._ensemble_of(table) == 1:
            data = self._prepare(table)
            (trained,) = self._train(data, [self._candidate(self._registered(), table.prior)])
            return self._adopt(table, data, trained)
        return self._fit_learners(table)

    def _fit_learners(self, table: PUTable) -> PUClassifier:
        """Try the learners, and take over the one that is chosen."""
        return self._take(
            portfolio.choose(table, self._learners(), self.selection or "pa", self._say), table
        )

    def _take(self, choice: portfolio.Choice, table: PUTable) -> PUClassifier:
        """Take over the learner that was chosen: set the fitted attributes."""
        best, named = choice.best, self._named()
        self.report_, self.learner_ = choice.report(), best.name
        self.algorithm_ = self._registered() if named else best.name
        self.ensemble_, self.posterior_ = best.ensemble, best.posterior
        decision = best.posterior(best.score)
        labeled = table.labels.positive
        scores = probability.PUScores(
            decision[labeled], decision[~labeled], table.prior, table.setting.one_sample
        )
        self._cut(scores)
        self.probability_ = probability.Probability()
        if self.shift_:
            self.probability_ = probability.fit_probability(scores.shifted(self.shift_))
        self.threshold_ = self.shift_
        if not named:
            self.best_score_ = best.criteria[self.selection or "pa"]
        return self

    # -- predicting --------------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the logit less the threshold, shape (n_samples,); rows above zero are predicted positive."""
        check_is_fitted(self)
        X = self._checked(X)
        parts = [np.zeros(0)]
        for at in range(0, X.shape[0], CHUNK):
            dense, tree = self._forms(X[at : at + CHUNK])
            raw = self.model_.logits(dense) if hasattr(self, "model_") else None
            parts.append(self.posterior_(self.ensemble_.score(dense, tree)) if raw is None else raw)
        decision = np.concatenate(parts) - self.shift_
        return np.where(
            decision == 0, np.finfo(np.float64).tiny, decision
        )  # on the threshold is positive

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted class of every row, shape (n_samples,)."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probabilities of both classes, shape (n_samples, 2); see :mod:`puarena.estimators.probability`.

        They are calibrated with positive and unlabeled rows alone, and exceed one half where ``predict`` says positive.
        """
        check_is_fitted(self)
        positive = self.probability_(self.decision_function(X))
        return np.column_stack([1 - positive, positive])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on rows with *true* labels; for PU labels use :func:`puarena.proxy_accuracy`."""
        return float(super().score(X, y, sample_weight))

    # -- keeping and showing -----------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the fitted model to a folder, without pickle; ``puarena.load_model`` reads it."""
        check_is_fitted(self)
        return save_model(self, path)

    def _found(self) -> str:
        if not hasattr(self, "learner_"):
            return ""
        low, high = self.prior_interval_
        return f"<p>prior {self.prior_:.3f} ({low:.3f} to {high:.3f}); learner: {html.escape(self.learner_)}</p>"
