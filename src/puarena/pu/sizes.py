"""How many examples a draw has."""

from __future__ import annotations

from dataclasses import dataclass

from puarena.utils.counts import rounded, truncated

VALIDATION_FRACTION = 0.1  # of P and of U, held out to choose a model


@dataclass(frozen=True)
class Sizes:
    """How many examples a draw has."""

    n_p: int
    n_u: int

    @property
    def n(self) -> int:
        """Labeled and unlabeled examples together."""
        return self.n_p + self.n_u

    @property
    def val_p(self) -> int:
        """Labeled positives held out."""
        return truncated(VALIDATION_FRACTION * self.n_p)

    @property
    def val_u(self) -> int:
        """Unlabeled examples held out."""
        return truncated(VALIDATION_FRACTION * self.n_u)


def sizes(size: int, rate: float, prior: float = 0.5, base: float = 0.5) -> Sizes:
    """Sizes of a draw from a sample of ``size`` whose positive fraction is ``base``, thinned to ``prior``.

    The total is the largest for which neither side needs more than it has in the base sample.
    """
    n = truncated(size * min(base / prior, (1 - base) / (1 - prior)))
    n_p = rounded(rate * n)
    return Sizes(n_p, n - n_p)
