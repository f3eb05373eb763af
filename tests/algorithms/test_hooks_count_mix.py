"""Count Loss, GLWS, P3MIX and Holistic-PU: options, hooks and state.

The goldens check the losses, the contract the rest.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from puarena import training
from puarena.algorithms import Batch
from puarena.algorithms.holistic_pu import TEACHER_DECAY, two_views
from puarena.algorithms.p3mix import CLIP, EARLY, POOL
from puarena.networks.mlp import MLP
from puarena.training import Fleet, FleetConfig
from toys import rows, toy

NAMES = ["count-loss", "glws", "p3mix-e", "p3mix-c", "holistic-pu"]
ALL = [*NAMES, *(f"{name}@released" for name in NAMES)]
CONFIG = FleetConfig(batch_size=32, steps=250, warmup=60, record_every=250)
SHORT = FleetConfig(batch_size=16, steps=90, warmup=30, record_every=30)


def small(**kwargs):
    """A problem whose epoch is 12 steps of 16."""
    return toy(n=300, **kwargs)


def final(curves, name="test_accuracy"):
    return curves.values[name][-1]


@pytest.mark.parametrize("name", ["count-loss", "glws"])
def test_prior_inside_u_may_be_zero(name):
    """With pi-bar = 0 the count is zero: plain P against U, which is right here."""
    x, data, hidden = small(prior=0.4, rate=0.4, positives_in_u=False)
    some = rows(name, 2, data, hidden, hyper={"unlabeled_prior": "pi-bar"})
    f = Fleet(some, SHORT, x)
    if name == "glws":
        assert f.algorithm.m.tolist() == [0, 0]
    else:
        assert f.algorithm.goal[:, 0].tolist() == pytest.approx([1 / 17] * 2)
        assert f.algorithm.goal[:, 1:].abs().max() == 0
        assert f.algorithm.least.tolist() == [0, 0]
    assert (final(f.train()) > 0.85).all()


def test_unlabeled_prior_and_form_are_per_run():
    x, data, hidden = toy(prior=0.5, rate=0.3)
    options = [{}, {"unlabeled_prior": "pi-bar"}]
    glws = Fleet([r for o in options for r in rows("glws", 1, data, hidden, hyper=o)], SHORT, x)
    assert glws.algorithm.m.tolist() == [8, int(16 * 0.2 / 0.7)]
    options.append({"form": "exact"})
    counts = Fleet(
        [r for o in options for r in rows("count-loss", 1, data, hidden, hyper=o)], SHORT, x
    ).algorithm
    k = torch.arange(17.0)
    assert (17 * (counts.goal[:2] * k).sum(-1)).tolist() == pytest.approx(
        [8, 16 * 0.2 / 0.7], rel=1e-5
    )
    assert counts.goal[2].argmax() == 8
    assert counts.goal[2].sum() == 1
    assert (counts.least != 0).tolist() == [True, True, False]


def test_the_released_count_loss_bounds_the_gradient():
    x, data, hidden = toy()
    f = Fleet(
        rows("count-loss@released", 3, data, hidden), CONFIG, 5 * x
    )  # large inputs, large gradients
    algorithm = f.algorithm
    index = torch.cat([f.p_train[:, :32], f.u_train[:, :32]], 1)
    i = torch.zeros(3, 32, dtype=torch.int64)
    batch = Batch(x=f.features[index], n_p=i.shape[1], position={"p": i, "u": i}, draw={}, at={})
    parameters = list(algorithm.f.parameters())

    def norms(loss):
        grads = torch.autograd.grad(loss.sum(), parameters)
        return torch.stack([g.flatten(1).square().sum(-1) for g in grads]).sum(0).sqrt()

    plain = algorithm.objective(*batch.split(algorithm.f(batch.x)))
    loss, active = algorithm.loss(batch)
    torch.testing.assert_close(loss, plain)
    assert active.all()
    before = norms(plain)
    assert (before > 10).any()
    torch.testing.assert_close(norms(loss), before.clamp_max(10), rtol=1e-4, atol=1e-4)


# -- P3MIX ----------------------------------------------------------------------


def test_p3mix_e_is_bounded_below_whatever_it_does():
    """All outputs may saturate on one side, which early learning rewards by up to 46."""
    for prior in (0.3, 0.7):
        x, data, hidden = toy(prior=prior, setting="ts", n=1000)
        curves = training.train(rows("p3mix-e", 3, data, hidden), CONFIG, x)
        assert (curves.diverged < 0).all()
        assert (curves.values["loss"] >= -5 * CLIP - 1).all()
        assert (final(curves, "test_auc") > 0.8).all()


def test_the_teacher_of_p3mix_e_moves_once_per_epoch():
    x, data, hidden = toy()
    f = Fleet(rows("p3mix-e", 2, data, hidden), SHORT, x)
    early, main = f.algorithm.phases
    network, teacher = f.algorithm.f, f.algorithm.teacher
    first = teacher.weight.clone()
    torch.testing.assert_close(first, network.weight.detach())
    network.weight.data += 1
    f.algorithm.on_epoch(early, 0, f.passes)
    torch.testing.assert_close(teacher.weight, first)
    f.algorithm.on_epoch(early, 1, f.passes)  # end of epoch 0: a copy
    torch.testing.assert_close(teacher.weight, first + 1)
    network.weight.data += 1
    f.algorithm.on_epoch(main, 0, f.passes)  # end of epoch 4: decay 4/5
    torch.testing.assert_close(teacher.weight, first + 1 + 1 / 5)
    assert not any(p.requires_grad for p in teacher.parameters())


@pytest.mark.parametrize("n_p", [40, 200])
def test_the_pool_holds_the_positives_nearest_the_boundary(n_p):
    x, data, hidden = toy(rate=0.25, n=5 * n_p)
    f = Fleet(rows("p3mix-c", 2, data, hidden), SHORT, x)
    f.algorithm.on_epoch(f.algorithm.phases[1], 0, f.passes)
    logits = f.passes.p(f.algorithm.f)
    size = min(POOL, logits.shape[1])
    assert f.algorithm.pool.shape == (2, size, x.shape[1])
    inside = f.algorithm.f(f.algorithm.pool).abs()
    torch.testing.assert_close(inside, logits.abs().sort(-1).values[:, :size])


def test_partners_of_p3mix():
    """A point in doubt mixes with the pool and its label 1, others with members of the batch."""
    x, data, hidden = toy()
    algorithm = Fleet(rows("p3mix-c", 1, data, hidden), replace(SHORT, batch_size=2), x).algorithm
    seen = {}

    class Network(torch.nn.Module):
        def forward(self, x):
            seen["x"] = x
            return x[..., 0]

    algorithm.f = Network()
    algorithm.risk = lambda f_p, f_u, labels: seen.setdefault("labels", labels)
    algorithm.state("pool", torch.full((1, 3, 1), 100.0))
    points = torch.tensor([5.0, 6.0, 0.1, 4.0])[
        None, :, None
    ]  # two positives, one in doubt, one surely positive
    i = torch.zeros(1, 2, dtype=torch.int64)
    draw = {
        "lam": torch.tensor([0.25]),
        "partner": torch.tensor([[3, 2, 0, 1]]),
        "pool": torch.tensor([[0, 1, 2, 0]]),
    }
    algorithm.loss(Batch(x=points, n_p=i.shape[1], position={"p": i, "u": i}, draw=draw, at={}))
    expected = 0.75 * points[0, :, 0] + 0.25 * torch.tensor([4.0, 0.1, 100.0, 6.0])
    torch.testing.assert_close(seen["x"][0, :, 0], expected)
    torch.testing.assert_close(seen["labels"][0, :, 0], torch.tensor([1.0, 0.75, 0.25, 1.0]))
    seen.clear()
    draw = {"lam": torch.tensor([0.75]), "permutation": torch.tensor([[3, 2, 0, 1]])}
    algorithm.early_loss(
        Batch(x=points, n_p=i.shape[1], position={"p": i, "u": i}, draw=draw, at={})
    )
    torch.testing.assert_close(seen["labels"][0, :, 0], torch.tensor([0.75, 0.75, 0.25, 0.25]))


def test_p3mix_begins_with_five_epochs_of_random_partners():
    x, data, hidden = small()
    f = Fleet(rows("p3mix-c", 2, data, hidden), SHORT, x)
    early, main = training.engine.schedule_phases(f.algorithm, SHORT)
    assert (early.phase.name, early.steps) == ("early", EARLY * f.algorithm.setup.epoch)
    assert main.steps == SHORT.steps - early.steps


# -- Holistic-PU ---------------------------------------------------------------------


def test_warm_up_checkpoints():
    x, data, hidden = toy()
    own = training.train(rows("holistic-pu", 1, data, hidden), SHORT, x)
    released = training.train(rows("holistic-pu@released", 1, data, hidden), SHORT, x)
    assert own.phase == released.phase == ["trends", "main", "main", "main"]
    assert own.selectable.tolist() == [False, True, True, True]
    assert released.selectable.all()


@pytest.mark.parametrize("warmup, records", [(71, 2), (72, 3), (73, 3), (24, 1), (0, 0)])
def test_an_epoch_is_recorded_when_it_is_complete(warmup, records):
    x, data, hidden = toy()  # an epoch is 24 steps
    f = Fleet(
        rows("holistic-pu", 2, data, hidden),
        replace(SHORT, warmup=warmup, steps=2, record_every=100),
        x,
    )
    assert f.algorithm.setup.epoch == 24
    f.train()
    assert int(f.algorithm.n_records) == records
    assert bool(f.algorithm.pseudo.any()) == (records >= 2)


def test_the_teacher_of_holistic_pu():
    x, data, hidden = toy()
    for name, in_phase_2 in (("holistic-pu", False), ("holistic-pu@released", True)):
        algorithm = Fleet(rows(name, 2, data, hidden), SHORT, x).algorithm
        before = algorithm.teacher.weight.clone()
        algorithm.a.weight.data += 1
        algorithm.after_step(None)
        torch.testing.assert_close(algorithm.teacher.weight, before + (1 - TEACHER_DECAY))
        algorithm.phase = algorithm.phases[1]
        after = algorithm.teacher.weight.clone()
        algorithm.after_step(None)
        assert torch.equal(after, algorithm.teacher.weight) != in_phase_2


def test_the_released_schedules_of_holistic_pu():
    x, data, hidden = toy()
    algorithm = Fleet(rows("holistic-pu@released", 1, data, hidden), SHORT, x).algorithm
    first, main = algorithm.phases
    assert algorithm.schedule(first, 500, 2000, 0)["lr"] == 0.25
    assert algorithm.schedule(main, 0, 20_000, 0)["lr"] == 1.0
    assert algorithm.schedule(main, 20_000, 20_000, 0)["ramp"] == pytest.approx(1.088, abs=1e-3)
    score = torch.full((1, algorithm.setup.n_u), 0.5, dtype=torch.float64)
    algorithm.record(score)
    dropped = algorithm.setup.n_u % algorithm.setup.batch_u
    assert (algorithm.score == 1).sum() == dropped


def test_views_of_a_batch_pass_together():
    network = MLP(torch.tensor([1, 2]), (3,), hidden=5)
    x, strong = torch.randn(2, 7, 3), torch.randn(2, 7, 3)
    i_p, i_u = torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 4, dtype=torch.int64)
    for view in (strong, x, None):
        batch = Batch(
            x=x, n_p=i_p.shape[1], position={"p": i_p, "u": i_u}, draw={}, at={}, strong=view
        )
        want = network(x if view is None else view)
        for part in (slice(0, 3), slice(3, None)):
            f_p, f_u, f_strong = two_views(network, batch, part)
            torch.testing.assert_close(torch.cat([f_p, f_u], 1), network(x))
            torch.testing.assert_close(f_strong, want[:, part])
