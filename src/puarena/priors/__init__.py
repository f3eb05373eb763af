"""The class prior, estimated from positives and unlabeled rows: one file per method, one function over them.

``estimate_prior(X, y, setting="one-sample")`` gives ``value``, ``interval``, ``method`` and ``details``.
"""

from puarena.priors.estimate import DEFAULT, PriorEstimate, estimate_prior, method_named
from puarena.priors.methods import METHODS
from puarena.priors.sample import PriorWarning

__all__ = ["DEFAULT", "METHODS", "PriorEstimate", "PriorWarning", "estimate_prior", "method_named"]
