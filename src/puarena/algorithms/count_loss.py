"""Count Loss: the number of positives among the unlabeled should follow its binomial law.

Shukla, Zeng, Ahmed, Van den Broeck: A unified approach to count-based weakly supervised learning.
NeurIPS 2023.
"""

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from puarena.algorithms._base import Algorithm, Hyper
from puarena.algorithms._counting import log_count_law, nearest_count
from puarena.algorithms._losses import col, logistic
from puarena.algorithms._optimizer import Optimizer


class CountLoss(Algorithm):
    """``mean_P l+ + KL(Binomial(n, prior) || Q) / (n + 1)``.

    Q is the law of the number of positives among the n unlabeled points of the batch. With
    ``form = exact`` the penalty is ``-log Q(round(n prior))``. The calibrated form uses the prior
    inside U.
    """

    name, title = "count-loss", "Count Loss"
    paper = (
        "Shukla, Zeng, Ahmed, Van den Broeck: "
        "A unified approach to count-based weakly supervised learning, NeurIPS 2023"
    )
    setting, calibrates, calibration_is = "two-sample", True, "prior"
    cost = 1.5
    differs = (
        "The published code runs the exact-count form with int(n prior) positives, on a "
        "probability scale with 1e-6 added to the normalizer, clips the gradient's norm at 10 and "
        "skips steps whose loss is NaN. The authors' law has the share of positives inside U; "
        "the benchmark gives it the prior, as the plain form here."
    )
    authors_optimizer = Optimizer("sgd", 0.1, weight_decay=5e-4, source="the authors' code")

    form = Hyper(
        "kl",
        "penalty: the whole law of the count, or its expected value alone",
        choices=("kl", "exact"),
    )
    unlabeled_prior = Hyper(
        "pi", "the prior of a plain run: pi, or pi-bar inside U", choices=("pi", "pi-bar")
    )

    goal: Tensor  # [runs, n + 1]: weights of -log Q(k)
    least: Tensor  # [runs]: added so that the KL form's minimum is zero

    def prepare(self) -> None:
        """Write both forms as ``least - sum_k goal(k) log Q(k)``, in double precision."""
        n = self.setup.batch_u
        share = self.get_unlabeled_prior(exact=True).double().clamp(0, 1)
        k = torch.arange(n + 1, dtype=torch.float64, device=share.device)
        ways = torch.lgamma(k.new_tensor(n + 1)) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
        binomial = (ways + torch.xlogy(k, col(share)) + torch.xlogy(n - k, 1 - col(share))).exp()
        exact = torch.tensor([form == "exact" for form in self.form], device=share.device)
        expected = one_hot(nearest_count(share, n), n + 1)
        goal = torch.where(col(exact), expected, binomial / (n + 1))
        least = torch.where(exact, 0.0, torch.xlogy(binomial, binomial).sum(-1) / (n + 1))
        self.state("goal", goal.to(self.prior.dtype))
        self.state("least", least.to(self.prior.dtype))

    def objective(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the positive risk plus the penalty on the count."""
        return logistic(f_p, +1).mean(-1) + self.least - (self.goal * log_count_law(f_u)).sum(-1)
