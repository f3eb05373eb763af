"""Random search without negatives: the configurations of a batch size train as one fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from puarena import catalog, networks, paper
from puarena.algorithms import draw_configuration
from puarena.errors import UserError, unknown_name
from puarena.estimators.learners import PUTable
from puarena.estimators.model_selection import PU_CRITERIA
from puarena.estimators.network import NetworkRun, PUNetClassifier, TrainedRun, TrainingSplit
from puarena.estimators.persistence import save_model
from puarena.utils.notebook import html_table

# The declared learning rates are meant for the paper's steps; shorter training needs larger ones.
MAX_LR_FACTOR = 10.0
OPTIMIZER_PARAMS = ("lr", "batch_size", "momentum")


class PUSearch(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Random search over an algorithm's hyperparameters, chosen without negatives.

    All configurations see the same held-out rows. The first one is the estimator itself; the
    winner's network is kept as it was trained. With fewer than 200 labels, unless the estimator's
    ``members`` is 1, the winner is then trained as an ensemble over folds, as ``PUNetClassifier``
    would be: so few held-out labels are not enough for calibration.

    Parameters
    ----------
    estimator : PUNetClassifier or Pipeline, optional
        Its parameters are where the configurations start from; in a pipeline it is the last step,
        and the steps before it are fitted once. Default: ``PUNetClassifier()``.
    algorithms : sequence of str, optional
        Algorithms to compare. Default: the estimator's.
    n_iter : int, default=10
        Configurations per algorithm.
    space : dict, optional
        What to draw instead of the declared space: a name (``lr``, ``batch_size``, ``momentum`` or
        a hyperparameter) to a list of values, a scipy distribution (anything with ``rvs``) or a
        ``Choice`` or ``LogUniform``. Default: the algorithm's declared space and the benchmark's
        learning rates and batch sizes.
    criterion : str, default="pa"
        A criterion in ``puarena list criteria`` that needs no true label, by which checkpoints and
        configurations are chosen.
    random_state : int, RandomState or None, default=None
        Decides the configurations; the estimator's own decides the split and the training.
    verbose : int, default=0
        With 1, progress is printed ten times during training, and the table at the end.

    Attributes
    ----------
    best_estimator_ : PUNetClassifier or Pipeline
        The winner, fitted.
    best_params_, best_score_, best_index_ : dict, float, int
        The winner's parameters, its criterion, and its place in ``results_``.
    prior_, prior_interval_ : float, tuple of float
        The prior that all configurations were trained with.
    results_ : list of dict
        For every configuration ``params``, ``algorithm``, the criteria, ``step``, ``status`` and
        ``rank``.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena import PUNetClassifier, PUSearch
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(400) % 2 == 0
    >>> X = rng.normal(size=(400, 2)) + 3 * truth[:, None]
    >>> y = truth & (rng.random(400) < 0.5)
    >>> base = PUNetClassifier(prior=0.5, steps=100, random_state=0)
    >>> search = PUSearch(base, n_iter=3, random_state=0).fit(X, y)
    >>> len(search.results_)
    3
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "estimator": [HasMethods(["fit", "predict"]), None],
        "algorithms": ["array-like", None],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "space": [dict, None],
        "criterion": [StrOptions(set(PU_CRITERIA))],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        algorithms: Sequence[str] | None = None,
        n_iter: int = 10,
        space: Mapping[str, Any] | None = None,
        criterion: str = "pa",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.algorithms = algorithms
        self.n_iter = n_iter
        self.space = space
        self.criterion = criterion
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PUSearch:
        """Train all configurations on the same split and keep the best.

        Parameters
        ----------
        X, y, sample_weight : as for ``PUNetClassifier.fit``
            The training data.

        Returns
        -------
        PUSearch
            The fitted search.
        """
        self._validate_params()
        whole, base = self._clone_estimator()
        base._validate_params()
        forms = {name: base._choose_form(name) for name in self._list_algorithms(base)}
        wanted = self._draw_configurations(base, forms)
        inner = whole[:-1].fit_transform(X, y) if whole is not base else X
        table = base._read_table(inner, y, sample_weight)
        split = base._split_rows(table)
        trained = self._train(base, table, split, forms, wanted)
        self.results_ = self._rank(wanted, trained)
        self.best_index_ = [row["rank"] for row in self.results_].index(1)
        best = self.results_[self.best_index_]
        self.best_params_, self.best_score_ = best["params"], best[self.criterion]
        if not np.isfinite(self.best_score_):
            raise UserError(
                "every configuration diverged; search smaller learning rates (space={'lr': …})",
                "no-results",
            )
        base.set_params(**self.best_params_)
        if base._count_members(table) == 1:
            base._keep_run(table, split, trained[self.best_index_])
        else:
            base._fit_members(table)
        self.best_estimator_ = whole
        self.prior_, self.prior_interval_ = base.prior_, base.prior_interval_
        self.classes_, self.n_features_in_ = whole.classes_, whole.n_features_in_
        if hasattr(whole, "feature_names_in_"):
            self.feature_names_in_ = whole.feature_names_in_
        if self.verbose:
            print(self.table())
        return self

    def _clone_estimator(self) -> tuple[Any, PUNetClassifier]:
        """Return a copy of the estimator, and its last step if it is a pipeline."""
        whole = PUNetClassifier() if self.estimator is None else clone(self.estimator)
        base = whole.steps[-1][1] if isinstance(whole, Pipeline) else whole
        if not isinstance(base, PUNetClassifier):
            raise UserError(
                "PUSearch needs a PUNetClassifier, alone or as the last step of a pipeline, not "
                f"{type(base).__name__}; for other classifiers use scikit-learn's searches with "
                "scoring=PUScorer('pa')",
                "invalid-value",
            )
        return whole, base.set_params(
            selection=self.criterion, verbose=max(self.verbose, base.verbose)
        )

    def _list_algorithms(self, base: PUNetClassifier) -> list[str]:
        """Return the names of the algorithms to compare."""
        names = [base.algorithm] if self.algorithms is None else list(self.algorithms)
        if not names:
            raise UserError("algorithms is empty; name at least one, or omit it", "invalid-value")
        for name in names:
            if name in catalog.names("classic"):
                raise UserError(
                    f"PUSearch tries configurations of networks, and {name!r} is a classic; use "
                    "scikit-learn's searches with scoring=PUScorer('pa')",
                    "not-supported",
                )
        return names

    def _draw_configurations(
        self, base: PUNetClassifier, forms: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        """Draw the parameters of every configuration; ``forms`` are the algorithms' forms."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        wanted = []
        for name, form in forms.items():
            declared = catalog.get(form).hypers
            for key in self.space or {}:
                if key not in (*OPTIMIZER_PARAMS, *declared):
                    known = {*OPTIMIZER_PARAMS, *declared}
                    raise unknown_name(f"parameter of {name} in space", key, known)
            hyper = dict(base.hyper or {})
            first: dict[str, Any] = {
                "algorithm": name,
                "lr": base._choose_lr(form),
                "batch_size": int(base.batch_size),
                "momentum": float(base.momentum),
                "hyper": {key: value for key, value in hyper.items() if key in declared},
            }
            wanted.append(first)
            for at in range(1, self.n_iter):
                values = self._draw_values(base, declared, seed, at)
                wanted.append(_change_params(first, values, declared))
        return wanted

    def _draw_values(
        self, base: PUNetClassifier, declared: Mapping[str, Any], seed: int, at: int
    ) -> dict[str, Any]:
        """Draw one configuration from the given space, or from the declared one."""
        if self.space is not None:
            rng = np.random.RandomState((seed + at) % 2**31)
            return {key: _draw_value(self.space[key], rng) for key in sorted(self.space)}
        config = draw_configuration(at, seed, networks.resolve(base.network), declared)
        factor = min(max(paper.STEPS / base.steps, 1.0), MAX_LR_FACTOR)
        return {"lr": config.lr * factor, "batch_size": config.batch_size, **config.hyper}

    def _train(
        self,
        base: PUNetClassifier,
        table: PUTable,
        split: TrainingSplit,
        forms: Mapping[str, str],
        wanted: Sequence[Mapping[str, Any]],
    ) -> list[TrainedRun]:
        """Train all configurations, those of an algorithm and batch size as one fleet."""
        groups: dict[tuple[str, int], list[int]] = {}
        for at, params in enumerate(wanted):
            groups.setdefault((params["algorithm"], params["batch_size"]), []).append(at)
        trained: dict[int, TrainedRun] = {}
        for (name, batch_size), places in groups.items():
            runs = []
            for at in places:
                lr, momentum, hyper = (wanted[at][key] for key in ("lr", "momentum", "hyper"))
                runs.append(NetworkRun(forms[name], split, table.prior, lr, momentum, hyper))
            trained.update(zip(places, base._train(table, runs, batch_size), strict=True))
        return [trained[at] for at in range(len(wanted))]

    def _rank(
        self, wanted: Sequence[dict[str, Any]], trained: Sequence[TrainedRun]
    ) -> list[dict[str, Any]]:
        """Return the results of all configurations with their ranks."""
        rows = []
        for params, run in zip(wanted, trained, strict=True):
            records = {record["step"]: record for record in run.curve}
            kept = records.get(run.best_step, {})
            row = {"algorithm": run.network.algorithm, "params": params}
            row |= {name: kept.get(name, float("nan")) for name in PU_CRITERIA}
            status = "ok" if run.diverged < 0 else f"diverged at step {run.diverged}"
            rows.append(row | {"step": run.best_step, "status": status})
        worth = np.array([row[self.criterion] for row in rows]) * PU_CRITERIA[self.criterion].sign
        order = np.argsort(-np.where(np.isnan(worth), -np.inf, worth), kind="stable")
        for rank, at in enumerate(order, 1):
            rows[at]["rank"] = rank
        return rows

    # -- showing results ---------------------------------------------------------------------------

    def _format_results(self) -> list[tuple[str, ...]]:
        """Return the results as text, the heads first and then the best configuration."""
        shown = [n for n, c in PU_CRITERIA.items() if c.default or n == self.criterion]
        titles = [PU_CRITERIA[name].title for name in shown]
        lines = [("rank", "algorithm", "lr", "batch", "step", *titles, "hyper", "")]
        for row in sorted(self.results_, key=lambda each: each["rank"]):
            params = row["params"]
            hyper = []
            for name, value in params["hyper"].items():
                hyper.append(
                    f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
                )
            lines.append(
                (
                    str(row["rank"]),
                    row["algorithm"],
                    f"{params['lr']:.2e}",
                    str(params["batch_size"]),
                    str(row["step"]),
                    *(f"{row[name]:.4f}" for name in shown),
                    ", ".join(hyper),
                    "" if row["status"] == "ok" else f"({row['status']})",
                )
            )
        return lines

    def table(self) -> str:
        """Return the results as text, the best configuration first."""
        check_is_fitted(self)
        texts = []
        for rank, name, lr, batch, step, *values, hyper, status in self._format_results():
            criteria = "".join(f" {value:>7}" for value in values)
            text = f"{rank:>4}  {name:<14} {lr:>9} {batch:>5} {step:>6}{criteria}  {hyper}"
            texts.append(f"{text}  {status}".rstrip())
        return "\n".join(texts)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Add the results to scikit-learn's diagram in notebooks."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle and hasattr(self, "results_"):
            heads, *lines = self._format_results()
            low, high = self.prior_interval_
            title = PU_CRITERIA[self.criterion].title
            note = f"Chosen by {title}; prior {self.prior_:.3f} ({low:.3f} to {high:.3f})."
            results = html_table(heads, lines, notes=[note], bold=0)
            bundle["text/html"] = f"<div>{bundle['text/html']}{results}</div>"
        return bundle

    # -- predicting --------------------------------------------------------------------------------

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of every row by the best estimator."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the best estimator's decision."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the best estimator's probabilities."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    def save(self, path: str | Path) -> Path:
        """Write the best estimator to a file without pickle; see :func:`puarena.save_model`."""
        check_is_fitted(self)
        return save_model(self.best_estimator_, path)


def _change_params(
    first: Mapping[str, Any], values: Mapping[str, Any], declared: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters of the first configuration with drawn values instead."""
    params = {**first, "hyper": dict(first["hyper"])}
    for key, value in values.items():
        if key in declared:
            params["hyper"][key] = value
        if key in OPTIMIZER_PARAMS:
            params[key] = value
    params["batch_size"] = int(params["batch_size"])
    return params


def _draw_value(distribution: Any, rng: np.random.RandomState) -> Any:
    if hasattr(distribution, "rvs"):
        value = distribution.rvs(random_state=rng)
    elif hasattr(distribution, "sample"):
        value = distribution.sample(rng)
    else:
        value = distribution[int(rng.choice(len(distribution)))]
    return value.item() if isinstance(value, np.generic) else value
