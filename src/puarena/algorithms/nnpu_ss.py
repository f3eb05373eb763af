"""nnPUss: the non-negative risk of single-sample data.

Mielniczuk, Wawrzeńczyk: Single-sample versus case-control sampling scheme for positive unlabeled
data: the story of two scenarios. Fundamenta Informaticae 191, 2024 (arXiv:2312.02095).
"""

from torch import Tensor

from puarena.algorithms._base import Algorithm, Batch, Hyper
from puarena.algorithms._losses import ascent_step, logistic, replace_value


class NNPUSS(Algorithm):
    """``prior mean_P l+ + max(-beta, mean_all l- - prior mean_P l-)``.

    nnPU whose second mean is over P and U together. With r = n_P / (n_P + n_U),
    ``mean_all = r mean_P + (1-r) mean_U``, so the negative part is
    ``(1-r) mean_U l- - (prior - r) mean_P l-``. If it is below -beta the step un-learns it alone,
    as in nnPU's Algorithm 1. The risk is that of nnpu-c and nnpu-ga-c with weighted calibration,
    and the step is that of nnpu-ga-c: in the one-sample setting nnpu-ss and nnpu-ga-c are the same
    method, from two papers. In the two-sample setting, for which it is not made, it is the same.
    """

    name, title = "nnpu-ss", "nnPUss"
    in_paper = False
    paper = (
        "Mielniczuk, Wawrzeńczyk: Single-sample versus case-control sampling scheme for positive "
        "unlabeled data, Fundamenta Informaticae 2024"
    )
    setting = "one-sample"
    differs = (
        "The published code draws batches from the mixed sample, takes the second mean over the "
        "batch as it is, and uses the sigmoid loss; here P and U have their own batches, r is that "
        "of the data, the loss is logistic."
    )

    beta = Hyper(0.0, "tolerance: how far below zero the negative part may fall")
    gamma = Hyper(1.0, "scale of the ascent step, 0 to 1")

    def risk_parts(self, f_p: Tensor, f_u: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positive part, and the risk of negatives: that of all data less that of the
        positives.
        """
        l_p = logistic(f_p, -1).mean(-1)
        everything = self.rate * l_p + (1 - self.rate) * logistic(f_u, -1).mean(-1)
        return self.prior * logistic(f_p, +1).mean(-1), everything - self.prior * l_p

    def loss(self, batch: Batch) -> Tensor:
        """Step as Algorithm 1 of nnPU does, report the clamped risk."""
        positive, negative = self.risk_parts(*batch.split(self.f(batch.x)))
        step = ascent_step(positive, negative, self.beta, self.gamma)
        return replace_value(step, positive + negative.clamp_min(-self.beta))
