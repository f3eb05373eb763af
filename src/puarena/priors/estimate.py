"""Estimate the class prior, in the one-sample and the two-sample setting, with an interval."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from puarena.datasets.encoding import TableEncoder, is_frame
from puarena.errors import UserError, suggest, unknown_name
from puarena.priors.methods import METHODS, saturation
from puarena.priors.sample import Floats, PriorMethod, PriorWarning, Sample
from puarena.pu import labeling
from puarena.pu.labeling import Setting
from puarena.pu.labels import read_labels
from puarena.utils.notebook import html_table

DEFAULT = "saturation"
ESTIMATE = "estimate"  # a prior given as "estimate" or "estimate:METHOD" is estimated
ALL_METHODS = "all"
# What compare=True runs: the methods nearest to the truth in benchmarks/priors.py.
COMPARED_METHODS = ("bbe", "km2", "dedpul", "pen-l1")

PRIOR_MARGIN = 1e-4  # estimates are kept this far from 0 and 1
MAX_SIDE_ROWS = 5_000  # labeled rows, and unlabeled rows, that are used at most
SINGLE_THREAD_ROWS = 50_000
REFITS = 2  # how often the classifiers are fitted again for an interval
REFIT_SHARE = 0.632  # of the rows, for each of these fits

MIN_RELIABLE_LABELS = 50
MAX_RELIABLE_PRIOR = 0.9


def method_named(text: str) -> str:
    """Return the method that ``bbe`` or ``estimate:bbe`` names; ``estimate`` means the default."""
    name = str(text).strip().lower().removeprefix(f"{ESTIMATE}:")
    return DEFAULT if name in ("", ESTIMATE) else name


@dataclass(frozen=True)
class PriorEstimate:
    """An estimated class prior.

    Attributes
    ----------
    value : float
        The prior.
    interval : tuple of float
        The interval of about 95 % confidence.
    method : str
        The method.
    details : dict
        ``unlabeled_prior`` (the share of positives among the unlabeled rows), ``rate`` (the share
        of labeled rows), ``setting``, ``n_bootstrap``, ``refits``, ``labels``, ``notes``, and
        ``others`` if several methods were run.
    """

    value: float
    interval: tuple[float, float]
    method: str
    details: dict[str, Any] = field(default_factory=dict)

    def __float__(self) -> float:
        return self.value

    def _repr_html_(self) -> str:
        """Return the estimates of all methods as a table for notebooks."""
        estimates = [self, *self.details.get("others", {}).values()]
        lines = []
        for each in estimates:
            low, high = each.interval
            lines.append((each.method, f"{each.value:.3f}", f"{low:.3f} to {high:.3f}"))
        notes = self.details.get("notes", ())
        bold = 0 if len(estimates) > 1 else -1
        return html_table(("method", "class prior", "about 95%"), lines, notes=notes, bold=bold)


def estimate_prior(
    X: Any,
    y: Any,
    setting: str = labeling.DEFAULT_SETTING,
    method: str = DEFAULT,
    random_state: int = 0,
    n_bootstrap: int | None = None,
    estimator: Any = None,
    compare: bool | Sequence[str] = False,
    disagreement: float = 0.15,
    folds: int = 5,
    warn: bool = True,
    positive_label: Any = None,
    bounds: tuple[float, float] | None = None,
    **options: Any,
) -> PriorEstimate:
    """Estimate the class prior from labeled positives and unlabeled rows.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        The features; values may be missing, and a data frame may have text.
    y : array-like of shape (n_samples,)
        1 or True for a labeled positive, 0, -1 or False for an unlabeled row; see
        :mod:`puarena.pu.labels`.
    setting : {"one-sample", "two-sample"}, default="one-sample"
        One-sample: part of the positives of one sample are labeled, and the prior of all rows is
        estimated. Two-sample: positives and unlabeled rows were drawn separately, and the prior of
        the unlabeled rows is estimated.
    method : str, default="saturation"
        A name in ``METHODS``, or ``"all"`` for the median of all methods.
    random_state : int, default=0
        Seed of folds, subsamples and the bootstrap.
    n_bootstrap : int, optional
        Resamples for the interval; 0: the interval is the value; None: as many as the method can
        afford. The interval of ``saturation`` is that of its posterior distribution, averaged over
        fits to parts of the rows; of other methods, the value ± 1.96 standard deviations over
        resamples and such fits.
    estimator : classifier, optional
        Separates labeled from unlabeled rows, for the methods that use out-of-fold scores. Default:
        a linear and a boosted model, combined.
    compare : bool or sequence of str, default=False
        Other methods to run as well, with a warning if estimates are more than ``disagreement``
        apart; True: a selection of fast ones.
    disagreement : float, default=0.15
        The difference between two estimates that is worth a warning.
    folds : int, default=5
        Folds of the out-of-fold scores.
    warn : bool, default=True
        Whether to issue a :class:`PriorWarning` if the estimate is unreliable.
    positive_label : optional
        The value of ``y`` that marks a labeled positive; required if ``y`` is text.
    bounds : tuple of float, optional
        The range in which the prior is known to lie. It truncates the distribution of
        ``saturation``; values and intervals of other methods are moved into it.
    **options
        Options of the method: ``max_samples`` and ``space`` (km2), ``centers`` and ``space``
        (pen-l1), ``max_splits`` (tice), ``confidence`` (bbe), ``max_difference`` (dedpul).

    Returns
    -------
    PriorEstimate
        The prior with its interval.

    Examples
    --------
    >>> import numpy as np
    >>> from puarena.priors import estimate_prior
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(1000) < 0.4
    >>> X = rng.normal(size=(1000, 2)) + 3 * truth[:, None]
    >>> found = estimate_prior(X, truth & (rng.random(1000) < 0.5))
    >>> 0.3 < found.value < 0.5
    True
    """
    kind = labeling.get_setting(setting)
    names = _list_methods(method, compare, options)
    if n_bootstrap is not None and n_bootstrap < 0:
        raise UserError(f"n_bootstrap is {n_bootstrap}; it must be 0 or more", "invalid-value")
    sample = draw_sample(X, y, positive_label, estimator, folds, random_state)
    if bounds is not None:
        sample.bounds = check_bounds(bounds, kind, sample.data_rate)
    found = estimate_from_sample(sample, kind, names, n_bootstrap, options)
    if warn:
        warn_of_doubts(found, sample, disagreement)
    return found


def check_bounds(
    bounds: Sequence[float], setting: Setting, rate: float, given: str = ""
) -> tuple[float, float]:
    """Return a range of priors; its ends are in order, and possible for a rate of labels.

    ``given`` is what errors quote: what the user wrote, if that was not ``bounds``.
    """
    given = given or f"bounds={bounds!r}"
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError):
        raise UserError(
            f"{given} is not a range: give two numbers, (low, high)", "invalid-value"
        ) from None
    if not 0 <= low <= high <= 1:
        raise UserError(f"{given} is not a range (low, high) within 0 and 1", "invalid-value")
    lowest = setting.lowest_prior(rate)
    if high <= lowest:
        raise UserError(
            f"{given} contradicts setting='one-sample': {rate:.3g} of the rows are "
            "labeled positives, and the prior of the whole sample must be greater; give a greater "
            "prior, or setting='two-sample' if the positives were collected separately from the "
            "unlabeled rows",
            "conflict",
        )
    return max(low, lowest), high


def _list_methods(
    method: str, compare: bool | Sequence[str], options: Mapping[str, Any]
) -> list[str]:
    """Return the method to use and those to compare it with; check names and options."""
    method = method_named(method)
    names = [method]
    if compare:
        names += COMPARED_METHODS if compare is True else compare
    expanded = [*METHODS, *names[1:]] if method == ALL_METHODS else names
    for name in expanded:
        if name not in METHODS:
            raise unknown_name("method", name, [*METHODS, ALL_METHODS])
    known = {option for name in expanded for option in METHODS[name].options}
    for option in options:
        if option not in known:
            hint = suggest(option, known)
            raise TypeError(f"estimate_prior with method {method!r} has no option {option!r}{hint}")
    return list(dict.fromkeys(names))


def draw_sample(
    X: Any,
    y: Any,
    positive_label: Any = None,
    estimator: Any = None,
    folds: int = 5,
    random_state: int = 0,
    encoder: TableEncoder | None = None,
) -> Sample:
    """Check the input; return up to ``MAX_SIDE_ROWS`` labeled and unlabeled rows as numbers.

    ``encoder`` turns a table into numbers; by default one is fitted to the rows that are used.
    """
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression
    from sklearn.utils import _safe_indexing, check_array, check_consistent_length, column_or_1d

    if not is_frame(X):
        X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", accept_sparse="csr")
    y = column_or_1d(y)
    check_consistent_length(X, y)
    positive = read_labels(y, positive_label).positive
    rng = np.random.default_rng(random_state)
    sides = []
    for side in (np.flatnonzero(positive), np.flatnonzero(~positive)):
        if len(side) > MAX_SIDE_ROWS:
            side = np.sort(rng.permutation(side)[:MAX_SIDE_ROWS])
        sides.append(side)
    n_p, n_u = map(len, sides)
    rate = float(positive.mean())
    notes = []
    if n_p + n_u < len(y):
        notes.append(f"estimated from {n_p:,} labeled and {n_u:,} unlabeled rows of {len(y):,}")
    X = _safe_indexing(X, np.concatenate(sides))
    if sparse.issparse(X):
        model = LogisticRegression(max_iter=200) if estimator is None else estimator
        return Sample(X[:n_p], X[n_p:], model, folds, random_state, notes, rate=rate)
    if encoder is None:
        encoder = TableEncoder().fit(X)
    dense, tree, _ = encoder.encode(X)
    return Sample(
        x_p=dense[:n_p],
        x_u=dense[n_p:],
        estimator=estimator,
        folds=folds,
        random_state=random_state,
        notes=notes,
        tree_p=tree[:n_p],
        tree_u=tree[n_p:],
        rate=rate,
    )


def estimate_from_sample(
    sample: Sample,
    setting: Setting,
    methods: Sequence[str] = (DEFAULT,),
    n_bootstrap: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> PriorEstimate:
    """Estimate the prior by the first of ``methods``; the others' estimates are in its details."""
    first, *others = methods
    sample.setting = setting
    names = [*METHODS, *others] if first == ALL_METHODS else methods
    refits = [] if n_bootstrap == 0 else refit_sample(sample)
    found = {}
    for name in dict.fromkeys(names):
        method = METHODS[name]
        found[name] = run_method(sample, method, setting, n_bootstrap, options or {}, refits)
    chosen = _take_median(found) if first == ALL_METHODS else found[first]
    rest = {name: each for name, each in found.items() if name != first}
    if rest:
        chosen.details["others"] = rest
    return chosen


def refit_sample(sample: Sample) -> list[Sample]:
    """Return parts of a sample on which the classifiers are to be fitted again."""
    return [sample.draw_part(REFIT_SHARE, seed) for seed in range(1, REFITS + 1)]


def run_method(
    sample: Sample,
    method: PriorMethod,
    setting: Setting,
    n_bootstrap: int | None,
    options: Mapping[str, Any],
    refits: Sequence[Sample],
) -> PriorEstimate:
    """Estimate the prior by one method; the interval includes what refits change."""
    own = {key: value for key, value in options.items() if key in method.options}
    n_p, n_u = sample.x_p.shape[0], sample.x_u.shape[0]
    rate = sample.data_rate
    resamples = method.bootstraps if n_bootstrap is None else n_bootstrap
    with limit_threads(n_p + n_u):
        estimate_share = method.prepare(sample, **own)
        share = float(np.clip(estimate_share(None, None), 0.0, 1.0))
        value = float(np.clip(_share_to_prior(share, rate, setting), *sample.bounds))
        if n_bootstrap == 0:
            low = high = value
        elif method.interval is not None:
            low, high = _share_to_prior(method.interval([sample, *refits]), rate, setting)
        else:
            rng = np.random.default_rng([sample.random_state, 1])
            drawn = []
            for _ in range(resamples):
                rows_p, rows_u = (
                    rng.integers(0, n_p, size=(n_p,)),
                    rng.integers(0, n_u, size=(n_u,)),
                )
                drawn.append(estimate_share(rows_p, rows_u))
            fitted = [share, *(method.prepare(part, **own)(None, None) for part in refits)]
            priors = [_share_to_prior(shares, rate, setting) for shares in (drawn, fitted)]
            variance = sum(each.var(ddof=1) for each in priors if len(each) > 1)
            low, high = value + np.array([-1.96, 1.96]) * np.sqrt(variance)
    low, high = np.clip([low, high], setting.lowest_prior(rate), 1.0)
    low, high = np.clip([low, high], *sample.bounds)
    details = {
        "unlabeled_prior": share,
        "rate": rate,
        "setting": setting.code,
        "n_bootstrap": resamples,
        "refits": len(refits),
        "labels": n_p,
        "notes": list(sample.notes),
    }
    interval = float(min(low, value)), float(max(high, value))
    return PriorEstimate(value, interval, method.name, details)


def limit_threads(rows: int) -> AbstractContextManager[Any]:
    """Limit small samples to one thread; more threads wait for each other on busy cores."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1 if rows < SINGLE_THREAD_ROWS else None)


def _share_to_prior(share: npt.ArrayLike, rate: float, setting: Setting) -> Floats:
    """Turn shares of positives among the unlabeled rows into priors, kept off 0 and 1."""
    inside = np.clip(np.asarray(share, float), 0.0, 1.0)
    return np.clip(setting.prior_from_u(inside, rate), PRIOR_MARGIN, 1 - PRIOR_MARGIN)


def _take_median(found: Mapping[str, PriorEstimate]) -> PriorEstimate:
    """Return the median of several estimates; the interval is their range."""
    estimates = list(found.values())
    values = [each.value for each in estimates]
    shares = [each.details["unlabeled_prior"] for each in estimates]
    details = {
        **estimates[0].details,
        "unlabeled_prior": float(np.median(shares)),
        "notes": [note for each in estimates for note in each.details["notes"]],
    }
    return PriorEstimate(float(np.median(values)), (min(values), max(values)), ALL_METHODS, details)


def warn_of_doubts(found: PriorEstimate, sample: Sample, disagreement: float = 0.15) -> None:
    """Issue a warning for every reason not to trust an estimate, and add it to its notes."""
    for text in _find_doubts(found, sample, disagreement):
        found.details["notes"].append(text)
        warnings.warn(text, PriorWarning, stacklevel=3)


def _find_doubts(found: PriorEstimate, sample: Sample, disagreement: float) -> Iterator[str]:
    """Yield the reasons not to trust an estimate."""
    details = found.details
    low, high = found.interval
    between = f" (between {low:.2f} and {high:.2f})" if high > low else ""
    if details["labels"] < MIN_RELIABLE_LABELS:
        yield (
            f"the share of positives, {found.value:.2f}{between}, rests on {details['labels']} "
            f"labeled positives; with fewer than {MIN_RELIABLE_LABELS} it is a rough guess: give "
            "prior=… if you know it"
        )
    if found.value > MAX_RELIABLE_PRIOR:
        yield (
            f"the share of positives is estimated at {found.value:.2f}: nearly all rows would be "
            "positive; perhaps no feature tells positives from negatives: give prior=… if you know "
            "it"
        )
    values = {name: each.value for name, each in details.get("others", {}).items()}
    if found.method != ALL_METHODS:
        values = {found.method: found.value, **values}
    if len(values) > 1 and max(values.values()) - min(values.values()) > disagreement:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
        yield (
            f"the methods disagree about the share of positives ({listed}); do not rely on one of "
            "them: the labeled positives may not be a random part of all positives, or no region "
            "of the features is purely positive"
        )
    if found.method == DEFAULT and saturation.fits_badly(sample):
        other = _share_to_prior(
            METHODS["bbe"].prepare(sample)(None, None),
            details["rate"],
            labeling.get_setting(details["setting"]),
        )
        yield (
            f"the share of labeled rows does not level off as {DEFAULT} assumes, perhaps because "
            f"the positives are of two kinds: the share of all positives is {found.value:.2f} by "
            f"{DEFAULT} and {other:.2f} by bbe; do not rely on one of them"
        )
    # The estimate by each model alone costs little, but only if their scores are there already.
    if found.method not in METHODS or "model_scores" not in vars(sample):
        return
    shares = sample.estimate_by_model(METHODS[found.method].prepare)
    if len(shares) > 1 and (1 - details["rate"]) * np.ptp(shares) > 2 * disagreement:
        setting = labeling.get_setting(details["setting"])
        priors = [f"{_share_to_prior(share, details['rate'], setting):.2f}" for share in shares]
        yield (
            f"the share of positives, {found.value:.2f}{between}, depends on the model: a linear "
            f"one and a boosted one alone give {' and '.join(priors)}"
        )
