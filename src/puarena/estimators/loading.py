"""Saved models read back; nothing in their files is trusted, and none is a pickle."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from puarena import __version__
from puarena.datasets.encoding import EncodedColumn, TableEncoder
from puarena.errors import UserError
from puarena.estimators.estimator import PUClassifier
from puarena.estimators.members import Ensemble
from puarena.estimators.probability import Posterior, Probability
from puarena.estimators.saving import ABOUT, FACTS, FORMAT, FORMAT_VERSION, WEIGHTS
from puarena.estimators.steps import restored_step
from puarena.estimators.training import Model, Network
from puarena.utils.files import parse_json

READABLE = (1, 2, 3)  # formats


def load_model(path: str | Path, network: Network | None = None) -> Any:
    """Read a fitted classifier back, or a pipeline that ends in one.

    Parameters
    ----------
    path : str or Path
        The folder that ``PUClassifier.save``, ``PUSearch.save`` or ``save_model`` wrote.
    network : callable, optional
        The function that built the network, for a model that was fitted with one.

    Returns
    -------
    PUClassifier or Pipeline
        Fitted; it predicts what the saved one did.
    """
    if not isinstance(path, (str, Path)):
        raise UserError(f"a saved model is a folder, and {path!r} is none")
    folder = Path(path)
    about, blob = _read(folder)
    try:
        arrays = _arrays(blob)
        clf = _restored(about, arrays, network, folder)
        return _pipeline(about["steps"], arrays, clf) if "steps" in about else clf
    except UserError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        RuntimeError,
        MemoryError,
    ) as error:
        raise UserError(f"'{folder}' is damaged: {type(error).__name__}: {error}") from None


def _read(folder: Path) -> tuple[dict[str, Any], bytes]:
    for name in (ABOUT, WEIGHTS):
        if not (folder / name).is_file():
            raise UserError(f"'{folder}' is not a saved model: it has no {name}")
    try:
        about = parse_json((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"'{folder / ABOUT}' is not JSON: {error}") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UserError(f"'{folder / ABOUT}' does not describe a puarena model")
    if about.get("format_version") not in READABLE:
        raise UserError(
            f"'{folder}' has model format {about.get('format_version')!r}, and this puarena ({__version__}) reads "
            f"formats up to {FORMAT_VERSION}; it was written by puarena {about.get('puarena')}"
        )
    blob = (folder / WEIGHTS).read_bytes()
    if hashlib.sha256(blob).hexdigest() != about.get("weights_sha256"):
        raise UserError(
            f"'{folder / WEIGHTS}' is not the file that was saved with '{ABOUT}': its checksum differs"
        )
    return about, blob


def _arrays(blob: bytes) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return load(blob)
    except SafetensorError as error:
        raise ValueError(f"{WEIGHTS} cannot be read ({error})") from None


def _pipeline(steps: list[dict[str, Any]], arrays: dict[str, Any], clf: PUClassifier) -> Pipeline:
    """The pipeline of its steps and the classifier, which is the last."""
    *before, last = steps
    made = []
    for at, facts in enumerate(before):
        prefix = f"step.{at}."
        own = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        made.append(restored_step(facts, own))
    return Pipeline([*made, (str(last["name"]), clf)])


def _restored(
    about: dict[str, Any], arrays: dict[str, Any], network: Network | None, folder: Path
) -> PUClassifier:
    params = dict(about["params"])
    if params["network"] is None:
        if network is None:
            raise UserError(
                f"'{folder}' was fitted with a network of your own; give it: load_model(path, network=…)"
            )
        params["network"] = network
    clf = PUClassifier(**params)
    clf.n_features_in_ = int(about["features"])
    if about["format_version"] == 1:  # of numbers only, and of one network
        clf.encoder_ = TableEncoder(
            [EncodedColumn(f"column {at}") for at in range(clf.n_features_in_)]
        )
        model = {**about["model"], "network": None}
        about = {
            **about,
            "model": model,
            "prior": model["prior"],
            "prior_interval": [model["prior"]] * 2,
        }
        about |= {"algorithm": model["algorithm"], "learner": model["algorithm"], "report": []}
    else:
        clf.encoder_ = (
            None if about["encoder"] is None else TableEncoder.from_plain(about["encoder"])
        )
    if clf.encoder_ is not None and len(clf.encoder_.columns) != clf.n_features_in_:
        raise ValueError(
            f"it is said to have {clf.n_features_in_} features, and has {len(clf.encoder_.columns)}"
        )
    if "model" in about:
        clf.model_ = Model.restored(about["model"], arrays, params["network"])
        if clf.encoder_ is not None and len(clf.model_.center) != clf.encoder_.width:
            raise ValueError(
                f"it is said to have {clf.encoder_.width} features, and has {len(clf.model_.center)}"
            )
    else:
        clf.ensemble_ = Ensemble.restored(about["ensemble"], arrays, params["network"])
        clf.posterior_ = Posterior(
            arrays["posterior.score"], arrays["posterior.normal"], **about["posterior"]
        )
    dtype = np.dtype(about["classes_dtype"])
    clf.classes_ = np.array(about["classes"], dtype=None if dtype.hasobject else dtype)
    if clf.classes_.shape != (2,):
        raise ValueError("there must be two classes")
    if about["feature_names"]:
        clf.feature_names_in_ = np.array(about["feature_names"], dtype=object)
    clf.probability_ = Probability(**about["probability"])
    for name in FACTS:
        if name in about:
            setattr(clf, f"{name}_", about[name])
    clf.shift_, clf.prior_interval_ = float(about["shift"]), tuple(about["prior_interval"])
    clf.threshold_ = (clf.model_.cut if "model" in about else 0.0) + clf.shift_
    if "curve" in about:
        clf.curve_ = [
            {k: float("nan") if v is None else v for k, v in row.items()} for row in about["curve"]
        ]
    return clf
