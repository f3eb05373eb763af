"""Define an algorithm in a dozen lines and compare it with nnPU.

    python examples/adding_a_method.py [steps]

The same file is a plugin of the command line: ``puarena run demo --plugin
examples/adding_a_method.py --algorithms …``.
"""

import sys

import numpy as np

from puarena import plugins
from puarena.algorithms import Algorithm, Hyper, logistic


class SoftPU(Algorithm):
    """nnPU with a soft floor: ``prior mean_P l+ + softplus(k R) / k`` for the negative part ``R``."""

    name, title, paper = "soft-pu", "SoftPU", "an example, 2026"
    setting, calibrates = "two-sample", True

    sharpness = Hyper(20.0, "how closely the floor follows max(0, R)")

    def objective(self, f_p, f_u):
        """Return the loss of every run from the logits of its positive and unlabeled batch."""
        l_p = logistic(f_p, -1)
        negative = self.mean_u(logistic(f_u, -1), l_p) - self.prior * l_p.mean(-1)
        soft = (self.sharpness * negative).exp().log1p() / self.sharpness
        return self.prior * logistic(f_p, +1).mean(-1) + soft


def main(steps: int) -> None:
    """Compare it on handwritten digits, odd against even, with three draws of the labels."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from puarena import PUNetClassifier

    plugins.load(__file__)
    X, digit = load_digits(return_X_y=True)
    X, X_test, even, even_test = train_test_split(X, digit % 2 == 0, test_size=0.3, random_state=0)
    for algorithm in ("nnpu", "soft-pu"):
        scores = []
        for seed in range(3):
            labeled = even & (np.random.default_rng(seed).random(len(X)) < 0.4)
            clf = PUNetClassifier(algorithm, prior=0.5, steps=steps, random_state=seed).fit(
                X, labeled
            )
            scores.append(clf.score(X_test, even_test))
        print(f"{algorithm:>8}: accuracy {np.mean(scores):.3f} ± {np.std(scores):.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
