"""The reference baseline for biased labels: training with the true propensities."""

import torch
from torch import Tensor

from puarena.algorithms._base import Algorithm, Batch
from puarena.algorithms._losses import col, logistic
from puarena.algorithms.sar_em import MIN_PROPENSITY, weighted_parts


class SarOracle(Algorithm):
    """The non-negative propensity-weighted risk of SAR-EM's last stage, with true propensities.

    In the two-sample setting U alone is the marginal sample:
    ``prior sum_P w l+ + max(0, mean_U l- - prior sum_P w l-)``, w the inverse propensities,
    normalized in the batch.
    """

    name, title, in_paper = "sar-oracle", "SAR (oracle)", False
    paper = (
        "upper baseline where labels are biased: trained with true propensities, not a PU method"
    )
    baseline = knows_propensity = True
    differs = "Not part of the published code."

    def risk(self, f_p: Tensor, f_u: Tensor, e_p: Tensor) -> Tensor:
        """Return the weighted risk of the setting of every run."""
        positive, negative = weighted_parts(f_p, f_u, e_p, self.rate)
        inverse = 1 / e_p.clamp_min(MIN_PROPENSITY)
        w = inverse / col(inverse.sum(-1))
        apart = self.prior * (w * logistic(f_p, +1)).sum(-1)
        rest = logistic(f_u, -1).mean(-1) - self.prior * (w * logistic(f_p, -1)).sum(-1)
        one = self.one_sample
        return torch.where(one, positive, apart) + torch.where(one, negative, rest).clamp_min(0)

    def loss(self, batch: Batch) -> Tensor:
        """Return the risk of a step."""
        if batch.propensity_p is None:
            raise RuntimeError(
                "these data have no propensities; only a simulator of labels knows them"
            )
        return self.risk(*batch.split(self.f(batch.x)), batch.propensity_p)
