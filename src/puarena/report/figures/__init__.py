"""The figures, one class in one file each; a new file here is a new figure of ``puarena figures`` and of the page."""

from puarena.report.figures.base import Figure, TooFewError, figures

__all__ = ["Figure", "TooFewError", "figures"]
