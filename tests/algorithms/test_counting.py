"""The law of the count against enumeration and against itself in double precision; natural breaks
against search.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch.nn.functional import logsigmoid

from puarena.algorithms._counting import log_count_law, nearest_count, posterior_given_count
from puarena.algorithms._losses import break_of_trends, count, natural_break


def some_logits(runs, n, scale, dtype=torch.float64):
    return scale * torch.randn(runs, n, generator=torch.Generator().manual_seed(n), dtype=dtype)


def enumerated(f):
    """Return log Q ``[runs, n + 1]`` and all posteriors ``[n + 1, runs, n]`` by enumeration of
    label vectors.
    """
    labels = torch.tensor(list(product([0.0, 1.0], repeat=f.shape[1])), dtype=f.dtype)
    log_p = logsigmoid(f) @ labels.T + logsigmoid(-f) @ (1 - labels).T
    law, posteriors = [], []
    for m in range(f.shape[1] + 1):
        chosen = labels.sum(-1) == m
        law.append(log_p[:, chosen].logsumexp(-1))
        posteriors.append(log_p[:, chosen].softmax(-1) @ labels[chosen])
    return torch.stack(law, -1), torch.stack(posteriors)


@pytest.mark.parametrize("n", range(1, 13))
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_law_and_posteriors_equal_enumeration(n, scale):
    f = some_logits(3, n, scale)
    law, posteriors = enumerated(f)
    torch.testing.assert_close(log_count_law(f), law, rtol=1e-11, atol=1e-11)
    for m in range(n + 1):
        torch.testing.assert_close(
            posterior_given_count(f, torch.full((3,), m)), posteriors[m], rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_gradient(n):
    f = some_logits(2, n, 3.0).requires_grad_()
    assert torch.autograd.gradcheck(log_count_law, (f,))


def test_posterior_is_the_gradient_of_the_law():
    """``q_i = s_i + d log Q(m) / d f_i``, one count per run."""
    f = some_logits(4, 20, 3.0).requires_grad_()
    m = torch.tensor([0, 7, 13, 20])
    (gradient,) = torch.autograd.grad(log_count_law(f).gather(1, m[:, None]).sum(), f)
    torch.testing.assert_close(
        posterior_given_count(f, m), torch.sigmoid(f) + gradient, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("n", [64, 100, 128, 256])
@pytest.mark.parametrize("scale", [1.0, 5.0, 40.0])
def test_single_precision_is_accurate(n, scale):
    f = some_logits(4, n, scale)
    m = torch.tensor([0, n // 7, n // 2, n])
    exact, single = log_count_law(f), log_count_law(f.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), exact, rtol=2e-6, atol=2e-5)
    q, q_single = posterior_given_count(f, m), posterior_given_count(f.float(), m)
    torch.testing.assert_close(q_single.double(), q, rtol=1e-4, atol=5e-5)
    torch.testing.assert_close(q.sum(-1), m.double(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(q_single.sum(-1), m.float(), rtol=2e-6, atol=2e-5)
    torch.testing.assert_close(
        exact.logsumexp(-1), torch.zeros(4, dtype=torch.float64), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n", [1, 3, 64, 128])
def test_extreme_logits_stay_finite(dtype, n):
    signs = torch.where(some_logits(3, n, 1.0) > 0, 40.0, -40.0)
    signs[1:2], signs[2:] = 40.0, -40.0
    f = signs.to(dtype).requires_grad_()
    law = log_count_law(f)
    gradients = [
        torch.autograd.grad(law[:, k].sum(), f, retain_graph=True)[0] for k in range(n + 1)
    ]
    assert torch.isfinite(law).all()
    assert torch.isfinite(torch.stack(gradients)).all()
    assert law.detach().max(-1).values.abs().max() < 1e-3
    q = posterior_given_count(f, torch.full((3,), n // 2))
    torch.testing.assert_close(
        q.sum(-1), torch.full((3,), n // 2, dtype=dtype), rtol=1e-5, atol=1e-5
    )


def test_rows_do_not_mix():
    f = some_logits(3, 30, 2.0)
    f[1] = torch.nan
    alone = log_count_law(f[2:])
    torch.testing.assert_close(log_count_law(f)[2:], alone, rtol=0, atol=0)
    m = torch.tensor([3, 4, 5])
    torch.testing.assert_close(
        posterior_given_count(f, m)[2:], posterior_given_count(f[2:], m[2:]), rtol=0, atol=0
    )


def test_counts_of_a_batch():
    share = torch.tensor([0.58, 0.145, 0.35, 0.45, 0.0, 1.0, 2 / 7], dtype=torch.float64)
    assert count(share, 50).tolist() == [29, 7, 17, 22, 0, 50, 14]
    assert nearest_count(share, 100).tolist() == [
        58,
        14,
        35,
        45,
        0,
        100,
        29,
    ]  # 14.5 and its like: halves to even
    assert nearest_count(share, 10).tolist() == [6, 1, 4, 4, 0, 10, 3]


# -- natural breaks ------------------------------------------------------------------


def searched(values):
    """Return the break of one list by trying every split."""
    values = sorted(values)

    def deviation(group):
        mean = sum(group) / len(group)
        return sum((v - mean) ** 2 for v in group)

    splits = [i for i in range(1, len(values)) if values[i - 1] < values[i]]
    if not splits:
        return float("inf")
    return values[min(splits, key=lambda i: deviation(values[:i]) + deviation(values[i:])) - 1]


def test_natural_break_equals_search():
    values = 0.05 * some_logits(20, 31, 1.0)
    values[:5] = values[:5].mul(40).round() / 40  # ties
    values[5:10, :12] += 0.3
    keep = values < 0.04
    for row in range(20):
        assert natural_break(values)[row].item() == searched(values[row].tolist())
        kept = values[row][keep[row]].tolist()
        assert natural_break(values, keep)[row].item() == searched(kept)


def test_a_positive_break_is_taken_again_below_the_steep_trends():
    low, middle, high = [-0.06, -0.05], [0.005, 0.01], [0.3, 0.31, 0.32]
    rows = [
        [*low, *middle, *high],  # first break 0.01 > 0
        [*low, *low, *low, 0.0],  # first break negative: kept
        [0.01, 0.01, 0.01, 0.01, *high],  # one distinct value below 0.2/9: none is positive
        [0.3] * 7,  # nothing below 0.2/9
        [0.0] * 7,  # all equal
    ]
    trends = torch.tensor(rows, dtype=torch.float64)
    cut = break_of_trends(trends)
    assert cut.tolist() == [-0.05, -0.05, torch.inf, torch.inf, torch.inf]
    assert (trends > cut[:, None]).sum(-1).tolist() == [5, 1, 0, 0, 0]


def test_break_of_one_value():
    assert natural_break(torch.tensor([[0.3], [-1.0]])).tolist() == [torch.inf, torch.inf]
