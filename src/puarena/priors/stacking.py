"""Weights for the scores of several models, from rows that the models were not fitted to.

Breiman: Stacked regressions. Machine Learning 24, 1996 (non-negative weights of held-out scores).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

EQUAL_WEIGHT = 30.0  # how strongly few labels leave the weights equal


def fit_stack(scores: Floats, labeled: npt.NDArray[np.bool_]) -> Floats:
    """Return non-negative weights of standardized scores, one per column, that sum to one.

    They are those of a logistic regression of labeled against other rows. A penalty of the distance
    from equal weights, which counts less with more labels, keeps them apart from noise: with 20
    labels the mean of all models is better than any weights.
    """
    from scipy.optimize import minimize
    from scipy.special import expit, logit

    count = scores.shape[1]
    equal = np.full(count, 1.0 / count)
    if count == 1:
        return equal
    y = labeled.astype(np.float64)

    def compute_loss(values: Floats) -> tuple[float, Floats]:
        weights, intercept = values[:-1], values[-1]
        logits = scores @ weights + intercept
        loss = np.logaddexp(0.0, logits) - y * logits
        residual = expit(logits) - y
        penalty = EQUAL_WEIGHT * ((weights - equal) ** 2).sum()
        slope = scores.T @ residual + 2 * EQUAL_WEIGHT * (weights - equal)
        return float(loss.sum() + penalty), np.append(slope, residual.sum())

    start = np.append(equal, logit(np.clip(y.mean(), 1e-6, 1 - 1e-6)))
    bounds = [(0.0, None)] * count + [(None, None)]
    found = minimize(compute_loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    weights = np.asarray(found.x[:-1])
    total = float(weights.sum())
    return weights / total if np.isfinite(total) and total > 1e-9 else equal
