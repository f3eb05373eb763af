"""Optimizers on the run axis: torch's updates row by row, schedules, phases, resuming, and what
authors declare.
"""

from __future__ import annotations

from dataclasses import replace
from math import cos, pi

import numpy as np
import pytest
import torch

from puarena import catalog, training
from puarena.algorithms import Optimizer, find_optimizer
from puarena.errors import UserError
from puarena.networks.mlp import MLP
from puarena.testing import contract
from puarena.training import Fleet, FleetConfig, Row
from puarena.training.optim import RunAdam, RunSGD, build
from puarena.training.steps import Stepper
from toys import toy

CONFIG = FleetConfig(batch_size=32, steps=60, warmup=30, record_every=30, optimizer="authors")
SEEDS = torch.tensor([1, 2])


def network(dtype=torch.float64):
    return MLP(SEEDS, (3,), hidden=5, dtype=dtype)


def some(name, count=2, **kwargs):
    x, data, hidden = toy(0.4, "ts")
    return x, [Row(name, data, hidden, 100 + i, lr=1e-3 * (1 + i), **kwargs) for i in range(count)]


def moved_by(optimizer, net, steps, active=None):
    """Return a network's parameters after some steps with drawn gradients, and the gradients."""
    generator = torch.Generator().manual_seed(0)
    drawn = []
    for _ in range(steps):
        grads = [
            torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.dtype)
            for p in net.parameters()
        ]
        drawn.append(grads)
        optimizer.step(grads, None, active)
    return [p.detach().clone() for p in net.parameters()], drawn


@pytest.mark.parametrize(
    "declared",
    [
        Optimizer("adam", 1e-2),
        Optimizer("adam", 1e-2, betas=(0.5, 0.99), weight_decay=0.1),
        Optimizer("adam", 1e-2, weight_decay=0.1, amsgrad=True),
        Optimizer("adamw", 1e-2, weight_decay=0.1),
        Optimizer("sgd", 1e-2, momentum=0.8, nesterov=True, weight_decay=0.1),
    ],
    ids=str,
)
def test_a_declared_optimizer_is_torchs(declared):
    lr = torch.tensor([1e-3, 3e-3], dtype=torch.float64)  # the default, and three times that
    net = network()
    start = [p.detach().clone() for p in net.parameters()]
    got, drawn = moved_by(build(net, lr, torch.full_like(lr, 0.9), 0.0, False, declared), net, 6)
    for row, scale in enumerate((1, 3)):
        ours = [torch.nn.Parameter(p[row].clone()) for p in start]
        values = {"lr": scale * declared.lr, "weight_decay": declared.weight_decay}
        if declared.kind == "sgd":
            theirs = torch.optim.SGD(
                ours, momentum=declared.momentum, nesterov=declared.nesterov, **values
            )
        else:
            cls = torch.optim.Adam if declared.kind == "adam" else torch.optim.AdamW
            theirs = cls(ours, betas=declared.betas, amsgrad=declared.amsgrad, **values)
        for grads in drawn:
            for p, g in zip(ours, grads, strict=True):
                p.grad = g[row].clone()
            theirs.step()
        for a, b in zip(got, ours, strict=True):
            torch.testing.assert_close(a[row], b.detach(), rtol=1e-9, atol=1e-12)


def test_single_precision_follows_double_precision():
    moved = {}
    for dtype in (torch.float32, torch.float64):
        net = network(dtype)
        with torch.no_grad():
            for p, q in zip(net.parameters(), network().parameters(), strict=True):
                p.copy_(q)
        lr = torch.tensor([1e-3, 1e-2], dtype=dtype)
        moved[dtype] = moved_by(RunAdam(net, lr, (0.9, 0.9999)), net, 1)[0]
    for single, double in zip(moved[torch.float32], moved[torch.float64], strict=True):
        torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-6)


def test_a_row_left_alone_stays_and_its_count_too():
    net = network()
    adam = RunAdam(net, torch.full((2,), 0.1, dtype=torch.float64), amsgrad=True)
    start = [p.detach().clone() for p in net.parameters()]
    moved_by(adam, net, 3, torch.tensor([True, False]))
    for p, before in zip(net.parameters(), start, strict=True):
        assert torch.equal(p[1], before[1])
        assert not torch.equal(p[0], before[0])
    assert adam.count.tolist() == [3, 0]
    assert all((buffer[1] == 0).all() for buffer in adam.buffers)
    grads = [torch.full_like(p, torch.nan) for p in net.parameters()]
    adam.step(grads, None, torch.tensor([False, False]))
    assert all(p.isfinite().all() for p in net.parameters())


def test_freezing_stops_a_row():
    net = network()
    adam = RunAdam(net, torch.full((2,), 0.1, dtype=torch.float64), weight_decay=0.1)
    moved_by(adam, net, 2)
    adam.freeze(torch.tensor([False, True]))
    moved_by(adam, net, 2)
    assert all((p[1] == 0).all() and (p[0] != 0).any() for p in net.parameters())


def test_decay_of_weights_only():
    net = network()
    declared = Optimizer("adamw", 1e-2, weight_decay=0.5, spares_biases=True)
    lr = torch.full((2,), 1e-3, dtype=torch.float64)
    optimizer = build(net, lr, lr, 0.0, False, declared)
    before = [p.detach().clone() for p in net.parameters()]
    optimizer.step([torch.zeros_like(p) for p in net.parameters()])
    for p, b, mask in zip(net.parameters(), before, net.decays(), strict=True):
        torch.testing.assert_close(p.detach(), b * (1 - 5e-3 * mask))
    assert {float(v) for mask in net.decays() for v in mask.unique()} == {0, 1}


def test_schedules():
    cosine = Optimizer("adam", 1e-3, schedule="cosine", final=0.2)
    assert [cosine.factor(t) for t in (0, 0.5, 1)] == pytest.approx([1, 0.6, 0.2])
    assert Optimizer("adam", 1e-3, schedule="slow-cosine").factor(1) == pytest.approx(
        cos(7 / 16 * pi)
    )
    halving = Optimizer("adam", 1e-3, schedule="halving", halve_at=(0.4, 0.8))
    assert [halving.factor(t) for t in (0, 0.39, 0.4, 0.8, 0.99)] == [1, 1, 0.5, 0.25, 0.25]
    assert Optimizer("adam", 1e-3).factor(0.7) == 1


def test_a_declaration_by_phase_or_network():
    a, b = Optimizer("adam", 1e-3), Optimizer("sgd", 1e-1)
    assert find_optimizer(a, "f", "main") == a
    assert find_optimizer({"warm-up": a, "main": b}, "f", "main") == b
    assert find_optimizer({"d": a}, "d", "main") == a
    assert find_optimizer({"d": a}, "f", "main") is None
    assert find_optimizer(None, "f", "main") is None


def test_the_protocol_is_the_default_and_sgd_for_all():
    x, rows = some("pan")
    f = Fleet(rows, replace(CONFIG, optimizer="protocol"), x)
    assert FleetConfig().optimizer == "protocol"
    assert {type(o) for o in f.optimizers.values()} == {RunSGD}
    assert f.optimizers["f"].descent.tolist() == pytest.approx([-1e-3, -2e-3])


def test_an_unknown_optimizer_is_refused():
    x, rows = some("pan")
    with pytest.raises(UserError, match="authors"):
        Fleet(rows, replace(CONFIG, optimizer="autors"), x)


def test_pan_trains_with_its_authors_adam_on_both_networks():
    x, rows = some("pan")
    f = Fleet(rows, CONFIG, x)
    assert set(f.optimizers) == {"d", "f"}
    for adam in f.optimizers.values():
        assert isinstance(adam, RunAdam)
        assert adam.betas == (0.5, 0.999)
        assert adam.descent.tolist() == pytest.approx(
            [-1e-4, -2e-4]
        )  # times the configuration's factor
        assert [float(d.min()) for d in adam.decays] == pytest.approx([1e-3])  # biases too


def test_a_method_without_a_declaration_keeps_the_protocols():
    x, rows = some("lbe")
    assert catalog.get("lbe").cls.authors_optimizer is None
    a = training.train(rows, CONFIG, x)
    b = training.train(rows, replace(CONFIG, optimizer="protocol"), x)
    assert all(
        np.array_equal(values, b.values[name], equal_nan=True) for name, values in a.values.items()
    )


def test_every_phase_has_the_optimizer_declared_for_it():
    x, rows = some("dist-pu")
    f = Fleet(
        rows, replace(CONFIG, steps=120), x
    )  # seven epochs of twelve steps, then the main phase
    seen = {}
    for _ in f.segments():
        seen[f.algorithm.phase.name] = f.optimizers["f"], f.optimizers["f"].descent.tolist()
    assert seen["warm-up"][1] == pytest.approx([-5e-4, -1e-3])
    assert seen["main"][1] == pytest.approx([-5e-5, -1e-4])
    assert float(seen["main"][0].decays[0].max()) == pytest.approx(1e-3)
    assert seen["main"][0].count.tolist() == [36, 36]  # begins anew


def test_a_declared_schedule_multiplies_the_algorithms_own():
    x, rows = some("vpu")
    f = Fleet(rows, replace(CONFIG, steps=100), x)
    stepper = Stepper(f, f.algorithm.phases[0], 0, 100)
    stepper.fill(0, 100)
    factors = stepper.block["at:lr:f"].tolist()
    assert [factors[k] for k in (0, 37, 38, 77, 78, 99)] == [1, 1, 0.5, 0.5, 0.25, 0.25]
    f.algorithm.schedule = lambda *now: {"lr": 0.5}
    stepper.fill(0, 100)
    assert stepper.block["at:lr:f"].tolist() == [factor / 2 for factor in factors]


@pytest.mark.parametrize("name", ["pan", "dist-pu", "robust-pu", "pubn", "glws", "holistic-pu"])
def test_an_interrupted_fleet_goes_on_to_the_same_curves(name):
    x, rows = some(name)
    config = replace(
        CONFIG, steps=120, record_every=42
    )  # records inside the phases and at the switch (84)
    whole = Fleet(rows, config, x)
    states = []
    for _ in whole.segments():
        states.append(whole.state())
    wanted = whole.log.curves()
    for state in states[:-1]:
        again = Fleet(rows, config, x)
        again.restore(state)
        for _ in again.segments():
            pass
        got = again.log.curves()
        for column, values in wanted.values.items():
            np.testing.assert_array_equal(
                got.values[column], values, err_msg=f"{column} from {state.notes['step']}"
            )


@pytest.mark.parametrize("name", ["pan", "vpu", "cvir", "dist-pu"])
def test_a_row_does_not_depend_on_its_company(name):
    x, rows = some(name, 3)
    config = replace(CONFIG, steps=100, record_every=40, dtype="float64")
    together = training.train(rows, config, x)
    for k in (0, 2):
        alone = training.train([rows[k]], config, x)
        for column, values in alone.values.items():
            np.testing.assert_allclose(
                values[:, 0], together.values[column][:, k], rtol=1e-6, atol=1e-9, err_msg=column
            )


@pytest.mark.parametrize(
    "name", [n for n in catalog.names("puarena") if catalog.get(n).cls.authors_optimizer]
)
def test_what_authors_declare_trains(name):
    x, rows = some(name, 1)
    curves = training.train(rows, CONFIG, x)
    assert np.isfinite(curves.values["test_auc"]).all()
    declared = catalog.get(name).cls.authors_optimizer
    parts = [declared] if isinstance(declared, Optimizer) else list(declared.values())
    assert all(part.source for part in parts)


@pytest.mark.parametrize("name", ["pan", "vpu", "cvir", "dist-pu", "pubn", "glws"])
def test_a_step_never_reads_a_value_back(name):
    contract.steps_without_looking(name, replace(contract.CONFIG, optimizer="authors"))


def test_a_lost_row_stays_lost_in_the_next_phase():
    x, rows = some("dist-pu")
    f = Fleet(rows, replace(CONFIG, steps=120), x)
    with torch.no_grad():
        for parameter in f.algorithm.f.parameters():
            parameter[1].fill_(float("nan"))
    curves = f.train()
    assert curves.diverged.tolist() == [-1, 30]
    assert f.optimizers["f"].descent[1] == 0
    assert all((p[1] == 0).all() for p in f.algorithm.f.parameters())


def test_a_schedule_over_two_phases_is_one_wave():
    whole = Optimizer("adam", 1e-3, schedule="cosine")
    first, second = replace(whole, part=(0.0, 0.25)), replace(whole, part=(0.25, 1.0))
    assert first.factor(1.0) == second.factor(0.0) == whole.factor(0.25)
    assert second.factor(0.5) == pytest.approx(whole.factor(0.625))
    assert second.factor(1.0) == pytest.approx(0.0)
