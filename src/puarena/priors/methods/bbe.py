"""BBE: best bin estimation.

Garg, Wu, Smola, Balakrishnan, Lipton: Mixture proportion estimation and PU learning: a modern approach. NeurIPS 2021.
"""

from __future__ import annotations

import numpy as np

from puarena.priors.sample import Index, Method, Sample, Share, take


def prepare(sample: Sample, confidence: float = 0.1) -> Share:
    """``q_U(c) / q_P(c)`` at the cut c that minimizes its upper confidence bound; q(c) is the share scored above c."""
    all_p, all_u = sample.scores

    def share(i_p: Index | None, i_u: Index | None) -> float:
        s_p, s_u = np.sort(take(all_p, i_p)), np.sort(take(all_u, i_u))
        cuts = np.unique(s_p)
        q_p = 1 - np.searchsorted(s_p, cuts, "left") / len(s_p)
        q_u = 1 - np.searchsorted(s_u, cuts, "left") / len(s_u)
        slack = sum(np.sqrt(np.log(4 / confidence) / (2 * n)) for n in (len(s_p), len(s_u)))
        best = int(np.argmin((q_u + slack) / q_p))
        return float(q_u[best] / q_p[best])

    return share


METHOD = Method(
    "bbe",
    "Garg, Wu, Smola, Balakrishnan, Lipton: Mixture proportion estimation and PU learning, NeurIPS 2021",
    prepare,
    bootstraps=200,
    options=("confidence",),
)
