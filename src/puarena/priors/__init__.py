"""Class-prior estimators: one file per method in ``methods/``, and one function over them.

:func:`estimate_prior` returns the prior with an interval.
"""

from puarena.priors.estimate import DEFAULT, PriorEstimate, estimate_prior, method_named
from puarena.priors.methods import METHODS
from puarena.priors.sample import PriorWarning

__all__ = ["DEFAULT", "METHODS", "PriorEstimate", "PriorWarning", "estimate_prior", "method_named"]
