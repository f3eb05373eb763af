"""The steps of a pipeline before the classifier as plain data: scikit-learn's own whose state is numbers."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn
from sklearn import decomposition, feature_selection, impute, preprocessing
from sklearn.exceptions import InconsistentVersionWarning

from puarena.errors import UserError

Arrays = dict[str, npt.NDArray[Any]]

KNOWN: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        preprocessing.StandardScaler,
        preprocessing.MinMaxScaler,
        preprocessing.MaxAbsScaler,
        preprocessing.RobustScaler,
        preprocessing.Normalizer,
        preprocessing.QuantileTransformer,
        impute.SimpleImputer,
        decomposition.PCA,
        decomposition.TruncatedSVD,
        feature_selection.VarianceThreshold,
    )
}
PLAIN = (str, int, float, bool, type(None))
FITTED = re.compile(r"[A-Za-z_]\w*")


def plain_step(name: str, step: Any) -> tuple[dict[str, Any], Arrays]:
    """Facts and arrays from which ``restored_step`` makes a fitted step again."""
    if step in (None, "passthrough"):
        return {"name": name, "kind": "passthrough"}, {}
    kind = type(step).__name__
    if KNOWN.get(kind) is not type(step):
        raise UserError(
            f"the step '{name}' ({kind}) cannot be written without pickle, only {', '.join(KNOWN)} can; save the last "
            "step alone (search.best_estimator_[-1].save(path)), or keep the pipeline with joblib"
        )
    params = step.get_params(deep=False)
    facts, arrays = {}, {}
    for key, value in {**params, **vars(step)}.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            arrays[key] = value
        elif isinstance(value, np.ndarray):
            facts[key] = {"objects": [_simple(name, key, each) for each in value.ravel().tolist()]}
        elif isinstance(value, tuple):
            facts[key] = {"tuple": [_simple(name, key, each) for each in value]}
        elif isinstance(value, np.dtype):
            facts[key] = {"dtype": value.str}
        else:
            facts[key] = _simple(name, key, value)
    about = {
        "name": name,
        "kind": kind,
        "params": sorted(params),
        "values": facts,
        "sklearn": sklearn.__version__,
    }
    return about, arrays


def _simple(name: str, key: str, value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    if not isinstance(value, PLAIN):
        raise UserError(
            f"{key} of the step '{name}' is a {type(value).__name__}, which cannot be written without pickle"
        )
    return value


def _value(told: Any) -> Any:
    if not isinstance(told, dict):
        return told
    ((kind, content),) = told.items()
    if kind in ("float", "dtype"):
        return float(content) if kind == "float" else np.dtype(str(content))
    parts = [_value(each) for each in content]
    return tuple(parts) if kind == "tuple" else np.array(parts, object)


def restored_step(facts: dict[str, Any], arrays: Arrays) -> tuple[str, Any]:
    """Name and step as ``plain_step`` described them; nothing but scikit-learn's known classes is made."""
    name = str(facts["name"])
    if facts["kind"] == "passthrough":
        return name, "passthrough"
    if facts["kind"] not in KNOWN:
        raise UserError(f"the step '{name}' is a {facts['kind']}, which this puarena does not know")
    values = {key: _value(told) for key, told in facts["values"].items()} | arrays
    if not all(FITTED.fullmatch(key) and not key.startswith("__") for key in values):
        raise ValueError(f"the step '{name}' has attributes that are none")
    step = KNOWN[facts["kind"]](**{key: values[key] for key in facts["params"]})
    vars(step).update({key: value for key, value in values.items() if key not in facts["params"]})
    if facts["sklearn"] != sklearn.__version__:
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name=facts["kind"],
                current_sklearn_version=sklearn.__version__,
                original_sklearn_version=str(facts["sklearn"]),
            ),
            stacklevel=2,
        )
    return name, step
