"""Fitted models as files without pickle, written by skops."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import skops.io
from sklearn.pipeline import Pipeline

from puarena import __version__
from puarena.errors import UserError
from puarena.estimators.loaded_arrays import check_arrays
from puarena.utils.files import write_file

FORMAT_VERSION = 6
ABOUT = "puarena.json"  # a member of the file: the version of the format and of puarena

# What a file may contain besides the classes that skops itself trusts, which are those of numpy,
# scipy and scikit-learn. A class is added here only if loading it can run nothing but its own code.
TRUSTED_TYPES = [
    "numpy.dtype",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
    "puarena.classics.bagging.BaggingPUClassifier",
    "puarena.classics.biased.BiasedClassifier",
    "puarena.classics.elkan_noto.ElkanNotoClassifier",
    "puarena.classics.forest.DownSampledForestClassifier",
    "puarena.classics.maxent.MaxentClassifier",
    "puarena.classics.naive.NaiveClassifier",
    "puarena.classics.puet.PUExtraTreesClassifier",
    "puarena.classics.sar_em.SarEMClassifier",
    "puarena.classics.spies.SpiesClassifier",
    "puarena.classics.puet.Forest",
    "puarena.datasets.encoding.EncodedColumn",
    "puarena.datasets.encoding.TableEncoder",
    "puarena.datasets.encoding.TextModel",
    "puarena.estimators.calibration.PosteriorCalibration",
    "puarena.estimators.calibration.SlopeCalibration",
    "puarena.estimators.classifier.BatchState",
    "puarena.estimators.classifier.PUClassifier",
    "puarena.estimators.cuts.HeldOutRows",
    "puarena.estimators.learners.EncodedRows",
    "puarena.estimators.learners.Ensemble",
    "puarena.estimators.learners.EnsemblePart",
    "puarena.estimators.learners.FittedClassifier",
    "puarena.estimators.learners.FittedLinear",
    "puarena.estimators.learners.FittedTrees",
    "puarena.estimators.network.FittedNetwork",
    "puarena.estimators.network.PUNetClassifier",
]


def save_model(model: Any, path: str | Path) -> Path:
    """Write a fitted classifier, or a pipeline that ends in one, to a file without pickle.

    Parameters
    ----------
    model : PUClassifier, PUNetClassifier or Pipeline
        Fitted. Classifiers and steps of scikit-learn can be saved, those of other libraries not.
    path : str or Path
        The file, for example ``"model.skops"``; it is replaced if it exists.

    Returns
    -------
    Path
        The file.
    """
    path = _check_path(path)
    if path.is_dir():
        raise UserError(f"'{path}' is a folder; give a file to save the model to", "cannot-write")
    blob = skops.io.dumps(_replace_network(model, None), compression=zipfile.ZIP_DEFLATED)
    if unknown := _list_untrusted(blob):
        raise UserError(
            f"a model that contains {unknown[0]} cannot be saved without pickle; use joblib, or "
            "fit with classes of scikit-learn and puarena only",
            "not-supported",
        )
    buffer = io.BytesIO(blob)
    with zipfile.ZipFile(buffer, "a") as archive:
        about = {"format_version": FORMAT_VERSION, "puarena": __version__}
        archive.writestr(ABOUT, json.dumps(about))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, buffer.getvalue())
    return path


def load_model(path: str | Path, network: Callable[[int], Any] | None = None) -> Any:
    """Read a fitted classifier, or a pipeline that ends in one.

    No pickle is loaded, and no file with classes that are not expected in a model.

    Parameters
    ----------
    path : str or Path
        The file that ``save`` or ``save_model`` wrote.
    network : callable, optional
        The function that built the network, if the model was fitted with one.

    Returns
    -------
    PUClassifier, PUNetClassifier or Pipeline
        Fitted; it predicts the same as the saved one.
    """
    path = _check_path(path)
    if not path.is_file():
        raise UserError(f"'{path}' is not a saved model: there is no such file", "missing-file")
    blob = path.read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(blob)) as archive:
            about = json.loads(archive.read(ABOUT))
            version, written_by = about["format_version"], about["puarena"]
    except Exception:  # zipfile raises errors of many types
        raise UserError(f"'{path}' is not a model saved by puarena", "wrong-format") from None
    if version != FORMAT_VERSION:
        raise UserError(
            f"'{path}' has model format {version} of puarena {written_by}, and this puarena "
            f"({__version__}) reads format {FORMAT_VERSION}",
            "wrong-format",
        )
    try:
        with zipfile.ZipFile(io.BytesIO(blob)) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"the checksum of '{damaged}' differs")
        if unknown := _list_untrusted(blob):
            raise UserError(
                f"'{path}' contains {unknown[0]}, which is not expected in a model and is not "
                "loaded",
                "wrong-format",
            )
        model = skops.io.loads(blob, trusted=TRUSTED_TYPES)
        check_arrays(model)
    except UserError:
        raise
    except Exception as error:
        # A file made by hand can fail anywhere in skops, numpy or scikit-learn.
        raise UserError(f"'{path}' is damaged: {error}", "damaged-file") from None
    if not hasattr(model, "predict_proba"):
        raise UserError(f"'{path}' does not contain a classifier", "wrong-format")
    return _restore_network(model, network, path)


def _check_path(path: str | Path) -> Path:
    if not isinstance(path, (str, Path)) or not str(path):
        raise UserError(
            f"a model is saved in a file, and {path!r} does not name one", "invalid-value"
        )
    return Path(path)


def _list_untrusted(blob: bytes) -> list[str]:
    """Return the types in a skops file that are not trusted."""
    return sorted(set(skops.io.get_untrusted_types(data=blob)) - set(TRUSTED_TYPES))


def _get_classifier(model: Any) -> Any:
    """Return the last step of a pipeline, or the model itself."""
    return model.steps[-1][1] if isinstance(model, Pipeline) else model


def _restore_network(model: Any, network: Callable[[int], Any] | None, path: Path) -> Any:
    """Set the function that builds the network, if the model was fitted with one."""
    if getattr(_get_classifier(model), "network", "") is not None:
        return model
    if network is None:
        raise UserError(
            f"'{path}' was fitted with a network of your own; give it: load_model(path, network=…)",
            "missing-data",
        )
    model = _replace_network(model, network)
    for part in _get_classifier(model).model_.parts:
        for fitted in part.models:
            fitted.build()
    return model


def _replace_network(model: Any, network: Callable[[int], Any] | None) -> Any:
    """Return a copy of a model with another network function; a function is not data.

    A model whose network has a name stays as it is.
    """
    clf = _get_classifier(model)
    if isinstance(getattr(clf, "network", ""), str):
        return model
    bare = copy.copy(clf)
    bare.network = network
    parts = []
    for part in clf.model_.parts:
        models = [replace(fitted, network=network, _module=None) for fitted in part.models]
        parts.append(replace(part, models=models))
    bare.model_ = replace(clf.model_, parts=parts)
    if isinstance(model, Pipeline):
        return Pipeline([*model.steps[:-1], (model.steps[-1][0], bare)])
    return bare
