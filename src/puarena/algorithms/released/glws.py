"""GLWS as released: targets from an automaton with a wrong emission on the way back.

State after reading label t: k positives so far, the last label positive (P_k) or negative (N_k). Forward weights are
the laws of the first labels' counts. Backward weights contain the emission at t, and P_m, the last positive, emits
``1-s_t`` instead of ``s_t`` at all positions but the last.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from puarena.algorithms.core.counting import IMPOSSIBLE
from puarena.algorithms.glws import GLWS
from puarena.algorithms.released.common import Released


def _later(law: Tensor) -> Tensor:
    """Return a law ``[runs, k]`` one count later."""
    return pad(law[:, :-1], (1, 0), value=IMPOSSIBLE)


@torch.no_grad()
def automaton_posterior(f: Tensor, m: Tensor) -> Tensor:
    """Return the released code's ``q`` for logits ``[runs, n]`` and counts ``[runs]``."""
    runs, n = f.shape
    negative, positive = (
        logsigmoid(-f).unsqueeze(-1).unbind(1),
        logsigmoid(f).unsqueeze(-1).unbind(1),
    )
    start = f.new_full((runs, n + 1), IMPOSSIBLE)
    start[:, 0] = 0.0
    k = torch.arange(n + 1, device=f.device)
    # of a positive at t, by how many are still to come (itself included): the last of all has the wrong one
    emission = [torch.where(k == 1, no, yes) for no, yes in zip(negative, positive, strict=True)]
    emission[-1] = positive[-1].expand_as(start)
    before, after = (
        [start],
        [start],
    )  # k positives before t = 0, 1, …; k still to come after t = n - 1, n - 2, …
    for t in range(n - 1):
        before.append(torch.logaddexp(before[-1] + negative[t], _later(before[-1]) + positive[t]))
    for t in range(n - 1, 0, -1):
        after.append(torch.logaddexp(after[-1] + negative[t], _later(after[-1]) + emission[t]))
    after.reverse()
    rest = m.unsqueeze(-1) - k  # still to come from t on, when k were before t

    def joint(t: int, to_come: Tensor) -> Tensor:
        return torch.where(
            rest >= 0, before[t] + to_come.gather(1, rest.clamp_min(0)), IMPOSSIBLE
        ).logsumexp(-1)

    a = torch.stack([joint(t, _later(after[t]) + emission[t]) for t in range(n)], -1)
    c = torch.stack([joint(t, after[t] + negative[t]) for t in range(n)], -1)
    return torch.sigmoid(a - c)


class ReleasedGLWS(Released, GLWS):
    """GLWS with the published automaton's targets, which are not the conditional probabilities."""

    calibrates = False  # the published code has no row told the prior inside U
    cost = 6.0

    def posterior(self, f_u: Tensor) -> Tensor:
        """Return the automaton's ``q``."""
        return automaton_posterior(f_u, self.m)
