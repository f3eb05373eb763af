"""GLWS: a framework for learning from weak supervision; for PU data, EM on counts.

Chen, Wang, Feng, Li, Wang, Xie, Sugiyama, Singh, Raj: A general framework for learning from weak
supervision. ICML 2024.
"""

from torch import Tensor

from puarena.algorithms._base import Algorithm, Hyper
from puarena.algorithms._counting import posterior_given_count
from puarena.algorithms._losses import count, cross_entropy, logistic
from puarena.algorithms._optimizer import Optimizer


class GLWS(Algorithm):
    """``mean_P l+ + mean_U [q l+ + (1-q) l-]``, ``q_i = p(y_i = 1 | m of n are positive)``.

    n is the number of unlabeled points in the batch and ``m = int(n prior)``. The calibrated form
    uses the prior inside U.
    """

    name, title = "glws", "GLWS"
    paper = (
        "Chen, Wang, Feng, Li, Wang, Xie, Sugiyama, Singh, Raj: "
        "A general framework for learning from weak supervision, ICML 2024"
    )
    setting, calibrates, calibration_is = "two-sample", True, "prior"
    cost = 1.6
    differs = (
        "In the published automaton the state 'last positive just read' emits the negative "
        "probability on the way back (at all positions but the last), so its q are not the "
        "conditional probabilities. The authors count with the share of positives inside U; the "
        "benchmark gives it the prior, as the plain form here."
    )
    authors_optimizer = Optimizer(
        "adamw",
        5e-4,
        weight_decay=1e-4,
        spares_biases=True,
        schedule="slow-cosine",
        source="the authors' MNIST runs",
    )

    unlabeled_prior = Hyper(
        "pi", "the prior of a plain run: pi, or pi-bar inside U", choices=("pi", "pi-bar")
    )

    m: Tensor  # [runs]: positives in the unlabeled batch

    def prepare(self) -> None:
        """Count the positives of a batch."""
        self.state("m", count(self.get_unlabeled_prior(exact=True).clamp(0, 1), self.setup.batch_u))

    def posterior(self, f_u: Tensor) -> Tensor:
        """E-step: return ``q``, without gradient."""
        return posterior_given_count(f_u, self.m)

    def objective(self, f_p: Tensor, f_u: Tensor) -> Tensor:
        """M-step: return the risk with targets ``q``."""
        return logistic(f_p, +1).mean(-1) + cross_entropy(f_u, self.posterior(f_u)).mean(-1)
