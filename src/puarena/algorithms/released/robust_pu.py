"""Robust-PU as published: unlabeled points weigh more as negatives the more positive they look."""

from torch import Tensor

from puarena.algorithms.core.base import Batch, Hyper, Passes, Phase, Update
from puarena.algorithms.core.hyper import Choice
from puarena.algorithms.core.losses import logistic
from puarena.algorithms.released.common import Released, SecondOutput
from puarena.algorithms.robust_pu import RobustPU


class ReleasedRobustPU(Released, RobustPU):
    """``mean_P w l+ + mean_U w l-``, ``w`` the easiness as a positive of the raw second output, on P and on U."""

    phases = (Phase("warm-up", (Update("warm_up_loss"),), epochs=10), Phase())
    differs = (
        "Weights of U from the hardness as positives; raw second output; warm-up of 10 epochs, inside the protocol's "
        "steps, with the clamped nnPU loss; the table's other values in configuration 0, its defaults in all others."
    )

    # configuration 0 has the default; the registry draws the other value, always the same, for 1 to 9
    temper_n = Hyper(
        1.3, "temperature T of the hardness of unlabeled points", search=Choice((1.0,))
    )
    alpha_n = Hyper(0.11, "initial threshold for unlabeled points", search=Choice((0.1,)))
    thr_max = Hyper(1.0, "final threshold", search=Choice((2.0,)))
    grow = Hyper(5, "episodes until the final threshold", search=Choice((10,)))

    def warm_up_loss(self, batch: Batch) -> Tensor:
        """Return the clamped nnPU loss."""
        return self.objective(*batch.split(self.f(batch.x)))

    def score(self, passes: Passes) -> tuple[Tensor, Tensor]:
        """Return the raw second output on P and U."""
        z1 = SecondOutput(self.f)
        return passes.p(z1), passes.u(z1)

    def weights(
        self, f_p: Tensor, f_u: Tensor, thr_p: Tensor, thr_n: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the weights of P and of U, both as positives."""
        return self.easiness(f_p, +1, self.temper_p, thr_p), self.easiness(
            f_u, +1, self.temper_n, thr_n
        )

    def weighted_risk(self, f_p: Tensor, f_u: Tensor, w_p: Tensor, w_u: Tensor) -> Tensor:
        """Return the sum of the two weighted means."""
        return (w_p * logistic(f_p, +1)).mean(-1) + (w_u * logistic(f_u, -1)).mean(-1)
