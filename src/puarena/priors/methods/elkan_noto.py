"""The estimator e1 of Elkan and Noto.

Elkan, Noto: Learning classifiers from only positive and unlabeled data. KDD 2008.
"""

from __future__ import annotations

from puarena.priors.sample import (
    Index,
    PriorMethod,
    Sample,
    Share,
    share_from_frequency,
    take_rows,
)


def prepare(sample: Sample) -> Share:
    """Return the share at the label frequency ``c = mean_P p(s=1|x)``, from out-of-fold scores.

    It is right only if the classes do not overlap and the probabilities are calibrated; otherwise
    c is too small and the share too large.
    """
    all_p, all_u = sample.scores

    def estimate_share(i_p: Index | None, i_u: Index | None) -> float:
        s_p, s_u = take_rows(all_p, i_p), take_rows(all_u, i_u)
        return share_from_frequency(max(float(s_p.mean()), 1e-9), len(s_p), len(s_u))

    return estimate_share


METHOD = PriorMethod(
    "elkan-noto",
    "Elkan, Noto: Learning classifiers from only positive and unlabeled data, KDD 2008",
    prepare,
    bootstraps=200,
)
