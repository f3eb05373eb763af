"""PAN: predictive adversarial networks.

Hu, Le, Liu, Ji, Ma, Zhao, Yan: Predictive adversarial learning from positive and unlabeled data.
AAAI 2021.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from puarena.algorithms._base import Algorithm, Batch, Hyper, Phase, Setup, Update
from puarena.algorithms._losses import col, logistic
from puarena.algorithms._optimizer import Optimizer


def log_shifted(f: Tensor) -> Tensor:
    """Return ``log(sigmoid(f) + 0.01)``."""
    return torch.log(f.sigmoid() + 0.01)


class PAN(Algorithm):
    """``sum_P log D + sum_U h(D) + balance sum_U [log(1-C) - log C] (2D - 1)``.

    ``h(D) = max(log(1-D) - log(1 - mean_U D), 0)``. D maximizes, C minimizes. ``D = sigmoid(d)``
    separates labeled from unlabeled, ``C = sigmoid(f)`` predicts. 0.01 is added inside every
    logarithm except that of the mean, which is a constant: unlabeled points with more than average
    D have no gradient. These are sums, not means: the discriminator's steps are as many times
    larger as a batch has points, and with a learning rate that suits means it saturates in the
    first steps (logits of several hundred), so that nothing is left to learn from; the
    classifier's steps are small. With ``form = plain`` h is ``log(1-D)`` and nothing is added,
    which is unbounded in the classifier's logit.
    """

    name, title = "pan", "PAN"
    paper = "Hu et al.: Predictive adversarial learning from positive and unlabeled data, AAAI 2021"
    needs_prior = False
    networks = ("d", "f")
    phases = (
        Phase(updates=(Update("discriminator_loss", ("d",)), Update("classifier_loss", ("f",)))),
    )
    cost = 2.0
    differs = (
        "Only in the score (the published code ranks by the raw second output): both follow "
        "the authors' script, whose hinge has as many unlabeled points as there are positives. The "
        "plain form is recalled from the paper, not verified; it was the definition here up to "
        "version 0.1.0. With SGD the learning rate must be small enough for the summed loss of "
        "the discriminator, and then the classifier, whose gradient is multiplied by 1e-4, hardly "
        "moves; the authors have Adam, which scales both."
    )
    authors_optimizer = Optimizer(
        "adam",
        1e-4,
        betas=(0.5, 0.999),
        weight_decay=1e-3,
        source="the authors' script, both networks",
    )

    balance = Hyper(1e-4, "weight of the term that ties the classifier to the discriminator")
    form = Hyper(
        "hinge",
        "the game: as the authors run it, or as recalled from the paper",
        choices=("hinge", "plain"),
    )

    d: nn.Module
    plain: Tensor  # [runs] bool

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.forms = self._options.get("form", ("hinge",) * setup.runs)
        self.state(
            "plain",
            torch.tensor([form == "plain" for form in self.forms], device=self.prior.device),
        )

    def by_form(self, hinge: Callable[[], Tensor], plain: Callable[[], Tensor]) -> Tensor:
        """Return ``[runs, n]`` values of each run's form; a form that no run has is skipped."""
        if len(set(self.forms)) > 1:
            return torch.where(col(self.plain), plain(), hinge())
        return plain() if self.forms[0] == "plain" else hinge()

    def agreement(self, d_u: Tensor, c_u: Tensor) -> Tensor:
        """Return ``balance sum_U [log(1-C) - log C] (2D - 1)``.

        Without the 0.01 the bracket is ``-c``.
        """
        bracket = self.by_form(lambda: log_shifted(-c_u) - log_shifted(c_u), lambda: -c_u)
        return self.balance * (bracket * torch.tanh(d_u / 2)).sum(-1)

    def recognition(self, d_p: Tensor, d_u: Tensor) -> Tensor:
        """Return the game without the classifier; the batch mean is a constant."""
        average = torch.sigmoid(-d_u.detach()).mean(-1).log()
        on_p = self.by_form(lambda: log_shifted(d_p), lambda: -logistic(d_p, +1))
        on_u = self.by_form(
            lambda: (log_shifted(-d_u) - col(average)).clamp_min(0), lambda: -logistic(d_u, -1)
        )
        return on_p.sum(-1) + on_u.sum(-1)

    def discriminator(self, d_p: Tensor, d_u: Tensor, c_u: Tensor) -> Tensor:
        """Return what the discriminator minimizes."""
        return -self.recognition(d_p, d_u) - self.agreement(d_u, c_u)

    def discriminator_loss(self, batch: Batch) -> Tensor:
        """First update of a step: the discriminator, against the fixed classifier."""
        with torch.no_grad():
            c_u = self.f(batch.x_u)
        return self.discriminator(*batch.split(self.d(batch.x)), c_u)

    def classifier_loss(self, batch: Batch) -> Tensor:
        """Second update: the classifier, against the discriminator as it is now."""
        with torch.no_grad():
            _, d_u = batch.split(self.d(batch.x))
        return self.agreement(d_u, self.f(batch.x_u))
