"""Methods side by side on real tables: what a practitioner gets from ours, from others', and with true labels."""

from __future__ import annotations

import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from puarena.datasets.encoding import TableEncoder
from puarena.datasets.tables import LABELINGS, LEAST, give_labels, load_table
from puarena.errors import UserError, unknown_name

Flags = npt.NDArray[np.bool_]
METRICS = {
    "accuracy": True,
    "auc": True,
    "f1": True,
    "brier": False,
    "prior_error": False,
    "seconds": False,
}


Fitted = tuple[
    Any, Any, Any
]  # predicted flags, probability, prior estimate (with .value and .interval) or None
Method = Callable[[dict[str, Any]], Fitted]


def _ours(given: dict[str, Any], **params: Any) -> Fitted:
    from puarena.estimators.estimator import PUClassifier

    clf = PUClassifier(random_state=given["seed"], **params).fit(given["frame"], given["labeled"])
    p = clf.predict_proba(given["test"])[:, 1]
    return (
        clf.predict(given["test"]),
        p,
        None if "prior" in params else (clf.prior_, clf.prior_interval_),
    )


def _classifier(model: Any, given: dict[str, Any], target: Any, form: str) -> Fitted:
    model.fit(given[form], target)
    p = np.asarray(model.predict_proba(given[f"{form}_test"]))[:, -1]
    return p >= 0.5, np.clip(p, 0, 1), None


def _boosting(given: dict[str, Any], target: Any) -> Fitted:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return _classifier(
        HistGradientBoostingClassifier(random_state=given["seed"]), given, target, "tree"
    )


def _pulearn(name: str, given: dict[str, Any]) -> Fitted:
    pulearn = importlib.import_module("pulearn")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier

    labeled, seed = given["labeled"], given["seed"]
    forest = RandomForestClassifier(100, random_state=seed)
    if name == "bagging":
        model = pulearn.BaggingPuClassifier(
            DecisionTreeClassifier(),
            n_estimators=50,
            max_samples=int(labeled.sum()),
            random_state=seed,
        )
    elif name == "elkanoto":
        model = pulearn.ElkanotoPuClassifier(forest, hold_out_ratio=0.2, random_state=seed)
    else:
        counts = int(labeled.sum()), int((~labeled).sum())
        model = pulearn.WeightedElkanotoPuClassifier(
            forest, *counts, hold_out_ratio=0.2, random_state=seed
        )
    return _classifier(model, given, labeled.astype(int), "dense")


def _toolbox(given: dict[str, Any]) -> Fitted:
    pu_toolbox = importlib.import_module("pu_toolbox")
    model = pu_toolbox.ElkanNotoClassifier(random_state=given["seed"])
    return _classifier(model, given, given["labeled"].astype(int), "dense")


def _toolbox_pipeline(given: dict[str, Any]) -> Fitted:
    """What pu-toolbox chooses itself: its prior, its method."""
    pu_toolbox = importlib.import_module("pu_toolbox")
    report = pu_toolbox.PUPipeline(random_state=given["seed"]).fit_evaluate(
        given["dense"], given["labeled"].astype(int)
    )
    model = report.final_model
    predicted = np.asarray(model.predict(given["dense_test"])) > 0
    try:
        p = np.asarray(model.predict_proba(given["dense_test"]))[:, -1]
    except NotImplementedError:  # some of its methods have no probabilities
        p = expit(np.asarray(model.decision_function(given["dense_test"]), float).ravel())
    return predicted, np.clip(p, 0, 1), None


METHODS: dict[str, Method] = {
    "puarena": _ours,
    "puarena, true prior": lambda g: _ours(g, prior=max(g["prior"], g["labeled"].mean() + 0.005)),
    "bagging-pu": lambda g: _classifier(
        _classic("BaggingPUClassifier", g), g, g["labeled"].astype(int), "dense"
    ),
    "naive boosting": lambda g: _boosting(g, g["labeled"].astype(int)),
    "oracle boosting": lambda g: _boosting(g, g["truth"].astype(int)),
    "pulearn bagging": lambda g: _pulearn("bagging", g),
    "pulearn elkanoto": lambda g: _pulearn("elkanoto", g),
    "pulearn weighted": lambda g: _pulearn("weighted", g),
    "pu-toolbox elkan-noto": _toolbox,
    "pu-toolbox pipeline": _toolbox_pipeline,
}
PACKAGES = {"pulearn": "pulearn", "pu-toolbox": "pu_toolbox"}


def _classic(name: str, given: dict[str, Any]) -> Any:
    from puarena import classics

    return getattr(classics, name)(random_state=given["seed"])


def methods() -> list[str]:
    """The methods whose packages are installed."""
    missing = [
        word for word, package in PACKAGES.items() if importlib.util.find_spec(package) is None
    ]
    return [name for name in METHODS if name.split()[0] not in missing]


def compare(
    tables: Sequence[str],
    labelings: Sequence[str] = LABELINGS,
    seeds: int = 1,
    names: Sequence[str] | None = None,
    rows: int = 3000,
    test: float = 0.3,
) -> Iterator[dict[str, Any]]:
    """Yield a row per table, labeling, seed and method: the metrics on held-out rows, ``prior``, ``covered``, ``note``.

    The prior of a draw is the share of positives in its training rows. ``prior_error`` and ``covered`` are of methods
    that estimate it.
    """
    wanted = list(names or methods())
    for name in wanted:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    for labeling in labelings:
        if labeling not in LABELINGS:
            raise unknown_name("labeling", labeling, LABELINGS)
    if seeds < 1:
        raise UserError(f"the number of seeds is {seeds}; give 1 or more")
    for table in tables:
        frame, truth = load_table(table)
        for seed in range(seeds):
            for labeling in labelings:
                rng = np.random.default_rng([seed, LABELINGS.index(labeling), len(truth)])
                order = rng.permutation(len(truth))[:rows]
                cut = round(test * len(order))
                held, kept = order[:cut], order[cut:]
                if min(truth[held].sum(), truth[kept].sum() - 2 * LEAST) < 1:
                    raise UserError(
                        f"{table} has too few positives among {len(order)} rows to be split"
                    )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    encoder = TableEncoder().fit(frame.iloc[kept])
                    given: dict[str, Any] = {
                        "frame": frame.iloc[kept],
                        "test": frame.iloc[held],
                        "seed": seed,
                    }
                    for form in ("dense", "tree"):
                        given |= {form: getattr(encoder, form)(given["frame"])}
                        given |= {f"{form}_test": getattr(encoder, form)(given["test"])}
                given["truth"], given["prior"] = truth[kept], float(truth[kept].mean())
                given["labeled"] = give_labels(truth[kept], given["dense"], labeling, rng)
                for name in wanted:
                    line = {"table": table, "labeling": labeling, "seed": seed, "method": name}
                    yield line | _measured(METHODS[name], given, truth[held])


def _measured(method: Method, given: dict[str, Any], truth: Flags) -> dict[str, Any]:
    from sklearn.metrics import brier_score_loss, f1_score, roc_auc_score

    began = time.perf_counter()
    nothing = dict.fromkeys(METRICS, float("nan")) | {
        "prior": given["prior"],
        "covered": None,
        "note": "",
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted, p, prior = method(given)
    except (
        Exception
    ) as error:  # a peer that breaks on a table is a result, not the end of the comparison
        return nothing | {"note": f"{type(error).__name__}: {error}"[:200]}
    predicted = np.asarray(predicted).astype(bool)
    return nothing | {
        "accuracy": float((predicted == truth).mean()),
        "auc": float(roc_auc_score(truth, p)),
        "f1": float(f1_score(truth, predicted, zero_division=0.0)),
        "brier": float(brier_score_loss(truth, p)),
        "prior_error": float("nan") if prior is None else abs(prior[0] - given["prior"]),
        "covered": None if prior is None else bool(prior[1][0] <= given["prior"] <= prior[1][1]),
        "seconds": time.perf_counter() - began,
    }
