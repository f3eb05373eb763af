"""The class prior, estimated from positives and unlabeled rows: one file per method, one function over them.

``estimate_prior(X, y, setting="os", method="bbe")`` gives ``value``, ``interval``, ``method`` and ``details``.
"""

from puarena.priors.estimate import PriorEstimate, estimate_prior
from puarena.priors.methods import METHODS
from puarena.priors.sample import PriorWarning

__all__ = ["METHODS", "PriorEstimate", "PriorWarning", "estimate_prior"]
