"""Networks on tables: how a fleet of them is trained, and the estimator PUNetClassifier."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from puarena import algorithms, catalog, metrics, networks, paper
from puarena.algorithms import Setup
from puarena.datasets.encoding import WORDS
from puarena.errors import PUWarning, UserError
from puarena.estimators.calibration import PUScores, fit_slopes
from puarena.estimators.cuts import keep_rows
from puarena.estimators.importance import draw_sample_of_rows
from puarena.estimators.learners import (
    FOLDS,
    EncodedRows,
    Ensemble,
    EnsemblePart,
    Learner,
    PUTable,
    assign_folds,
    choose_learner,
)
from puarena.estimators.table_classifier import TableClassifier, report_sensitivity
from puarena.pu import HiddenLabels, PUData, labeling
from puarena.pu.labels import resample_by_weight
from puarena.training import Fleet, FleetConfig, Row
from puarena.training.evaluate import evaluation_mode
from puarena.training.log import Curves

Floats = npt.NDArray[np.floating[Any]]
Index = npt.NDArray[np.int64]
NetworkSpec = str | Callable[[int], torch.nn.Module]

FORWARD_ROWS = 4096  # rows predicted at once
MIN_SINGLE_LABELS = 200  # with fewer, an ensemble over folds is trained
MIN_HELD_OUT_ROWS = 20  # with fewer of P or U, a model is also judged by its training rows
MAX_TRIED_FEATURES = 1_000  # of wider tables no networks are tried: they take long
PROGRESS_REPORTS = 10  # lines printed during one training

# Columns of the training curves -> their names in ``curve_``.
CURVE_COLUMNS = {c.column: name for name, c in metrics.CRITERIA.items() if not c.oracle}
CURVE_COLUMNS["loss"] = "loss"
# Criteria in their form for known propensities.
WEIGHTED_CRITERIA = {"pa": "pa-ipw"}


class SettingWarning(PUWarning):
    """The method is made for data of the other setting."""


# -- trained networks ------------------------------------------------------------------------------


@dataclass
class FittedNetwork:
    """A trained network as plain data; predicts in double precision on the CPU."""

    algorithm: str
    network: NetworkSpec | None  # None: a function that was not saved with the model
    hyper: dict[str, Any]
    setting: str
    prior: float
    shifted_prior: float
    sizes: dict[str, int]  # n_p, n_u, batch_p, batch_u, steps
    center: Floats
    scale: Floats
    weights: dict[str, Floats]
    cut: float = 0.0

    _module: algorithms.Algorithm | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_module": None}

    def score(self, rows: EncodedRows) -> npt.NDArray[np.float64]:
        """Return the decision logit of every row, positive at or above zero."""
        module = self.build()
        x = rows.dense
        parts = [np.empty(0)]
        for start in range(0, len(x), FORWARD_ROWS):
            chunk = np.asarray(x[start : start + FORWARD_ROWS], np.float64)
            with torch.no_grad():
                inputs = torch.from_numpy((chunk - self.center) / self.scale).unsqueeze(0)
                decision, _ = module.outputs(inputs)
            parts.append(decision[0].numpy() - self.cut)
        return np.concatenate(parts)

    def build(self) -> algorithms.Algorithm:
        """Return the algorithm with its trained parameters, built once."""
        if self._module is not None:
            return self._module
        assert self.network is not None
        entry, network, sizes = catalog.get(self.algorithm), self.network, self.sizes
        rate = sizes["n_p"] / (sizes["n_p"] + sizes["n_u"])
        constants = torch.tensor([[self.prior], [self.shifted_prior], [rate]], dtype=torch.float64)
        setup = Setup(
            prior=constants[0],
            shifted_prior=constants[1],
            rate=constants[2],
            one_sample=torch.tensor([labeling.get_setting(self.setting).one_sample]),
            calibration=(paper.CALIBRATION if entry.calibrated else "none",),
            n_p=sizes["n_p"],
            n_u=sizes["n_u"],
            batch_p=sizes["batch_p"],
            batch_u=sizes["batch_u"],
            steps=sizes["steps"],
            hyper={name: [value] for name, value in self.hyper.items()},
        )
        module = entry.cls(setup)
        seeds, shape = torch.zeros(1, dtype=torch.int64), (len(self.center),)
        module.attach(lambda name: networks.build(network, seeds, shape, name, torch.float64))
        own = dict(module.named_parameters())
        shapes = {name: tuple(parameter.shape) for name, parameter in own.items()}
        if shapes != {name: weight.shape for name, weight in self.weights.items()}:
            raise UserError(
                f"the weights are not those of {self.algorithm} with this network", "conflict"
            )
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(torch.from_numpy(np.array(self.weights[name])))
        module.eval()
        self._module = module
        return module


@dataclass(frozen=True)
class TrainingSplit:
    """Standardized features, and which rows are trained on and which are held out."""

    x: Floats  # float32
    center: Floats
    scale: Floats
    p_train: Index
    u_train: Index
    p_val: Index
    u_val: Index

    def choose_judges(self) -> tuple[Index, Index]:
        """Return the held-out rows of P and U to judge a model by, or all if they are too few."""
        if min(len(self.p_val), len(self.u_val)) >= MIN_HELD_OUT_ROWS:
            return self.p_val, self.u_val
        return np.union1d(self.p_train, self.p_val), np.union1d(self.u_train, self.u_val)


@dataclass(frozen=True)
class NetworkRun:
    """One training run: an algorithm's registered name, its numbers and its rows."""

    algorithm: str
    split: TrainingSplit
    prior: float
    lr: float
    momentum: float
    hyper: dict[str, Any]


@dataclass
class TrainedRun:
    """A trained network, and the history of its training."""

    network: FittedNetwork
    curve: list[dict[str, Any]]
    best_step: int
    best_score: float
    diverged: int  # the step of the record that found the run not finite, or -1


def hold_out(rows: Index, fraction: float, rng: np.random.RandomState) -> tuple[Index, Index]:
    """Split rows into training and held-out ones, at least one each; a single row is both."""
    order = rng.permutation(rows)
    if len(rows) == 1:
        return order, order
    n = min(max(1, round(fraction * len(rows))), len(rows) - 1)
    return order[n:], order[:n]


def standardize_features(x: Floats, enabled: bool) -> tuple[Floats, Floats, Floats]:
    """Return features for training in float32, and the center and scale that were applied."""
    wide = x.astype(np.float64)
    center = wide.mean(0) if enabled else np.zeros(x.shape[1])
    scale = wide.std(0) if enabled else np.ones(x.shape[1])
    scale = np.where(scale > 1e-12 * np.maximum(1.0, np.abs(center)), scale, 1.0)
    scaled = np.ascontiguousarray((wide - center) / scale, dtype=np.float32)
    if not np.isfinite(scaled).all():
        raise UserError(
            "Input X contains a value too large for dtype('float32') after standardization",
            "invalid-value",
        )
    return scaled, center, scale


def train_fleet(
    table: PUTable,
    runs: Sequence[NetworkRun],
    config: FleetConfig,
    on_record: Callable[[int, int], None] | None = None,
) -> list[TrainedRun]:
    """Train runs of one algorithm class on the same features as one fleet.

    Each run keeps its best checkpoint by the criterion ``config.keep``; without one, its last.
    ``on_record(step, steps)`` is called after every record.
    """
    rows = [_make_row(table, run) for run in runs]
    with _limit_threads(single=config.device == "cpu" and len(rows) == 1):
        fleet = Fleet(rows, config, runs[0].split.x)
        curves = fleet.train(on_record)
        if fleet.best is not None:
            fleet.best.restore()
        with evaluation_mode(fleet.algorithm):
            threshold = fleet.algorithm.threshold(fleet.passes)
    cuts = np.zeros(len(rows)) if threshold is None else threshold.double().cpu().numpy()
    parameters = fleet.algorithm.named_parameters()
    weights = {name: parameter.detach().cpu().numpy() for name, parameter in parameters}
    setup = fleet.algorithm.setup
    sizes = {name: getattr(setup, name) for name in ("n_p", "n_u", "batch_p", "batch_u", "steps")}
    trained = []
    for at, run in enumerate(runs):
        network = FittedNetwork(
            algorithm=run.algorithm,
            network=config.network,
            hyper=dict(run.hyper),
            setting=table.setting.code,
            prior=run.prior,
            shifted_prior=table.setting.prior_in_u(run.prior, table.rate),
            sizes=sizes,
            center=run.split.center,
            scale=run.split.scale,
            weights={name: weight[at : at + 1].copy() for name, weight in weights.items()},
            cut=float(cuts[at]),
        )
        curve = _read_curve(curves, at)
        step, score = int(curves.step[-1]), curve[-1]["pa"]
        if fleet.best is not None:
            step, score = int(fleet.best.step[at]), float(fleet.best.value[at])
        trained.append(TrainedRun(network, curve, step, score, int(curves.diverged[at])))
    return trained


def _make_row(table: PUTable, run: NetworkRun) -> Row:
    """Describe a run to the training engine; true labels are unknown and never used."""
    split = run.split
    data = PUData(
        p_train=split.p_train,
        u_train=split.u_train,
        p_val=split.p_val,
        u_val=split.u_val,
        test=np.zeros(0, np.int64),
        prior=run.prior,
        rate=table.rate,
        shifted_prior=table.setting.prior_in_u(run.prior, table.rate),
        setting=table.setting,
    )
    chance_train = chance_val = None
    if table.propensity is not None:
        chance_train, chance_val = table.propensity[split.p_train], table.propensity[split.p_val]
    unknown = (np.zeros(len(rows), bool) for rows in (split.u_train, split.u_val, data.test))
    hidden = HiddenLabels(*unknown, propensity_train=chance_train, propensity_val=chance_val)
    return Row(
        run.algorithm,
        data,
        hidden,
        table.seed,
        lr=run.lr,
        momentum=run.momentum,
        hyper=dict(run.hyper),
    )


def _read_curve(curves: Curves, run: int) -> list[dict[str, Any]]:
    """Return the records of one run."""
    records: list[dict[str, Any]] = []
    for at, (step, phase) in enumerate(zip(curves.step, curves.phase, strict=True)):
        selectable = bool(curves.selectable[at])
        record: dict[str, Any] = {"step": int(step), "phase": phase, "selectable": selectable}
        for column, values in curves.values.items():
            if column in CURVE_COLUMNS:
                record[CURVE_COLUMNS[column]] = float(values[at, run])
        records.append(record)
    return records


@contextmanager
def _limit_threads(single: bool) -> Iterator[None]:
    """Use one thread for a small fleet: distributing tiny operations costs more than doing them."""
    before = torch.get_num_threads()
    if single:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# -- estimators ------------------------------------------------------------------------------------


class NetworkLearner(Learner):
    """Networks by a named algorithm: one per fold, all trained as one fleet."""

    name = "network"

    def __init__(
        self,
        settings: PUNetClassifier,
        max_rows: int | None = None,
        share: float | None = None,
    ) -> None:
        self.settings = settings
        self.max_rows = max_rows
        self.share = share  # of positives in U, to train with; None: that of the table's prior
        self.runs_: list[TrainedRun] = []

    def find_obstacle(self, table: PUTable) -> str:
        """Return a reason if the matrix is sparse, or the table too large to predict quickly."""
        if table.rows.tree is None:
            return "networks take no sparse matrix"
        if self.max_rows is not None and table.data_rows > self.max_rows:
            return f"left out of tables with more than {self.max_rows:,} rows"
        if self.max_rows is not None and table.rows.dense.shape[1] > MAX_TRIED_FEATURES:
            return f"left out of tables with more than {MAX_TRIED_FEATURES:,} columns"
        return ""

    def cross_fit(self, table: PUTable, fold: Index) -> tuple[npt.NDArray[np.float64], list[Any]]:
        """Train all folds at once."""
        net = self.settings
        form = net._choose_form(net.algorithm)
        splits = net._split_folds(table, fold)
        prior = table.prior
        if self.share is not None:
            prior = float(table.setting.prior_from_u(self.share, table.rate))
        self.runs_ = net._train(table, [net._make_run(form, each, prior) for each in splits])
        net._check_converged(self.runs_)
        models = [run.network for run in self.runs_]
        score = np.zeros(len(fold))
        for k, model in enumerate(models):
            held = np.flatnonzero(fold == k)
            score[held] = model.score(table.rows[held])
        return score, models


class PUNetClassifier(TableClassifier):
    """A network trained from positives and unlabeled rows by one algorithm of the benchmark.

    Parameters
    ----------
    algorithm : str, default="nnpu"
        A name in ``puarena list algorithms`` that is trained by steps.
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
    calibrated : bool or "auto", default="auto"
        Whether to use the algorithm's calibrated form, which corrects a two-sample method for
        one-sample data. ``"auto"``: in the one-sample setting, with a warning if there is none.
    network : str or callable, default="mlp"
        ``"mlp"`` (one hidden layer of 500 units), another registered network, or a function of the
        number of features that returns a ``torch.nn.Module`` with one or two outputs.
    hyper : dict, optional
        The algorithm's own hyperparameters (``puarena explain <algorithm>``).
    steps : int, default=2000
        Training steps. The benchmark's protocol has 20,000.
    warmup : int, optional
        Steps of a first stage, for algorithms that have one, in addition to ``steps``; default: a
        tenth of them.
    batch_size : int, default=128
        Labeled rows, and unlabeled rows, per step.
    lr : float, optional
        Learning rate; default: the algorithm's own, 0.01 (0.001 for PUe, whose risk is unbounded).
    momentum : float, default=0.9
        Momentum of stochastic gradient descent.
    members : int or "auto", default="auto"
        Networks: 1 holds out rows once; more are trained as one fleet, each holding out another
        part of the rows, and averaged. ``"auto"``: 5 with fewer than 200 labels, otherwise 1.
    validation_fraction : float, default=0.1
        Share of the labeled and of the unlabeled rows that is held out by a single network.
    selection : str or None, default="pa"
        Which checkpoint to keep: the best by a criterion in ``puarena list criteria`` that needs no
        true label; None: the last one.
    threshold : {"model", "pa", "f1", "prior", "cost", "budget"}, default="model"
        Where ``predict`` cuts: at the algorithm's own threshold,
        where proxy accuracy or the expected F1 is best, so that as many rows are positive as the
        prior says, where expected costs are equal, or so that as many unlabeled rows are positive
        as can be checked. ``set_threshold`` changes it after fitting.
    costs : (float, float) or 2 x 2 matrix, optional
        For ``"cost"``: of a false positive and a false negative, or a matrix with true classes as
        rows, negative first.
    budget : float, optional
        For ``"budget"``: how many of the unlabeled rows can be checked; below 1: their share.
    standardize : bool, default=True
        Whether to scale every feature to mean 0 and deviation 1.
    positive_label : optional
        The value of ``y`` that marks labeled positives; required if ``y`` is text other than
        "positive", "unlabeled" and "negative".
    text : {"words", "embeddings"}, default="words"
        How free text is read: by its words, or by an embedding, too, which tells that two words
        mean the same; for it, ``pip install 'puarena[text]'``.
    max_samples : int, default=50000
        Of more labeled, or more unlabeled, rows a random part of this size is used.
    random_state : int, RandomState or None, default=None
        Decides held-out rows, initial weights and batches.
    device : str, default="auto"
        ``"cpu"``, ``"cuda"``, or ``"auto"`` for a GPU if there is one.
    verbose : int, default=0
        With 1, the prior is printed, and the progress of training ten times.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The value of the negative class (in ``y``, of unlabeled rows), and of the positive one.
    prior_, prior_interval_ : float, tuple of float
        The prior that was used, and its 95 % interval if it was estimated.
    algorithm_ : str
        The registered name that was trained.
    curve_ : list of dict
        The history of the first network, with every criterion on the held-out rows.
    best_step_, best_score_ : int, float
        The checkpoint of the first network that was kept.
    threshold_ : float
        Where ``predict`` cuts the network's logit.
    report_, learner_ : list of dict, str
        As in :class:`PUClassifier`.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena import PUNetClassifier
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(1000) % 2 == 0
    >>> X = rng.normal(size=(1000, 2)) + 3 * truth[:, None]
    >>> y = truth & (rng.random(1000) < 0.5)  # half of the positives are labeled
    >>> clf = PUNetClassifier("vpu", prior=0.5, steps=300, random_state=0).fit(X, y)
    >>> bool(np.mean(clf.predict(X) == truth) > 0.9)
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **TableClassifier._parameter_constraints,
        "algorithm": [str],
        "calibrated": ["boolean", StrOptions({"auto"})],
        "network": [str, callable],
        "hyper": [dict, None],
        "steps": [Interval(Integral, 1, None, closed="left")],
        "warmup": [Interval(Integral, 0, None, closed="left"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "lr": [Interval(Real, 0, None, closed="neither"), None],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "members": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "standardize": ["boolean"],
    }

    def __init__(
        self,
        algorithm: str = "nnpu",
        *,
        prior: float | str | Sequence[float] = "estimate",
        label_frequency: float | Sequence[float] | None = None,
        setting: str = "one-sample",
        calibrated: bool | str = "auto",
        network: NetworkSpec = "mlp",
        hyper: dict[str, Any] | None = None,
        steps: int = 2000,
        warmup: int | None = None,
        batch_size: int = 128,
        lr: float | None = None,
        momentum: float = 0.9,
        members: int | str = "auto",
        validation_fraction: float = 0.1,
        selection: str | None = "pa",
        threshold: str = "model",
        costs: Any = None,
        budget: float | None = None,
        standardize: bool = True,
        positive_label: Any = None,
        text: str = WORDS,
        max_samples: int = 50_000,
        random_state: Any = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.algorithm = algorithm
        self.prior = prior
        self.label_frequency = label_frequency
        self.setting = setting
        self.calibrated = calibrated
        self.network = network
        self.hyper = hyper
        self.steps = steps
        self.warmup = warmup
        self.batch_size = batch_size
        self.lr = lr
        self.momentum = momentum
        self.members = members
        self.validation_fraction = validation_fraction
        self.selection = selection
        self.threshold = threshold
        self.costs = costs
        self.budget = budget
        self.standardize = standardize
        self.positive_label = positive_label
        self.text = text
        self.max_samples = max_samples
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, propensity: Any = None
    ) -> PUNetClassifier:
        """Fit to rows ``X``, of which ``y`` marks the labeled positives.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            Numbers; in a data frame (pandas, polars) also text, categories and bools. Values may be
            missing.
        y : array-like of shape (n_samples,)
            As in :class:`PUClassifier`.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of rows; networks see rows in proportion to them.
        propensity : array-like of shape (n_samples,), optional
            The chance of a label of every row, if it is positive; for ``"sar-oracle"``, which needs
            it. The prior is then estimated from it in the one-sample setting, and checkpoints are
            chosen by PA weighted with it.

        Returns
        -------
        PUNetClassifier
            The fitted estimator.
        """
        self._validate_params()
        self._check_propensity_use(propensity)
        with self._collect_notes():
            return self._fit(self._read_table(X, y, sample_weight, propensity))

    def _fit(self, table: PUTable) -> PUNetClassifier:
        """Train one network or several."""
        low, high = self.prior_interval_
        self._log(f"prior {self.prior_:.3f} ({low:.3f} to {high:.3f})")
        if self._count_members(table) > 1:
            return self._fit_members(table)
        split = self._split_rows(table)
        run = self._make_run(self._choose_form(self.algorithm), split, table.prior)
        (trained,) = self._train(table, [run])
        return self._keep_run(table, split, trained)

    def _check_propensity_use(self, propensity: Any) -> None:
        """Raise if propensities are given and cannot be used, or are missing and needed."""
        knows = _get_entry(self.algorithm).knows_propensity
        if propensity is None and knows:
            raise UserError(
                f"'{self.algorithm}' needs the chance of a label of every row: "
                "fit(X, y, propensity=...)",
                "missing-data",
            )
        if propensity is None:
            return
        if not knows:
            raise refuse_propensity(self.algorithm)
        if self.threshold == "pa":
            raise UserError(
                "threshold='pa' assumes that labels are given at random; with propensities use "
                "threshold='model'",
                "conflict",
            )
        if self.members not in ("auto", 1):
            raise UserError(
                f"members={self.members} cannot use propensities; use members=1", "conflict"
            )

    def _count_members(self, table: PUTable) -> int:
        """Return how many networks are trained."""
        if self.members != "auto":
            return int(self.members)
        few = int(table.target.sum()) < MIN_SINGLE_LABELS
        return FOLDS if few and table.propensity is None else 1

    def _fit_members(self, table: PUTable) -> PUNetClassifier:
        """Train an ensemble over folds."""
        learner = NetworkLearner(self)
        tried, self.report_ = choose_learner(table, [learner], self._log)
        self._set_ensemble(tried, table)
        self.sample_ = draw_sample_of_rows(table, assign_folds(table))
        self._keep_history(learner.runs_[0])
        return self

    def _keep_run(self, table: PUTable, split: TrainingSplit, trained: TrainedRun) -> Any:
        """Keep a single network and fit its threshold and probabilities to held-out rows."""
        self._check_converged([trained])
        name = trained.network.algorithm
        self.learner_ = name
        self.model_ = Ensemble([EnsemblePart(name, [trained.network])])
        self.report_ = [{"learner": name, "chosen": True, "why": "the only one"}]
        self._keep_history(trained)
        p, u = split.choose_judges()
        logit = self.model_.decide(table.rows)
        scores = PUScores(logit[p], logit[u], self.prior_, table.setting.one_sample)
        if table.propensity is not None:
            scores = scores.set_propensity(table.propensity[p], table.propensity[u])
        self.probability_ = fit_slopes(scores)
        self._keep_held_out(logit[p], logit[u], table)
        self.sample_ = draw_sample_of_rows(
            table, np.zeros(len(logit), np.int64), np.concatenate([p, u])
        )
        self.threshold_ = trained.network.cut + self.shift_
        return self

    def _keep_history(self, trained: TrainedRun) -> None:
        self.algorithm_ = trained.network.algorithm
        self.curve_ = trained.curve
        self.best_step_, self.best_score_ = trained.best_step, trained.best_score

    def _check_converged(self, trained: Sequence[TrainedRun]) -> None:
        """Raise if a run has no checkpoint to keep."""
        for run in trained:
            if run.best_step < 0 or (self.selection is None and run.diverged >= 0):
                step = max(each.diverged for each in trained)
                lr = self._choose_lr(run.network.algorithm)
                raise UserError(
                    f"training diverged by step {step}; use a smaller lr (it is {lr:g})",
                    "invalid-value",
                )

    def _choose_form(self, name: str) -> str:
        """Return the registered name of an algorithm's form to train, calibrated or not."""
        entry = _get_entry(name)
        if entry.supervised and not entry.knows_propensity:
            raise UserError(
                f"'{entry.name}' is trained with true labels of the unlabeled rows; choose a PU "
                "algorithm",
                "not-supported",
            )
        form, one_sample = entry.calibrated_form, labeling.get_setting(self.setting).one_sample
        if self.calibrated == "auto":
            if one_sample and form:
                return str(form)
            if mismatch := _describe_mismatch(entry, one_sample):
                warnings.warn(mismatch, SettingWarning, stacklevel=4)
            return str(entry.name)
        if self.calibrated and not form and not entry.calibrated:
            raise UserError(
                f"'{entry.name}' has no calibrated form; use calibrated='auto' or False",
                "not-supported",
            )
        return str(form) if self.calibrated and form else str(entry.name)

    def _choose_lr(self, name: str) -> float:
        """Return the learning rate: the given one, or the algorithm's own."""
        return float(catalog.get(name).cls.lr if self.lr is None else self.lr)

    def _make_run(self, name: str, split: TrainingSplit, prior: float) -> NetworkRun:
        hyper = dict(self.hyper or {})
        lr = self._choose_lr(name)
        return NetworkRun(name, split, prior, lr, float(self.momentum), hyper)

    def _split_rows(self, table: PUTable) -> TrainingSplit:
        """Standardize the features and hold out rows."""
        x, center, scale = standardize_features(table.rows.dense, self.standardize)
        rng = check_random_state(table.seed)
        labeled = table.labels.positive
        p_train, p_val = hold_out(np.flatnonzero(labeled), self.validation_fraction, rng)
        u_train, u_val = hold_out(np.flatnonzero(~labeled), self.validation_fraction, rng)
        p_train, u_train = (
            resample_by_weight(rows, table.weight, rng) for rows in (p_train, u_train)
        )
        return TrainingSplit(x, center, scale, p_train, u_train, p_val, u_val)

    def _split_folds(self, table: PUTable, fold: Index) -> list[TrainingSplit]:
        """Return a split per fold, trimmed to equal sizes so that they can be one fleet."""
        x, center, scale = standardize_features(table.rows.dense, self.standardize)
        rng = check_random_state(table.seed)
        labeled = table.labels.positive
        folds = []
        for k in range(int(fold.max()) + 1):
            held = fold == k
            parts: list[Index] = []
            for chosen in (labeled & ~held, ~labeled & ~held, labeled & held, ~labeled & held):
                # A side that is empty here has a single row, which is trained on and held out.
                side = labeled if len(parts) % 2 == 0 else ~labeled
                rows = np.flatnonzero(chosen if chosen.any() else side)
                parts.append(rng.permutation(rows))
            parts[:2] = [resample_by_weight(rows, table.weight, rng) for rows in parts[:2]]
            folds.append(parts)
        sizes = [min(len(rows) for rows in side) for side in zip(*folds, strict=True)]
        splits = []
        for parts in folds:
            trimmed = [rows[:size] for rows, size in zip(parts, sizes, strict=True)]
            splits.append(TrainingSplit(x, center, scale, *trimmed))
        return splits

    def _train(
        self, table: PUTable, runs: Sequence[NetworkRun], batch_size: int | None = None
    ) -> list[TrainedRun]:
        """Train runs as one fleet."""
        keep = self.selection
        if table.propensity is not None and keep is not None:
            keep = WEIGHTED_CRITERIA.get(keep, keep)
        config = FleetConfig(
            batch_size=int(self.batch_size if batch_size is None else batch_size),
            steps=int(self.steps),
            warmup=int(self.steps) // 10 if self.warmup is None else self.warmup,
            record_every=max(10, int(self.steps) // 100),
            network=self.network,
            device=_choose_device(self.device),
            keep=keep,
        )
        return train_fleet(table, runs, config, self._make_progress(runs))

    def _make_progress(self, runs: Sequence[NetworkRun]) -> Callable[[int, int], None]:
        """Return a function that prints the progress of training a few times."""
        name = runs[0].algorithm
        if len(runs) > 1:
            name += f" ({len(runs)} runs)"
        printed = 0

        def on_record(step: int, total: int) -> None:
            nonlocal printed
            if PROGRESS_REPORTS * step // total > printed:
                printed = PROGRESS_REPORTS * step // total
                self._log(f"{name}: step {step:,} of {total:,}")

        return on_record

    def sensitivity(
        self, X: Any = None, y: Any = None, priors: Sequence[float] | None = None
    ) -> list[dict[str, float]]:
        """Train networks with several priors as one fleet; see the base class."""
        check_is_fitted(self)
        if X is None and self.model_.posterior is not None:
            return super().sensitivity(priors=priors)
        if X is None or y is None:
            raise UserError("networks are trained again: sensitivity(X, y)", "missing-data")
        wanted = self._list_priors(priors)
        again = type(self)(**{**self.get_params(deep=False), "prior": wanted[0]})
        again.label_frequency = None
        table = again._read_table(X, y)
        if again._count_members(table) > 1:
            return super().sensitivity(X, priors=priors)
        again.fit(X, y)
        split, name = again._split_rows(table), again._choose_form(self.algorithm)
        p, u = split.choose_judges()
        decisions, rows = [], []
        # The table may be a part of X.
        encoded = again._encode(again._check_input(X))
        for trained in again._train(table, [again._make_run(name, split, each) for each in wanted]):
            prior, one_sample = trained.network.prior, table.setting.one_sample
            kept = trained.network.score(table.rows)
            scores = PUScores(kept[p], kept[u], prior, one_sample)
            chance = fit_slopes(scores)
            held = keep_rows(
                kept[p],
                kept[u],
                chance(kept[p]),
                chance(kept[u]),
                prior=prior,
                rate=table.rate,
                unlabeled=round((1 - table.rate) * table.data_rows),
                one_sample=one_sample,
            )
            cut = held.find_cut(self.threshold, self.costs, self.budget)
            decisions.append(trained.network.score(encoded) - cut)
            rows.append((kept[p] - cut, kept[u] - cut))
        weight = np.ones(len(encoded))
        return report_sensitivity(wanted, decisions, weight, rows, again.held_out_)


def _get_entry(name: str) -> Any:
    """Return the entry of an algorithm that is trained by steps."""
    entry = catalog.get(name)
    if entry.is_classic:
        raise UserError(
            f"'{name}' is a classic, which is not trained by steps; use PUClassifier('{name}') or "
            "puarena.classics",
            "not-supported",
        )
    return entry


def _describe_mismatch(entry: Any, one_sample: bool) -> str:
    """Return why an algorithm does not suit the setting of the data; empty if it does."""
    if one_sample and entry.setting == "two-sample" and not entry.calibrated:
        return (
            f"{entry.title} is made for two samples and has no calibrated form, and these data are "
            "one sample: its predictions are biased towards negative."
        )
    if one_sample or not (entry.calibrated or entry.setting == "one-sample"):
        return ""
    effect = "it may be biased"
    if entry.calibrated:
        effect = "its correction is wrong here: use the plain form"
    return f"{entry.title} is made for one sample, and these data are two: {effect}."


def refuse_propensity(algorithm: Any) -> UserError:
    """Return the error for an algorithm that cannot use propensities."""
    able = [f"'{name}'" for name in catalog.names() if catalog.get(name).knows_propensity]
    return UserError(
        f"algorithm={algorithm!r} cannot use propensities; those that can: {', '.join(able)}",
        "not-supported",
    )


def _choose_device(name: str) -> str:
    """Return the device's name for torch."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        message = f"device={name!r} is not one: use 'auto', 'cpu' or 'cuda'"
        raise UserError(message, "invalid-value")
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= gpus:
        there = f"the last GPU of this machine is 'cuda:{gpus - 1}'" if gpus else "there is no GPU"
        raise UserError(f"device={name!r}, and {there}; use 'auto' or 'cpu'", "not-supported")
    return str(device)
