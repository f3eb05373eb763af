"""Metrics equal scikit-learn's where it has the function; criteria mean what the theory says."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from puarena import metrics


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.sampled_from([1, 3, 1000]))
def test_metrics_equal_scikit_learn(seed, n, levels):
    rng = np.random.default_rng(seed)
    score = np.round(rng.normal(size=(4, n)) * levels) / levels  # few levels: many ties
    label = rng.random((4, n)) < 0.3
    label[:, 0], label[:, 1] = True, False
    got = metrics.compute_metrics(torch.tensor(score), torch.tensor(score), torch.tensor(label))
    for row in range(4):
        y, s = label[row], score[row]
        expected = {
            "accuracy": sk.accuracy_score(y, s >= 0),
            "auc": sk.roc_auc_score(y, s),
            "f1": sk.f1_score(y, s >= 0, zero_division=0),
            "precision": sk.precision_score(y, s >= 0, zero_division=0),
            "recall": sk.recall_score(y, s >= 0),
        }
        for name, value in expected.items():
            assert got[metrics.get_metric(name).column][row].item() == pytest.approx(
                value, abs=1e-12
            ), name


def test_a_row_that_is_not_finite_is_nan_and_harms_no_other():
    score = torch.tensor([[1.0, float("nan"), -1.0], [1.0, 2.0, -1.0]])
    label = torch.tensor([[True, True, False]] * 2)
    got = metrics.compute_metrics(score, score, label)
    for name, value in got.items():
        assert torch.isnan(value[0]), name
        assert value[1] == 1, name


def test_auc_without_both_classes_is_undefined():
    assert torch.isnan(metrics.auc(torch.tensor([[1.0, 2.0]]), torch.tensor([[True, True]]))).all()


def _validation(rng, prior, one_sample, rate, n, decide):
    """Draw P' and U' by the setting's own law; ``decide`` maps scores and labels to decisions."""
    n_p = int(rate * n)
    shifted = (prior - rate) / (1 - rate) if one_sample else prior
    label_u = rng.random(n - n_p) < shifted
    score = lambda label: rng.normal(size=len(label)) + 1.2 * label  # noqa: E731
    s_p, s_u = score(np.ones(n_p)), score(label_u)
    t = torch.tensor
    return metrics.Validation(
        t(decide(s_p))[None],
        t(decide(s_u))[None],
        t(s_p)[None],
        t(s_u)[None],
        t([prior], dtype=torch.float64),
        t([one_sample]),
        t(label_u)[None],
    )


@pytest.mark.parametrize("prior", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("one_sample", [True, False])
@pytest.mark.parametrize("cut", [-0.5, 0.6, 1.4])
def test_pa_minus_prior_is_accuracy_in_expectation(prior, one_sample, cut):
    from scipy.stats import norm

    accuracy = prior * norm.sf(cut - 1.2) + (1 - prior) * norm.cdf(cut)
    rng = np.random.default_rng(5)
    trials = [_validation(rng, prior, one_sample, 0.2, 1500, lambda s: s - cut) for _ in range(200)]
    pa = np.array([metrics.compute_criteria(v)["val_pa"].item() for v in trials])
    assert abs(pa.mean() - prior - accuracy) < 4 * pa.std() / np.sqrt(len(pa))
    oa = np.array([metrics.compute_criteria(v)["val_oa"].item() for v in trials])
    assert abs(oa.mean() - accuracy) < 4 * oa.std() / np.sqrt(len(oa))
    released = np.array([metrics.compute_criteria(v)["val_pa_released"].item() for v in trials])
    shift = 0.2 * (2 * norm.sf(cut - 1.2) - 1) if one_sample else 0.0
    assert abs(released.mean() - prior - accuracy - shift) < 4 * released.std() / np.sqrt(
        len(released)
    )


@pytest.mark.parametrize("prior", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("one_sample", [True, False])
def test_pauc_orders_as_auc(prior, one_sample):
    """PAUC = shifted/2 + (1 - shifted) AUC in expectation: increasing in AUC, with the slope the
    theory gives.
    """
    rng = np.random.default_rng(11)
    n_p, n_u = 800, 3200
    shifted = (prior - 0.2) / 0.8 if one_sample else prior
    label_u = rng.random(n_u) < shifted
    base_p, base_u = rng.normal(size=n_p), rng.normal(size=n_u)
    pauc, auc = [], []
    for strength in (0.0, 0.5, 1.0, 2.0, 4.0):
        s_p, s_u = base_p + strength, base_u + strength * label_u
        scores = [torch.tensor(a)[None] for a in (s_p, s_u, s_p, s_u)]
        label = torch.tensor(label_u)[None]
        v = metrics.Validation(*scores, torch.tensor([prior]), torch.tensor([one_sample]), label)
        pauc.append(metrics.compute_criteria(v)["val_pauc"].item())
        negatives = s_u[~label_u]
        auc.append(
            sk.roc_auc_score(np.r_[np.ones(n_p), np.zeros(len(negatives))], np.r_[s_p, negatives])
        )
    share = label_u.mean()
    assert np.all(np.diff(auc) > 0)
    assert np.all(np.diff(pauc) > 0)
    np.testing.assert_allclose(pauc, share / 2 + (1 - share) * np.array(auc), atol=0.015)


def test_auc_among_points_without_a_label():
    generator = torch.Generator().manual_seed(0)
    score = torch.randn(3, 60, generator=generator, dtype=torch.float64).round(decimals=1)  # ties
    label = torch.rand(3, 60, generator=generator) < 0.4
    labeled = label & (torch.rand(3, 60, generator=generator) < 0.5)
    values = metrics.compute_metrics(score, score, label, labeled)["test_auc_unlabeled"]
    for run in range(3):
        rest = ~labeled[run]
        expected = sk.roc_auc_score(label[run, rest], score[run, rest])
        assert values[run].item() == pytest.approx(expected, abs=1e-12)
    assert "test_auc_unlabeled" not in metrics.compute_metrics(score, score, label)
