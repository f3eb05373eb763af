"""Fitted models as files, without pickle: ``model.json`` says what it is, ``weights.safetensors`` has the numbers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from puarena import __version__
from puarena.errors import UserError
from puarena.utils.files import write_file

if TYPE_CHECKING:
    from puarena.estimators.estimator import PUClassifier

FORMAT = "puarena-model"
FORMAT_VERSION = 3  # of pipelines; a classifier alone is written as 2
FACTS = (
    "algorithm",
    "learner",
    "prior",
    "prior_interval",
    "report",
    "shift",
    "best_step",
    "best_score",
    "curve",
)
ABOUT, WEIGHTS = "model.json", "weights.safetensors"


def save_model(model: PUClassifier | Pipeline, path: str | Path) -> Path:
    """Write a fitted classifier to a folder without pickle, or a pipeline that ends in one; ``load_model`` reads it.

    Parameters
    ----------
    model : PUClassifier or Pipeline
        Fitted. The steps of a pipeline before the classifier may be scikit-learn's scalers, ``SimpleImputer``,
        ``PCA``, ``TruncatedSVD`` and ``VarianceThreshold``.
    path : str or Path
        The folder, which is made if it is not there.

    Returns
    -------
    Path
        The folder.
    """
    from safetensors.numpy import save

    steps, clf = (
        (model.steps[:-1], model.steps[-1][1]) if isinstance(model, Pipeline) else ([], model)
    )
    if not isinstance(path, (str, Path)) or not str(path):
        raise UserError(f"a model is saved to a folder, and {path!r} is none")
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"'{folder}' is a file; give a folder to save the model to")
    version = FORMAT_VERSION if isinstance(model, Pipeline) else 2
    about: dict[str, Any] = {"format": FORMAT, "format_version": version, "puarena": __version__}
    if hasattr(clf, "model_"):
        about["model"], arrays = clf.model_.plain()
    else:
        about["ensemble"], arrays = clf.ensemble_.plain()
        arrays = {
            **arrays,
            "posterior.score": clf.posterior_.score,
            "posterior.normal": clf.posterior_.normal,
        }
        about["posterior"] = {"slope": clf.posterior_.slope, "intercept": clf.posterior_.intercept}
    if isinstance(model, Pipeline):
        from puarena.estimators.steps import plain_step

        described = [plain_step(*step) for step in steps]
        about["steps"] = [facts for facts, _ in described] + [{"name": model.steps[-1][0]}]
        for at, (_, own) in enumerate(described):
            arrays = {**arrays, **{f"step.{at}.{name}": array for name, array in own.items()}}
    params = clf.get_params(deep=False)
    if not isinstance(params["network"], str):
        params["network"] = None  # a function is not data: load_model needs it again
    if not isinstance(params["random_state"], int | np.integer | None):
        params["random_state"] = None
    blob = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    about |= {
        "params": params,
        "encoder": None if clf.encoder_ is None else clf.encoder_.plain(),
        "classes": clf.classes_.tolist(),
        "classes_dtype": clf.classes_.dtype.str,
        "features": clf.n_features_in_,
        "feature_names": [str(n) for n in getattr(clf, "feature_names_in_", [])] or None,
        "probability": asdict(clf.probability_),
        **{name: _finite(getattr(clf, f"{name}_")) for name in FACTS if hasattr(clf, f"{name}_")},
        "weights_sha256": hashlib.sha256(blob).hexdigest(),
    }
    try:
        text = json.dumps(about, indent=1, default=_plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"this model cannot be written as JSON: {error}") from None
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / WEIGHTS, blob)
    write_file(folder / ABOUT, text + "\n")
    return folder


def _finite(value: Any) -> Any:
    """Plain data without NaN, which JSON does not have."""
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return None if isinstance(value, float) and value != value else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not plain data")
