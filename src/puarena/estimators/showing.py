"""How the estimators show themselves in a notebook: as scikit-learn's do, and what a fitted one found."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator


class Showing(BaseEstimator):
    """An estimator with something to say below scikit-learn's picture of it; subclasses define ``_found``."""

    def _found(self) -> str:
        """HTML about what was found; nothing before ``fit``."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """The picture, and what was found."""
        shown, found = str(self._repr_html_inner()), self._found()
        return f"<div>{shown}{found}</div>" if found else shown

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """The same for notebooks, which ask for this first."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return {
            kind: self._repr_html_() if kind == "text/html" else text
            for kind, text in bundle.items()
        }
