"""Prior shift: probabilities for a place or time with another share of positives.

Between two populations only the share of positives is assumed to differ, not what positives, and
what negatives, look like. Then the odds of every row change by one factor, and the share in a new
batch is the one that makes the batch most likely:

Saerens, Latinne, Decaestecker: Adjusting the outputs of a classifier to new a priori probabilities:
a simple procedure. Neural Computation 14(1), 2002.

Their EM iteration finds the maximum of a concave function of one number, which is read off a grid
here, so that the interval costs nothing more. The probabilities of a model are never exactly
calibrated: a batch counts at most ``MAX_COUNTED_ROWS`` rows, and shares near the model's own prior
are preferred a little. A batch that says nothing about its share leaves the prior as it was.

Where negatives differ, too, for example because the new places were not chosen at random, the odds
tell nothing: then only the scores of positives are taken to be the same, and the share is that of a
mixture of these scores with any others (``puarena.priors.methods.saturation``).
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from puarena.errors import UserError, unknown_name
from puarena.priors.estimate import PriorEstimate
from puarena.priors.methods import saturation
from puarena.priors.sample import Floats
from puarena.pu import labeling

MAX_COUNTED_ROWS = 200  # more rows of a batch make the interval no narrower
SPREAD = 1.5  # of the log-odds of the new share around the model's prior
PROBABILITY_MARGIN = 1e-6  # distance that probabilities keep from 0 and 1
Same = Literal["classes", "positives"]
SHARES = expit(np.linspace(logit(1e-3), logit(1 - 1e-3), 500))


class ProbabilityModel(Protocol):
    """What is needed of a model, such as a fitted :class:`puarena.PUClassifier`."""

    @property
    def prior_(self) -> float:
        """The share of positives that its probabilities are for."""

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Return the probabilities of both classes."""


def adjust_prior(probabilities: npt.ArrayLike, prior_from: float, prior_to: float) -> Floats:
    """Return probabilities of being positive for another share of positives.

    Parameters
    ----------
    probabilities : array-like
        Probabilities of the positive class, for the share ``prior_from``.
    prior_from : float
        The share that they are for, such as ``prior_`` of a model.
    prior_to : float
        The share among the rows that they are wanted for.

    Returns
    -------
    ndarray
        The adjusted probabilities, in the shape of the given ones.
    """
    for name, value in (("prior_from", prior_from), ("prior_to", prior_to)):
        if not 0 < value < 1:
            message = f"{name} must lie strictly between 0 and 1, and {value!r} was given"
            raise UserError(message, "invalid-value")
    p = np.asarray(probabilities, np.float64)
    positive = p * (prior_to / prior_from)
    negative = (1 - p) * ((1 - prior_to) / (1 - prior_from))
    return np.asarray(positive / (positive + negative))


def estimate_prior_shift(
    model: ProbabilityModel, X_new: Any, level: float = 0.95, same: Same = "classes"
) -> PriorEstimate:
    """Estimate the share of positives in a new batch of unlabeled rows.

    With ``same="classes"`` it is valid if the batch differs from the population that the model was
    fitted for in its share of positives only. Where positives or negatives look different, or where
    the model's probabilities are not calibrated, the estimate is wrong in a way that the interval
    does not show. ``same="positives"`` needs less, that positives look the same, and tells less.

    Parameters
    ----------
    model : estimator
        A fitted model with ``prior_`` and ``predict_proba``.
    X_new : array-like or data frame of shape (n_samples, n_features)
        The new rows.
    level : float, default=0.95
        The confidence of the interval.
    same : {"classes", "positives"}, default="classes"
        What the batch and the population of the model have in common. ``"positives"`` needs a
        fitted :class:`puarena.PUClassifier`, which keeps scores of held-out positives.

    Returns
    -------
    PriorEstimate
        The share with its interval; give it to ``predict_proba(X_new, prior=…)``.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena import PUClassifier
    >>> from puarena.priors import estimate_prior_shift
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(1000) < 0.3
    >>> X = rng.normal(size=(1000, 2)) + 3 * truth[:, None]
    >>> clf = PUClassifier(random_state=0).fit(X, truth & (rng.random(1000) < 0.5))
    >>> elsewhere = rng.random(1000) < 0.7
    >>> X_new = rng.normal(size=(1000, 2)) + 3 * elsewhere[:, None]
    >>> bool(abs(estimate_prior_shift(clf, X_new).value - 0.7) < 0.1)
    True
    """
    if not 0 < level < 1:
        message = f"level must lie strictly between 0 and 1, and {level!r} was given"
        raise UserError(message, "invalid-value")
    if same not in get_args(Same):
        raise unknown_name("value of same", str(same), get_args(Same))
    prior = float(model.prior_)
    p = np.asarray(model.predict_proba(X_new), np.float64)[:, 1]
    levels = np.array([(1 - level) / 2, (1 + level) / 2])
    if same == "positives":
        shares, weight = _compare_positives(model, p)
        low, high = saturation.compute_quantiles(shares, weight, levels)
    else:
        shares, weight = SHARES, compute_weights(p, prior)
        low, high = np.interp(levels, np.cumsum(weight), shares)
    value = float(weight @ shares)
    interval = float(min(low, value)), float(max(high, value))
    details = {"prior": prior, "rows": len(p), "same": same}
    return PriorEstimate(value, interval, "prior-shift", details)


def _compare_positives(model: Any, p: Floats) -> tuple[Floats, Floats]:
    """Return the distribution over shares at which a batch contains the held-out positives."""
    held = getattr(model, "held_out_", None)
    if held is None:
        raise UserError(
            'same="positives" needs a fitted PUClassifier, which keeps scores of held-out '
            f"positives, and {type(model).__name__} was given",
            "invalid-value",
        )
    known = np.asarray(held.probability, np.float64)[held.labeled]
    fit = saturation.fit_saturation(known, p, labeling.get_setting("two-sample"))
    return fit.shares, fit.weights


def compute_weights(p: Floats, prior: float) -> Floats:
    """Return the distribution over ``SHARES`` given probabilities for a share of ``prior``."""
    p = np.clip(p, PROBABILITY_MARGIN, 1 - PROBABILITY_MARGIN)
    # The densities of a row among positives and among negatives, up to the same factor.
    positive, negative = p / prior, (1 - p) / (1 - prior)
    # One share at a time: a batch may have millions of rows.
    evidence = np.array(
        [np.log(share * positive + (1 - share) * negative).mean() for share in SHARES]
    )
    evidence *= min(len(p), MAX_COUNTED_ROWS)
    evidence -= 0.5 * ((logit(SHARES) - logit(prior)) / SPREAD) ** 2
    weight = np.exp(evidence - evidence.max())
    return np.asarray(weight / weight.sum())
