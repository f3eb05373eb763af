"""Class-prior estimators: one file per method in ``methods/``, and one function over them.

:func:`estimate_prior` returns the prior with an interval, :func:`estimate_prior_shift` the share of
positives in another batch, and :func:`adjust_prior` probabilities for it.
"""

from puarena.priors.estimate import DEFAULT, PriorEstimate, estimate_prior, method_named
from puarena.priors.methods import METHODS
from puarena.priors.sample import PriorWarning
from puarena.priors.shift import adjust_prior, estimate_prior_shift

__all__ = [
    "DEFAULT",
    "METHODS",
    "PriorEstimate",
    "PriorWarning",
    "adjust_prior",
    "estimate_prior",
    "estimate_prior_shift",
    "method_named",
]
