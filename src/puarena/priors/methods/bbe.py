"""BBE: best bin estimation.

Garg, Wu, Smola, Balakrishnan, Lipton: Mixture proportion estimation and PU learning: a modern
approach. NeurIPS 2021.
"""

from __future__ import annotations

import numpy as np

from puarena.priors.sample import Index, PriorMethod, Sample, Share, take_rows


def prepare(sample: Sample, confidence: float = 0.1) -> Share:
    """Return ``q_U(c) / q_P(c)`` at the cut c that minimizes its upper confidence bound.

    q(c) is the share of rows scored above c.
    """
    all_p, all_u = sample.scores

    def estimate_share(i_p: Index | None, i_u: Index | None) -> float:
        s_p, s_u = np.sort(take_rows(all_p, i_p)), np.sort(take_rows(all_u, i_u))
        cuts = np.unique(s_p)
        q_p = 1 - np.searchsorted(s_p, cuts, "left") / len(s_p)
        q_u = 1 - np.searchsorted(s_u, cuts, "left") / len(s_u)
        slack = sum(np.sqrt(np.log(4 / confidence) / (2 * n)) for n in (len(s_p), len(s_u)))
        best = int(np.argmin((q_u + slack) / q_p))
        return float(q_u[best] / q_p[best])

    return estimate_share


METHOD = PriorMethod(
    "bbe",
    "Garg, Wu, Smola, Balakrishnan, Lipton: Mixture proportion estimation and PU learning, "
    "NeurIPS 2021",
    prepare,
    bootstraps=200,
    options=("confidence",),
)
