"""In the one-sample setting the plain risk is biased by what the theory says, and the calibrated
risk is not.
"""

import numpy as np
import pytest
import torch
from torch.nn.functional import softplus

from puarena.algorithms import Setup
from puarena.algorithms.upu import UPU

RATE, N, DRAWS = 0.2, 1000, 400


def _risk(prior: float, setting: str, calibration: str, rng: np.random.Generator) -> np.ndarray:
    """Return uPU's value on ``DRAWS`` data sets, all at once: each data set is a run."""
    n_p, n_u = int(RATE * N), N - int(RATE * N)
    shifted = (prior - RATE) / (1 - RATE) if setting == "os" else prior
    label_u = rng.random((DRAWS, n_u)) < shifted
    f_p = torch.tensor(rng.normal(1.0, 1.0, (DRAWS, n_p)))
    f_u = torch.tensor(
        np.where(label_u, rng.normal(1.0, 1.0, (DRAWS, n_u)), rng.normal(-0.5, 1.5, (DRAWS, n_u)))
    )
    full = lambda v: torch.full((DRAWS,), v, dtype=torch.float64)  # noqa: E731
    setup = Setup(
        full(prior),
        full(shifted),
        full(RATE),
        torch.ones(DRAWS, dtype=torch.bool),
        n_p,
        n_u,
        n_p,
        n_u,
        calibration=(calibration,) * DRAWS,
    )
    return UPU(setup).objective(f_p, f_u).numpy()


def _expected(prior: float) -> tuple[float, float]:
    """Return the true risk and ``E-[l-] - E+[l-]``, by a large sample of the two score laws."""
    rng = np.random.default_rng(0)
    pos, neg = (
        torch.tensor(rng.normal(1.0, 1.0, 2_000_000)),
        torch.tensor(rng.normal(-0.5, 1.5, 2_000_000)),
    )
    risk = prior * softplus(-pos).mean() + (1 - prior) * softplus(neg).mean()
    return risk.item(), (softplus(neg).mean() - softplus(pos).mean()).item()


@pytest.mark.parametrize("prior", [0.3, 0.5, 0.7])
def test_calibrated_unbiased_plain_biased_in_one_sample(prior):
    rng = np.random.default_rng(1)
    true, gap = _expected(prior)
    shifted = (prior - RATE) / (1 - RATE)
    plain, calibrated = _risk(prior, "os", "none", rng), _risk(prior, "os", "weighted", rng)
    error = lambda values: values.std() / np.sqrt(DRAWS)  # noqa: E731
    assert abs(calibrated.mean() - true) < 4 * error(calibrated)
    bias = (prior - shifted) * gap
    assert abs(plain.mean() - true - bias) < 4 * error(plain)
    assert abs(bias) > 10 * error(plain), "the test must be able to see the bias"
    union = _risk(
        prior, "os", "batch-union", rng
    )  # on whole sets the union has the weights of the sets
    assert abs(union.mean() - true) < 4 * error(union)


@pytest.mark.parametrize("prior", [0.3, 0.7])
def test_plain_unbiased_in_two_sample(prior):
    values = _risk(prior, "ts", "none", np.random.default_rng(2))
    assert abs(values.mean() - _expected(prior)[0]) < 4 * values.std() / np.sqrt(DRAWS)
