"""The estimator e1 of Elkan and Noto.

Elkan, Noto: Learning classifiers from only positive and unlabeled data. KDD 2008.
"""

from __future__ import annotations

from puarena.priors.sample import Index, Method, Sample, Share, share_from_c, take


def prepare(sample: Sample) -> Share:
    """``c = mean_P p(s=1|x)`` from out-of-fold probabilities.

    Right only where the classes do not overlap and the probabilities are calibrated; otherwise c is too small and
    the prior too large.
    """
    all_p, all_u = sample.scores

    def share(i_p: Index | None, i_u: Index | None) -> float:
        s_p = take(all_p, i_p)
        return share_from_c(max(float(s_p.mean()), 1e-9), len(s_p), len(take(all_u, i_u)))

    return share


METHOD = Method(
    "elkan-noto",
    "Elkan, Noto: Learning classifiers from only positive and unlabeled data, KDD 2008",
    prepare,
    bootstraps=200,
)
