"""PUClassifier: predictions and probabilities from positives and unlabeled rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from puarena import catalog
from puarena.classics.wrapper import fit_weighted
from puarena.datasets.encoding import WORDS
from puarena.errors import UserError
from puarena.estimators.calibration import average_posterior
from puarena.estimators.doubts import warn_of_fit
from puarena.estimators.importance import draw_sample_of_rows
from puarena.estimators.learners import (
    BoostedLearner,
    ClassifierLearner,
    EncodedRows,
    Learner,
    LinearLearner,
    PUTable,
    TreeLearner,
    TriedLearner,
    assign_folds,
    fit_learners,
    report_learners,
    standardize_scores,
)
from puarena.estimators.model_selection import warn_of_calibrator
from puarena.estimators.network import (
    NetworkLearner,
    PUNetClassifier,
    hold_out,
    refuse_propensity,
)
from puarena.estimators.prior_knowledge import PriorKnowledge
from puarena.estimators.table_classifier import TableClassifier
from puarena.priors import DEFAULT
from puarena.priors.methods.saturation import fit_saturation
from puarena.pu import labeling
from puarena.pu.labels import Labels

AUTO = "auto"
# The networks among the learners that are tried: short training is enough in an ensemble.
AUTO_NETWORK = {"algorithm": "nnpu", "steps": 200, "batch_size": 64}
# The share of positives in U that they are trained with, whatever the prior is: so the prior moves
# probabilities and never the ranking. Trained with a small one they rank worse.
NETWORK_SHARE = 0.5
MAX_NETWORK_ROWS = 100_000  # in larger tables no networks are tried: they predict slowly

HELD_OUT_SHARE = 0.1  # of every batch of ``partial_fit``
MAX_KEPT_ROWS = 5_000  # held-out rows of P, and of U, that ``partial_fit`` keeps, the newest
MIN_KEPT_ROWS = 20  # with fewer, a model is also judged by the rows it has just seen


@dataclass
class BatchState:
    """What ``partial_fit`` remembers between batches."""

    labeled: int
    rows: int
    values: Any  # of ``y`` in the first batch; None: any, since ``positive_label`` is given
    has_negatives: bool
    kept: list[EncodedRows | None] = field(default_factory=lambda: [None, None])  # of P, of U

    def keep_rows(self, side: int, rows: EncodedRows) -> None:
        """Keep held-out rows of one side, the newest of all."""
        joined = _join_rows([self.kept[side], rows])
        self.kept[side] = joined[-MAX_KEPT_ROWS:]

    def choose_judges(self, seen: Sequence[EncodedRows]) -> list[EncodedRows]:
        """Return the rows of P and of U to judge a model by, given those it has just seen."""
        few = min(0 if rows is None else len(rows) for rows in self.kept) < MIN_KEPT_ROWS
        judges = []
        for kept, rows in zip(self.kept, seen, strict=True):
            judges.append(_join_rows([kept, rows]) if few else _join_rows([kept]))
        return judges


def _join_rows(parts: Sequence[EncodedRows | None]) -> EncodedRows:
    """Return the rows of all parts, one below the other."""
    given = [part for part in parts if part is not None]
    if sparse.issparse(given[0].dense):
        return EncodedRows(sparse.vstack([part.dense for part in given]).tocsr())
    dense = np.concatenate([part.dense for part in given])
    tree = np.concatenate([part.tree for part in given])
    if given[0].words is None:
        return EncodedRows(dense, tree)
    return EncodedRows(dense, tree, sparse.vstack([part.words for part in given]).tocsr())


class PUClassifier(TableClassifier):
    """A classifier from positives and unlabeled rows.

    Fits learners that separate labeled from unlabeled rows, weighs them on rows they have not seen,
    estimates the share of positives, and turns the scores into probabilities; no step needs a
    negative.

    Parameters
    ----------
    algorithm : str or classifier, default="auto"
        ``"auto"``: a linear model, bagged trees, gradient boosting and an ensemble of networks,
        weighted by what each tells about rows that it has not seen (``report_`` has weights and
        criteria). A classifier of
        scikit-learn, which is fitted to labeled against unlabeled rows, or of
        :mod:`puarena.classics`. Or a name in ``puarena list algorithms``: of an algorithm that is
        trained by steps, as a short form of :class:`PUNetClassifier`, or of a classic.
    prior : float, (low, high) or "estimate", default="estimate"
        Share of positives: in the whole sample in the one-sample setting, in the unlabeled rows in
        the two-sample setting. A range says what is known of it and is narrowed by the data.
        ``"estimate"`` or ``"estimate:<method>"`` estimates it by
        :func:`puarena.priors.estimate_prior`.
    label_frequency : float or (low, high), optional
        Share of the positives of one sample that are labeled, if that is what is known.
    setting : {"one-sample", "two-sample"}, default="one-sample"
        One-sample: one sample was drawn and some of its positives are labeled. Two-sample:
        positives were collected separately from the unlabeled rows.
    selection : str or None, default="pa"
        The criterion by which the checkpoint of a network is chosen, and that ``best_score_`` is:
        one in ``puarena list criteria`` that needs no true label. None: the last checkpoint.
    threshold : {"model", "pa", "f1", "prior", "cost", "budget"}, default="model"
        Where ``predict`` cuts: at probability one half (of a named algorithm, at its own
        threshold), where proxy accuracy or the expected F1 is best, so that as many rows are
        positive as the prior says, where expected costs are equal, or so that as many unlabeled
        rows are positive as can be checked. ``set_threshold`` changes it after fitting.
    costs : (float, float) or 2 x 2 matrix, optional
        For ``"cost"``: of a false positive and a false negative, or a matrix with true classes as
        rows, negative first.
    budget : float, optional
        For ``"budget"``: how many of the unlabeled rows can be checked; below 1: their share.
    positive_label : optional
        The value of ``y`` that marks labeled positives; required if ``y`` is text other than
        "positive", "unlabeled" and "negative".
    text : {"words", "embeddings"}, default="words"
        How free text is read: by its words, or by an embedding, too, which tells that two words
        mean the same; for it, ``pip install 'puarena[text]'``.
    max_samples : int, default=50000
        Of more labeled, or more unlabeled, rows a random part of this size is used.
    random_state : int, RandomState or None, default=None
        Decides folds, initial weights and batches.
    device : str, default="auto"
        Of networks: ``"cpu"``, ``"cuda"``, or ``"auto"`` for a GPU if there is one.
    n_jobs : int, optional
        Threads for trees, and of ``"bagging-pu"``.
    verbose : int, default=0
        With 1, the prior and every learner are printed when they are done.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The value of the negative class (in ``y``, of unlabeled rows), and of the positive one.
    prior_, prior_interval_ : float, tuple of float
        The prior where one number is needed, and its 95 % interval if it is not known.
    prior_quantiles_ : ndarray of shape (101,)
        Quantiles of the prior, in steps of one percent.
    report_ : list of dict
        The learners that were tried, with their criteria, seconds and weights.
    learner_, algorithm_ : str
        The learner that is used; the registered name that was trained.
    best_score_ : float
        The criterion of the learner that is used.
    threshold_ : float
        Where ``predict`` cuts the log-odds.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    A named algorithm also has the attributes of :class:`PUNetClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena import PUClassifier
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(400) % 2 == 0
    >>> X = rng.normal(size=(400, 2)) + 3 * truth[:, None]
    >>> y = truth & (rng.random(400) < 0.5)  # half of the positives are labeled
    >>> clf = PUClassifier(prior=0.5, random_state=0).fit(X, y)
    >>> bool(np.mean(clf.predict(X) == truth) > 0.9)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **TableClassifier._parameter_constraints,
        "algorithm": [str, HasMethods(["fit", "predict"])],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        algorithm: Any = AUTO,
        *,
        prior: float | str | Sequence[float] = "estimate",
        label_frequency: float | Sequence[float] | None = None,
        setting: str = "one-sample",
        selection: str | None = "pa",
        threshold: str = "model",
        costs: Any = None,
        budget: float | None = None,
        positive_label: Any = None,
        text: str = WORDS,
        max_samples: int = 50_000,
        random_state: Any = None,
        device: str = "auto",
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.prior = prior
        self.label_frequency = label_frequency
        self.setting = setting
        self.selection = selection
        self.threshold = threshold
        self.costs = costs
        self.budget = budget
        self.positive_label = positive_label
        self.text = text
        self.max_samples = max_samples
        self.random_state = random_state
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not self._names_algorithm()
        return tags

    def _names_algorithm(self) -> bool:
        """Return whether ``algorithm`` is a name, not a classifier or "auto"."""
        return isinstance(self.algorithm, str) and self.algorithm != AUTO

    # -- fitting -----------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        propensity: Any = None,
        groups: Any = None,
    ) -> PUClassifier:
        """Fit to rows ``X``, of which ``y`` marks the labeled positives.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Numbers; in a data frame (pandas, polars) also text, categories and bools. Values may be
            missing. Sparse matrices if the learner takes them (``"auto"``: its linear model).
        y : array-like of shape (n_samples,)
            Values in {1, 0}, {1, -1} or bools; {1, 0, -1} or "positive", "unlabeled", "negative" if
            some negatives are known; or ``positive_label`` and anything else.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of rows. Networks see rows in proportion to them.
        propensity : array-like of shape (n_samples,), optional
            The chance of a label of every row, if it is positive; for ``"sar-oracle"``, see
            :class:`PUNetClassifier`.
        groups : array-like of shape (n_samples,), optional
            Rows of one group, such as one customer, are held out together.

        Returns
        -------
        PUClassifier
            The fitted estimator.
        """
        self._validate_params()
        with self._collect_notes():
            return self._fit(X, y, sample_weight, propensity, groups)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, propensity: Any, groups: Any
    ) -> PUClassifier:
        """Fit learners, or the network that is named."""
        warn_of_calibrator()
        if self._is_network():
            if groups is not None:
                raise UserError(
                    f"algorithm={self.algorithm!r} cannot keep groups together; use 'auto' or a "
                    "classifier",
                    "not-supported",
                )
            return self._fit_network(X, y, sample_weight, propensity)
        if propensity is not None:
            raise refuse_propensity(self.algorithm)
        table = self._read_table(X, y, sample_weight, groups=groups)
        if hasattr(self.algorithm, "partial_fit"):
            self._begin_batches(table, y)
        tried, refused = fit_learners(table, self._make_learners(), self._log)
        used = tried[-1]
        if table.learns_prior:
            table = self._learn_prior(used, table)
        low, high = self.prior_interval_
        self._log(f"prior {self.prior_:.3f} ({low:.3f} to {high:.3f})")
        for each in tried:
            each.judge(table, each.posterior)
        self.report_ = report_learners(tried, refused)
        self._set_ensemble(used, table)
        self.sample_ = draw_sample_of_rows(table, assign_folds(table))
        self.algorithm_ = used.name
        self.best_score_ = used.criteria[self.selection or "pa"]
        names = None if self.encoder_ is None else self.encoder_.dense_names
        interval = self.prior_interval_ if table.learns_prior else None
        warn_of_fit(table, used.score, self.prior_, interval, names)
        return self

    def _learns_prior(self, known: PriorKnowledge) -> bool:
        return (
            isinstance(self.algorithm, str)
            and self.algorithm == AUTO
            and (known.method == DEFAULT and not known.is_exact)
        )

    def _learn_prior(self, used: TriedLearner, table: PUTable) -> PUTable:
        """Estimate the prior from held-out scores, which are calibrated over what is not known."""
        p, u = used.split_score(table)
        fit = fit_saturation(p, u, table.setting, table.rate, table.bounds)
        self._keep_distribution(fit)
        used.posterior = average_posterior(p, u, fit, table.setting, table.rate)
        return replace(table, prior=self.prior_)

    def _is_network(self) -> bool:
        """Return whether ``algorithm`` names an algorithm that is trained by steps."""
        return self._names_algorithm() and not catalog.get(self.algorithm).is_classic

    def _make_network(self, **params: Any) -> PUNetClassifier:
        """Return a network classifier with the parameters that both classes have."""
        own, names = self.get_params(deep=False), PUNetClassifier().get_params()
        return PUNetClassifier(**{name: own[name] for name in own if name in names} | params)

    def _fit_network(self, X: Any, y: Any, sample_weight: Any, propensity: Any) -> PUClassifier:
        """Fit a PUNetClassifier and take over its fitted attributes."""
        network = self._make_network().fit(X, y, sample_weight, propensity)
        for name, value in vars(network).items():
            if name.endswith("_"):
                setattr(self, name, value)
        return self

    def _make_learners(self) -> list[Learner]:
        """Return the learners to try."""
        if not isinstance(self.algorithm, str):
            return [ClassifierLearner(self.algorithm)]
        if self.algorithm == AUTO:
            network = self._make_network(**AUTO_NETWORK)
            networks = NetworkLearner(network, MAX_NETWORK_ROWS, NETWORK_SHARE)
            return [LinearLearner(), TreeLearner(self.n_jobs), BoostedLearner(), networks]
        entry = catalog.get(self.algorithm)
        if entry.is_guest:
            raise UserError(
                f"'{entry.name}' is fitted to positive and unlabeled rows by {entry.paper} itself; "
                "use it directly, without PUClassifier",
                "not-supported",
            )
        classic = entry.make_estimator(0)
        own = {"n_jobs": self.n_jobs, "verbose": self.verbose or None}
        known = classic.get_params(deep=False)
        given = {name: own[name] for name in own if own[name] is not None and name in known}
        return [ClassifierLearner(classic.set_params(**given), self.algorithm)]

    def sensitivity(
        self, X: Any = None, y: Any = None, priors: Sequence[float] | None = None
    ) -> list[dict[str, float]]:
        """Return what other priors would change; see :class:`TableClassifier`."""
        if not self._is_network():
            return super().sensitivity(X, y, priors)
        check_is_fitted(self)
        network = self._make_network()
        for name, value in vars(self).items():
            if name.endswith("_"):
                setattr(network, name, value)
        return network.sensitivity(X, y, priors)

    # -- fitting batch by batch --------------------------------------------------------------------

    @available_if(lambda self: hasattr(self.algorithm, "partial_fit"))
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> PUClassifier:
        """Continue fitting with one more batch of rows, if the given classifier can.

        The first batch (or an earlier ``fit``) decides how columns are read and, unless ``prior``
        is a number, what the prior is: it should be large, and needs labeled and unlabeled rows.
        Later ones may be of one kind. A tenth of every batch is never fitted to: threshold and
        probabilities come from these rows, of which the last 5,000 of each kind are kept.

        Parameters
        ----------
        X, y, sample_weight : as for ``fit``
            A batch.
        classes : ignored
            The first batch has both; here by scikit-learn's convention.

        Returns
        -------
        PUClassifier
            The fitted estimator.
        """
        learner = ClassifierLearner(self.algorithm)
        self.sample_ = None
        if hasattr(self, "batches_"):
            table = self._read_batch(X, y, sample_weight)
            (fitted,) = self.model_.parts[0].models
        else:
            self._validate_params()
            table = self._read_table(X, y, sample_weight)
            if obstacle := learner.find_obstacle(table):
                raise UserError(obstacle, "not-supported")
            fitted = learner.make_model(table, check_random_state(table.seed))
            self._begin_batches(table, y)
        rows, seen = self._hold_out_rows(table)
        x = table.rows.tree if fitted.takes_gaps else table.rows.dense
        weight = table.compute_weights(rows)
        fit_weighted(fitted.estimator, x[rows], table.target[rows], weight, partly=True)
        p, u = self.batches_.choose_judges(seen)
        if not len(p) or not len(u):
            # After ``fit``, a batch of one kind: threshold and probabilities stay.
            return self
        score = np.concatenate([fitted.score(p), fitted.score(u)])
        labeled = np.arange(len(score)) < len(p)
        labels = Labels(labeled, np.zeros(len(score), bool), self.classes_)
        judged = replace(table, labels=labels)
        tried = standardize_scores(learner.name, [fitted], score, time.perf_counter())
        tried.judge(judged)
        self.report_ = report_learners([tried], {})
        self._set_ensemble(tried, judged)
        self.algorithm_ = tried.name
        self.best_score_ = tried.criteria[self.selection or "pa"]
        return self

    def _begin_batches(self, table: PUTable, y: Any) -> None:
        """Start counting batches, with the first."""
        self.batches_ = BatchState(
            labeled=round(table.rate * table.data_rows),
            rows=table.data_rows,
            values=np.unique(np.asarray(y)) if self.positive_label is None else None,
            has_negatives=bool(table.labels.negative.any()),
        )

    def _read_batch(self, X: Any, y: Any, sample_weight: Any) -> PUTable:
        """Read a batch after the first as that was."""
        X, y = self._check_input(X), column_or_1d(y)
        check_consistent_length(X, y)
        state = self.batches_
        if state.values is not None:
            new = np.setdiff1d(y, state.values).tolist()
            if new:
                raise UserError(
                    f"y has the value {new[0]!r}, which no earlier batch has; name positive_label",
                    "invalid-value",
                )
        positive = np.asarray(y == self.classes_[1], bool)
        negative = np.asarray(y == self.classes_[0], bool) & state.has_negatives
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        state.labeled += int(positive.sum())
        state.rows += len(positive)
        return PUTable(
            rows=self._encode(X),
            labels=Labels(positive, negative, self.classes_),
            weight=weight,
            prior=self.prior_,
            setting=labeling.get_setting(self.setting),
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            rate=state.labeled / state.rows,
            data_rows=state.rows,
        )

    def _hold_out_rows(self, table: PUTable) -> tuple[npt.NDArray[np.int64], list[EncodedRows]]:
        """Hold out a part of a batch; return the other rows, and these also by side."""
        rng = check_random_state((table.seed + self.batches_.rows) % 2**31)
        chosen = []
        for side, flags in enumerate((table.labels.positive, ~table.labels.positive)):
            rows = np.flatnonzero(flags)
            held = rows[:0]
            if len(rows) > 1:
                rows, held = hold_out(rows, HELD_OUT_SHARE, rng)
            self.batches_.keep_rows(side, table.rows[held])
            chosen.append(rows)
        return np.sort(np.concatenate(chosen)), [table.rows[rows] for rows in chosen]
