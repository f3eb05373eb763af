"""Fitted models as files, without pickle: ``model.json`` says what it is, ``weights.safetensors`` has the numbers."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from puarena import __version__
from puarena.errors import UserError
from puarena.files import write_file

if TYPE_CHECKING:
    from puarena.practice.estimator import PUClassifier
    from puarena.practice.training import Network

FORMAT = "puarena-model"
FORMAT_VERSION = 1
ABOUT, WEIGHTS = "model.json", "weights.safetensors"


def save_model(clf: PUClassifier, path: str | Path) -> Path:
    """Write a fitted classifier to the folder ``path``, which is made if it is not there; return it."""
    from safetensors.numpy import save

    folder, model = Path(path), clf.model_
    if folder.exists() and not folder.is_dir():
        raise UserError(f"'{folder}' is a file; give a folder to save the model to")
    params = clf.get_params(deep=False)
    if not isinstance(params["network"], str):
        params["network"] = None  # a function is not data: load_model needs it again
    if not isinstance(params["random_state"], int | np.integer | None):
        params["random_state"] = None
    arrays = {"center": model.center, "scale": model.scale, **{f"weight:{n}": w for n, w in model.weights.items()}}
    blob = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    about: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "puarena": __version__,
        "params": params,
        "model": {
            "algorithm": model.algorithm,
            "hyper": model.hyper,
            "setting": model.setting,
            "prior": model.prior,
            "shifted_prior": model.shifted_prior,
            "sizes": model.sizes,
            "cut": model.cut,
        },
        "classes": clf.classes_.tolist(),
        "classes_dtype": clf.classes_.dtype.str,
        "features": clf.n_features_in_,
        "feature_names": [str(n) for n in getattr(clf, "feature_names_in_", [])] or None,
        "probability": asdict(clf.probability_),
        "shift": clf.shift_,
        "best_step": clf.best_step_,
        "best_score": clf.best_score_,
        "curve": [{key: None if value != value else value for key, value in row.items()} for row in clf.curve_],
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


def load_model(path: str | Path, network: Network | None = None) -> PUClassifier:
    """Read a fitted classifier back.

    Parameters
    ----------
    path : str or Path
        The folder that ``PUClassifier.save`` wrote.
    network : callable, optional
        The function that built the network, for a model that was fitted with one.

    Returns
    -------
    PUClassifier
        Fitted; it predicts what the saved one did.
    """
    folder = Path(path)
    about, blob = _read(folder)
    try:
        return _restored(about, _arrays(blob), network, folder)
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError, MemoryError) as error:
        raise UserError(f"'{folder}' is damaged: {type(error).__name__}: {error}") from None


def _read(folder: Path) -> tuple[dict[str, Any], bytes]:
    for name in (ABOUT, WEIGHTS):
        if not (folder / name).is_file():
            raise UserError(f"'{folder}' is not a saved model: it has no {name}")
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"'{folder / ABOUT}' is not JSON: {error}") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UserError(f"'{folder / ABOUT}' does not describe a puarena model")
    if about.get("format_version") != FORMAT_VERSION:
        raise UserError(
            f"'{folder}' has model format {about.get('format_version')!r}, and this puarena ({__version__}) reads "
            f"format {FORMAT_VERSION}; it was written by puarena {about.get('puarena')}"
        )
    blob = (folder / WEIGHTS).read_bytes()
    if hashlib.sha256(blob).hexdigest() != about.get("weights_sha256"):
        raise UserError(f"'{folder / WEIGHTS}' is not the file that was saved with '{ABOUT}': its checksum differs")
    return about, blob


def _arrays(blob: bytes) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(blob)
    except SafetensorError as error:
        raise ValueError(f"{WEIGHTS} cannot be read ({error})") from None


def _restored(about: dict[str, Any], arrays: dict[str, Any], network: Network | None, folder: Path) -> PUClassifier:
    from puarena.practice.estimator import PUClassifier
    from puarena.practice.probability import Probability
    from puarena.practice.training import Model

    params = dict(about["params"])
    if params["network"] is None:
        if network is None:
            raise UserError(f"'{folder}' was fitted with a network of your own; give it: load_model(path, network=…)")
        params["network"] = network
    clf = PUClassifier(**params)
    said = about["model"]
    clf.model_ = Model(
        **said,
        network=params["network"],
        center=arrays["center"],
        scale=arrays["scale"],
        weights={n.removeprefix("weight:"): w for n, w in arrays.items() if n.startswith("weight:")},
    )
    if not len(clf.model_.center) == len(clf.model_.scale) == about["features"]:
        raise ValueError(f"it is said to have {about['features']} features, and has {len(clf.model_.center)}")
    clf.model_.built()
    dtype = np.dtype(about["classes_dtype"])
    clf.classes_ = np.array(about["classes"], dtype=None if dtype.hasobject else dtype)
    if clf.classes_.shape != (2,):
        raise ValueError("there must be two classes")
    clf.n_features_in_ = int(about["features"])
    if about["feature_names"]:
        clf.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    clf.probability_ = Probability(**about["probability"])
    clf.shift_ = float(about["shift"])
    clf.algorithm_, clf.prior_ = clf.model_.algorithm, clf.model_.prior
    clf.threshold_ = clf.model_.cut + clf.shift_
    clf.best_step_, clf.best_score_, clf.curve_ = about["best_step"], about["best_score"], []
    for row in about["curve"]:
        clf.curve_.append({key: float("nan") if value is None else value for key, value in row.items()})
    return clf


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not plain data")
