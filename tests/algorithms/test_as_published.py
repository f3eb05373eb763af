"""Where the published code differs in what it draws, unites and averages."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import softplus

from puarena import catalog, training
from puarena.algorithms import draw_configuration
from puarena.algorithms._losses import frozen_copy
from puarena.networks.mlp import MLP
from puarena.training import Fleet, FleetConfig, Row
from puarena.training.steps import Stepper
from toys import toy

CONFIG = FleetConfig(batch_size=32, steps=120, record_every=60)


def some(name, count=2, **kwargs):
    x, data, hidden = toy(0.3)
    return x, [Row(name, data, hidden, 100 + i, lr=1e-2, **kwargs) for i in range(count)]


def test_robust_pu_registry_has_one_set_of_values_for_configuration_0_and_another_for_the_rest():
    hypers = catalog.get("robust-pu@released").cls.hypers()
    names = "temper_n", "alpha_n", "thr_max", "grow", "temper_p", "alpha_p"
    for config in range(10):
        for trial in range(3):
            drawn = draw_configuration(config, trial, MLP, hypers).hyper
            want = (1.3, 0.11, 1.0, 5, 1.0, 0.1) if config == 0 else (1.0, 0.1, 2.0, 10, 1.0, 0.1)
            assert tuple(drawn[name] for name in names) == want


def test_dist_pu_union_is_mixed_with_the_positives_in_it():
    x, rows = some("dist-pu-c@released", calibration="batch-union")
    f = Fleet(rows, CONFIG, x)
    algorithm, main = f.algorithm, f.algorithm.phases[-1]
    stepper = Stepper(f, main, 0, 36)
    stepper.fill(24, 12)
    batch = stepper._take()
    partner, lam, growth = batch.draw["partner"], batch.draw["lam"], batch.at["growth"]
    assert partner.shape == (2, 96)
    assert (partner.sort(1).values == torch.arange(96)).all()
    with torch.no_grad():
        loss = algorithm.loss(batch)
        f_p, f_u = batch.split(algorithm.f(batch.x))
        x3 = torch.cat([batch.x_p, batch.x_u, batch.x_p], 1)
        y3 = torch.cat([torch.ones(2, 32), (f_u >= 0).float(), (f_p >= 0).float()], 1)
        for run in range(2):
            union = torch.cat([f_u[run], f_p[run]]).double()
            s = union.sigmoid()
            entropy = -(s * s.log() + (1 - s) * (1 - s).log()).mean()
            dist = 1 - f_p[run].sigmoid().mean() + (1 - s.mean() - 0.3).abs() / 0.6
            mixed = lam[run] * x3[run] + (1 - lam[run]) * x3[run, partner[run]]
            label = (lam[run] * y3[run] + (1 - lam[run]) * y3[run, partner[run]]).double()
            label = (label + 1e-6).floor()  # cut to an integer
            g = algorithm.f(mixed.unsqueeze(0).expand(2, -1, -1))[run].double()
            s = g.sigmoid()
            mix = 0.04 * -(s * s.log() + (1 - s) * (1 - s).log()).mean()
            mix = mix + 5 * (label * softplus(-g) + (1 - label) * softplus(g)).mean()
            assert float(loss[run]) == pytest.approx(
                float(dist + 0.004 * growth * entropy + mix), rel=1e-4
            )


def test_dist_pu_plain_runs_and_unions_are_fleets_of_their_own():
    plain, union = catalog.get("dist-pu@released"), catalog.get("dist-pu-c@released")
    assert plain.fleet_key != union.fleet_key
    assert catalog.get("dist-pu").fleet_key == catalog.get("dist-pu-c").fleet_key
    x, rows = some("dist-pu-c@released", calibration="batch-union")
    with pytest.raises(ValueError, match="cannot share a fleet"):
        Fleet([rows[0], replace(rows[1], algorithm="dist-pu@released")], CONFIG, x)
    curves = training.train(rows, CONFIG, x)
    assert (curves.diverged < 0).all()


def test_dist_pu_weighted_keeps_entropy_and_mixing_on_u():
    x, rows = some("dist-pu-c@released", calibration="weighted")
    f = Fleet(rows, CONFIG, x)
    stepper = Stepper(f, f.algorithm.phases[-1], 0, 36)
    stepper.fill(0, 12)
    assert stepper._take().draw["partner"].shape == (2, 64)


@pytest.mark.parametrize(("name", "initial"), [("p3mix-e", 0), ("p3mix-e@released", 1)])
def test_p3mix_teacher_averages_the_epochs_and_the_published_one_the_initial_weights_too(
    name, initial
):
    x, rows = some(name, 1)
    f = Fleet(rows, CONFIG, x)
    algorithm, early = f.algorithm, f.algorithm.phases[0]
    networks = [frozen_copy(algorithm.f).weight.clone()] * initial
    algorithm.on_epoch(early, 0, f.passes)
    for epoch in range(1, 5):
        with torch.no_grad():
            algorithm.f.weight.add_(torch.randn_like(algorithm.f.weight))
        networks.append(algorithm.f.weight.detach().clone())
        algorithm.on_epoch(early, epoch, f.passes)
        torch.testing.assert_close(
            algorithm.teacher.weight, torch.stack(networks).mean(0), rtol=1e-4, atol=1e-5
        )


def test_p3mix_says_what_its_early_learning_does():
    assert "collapse" in catalog.get("p3mix-e").differs
    assert "initial weights" in catalog.get("p3mix-e@released").differs


def test_pan_forms_are_per_run():
    x, rows = some("pan", 3)
    rows[1] = replace(rows[1], hyper={"form": "plain"})
    config = replace(CONFIG, dtype="float64")
    together = training.train(rows, config, x)
    for k in range(3):
        alone = training.train([rows[k]], config, x)
        assert alone.values["loss"][:, 0] == pytest.approx(together.values["loss"][:, k], rel=1e-6)
    assert "form" not in catalog.get("pan@released").hypers
    assert catalog.get("pan").hypers["form"].default == "hinge"
