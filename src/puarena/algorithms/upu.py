"""uPU: unbiased PU learning.

du Plessis, Niu, Sugiyama: Convex formulation for learning from positive and unlabeled data. ICML
2015.
"""

from torch import Tensor

from puarena.algorithms._base import Algorithm
from puarena.algorithms._losses import logistic
from puarena.algorithms._optimizer import Optimizer


class UPU(Algorithm):
    """``prior mean_P[l+ - l-] + mean_U l-``, which is unbounded below.

    It equals ``-prior mean_P f + mean_U softplus(f)``.
    """

    name, title = "upu", "uPU"
    paper = (
        "du Plessis, Niu, Sugiyama: Convex formulation for learning from positive and unlabeled "
        "data, ICML 2015"
    )
    setting, calibrates = "two-sample", True
    differs = "The plain form is the published code's; its calibrated form is the batch union."
    authors_optimizer = Optimizer(
        "adam", 1e-3, weight_decay=5e-3, source="nnPU's code, MNIST; 1e-5 on CIFAR-10"
    )

    def objective(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """Return the unbiased risk; ``l+ - l- = -f``."""
        return -self.prior * f_p.mean(-1) + self.mean_u(logistic(f_u, -1), logistic(f_p, -1))
