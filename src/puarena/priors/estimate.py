"""One function over all estimators of the class prior: right for one and for two samples, with an interval."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from puarena.datasets.encoding import TableEncoder, is_frame
from puarena.errors import UserError, suggest
from puarena.priors.methods import METHODS
from puarena.priors.sample import Floats, Method, PriorWarning, Sample
from puarena.pu import labeling
from puarena.pu.labels import read_labels
from puarena.utils.notebook import html_table

DEFAULT = "saturation"
EDGE = 1e-3  # estimates are kept this far from 0 and 1: a prior lies strictly between
SMALL = 50_000  # rows
COMPARED = (
    "bbe",
    "km2",
    "dedpul",
    "pen-l1",
)  # those that were near the truth in `puarena priors bench`
MOST = 5_000  # rows of P and of U that an estimate looks at
REFITS, PART = (
    2,
    0.632,
)  # how often the classifiers are fitted again for an interval, to which part of the rows
ESTIMATE = "estimate"  # what a prior is asked for with, alone or as ``estimate:METHOD``
FEW_LABELS, NEAR_ONE = 50, 0.9  # below and above these an estimate comes with a warning


def method_named(text: str) -> str:
    """The method that ``bbe`` or ``estimate:bbe`` names, in any case; ``estimate`` alone means the usual one."""
    plain = str(text).strip().lower().removeprefix(f"{ESTIMATE}:")
    return DEFAULT if plain in ("", ESTIMATE) else plain


@dataclass(frozen=True)
class PriorEstimate:
    """An estimated class prior: ``value``, its ``interval`` (about 95 %), the ``method``, and ``details``.

    ``details`` has ``unlabeled_prior`` (the share of positives inside U), ``rate`` (n_P / (n_P + n_U)), ``setting``,
    ``n_bootstrap``, ``notes``, and ``others`` where several methods were run.
    """

    value: float
    interval: tuple[float, float]
    method: str
    details: dict[str, Any] = field(default_factory=dict)

    def __float__(self) -> float:
        return self.value

    def _repr_html_(self) -> str:
        """The estimate in a notebook, with those of other methods and what to mind."""
        answers = [self, *self.details.get("others", {}).values()]
        lines = [
            (each.method, f"{each.value:.3f}", f"{each.interval[0]:.3f} to {each.interval[1]:.3f}")
            for each in answers
        ]
        heads = ("method", "class prior", "about 95%")
        return html_table(
            heads, lines, notes=self.details.get("notes", ()), bold=0 if len(answers) > 1 else -1
        )


def estimate_prior(
    X: Any,
    y: Any,
    setting: str = labeling.DEFAULT,
    method: str = DEFAULT,
    random_state: int = 0,
    n_bootstrap: int | None = None,
    estimator: Any = None,
    compare: bool | Sequence[str] = False,
    disagreement: float = 0.15,
    folds: int = 5,
    warn: bool = True,
    positive_label: Any = None,
    **options: Any,
) -> PriorEstimate:
    """Estimate the class prior from labeled positives and unlabeled rows.

    Args:
        X: features ``[n, d]``: a matrix (also sparse, also with missing values) or a data frame with text.
        y: 1 or True marks a labeled positive, 0, -1 or False an unlabeled row; see :mod:`puarena.pu.labels`.
        setting: ``"os"`` (one sample, part of whose positives were labeled: the answer is the prior of all rows, the
            labeled ones included) or ``"ts"`` (positives and unlabeled rows drawn apart: the prior of the unlabeled).
        method: one of ``METHODS`` (``estimate:bbe`` is ``bbe``), or ``"all"``: every method, the answer their median.
        random_state: seed of folds, subsamples and the bootstrap.
        n_bootstrap: resamples for the interval (0: none, the interval is the value); None: as many as the method
            affords. Of ``saturation`` the interval is that of its posterior distribution, mixed over fits to parts of
            the rows; of the others the value ± 1.96 standard deviations over resamples and such fits.
        estimator: scikit-learn classifier that tells P from U for the methods on out-of-fold scores; None: a linear
            and a boosted one, combined.
        compare: also run other methods (True: a quick selection) and warn when the answers are more than
            ``disagreement`` apart.
        disagreement: the difference between two methods' answers that calls for a warning.
        folds: folds of the out-of-fold scores.
        warn: whether to say with a :class:`PriorWarning` why an estimate should not be trusted.
        positive_label: the value of ``y`` that marks a labeled positive; needed where ``y`` is text.
        **options: of the method: ``max_samples`` (km2), ``centers`` (pen-l1), ``space`` (both: ``"scores"`` or
            ``"features"``), ``max_splits`` (tice), ``confidence`` (bbe), ``max_difference`` (dedpul).
    """
    try:
        kind = labeling.get(setting)
    except UserError as error:
        raise ValueError(str(error)) from None
    method = method_named(method)
    if n_bootstrap is not None and n_bootstrap < 0:
        raise ValueError(f"n_bootstrap is {n_bootstrap}; give 0 or more")
    wanted = tuple(METHODS) if method == "all" else (method,)
    if compare:
        wanted = tuple(dict.fromkeys((*wanted, *(COMPARED if compare is True else compare))))
    for name in wanted:
        if name not in METHODS:
            raise ValueError(f"unknown method {name!r}{suggest(name, [*METHODS, 'all'])}")
    known = {option for name in wanted for option in METHODS[name].options}
    for option in options:
        if option not in known:
            raise TypeError(
                f"estimate_prior with method {method!r} has no option {option!r}{suggest(option, known)}"
            )
    sample = draw_sample(X, y, positive_label, estimator, folds, random_state)
    with threads(sample.x_p.shape[0] + sample.x_u.shape[0]):
        refits = refitted(sample) if n_bootstrap != 0 else []
        answers = {
            name: answer(sample, METHODS[name], kind, n_bootstrap, options, refits)
            for name in wanted
        }
    chosen = _median(answers) if method == "all" else answers[method]
    others = {name: each for name, each in answers.items() if name != method}
    if others:
        chosen.details["others"] = others
    if warn:
        for text in _doubts(chosen, answers, sample, disagreement):
            chosen.details["notes"].append(text)
            warnings.warn(text, PriorWarning, stacklevel=2)
    return chosen


def draw_sample(
    X: Any,
    y: Any,
    positive_label: Any = None,
    estimator: Any = None,
    folds: int = 5,
    random_state: int = 0,
) -> Sample:
    """Check the input as scikit-learn does; return at most ``MOST`` rows of P and of U, as numbers."""
    from scipy import sparse
    from sklearn.utils import _safe_indexing, check_array, check_consistent_length, column_or_1d

    table = is_frame(X)
    if not table:
        X = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan", accept_sparse="csr")
    y = column_or_1d(y)
    check_consistent_length(X, y)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(
            "y contains NaN or infinity; use 1 for labeled positives and 0 or -1 for unlabeled rows"
        )
    positive = read_labels(y, positive_label).positive
    rng, sides, notes = np.random.default_rng(random_state), [], []
    for side in (np.flatnonzero(positive), np.flatnonzero(~positive)):
        sides.append(np.sort(rng.permutation(side)[:MOST]) if len(side) > MOST else side)
    kept = np.concatenate(sides)
    if len(kept) < len(y):
        notes.append(
            f"estimated from {len(sides[0]):,} labeled and {len(sides[1]):,} unlabeled rows of {len(y):,}"
        )
    X = _safe_indexing(X, kept)
    n_p, rate = len(sides[0]), float(positive.mean())
    if sparse.issparse(X):
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(max_iter=200) if estimator is None else estimator
        return Sample(X[:n_p], X[n_p:], model, folds, random_state, notes, rate=rate)
    encoder = TableEncoder().fit(X)
    dense, tree = encoder.dense(X), encoder.tree(X)
    return Sample(
        dense[:n_p],
        dense[n_p:],
        estimator,
        folds,
        random_state,
        notes,
        tree[:n_p],
        tree[n_p:],
        rate,
    )


def prior_of_share(share: npt.ArrayLike, rate: float, setting: labeling.Setting) -> Floats:
    """From the share of positives inside U to the prior, kept off the edges."""
    inside = np.clip(np.asarray(share, float), 0.0, 1.0)
    return np.clip(setting.prior_from_u(inside, rate), EDGE, 1 - EDGE)


def threads(rows: int) -> AbstractContextManager[Any]:
    """One thread for small samples: more gain nothing there, and wait for each other on a busy machine."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    return threadpool_limits(1 if rows < SMALL else None)


def refitted(sample: Sample) -> list[Sample]:
    """Parts of a sample on which the classifiers are fitted again."""
    return [sample.part(PART, seed) for seed in range(1, REFITS + 1)]


def answer(
    sample: Sample,
    method: Method,
    setting: labeling.Setting,
    n_bootstrap: int | None,
    options: dict[str, Any],
    refits: list[Sample],
) -> PriorEstimate:
    """What one method says about a sample; its interval contains the refits."""
    own = {key: value for key, value in options.items() if key in method.options}
    share = method.prepare(sample, **own)
    n_p, n_u = sample.x_p.shape[0], sample.x_u.shape[0]
    rate = sample.rate if sample.rate is not None else n_p / (n_p + n_u)
    inside = float(np.clip(share(None, None), 0.0, 1.0))
    value = float(prior_of_share(inside, rate, setting))
    times = method.bootstraps if n_bootstrap is None else n_bootstrap
    if n_bootstrap == 0:
        low = high = value
    elif method.interval is not None:
        low, high = prior_of_share(method.interval([sample, *refits]), rate, setting)
    else:
        rng = np.random.default_rng([sample.random_state, 1])
        again = [share(*(rng.integers(0, n, size=(n,)) for n in (n_p, n_u))) for _ in range(times)]
        fitted = [inside, *(method.prepare(part, **own)(None, None) for part in refits)]
        variance = [
            prior_of_share(values, rate, setting).var(ddof=1)
            for values in (again, fitted)
            if len(values) > 1
        ]
        low, high = value + np.array([-1.96, 1.96]) * np.sqrt(sum(variance))
    low, high = np.clip([low, high], setting.lowest_prior(rate), 1.0)
    details = {
        "unlabeled_prior": inside,
        "rate": rate,
        "setting": setting.code,
        "n_bootstrap": times,
        "refits": len(refits),
        "labels": n_p,
        "notes": list(sample.notes),
    }
    return PriorEstimate(
        value, (float(min(low, value)), float(max(high, value))), method.name, details
    )


def _doubts(
    chosen: PriorEstimate, answers: dict[str, PriorEstimate], sample: Sample, disagreement: float
) -> Iterator[str]:
    """Sentences about an estimate that should not be trusted as it stands."""
    labels = chosen.details["labels"]
    low, high = chosen.interval
    range_ = f" (between {low:.2f} and {high:.2f})" if high > low else ""
    if labels < FEW_LABELS:
        yield (
            f"the share of positives, {chosen.value:.2f}{range_}, rests on {labels} labeled positives; with fewer than "
            f"{FEW_LABELS} it is a rough guess: give prior=… if you know it"
        )
    if chosen.value > NEAR_ONE:
        yield (
            f"the share of positives is estimated at {chosen.value:.2f}: nearly all rows would be positive; perhaps "
            "no feature tells positives from negatives: give prior=… if you know it"
        )
    values = {name: each.value for name, each in answers.items()}
    if len(values) > 1 and max(values.values()) - min(values.values()) > disagreement:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
        yield (
            f"the methods disagree about the share of positives ({listed}); do not rely on one of them: the labeled "
            "positives may not be a random part of all positives, or no region of the features is purely positive"
        )
    apart = (
        sample.apart(METHODS[chosen.method].prepare)
        if chosen.method in METHODS and sample.fitted
        else []
    )
    if (
        len(apart) > 1
        and (1 - chosen.details["rate"]) * (max(apart) - min(apart)) > 2 * disagreement
    ):
        yield (
            f"the share of positives, {chosen.value:.2f}{range_}, depends on the model: a linear one and a boosted one "
            f"alone give {_prior_words(apart, chosen)}"
        )


def _prior_words(shares: list[float], chosen: PriorEstimate) -> str:
    setting = labeling.get(chosen.details["setting"])
    return " and ".join(
        f"{float(prior_of_share(s, chosen.details['rate'], setting)):.2f}" for s in shares
    )


def _median(answers: dict[str, PriorEstimate]) -> PriorEstimate:
    """The median of all methods, between the smallest and the largest answer."""
    values = [each.value for each in answers.values()]
    any_details = next(iter(answers.values())).details
    inside = float(np.median([each.details["unlabeled_prior"] for each in answers.values()]))
    details = {
        **any_details,
        "unlabeled_prior": inside,
        "notes": [n for e in answers.values() for n in e.details["notes"]],
    }
    return PriorEstimate(float(np.median(values)), (min(values), max(values)), "all", details)
