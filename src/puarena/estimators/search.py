"""Random search without negatives: all configurations of a batch size train together as one fleet."""

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
from puarena.errors import suggest
from puarena.estimators.choosing import AUTO, ENSEMBLE
from puarena.estimators.estimator import PUClassifier
from puarena.estimators.saving import save_model
from puarena.estimators.scoring import PRACTICAL
from puarena.estimators.showing import Showing
from puarena.estimators.training import Candidate, Trained
from puarena.utils.notebook import html_table

OPTIMIZER = ("lr", "batch_size", "momentum")


class PUSearch(Showing, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Random search over an algorithm's declared space, learning rate and batch size, chosen without negatives.

    All configurations see the same held-out rows. The first one is the estimator itself; the winner's network is kept
    as it was trained. With fewer than 200 labels, unless the estimator's ``members`` is 1, the winner is then trained
    as an ensemble over folds, as ``PUClassifier`` would: a handful of held-out labels calibrates nothing.

    Parameters
    ----------
    estimator : PUClassifier or Pipeline, optional
        Whose parameters the configurations start from; in a pipeline it is the last step, and the steps before it are
        fitted once. Default: ``PUClassifier("nnpu")``, which is also what ``"auto"`` means here.
    algorithms : sequence of str, optional
        Algorithms to compare. Default: the estimator's.
    n_iter : int, default=10
        Configurations per algorithm.
    space : dict, optional
        What to draw instead of the declared space: a name (``lr``, ``batch_size``, ``momentum`` or a hyperparameter)
        to a list of values, a scipy distribution (anything with ``rvs``) or a ``Choice`` or ``LogUniform``. Default:
        the benchmark's rule, its learning rates (meant for 20,000 steps) up to ten times higher for fewer steps.
    criterion : str, default="pa"
        A criterion of ``puarena list criteria`` that needs no true label, by which checkpoints and configurations are
        chosen.
    random_state : int, RandomState or None, default=None
        Decides the configurations; the estimator's own decides the split and the training.
    verbose : int, default=0
        With 1 training is reported ten times on its way, and the table printed at the end.

    Attributes
    ----------
    best_estimator_ : PUClassifier
        The winner, fitted; ``predict`` and the like are its own.
    best_params_, best_score_, best_index_ : dict, float, int
        The winner's parameters, its criterion, and its place in ``results_``.
    prior_, prior_interval_ : float, tuple of float
        The prior that all configurations were trained with.
    results_ : list of dict
        For every configuration ``params``, ``algorithm``, the criteria, ``step``, ``status`` and ``rank``.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena import PUClassifier, PUSearch
    >>> rng = np.random.default_rng(0)
    >>> truth = np.arange(400) % 2 == 0
    >>> X = rng.normal(size=(400, 2)) + 3 * truth[:, None]
    >>> y = truth & (rng.random(400) < 0.5)
    >>> search = PUSearch(PUClassifier(prior=0.5, steps=100, random_state=0), n_iter=3, random_state=0).fit(X, y)
    >>> len(search.results_)
    3
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "estimator": [HasMethods(["fit", "predict"]), None],
        "algorithms": ["array-like", None],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "space": [dict, None],
        "criterion": [StrOptions(set(PRACTICAL))],
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PUSearch:
        """Train all configurations on the same split and keep the best; the arguments are those of ``PUClassifier``."""
        self._validate_params()
        whole = PUClassifier() if self.estimator is None else clone(self.estimator)
        base = whole.steps[-1][1] if isinstance(whole, Pipeline) else whole
        if not isinstance(base, PUClassifier):
            raise ValueError(
                f"PUSearch needs a PUClassifier, alone or as the last step, not {type(base).__name__}."
            )
        if base.algorithm == AUTO:
            base.set_params(algorithm=ENSEMBLE)
        names = [base.algorithm] if self.algorithms is None else list(self.algorithms)
        if not names:
            raise ValueError("algorithms is empty; name at least one, or leave it out.")
        if others := [
            name for name in names if not isinstance(name, str) or name in catalog.names("classic")
        ]:
            raise ValueError(
                f"PUSearch tries configurations of networks, and {others[0]} is none; for classics and other "
                "classifiers use scikit-learn's searches with scoring=PUScorer('pa')."
            )
        base.set_params(selection=self.criterion, verbose=max(self.verbose, base.verbose))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        wanted = [
            (name, params) for name in names for params in self._configurations(base, name, seed)
        ]
        inner = whole[:-1].fit_transform(X, y) if whole is not base else X
        table = base._table(inner, y, sample_weight)
        data = base._prepare(table)
        groups: dict[tuple[str, int], list[int]] = {}
        for at, (name, params) in enumerate(wanted):
            groups.setdefault((name, params["batch_size"]), []).append(at)
        trained: dict[int, Trained] = {}
        for (name, batch_size), members in groups.items():
            form = base._registered(name)
            runs = [
                Candidate(
                    form,
                    table.prior,
                    wanted[at][1]["lr"],
                    wanted[at][1]["momentum"],
                    wanted[at][1]["hyper"],
                )
                for at in members
            ]
            trained.update(
                zip(members, base._train(data, runs, batch_size=batch_size), strict=True)
            )
        self.results_ = self._results(wanted, trained)
        self.best_index_ = next(at for at, row in enumerate(self.results_) if row["rank"] == 1)
        best = self.results_[self.best_index_]
        if not np.isfinite(best[self.criterion]):
            raise ValueError(
                "every configuration diverged; search smaller learning rates (space={'lr': …})."
            )
        self.best_params_, self.best_score_ = best["params"], best[self.criterion]
        base.set_params(**best["params"])
        if base._ensemble_of(table) == 1:
            base._adopt(table, data, trained[self.best_index_])
        else:
            base._fit_learners(table)
        self.best_estimator_, self.prior_, self.prior_interval_ = (
            whole,
            base.prior_,
            base.prior_interval_,
        )
        self.classes_, self.n_features_in_ = whole.classes_, whole.n_features_in_
        if hasattr(whole, "feature_names_in_"):
            self.feature_names_in_ = whole.feature_names_in_
        if self.verbose:
            print(self.table())
        return self

    def _configurations(self, base: PUClassifier, name: str, seed: int) -> list[dict[str, Any]]:
        """Draw the configurations of one algorithm: ``lr``, ``batch_size``, ``momentum`` and ``hyper``."""
        declared = catalog.get(base._registered(name)).hypers
        known = {*OPTIMIZER, *declared}
        for key in self.space or {}:
            if key not in known:
                raise ValueError(f"space has no parameter '{key}' of {name}{suggest(key, known)}")
        own = {key: value for key, value in (base.hyper or {}).items() if key in declared}
        first: dict[str, Any] = {
            "lr": base._lr(base._registered(name)),
            "batch_size": base.batch_size,
            "momentum": float(base.momentum),
            "hyper": own,
        }
        drawn = [first]
        for at in range(1, self.n_iter):
            if self.space is None:
                config = draw_configuration(at, seed, networks.resolve(base.network), declared)
                values = {
                    "lr": config.lr * min(max(paper.STEPS / base.steps, 1.0), 10.0),
                    "batch_size": config.batch_size,
                    **config.hyper,
                }
            else:
                rng = np.random.RandomState((seed + at) % 2**31)
                values = {key: _sample(self.space[key], rng) for key in sorted(self.space)}
            hyper = {**own, **{key: value for key, value in values.items() if key in declared}}
            drawn.append(
                {**first, **{k: v for k, v in values.items() if k in OPTIMIZER}, "hyper": hyper}
            )
        for each in drawn:
            each["batch_size"] = int(each["batch_size"])
        return drawn

    def _results(
        self, wanted: list[tuple[str, dict[str, Any]]], trained: dict[int, Trained]
    ) -> list[dict[str, Any]]:
        rows = []
        for at, (name, params) in enumerate(wanted):
            run = trained[at]
            kept = next((record for record in run.curve if record["step"] == run.best_step), None)
            rows.append(
                {
                    "algorithm": run.model.algorithm,
                    "params": {"algorithm": name, **params},
                    **{name: kept[name] if kept else float("nan") for name in PRACTICAL},
                    "step": run.best_step,
                    "status": "ok" if run.diverged < 0 else f"diverged at step {run.diverged}",
                }
            )
        values = np.array([row[self.criterion] for row in rows])
        worth = PRACTICAL[self.criterion].sign * values
        order = np.argsort(-np.where(np.isnan(worth), -np.inf, worth), kind="stable")
        for rank, at in enumerate(order, 1):
            rows[at]["rank"] = rank
        return rows

    def _lines(self) -> list[tuple[str, ...]]:
        """The results as text, head first and then the best configuration: rank, algorithm, …, hyper, status."""
        shown = {
            name: c.title for name, c in PRACTICAL.items() if c.default or name == self.criterion
        }
        lines = [("rank", "algorithm", "lr", "batch", "step", *shown.values(), "hyper", "")]
        for row in sorted(self.results_, key=lambda r: r["rank"]):
            p = row["params"]
            hyper = ", ".join(
                f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}"
                for k, v in p["hyper"].items()
            )
            about = (
                f"{row['rank']}",
                row["algorithm"],
                f"{p['lr']:.2e}",
                f"{p['batch_size']}",
                f"{row['step']}",
            )
            values = (f"{row[name]:.4f}" for name in shown)
            lines.append(
                (*about, *values, hyper, "" if row["status"] == "ok" else f"({row['status']})")
            )
        return lines

    def table(self) -> str:
        """Return the results as text, the best configuration first."""
        check_is_fitted(self)
        texts = []
        for rank, name, lr, batch, step, *values, hyper, status in self._lines():
            criteria = "".join(f" {value:>7}" for value in values)
            note = f"  {status}" if status else ""
            texts.append(
                f"{rank:>4}  {name:<14} {lr:>9} {batch:>5} {step:>6}{criteria}  {hyper}{note}".rstrip()
            )
        return "\n".join(texts)

    def _found(self) -> str:
        if not hasattr(self, "results_"):
            return ""
        heads, *lines = self._lines()
        low, high = self.prior_interval_
        note = f"Chosen by {PRACTICAL[self.criterion].title}; prior {self.prior_:.3f} ({low:.3f} to {high:.3f})."
        return html_table(heads, lines, notes=[note], bold=0)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict with the best estimator."""
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        return tags

    def save(self, path: str | Path) -> Path:
        """Write the best classifier to a folder, with the steps of a pipeline before it: see ``save_model``."""
        check_is_fitted(self)
        return save_model(self.best_estimator_, path)


def _sample(distribution: Any, rng: np.random.RandomState) -> Any:
    if hasattr(distribution, "rvs"):
        value = distribution.rvs(random_state=rng)
    elif hasattr(distribution, "sample"):
        value = distribution.sample(rng)
    else:
        value = distribution[int(rng.choice(len(distribution)))]
    return value.item() if isinstance(value, np.generic) else value
