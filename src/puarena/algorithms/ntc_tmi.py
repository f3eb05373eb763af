"""NTC-tMI: the naive classifier with a calibrated threshold.

Teisseyre, Martens, Bekker, Davis: Learning from biased positive-unlabeled data via threshold
calibration. AISTATS 2025.
"""

import math

import torch
from torch import Tensor
from torch.special import digamma

from puarena.algorithms._base import Algorithm, Passes
from puarena.algorithms._losses import col, logistic

NEIGHBORS = 3
CANDIDATES = 100
SLACK = 1e-12  # relative to a distance; equal distances may differ by rounding


class NTC(Algorithm):
    """``rate mean_P l+ + (1-rate) mean_U l-``; positive iff ``f > t``.

    The cut t of the unlabeled logits has the most mutual information,
    ``I(t) = -mean psi(m) - (n_0/n) psi(n_0) - (n_1/n) psi(n_1)``, n_1 of n unlabeled training
    points above t, m the number of points within the distance of a point's third neighbor on its
    own side. If labels favor clear positives, the order is right and only the zero is wrong.
    """

    name, title, in_paper = "ntc-tmi", "NTC-tMI", False
    paper = (
        "Teisseyre, Martens, Bekker, Davis: Learning from biased positive-unlabeled data via "
        "threshold calibration, AISTATS 2025"
    )
    needs_prior, only_ranks = False, True
    differs = (
        "The published code fits a logistic regression or boosted trees. If too few points lie "
        "around every cut, the cut is 0 here."
    )

    def objective(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the risk of telling labeled from unlabeled, as pn-naive does."""
        return torch.lerp(logistic(f_u, -1).mean(-1), logistic(f_p, +1).mean(-1), self.rate)

    def threshold(self, passes: Passes) -> Tensor:
        """Return the cut with the most information; 0 if no cut has enough points."""
        z = passes.u(self.f).double()
        cuts, information = mutual_information(z, lowest_rank(z.shape[-1]))
        return first_maximum(cuts, information).to(self.prior.dtype)


def lowest_rank(n: int, k: int = NEIGHBORS) -> int:
    """Return how many points of n lie below the first candidate.

    Fewer points carry no information that the estimate can show.
    """
    from scipy.optimize import brentq
    from scipy.special import psi

    if n < 2 * k + 2:
        return 0
    right = -psi(n / 2) + 2 * k / n * (psi(k) - psi(n / 2 + k))

    def excess(v: float) -> float:
        return float(-v * psi(v * n) - (1 - v) * psi((1 - v) * n) - right)

    low = 1 / n
    if excess(low) * excess(0.5) >= 0:
        return 0
    return math.floor(brentq(excess, low, 0.5, xtol=1e-14) * n)


def mutual_information(
    z: Tensor, lowest: int, k: int = NEIGHBORS, count: int = CANDIDATES
) -> tuple[Tensor, Tensor]:
    """Return candidate cuts of ``[runs, n]`` logits and their information, ``[runs, count]``.

    The information is NaN if a side of the cut has k points or fewer.
    """
    n = z.shape[-1]
    z = z.sort(-1).values
    first, last = z[:, lowest], z[:, min(n - lowest, n - 1)]
    at = torch.arange(count, dtype=z.dtype, device=z.device)
    cuts = col(first) + at * col((last - first) / (count - 1))
    cuts[:, -1] = last
    below = torch.searchsorted(z, cuts.contiguous(), right=True)  # n_0
    m = torch.cat([_within(z, below, k, side) for side in (-1, 1)], -1)
    local = (digamma(m.double()).sum(-1) + (n - 2 * k) * digamma(at.new_full((), k))) / n
    n_0, n_1 = below.double(), (n - below).double()
    value = -local - n_0 / n * digamma(n_0) - n_1 / n * digamma(n_1)
    return cuts, value.where((n_0 > k) & (n_1 > k), math.nan)


def _within(z: Tensor, below: Tensor, k: int, side: int) -> Tensor:
    """Count the points near each of the k next to the cuts on one side, ``[runs, cuts, k]``."""
    n = z.shape[-1]
    steps = torch.arange(2 * k, device=z.device)
    position = below.unsqueeze(-1) + (steps if side > 0 else -1 - steps)  # away from the cut
    own = (position >= 0) & (position < n)
    near = z.gather(1, position.clamp(0, n - 1).flatten(1)).view(position.shape)
    points = near[..., :k]
    distance = (
        (points.unsqueeze(-1) - near.unsqueeze(-2)).abs().masked_fill(~own.unsqueeze(-2), math.inf)
    )
    distance = distance.masked_fill(
        torch.eye(k, 2 * k, dtype=torch.bool, device=z.device), math.inf
    )
    reach = distance.sort(-1).values[..., k - 1]
    slack = SLACK * (points.abs() + reach)
    low = torch.searchsorted(z, (points - reach - slack).flatten(1))
    high = torch.searchsorted(z, (points + reach + slack).flatten(1), right=True)
    return (high - low - 1).view(points.shape)


def first_maximum(cuts: Tensor, information: Tensor) -> Tensor:
    """Return the first cut with the most information, ``[runs]``; 0 if all are NaN."""
    known = information.nan_to_num(-math.inf)
    at = torch.arange(cuts.shape[-1], device=cuts.device)
    first = torch.where(known >= col(known.amax(-1)), at, cuts.shape[-1]).amin(-1)
    cut = cuts.gather(-1, col(first)).squeeze(-1)
    return torch.where(information.isnan().all(-1), torch.zeros_like(cut), cut)
