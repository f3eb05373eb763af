"""Counter-based random numbers: right laws, and a function of seed, stream and counter alone."""

import numpy as np
import pytest
import torch
from scipy import stats

from puarena import random

SEEDS = torch.tensor([3, -7, 2**62 + 11])


def test_uniform_law_and_independence_of_streams():
    u = random.uniform(SEEDS, "a", (20_000,), dtype=torch.float64)
    v = random.uniform(SEEDS, "b", (20_000,), dtype=torch.float64)
    assert u.min() > 0
    assert u.max() < 1
    for row in u:
        assert stats.kstest(row.numpy(), "uniform").pvalue > 1e-3
    together = np.corrcoef(np.r_[u.numpy(), v.numpy()])
    assert np.abs(together - np.eye(6)).max() < 0.03


@pytest.mark.parametrize("a", [0.3, 1.0, 6.0])
def test_beta_law(a):
    draws = random.symmetric_beta(SEEDS, "lam", a, (20_000,), dtype=torch.float64)
    for row in draws:
        assert stats.kstest(row.numpy(), stats.beta(a, a).cdf).pvalue > 1e-3


def test_integers_are_uniform_and_in_range():
    draws = random.integers(SEEDS, "k", 7, (70_000,))
    assert draws.min() == 0
    assert draws.max() == 6
    for row in draws:
        assert stats.chisquare(np.bincount(row.numpy(), minlength=7)).pvalue > 1e-3


def test_permutations_are_permutations_and_uniform():
    perms = random.permutation(SEEDS, "p", 3, count=30_000)
    assert torch.equal(perms.sort(-1).values, torch.arange(3).expand_as(perms))
    codes = (perms * torch.tensor([9, 3, 1])).sum(-1)
    for row in codes:
        assert stats.chisquare(np.unique(row.numpy(), return_counts=True)[1]).pvalue > 1e-3
    assert random.permutation(SEEDS, "one", 1).tolist() == [[[0]]] * 3


def test_a_row_does_not_depend_on_its_neighbors_nor_on_blocks():
    together = random.permutation(SEEDS, "p", 50, count=6)
    alone = random.permutation(SEEDS[1:2], "p", 50, count=6)
    assert torch.equal(together[1:2], alone)
    later = random.permutation(SEEDS, "p", 50, count=2, start=4)
    assert torch.equal(together[:, 4:], later)


def test_blocks_of_draws_join_seamlessly():
    whole = random.Draws(SEEDS, 0, 10)
    part = random.Draws(SEEDS, 7, 3)
    assert torch.equal(whole.beta("lam", 0.3)[7:], part.beta("lam", 0.3))
    assert torch.equal(whole.integers("k", 96, 5)[7:], part.integers("k", 96, 5))
    assert torch.equal(whole.permutation("p", 12)[7:], part.permutation("p", 12))
    assert whole.uniform("u", 2, 2).shape == (10, 3, 2, 2)
