"""Calibrated forms for every two-sample method, the naive classifier cut at the prior, and learned
propensities.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.functional import softplus

from puarena import catalog
from puarena.algorithms import Setup
from puarena.algorithms.pubn import PUbN
from puarena.algorithms.pue import PUe
from puarena.experiments import suites
from puarena.experiments.spec import ALL, PAPER, Spec
from puarena.training import Fleet, FleetConfig, Row
from toys import toy

PROBLEMS = [{"dataset": "digits"}]


def expand(*words, **values):
    return Spec(problems=PROBLEMS, algorithms=words, **values).resolve().algorithms


def test_every_two_sample_method_has_a_calibrated_form():
    for name in catalog.names("puarena"):
        info = catalog.get(name)
        if info.setting == "two-sample" and not info.calibrated:
            assert catalog.get(info.calibrated_form).setting == "one-sample", name


def test_all_has_the_calibrated_form_of_every_method_it_has():
    everything = expand(ALL)
    for name in everything:
        assert catalog.get(name).calibrated_form in ("", *everything)
    assert {"cvir-c", "count-loss-c", "glws-c", "pubn-c", "pue-c", "pn-quantile"} <= {*everything}
    assert suites.get("demo").algorithms == (ALL,)


def test_the_papers_rows_are_a_group():
    rows = expand(PAPER)
    assert len(rows) == 25  # 17 methods, six of them calibrated as well, and two baselines
    assert not {"cvir-c", "pubn-c", "pue-c", "pn-quantile", "sar-em"} & {*rows}
    released = expand(ALL, profile="released")
    assert released == expand(PAPER, profile="released")
    assert len(released) == len(rows)
    assert Spec(problems=PROBLEMS, algorithms=[PAPER]).summarize()


def make_one_sample_population(prior, frequency=0.8, n=200_000):
    """Return logits, true labels, true posteriors and who is labeled, all labels at random."""
    g = torch.Generator().manual_seed(3)
    x = torch.randn(n, generator=g, dtype=torch.float64)
    y = torch.rand(n, generator=g) < prior
    x = x + 2.0 * y
    posterior = prior / (prior + (1 - prior) * torch.exp(2 - 2 * x))
    labeled = y & (torch.rand(n, generator=g) < frequency)
    return 1 - 0.5 * x, y, posterior, labeled  # a poor classifier shows more of the risk


def make_algorithm(cls, prior, rate, n_p, n_u):
    """Return an algorithm with a plain and a calibrated run."""
    both = torch.ones(2, dtype=torch.float64)
    shifted = (prior - rate) / (1 - rate)
    return cls(
        Setup(
            prior=prior * both,
            shifted_prior=shifted * both,
            rate=rate * both,
            one_sample=torch.tensor([True, True]),
            n_p=n_p,
            n_u=n_u,
            batch_p=n_p,
            batch_u=n_u,
            calibration=("none", "weighted"),
        )
    )


def test_the_calibrated_risks_are_unbiased_on_one_sample_data():
    """With true posteriors (PUbN) or labels at random (PUe) the risk is the supervised one."""
    prior = 0.6
    f, y, posterior, s = make_one_sample_population(prior)
    rate = s.double().mean().item()
    f_p, f_u = f[s].expand(2, -1), f[~s].expand(2, -1)
    truth = softplus(torch.where(y, -f, f)).mean().item()
    pubn = make_algorithm(PUbN, prior, rate, int(s.sum()), int((~s).sum()))
    sigma_p, sigma_u = posterior[s].expand(2, -1), posterior[~s].expand(2, -1)
    pubn.state("sigma_p", sigma_p.contiguous())
    pubn.state("sigma_u", sigma_u.contiguous())
    eta = pubn.cut_off()
    below = (posterior < eta[1]).double().mean().item()
    assert below == pytest.approx(0.5 * (1 - prior), abs=0.01)  # tau of the negatives, of all data
    values = pubn.weighted_risk(f_p, f_u, sigma_p, sigma_u, eta).tolist()
    assert values[1] == pytest.approx(truth, abs=0.01)
    assert abs(values[0] - truth) > 0.03
    pue = make_algorithm(PUe, prior, rate, int(s.sum()), int((~s).sum()))
    w_p = torch.full_like(f_p, 1 / f_p.shape[1])
    values = pue.risk(f_p, f_u, w_p).tolist()
    assert values[1] == pytest.approx(truth, abs=0.01)
    assert abs(values[0] - truth) > 0.03


@pytest.mark.parametrize("setting", ["os", "ts"])
def test_the_cut_at_the_prior_is_all_that_pn_quantile_changes(setting):
    prior = 0.3
    x, data, hidden = toy(prior, setting, rate=0.06, n=2000)
    config = FleetConfig(batch_size=32, steps=600, record_every=300)
    fleets = {
        name: Fleet([Row(name, data, hidden, 5, lr=0.1)], config, x)
        for name in ("pn-naive", "pn-quantile")
    }
    curves = {name: fleet.train().values for name, fleet in fleets.items()}
    assert (curves["pn-naive"]["test_auc"] == curves["pn-quantile"]["test_auc"]).all()
    fleet = fleets["pn-quantile"]
    network, cut = fleet.algorithm.f, fleet.algorithm.threshold(fleet.passes)
    sample = [fleet.passes.u(network)]
    if setting == "os":
        sample.append(fleet.passes.p(network))
    above = (torch.cat(sample, -1) >= cut[:, None]).double().mean().item()
    assert above == pytest.approx(prior, abs=0.002)
    last = {name: values["test_accuracy"][-1, 0] for name, values in curves.items()}
    assert last["pn-naive"] < 0.8  # it says negative nearly everywhere
    assert last["pn-quantile"] > 0.85


def test_learned_propensities_are_those_of_the_data(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    sys.modules.pop("bias_toy", None)
    toy_of_bias = importlib.import_module("bias_toy")
    (row,) = toy_of_bias.measure_propensities((0.2,), ("sar-em",), steps=600)
    assert row["propensity"] < 0.45  # 0.9 where batches are weighted as they are
    assert row["accuracy"] > 0.85  # 0.5 there


def test_values_of_a_suite_for_other_algorithms_are_left_out():
    demo = suites.get("demo")
    assert {"pan", "pue", "pue-c"} < {*demo.hyper}
    assert {*demo.override(algorithms=["nnpu", "pue"]).hyper} == {"*", "pue"}
    assert demo.override(algorithms=[PAPER]).hyper == demo.hyper
