"""The engine: rows are independent, phases and records fall where the protocol says, one row's ruin
is its own.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from puarena import training
from puarena.algorithms import Algorithm, Phase, Setup, Update
from puarena.catalog import get, names
from puarena.networks import mlp, products
from puarena.networks.mlp import MLP, split
from puarena.training import Fleet, FleetConfig
from puarena.training.engine import Cycle
from puarena.training.optim import RunSGD
from puarena.training.steps import Stepper
from toys import rows, toy

CONFIG = FleetConfig(batch_size=16, steps=60, record_every=20)


def test_the_same_run_alone_and_in_a_fleet_of_thirty():
    x, data, hidden = toy()
    thirty = rows("nnpu", 30, data, hidden)
    together = training.train(thirty, CONFIG, x)
    for row in (0, 7, 29):
        alone = training.train([thirty[row]], CONFIG, x)
        assert set(alone.values) == set(together.values)
        for name, values in alone.values.items():
            np.testing.assert_allclose(
                values[:, 0], together.values[name][:, row], rtol=1e-4, atol=1e-5, err_msg=name
            )


def test_index_choices_do_not_depend_on_the_company():
    x, data, hidden = toy()
    thirty = rows("nnpu", 30, data, hidden)

    def chosen(some):
        f = Fleet(some, CONFIG, x)
        return torch.cat([f.cycle_p.block(0, 60), f.cycle_u.block(0, 60)], -1)

    assert torch.equal(chosen(thirty)[:, 7:8], chosen(thirty[7:8]))


def test_batches_visit_everything_once_before_repeating():
    cycle = Cycle(torch.tensor([1, 2]), "u", n=53, batch=10)
    blocks = torch.cat(
        [cycle.block(0, 3), cycle.block(3, 9), cycle.block(12, 3)]
    )  # 3 passes of 5 steps
    assert torch.equal(blocks, cycle.block(0, 15))
    for run in range(2):
        for one_pass in blocks[:, run].reshape(3, 50):
            assert len(set(one_pass.tolist())) == 50
    assert not torch.equal(blocks[:5], blocks[5:10])
    assert not torch.equal(blocks[:, 0], blocks[:, 1])


def test_a_small_set_gives_a_small_batch():
    x, data, hidden = toy(rate=0.05, n=200)
    curves = training.train(
        rows("upu", 2, data, hidden), FleetConfig(batch_size=64, steps=5, record_every=5), x
    )
    assert np.isfinite(curves.values["test_accuracy"]).all()


def test_sgd_equals_torch():
    torch.manual_seed(0)
    for nesterov, decay in ((False, 0.0), (True, 5e-2)):
        ours = MLP(torch.tensor([5, 6]), (3,), hidden=7, dtype=torch.float64)
        lr = torch.tensor([0.1, 0.02], dtype=torch.float64)
        sgd = RunSGD(ours, lr, torch.full((2,), 0.9, dtype=torch.float64), decay, nesterov)
        theirs = [[p[i].detach().clone().requires_grad_() for p in ours.parts()] for i in range(2)]
        torches = [
            torch.optim.SGD(
                [{"params": t[0::2], "weight_decay": decay}, {"params": t[1::2]}],
                lr=lr[i].item(),
                momentum=0.9,
                nesterov=nesterov,
            )
            for i, t in enumerate(theirs)
        ]
        for _ in range(4):
            grad = torch.randn_like(ours.weight)
            sgd.step([grad], torch.tensor(1.0, dtype=torch.float64))
            for i, optimizer in enumerate(torches):
                for parameter, part in zip(theirs[i], split(grad, 3, 7), strict=True):
                    parameter.grad = part[i].clone()
                optimizer.step()
        for i in range(2):
            for a, b in zip(ours.parts(), theirs[i], strict=True):
                torch.testing.assert_close(a[i].detach(), b.detach())


def test_inactive_rows_keep_parameters_and_momentum():
    net = MLP(torch.tensor([5, 6]), (3,), hidden=7)
    sgd = RunSGD(net, torch.full((2,), 0.1), torch.full((2,), 0.9))
    ones = [torch.ones_like(p) for p in net.parameters()]
    sgd.step(ones, torch.tensor(1.0))
    before = [t.clone() for t in (*net.parameters(), *sgd.buffers)]
    for grad in ones:
        grad[0] = float("nan")
    sgd.step(ones, torch.tensor(1.0), active=torch.tensor([False, True]))
    for old, new in zip(before, (*net.parameters(), *sgd.buffers), strict=True):
        assert torch.equal(old[0], new[0])
        assert not torch.equal(old[1], new[1])


def test_the_network_starts_like_a_linear_layer_of_torch():
    net = MLP(torch.arange(50), (16,))
    for part, fan_in in zip(net.parts(), (16, 16, 500, 500), strict=True):
        assert part.abs().max() <= fan_in**-0.5
        assert part.std().item() == pytest.approx(fan_in**-0.5 / 3**0.5, rel=0.1)


def test_the_network_and_its_gradient():
    """The written-out gradient is that of the plain formula, rows apart."""
    torch.manual_seed(1)
    net = MLP(torch.arange(3), (5,), hidden=11, dtype=torch.float64)
    x, weight = torch.randn(3, 8, 5, dtype=torch.float64), torch.randn(3, 8, dtype=torch.float64)
    (got,) = torch.autograd.grad((net(x) * weight).sum(), [net.weight])
    z = net.heads(x)
    torch.testing.assert_close(net(x), z[..., 1] - z[..., 0])
    (want,) = torch.autograd.grad(((z[..., 1] - z[..., 0]) * weight).sum(), [net.weight])
    torch.testing.assert_close(got, want)
    weight_1, bias_1, weight_2, bias_2 = net.parts()
    alone = torch.relu(x[2] @ weight_1[2] + bias_1[2]) @ weight_2[2].T + bias_2[2]
    torch.testing.assert_close(z[2], alone)


@pytest.mark.parametrize(
    ("runs", "n", "features"),
    [(1, 40, 5), (1, 1100, 4), (9, 40, 5), (3, 1100, 4), (1, 40, 210), (9, 40, 210)],
)
@pytest.mark.parametrize("onednn", [True, False])
def test_every_way_to_multiply_gives_the_same(runs, n, features, onednn, monkeypatch):
    """One run or several, few examples or many, with oneDNN and without: logits and gradients of
    the plain formula.
    """
    if not onednn:
        monkeypatch.setattr(products, "load_linear", lambda: None)
    monkeypatch.setattr(
        mlp, "TILE", 4 * 40 * 500
    )  # four runs of the small batch: three groups of nine
    torch.manual_seed(1)
    net = MLP(torch.arange(runs), (features,))
    x, weight = torch.randn(runs, n, features), torch.randn(runs, n)
    z = net.heads(x)
    torch.testing.assert_close(net(x), z[..., 1] - z[..., 0])
    with torch.no_grad():
        torch.testing.assert_close(net(x), z[..., 1] - z[..., 0])
    (got,) = torch.autograd.grad((net(x) * weight).sum(), [net.weight])
    (want,) = torch.autograd.grad(((z[..., 1] - z[..., 0]) * weight).sum(), [net.weight])
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_a_network_reads_its_own_weights():
    """Also after a copy, a change in place, and when other weights take their place."""
    torch.manual_seed(1)
    net, x = MLP(torch.arange(2), (5,)), torch.randn(2, 8, 5)
    with torch.no_grad():
        before = net(x)
        other = deepcopy(net)
        net.weight.mul_(0.5)
        assert not torch.allclose(net(x), before)
        assert torch.equal(other(x), before)
        net.weight.data = other.weight.data.clone()
        assert torch.equal(net(x), before)
        net.load_state_dict({"weight": torch.zeros_like(net.weight)})
        assert torch.equal(net(x), torch.zeros(2, 8))


def test_records_every_so_often_and_at_the_end():
    x, data, hidden = toy()
    config = replace(CONFIG, steps=50, record_every=20)
    seen: list[tuple[int, int]] = []
    curves = training.train(
        rows("upu", 2, data, hidden), config, x, lambda step, total: seen.append((step, total))
    )
    assert curves.step.tolist() == [20, 40, 50]
    assert seen == [(20, 50), (40, 50), (50, 50)]
    assert curves.selectable.all()
    assert curves.values["val_pa"].shape == (3, 2)
    assert np.all(np.diff(curves.seconds) > 0)


def test_divergence_of_one_run_is_its_own():
    x, data, hidden = toy()
    some = rows("upu", 3, data, hidden)
    ruined = [some[0], replace(some[1], lr=1e30), some[2]]
    config = replace(CONFIG, steps=100)
    curves = training.train(ruined, config, x)
    clean = training.train(some, config, x)
    assert curves.diverged.tolist() == [-1, 20, -1]
    for name, values in curves.values.items():
        assert np.isnan(values[:, 1]).all(), name
        np.testing.assert_allclose(
            values[:, [0, 2]], clean.values[name][:, [0, 2]], rtol=1e-4, atol=1e-5
        )


def test_true_labels_reach_declared_frames_alone():
    x, data, hidden = toy()
    for name in names("puarena"):
        f = Fleet(rows(name, 2, data, hidden), CONFIG, x)
        stepper = Stepper(f, f.algorithm.phases[0], 0, 10)
        stepper.fill(0, 10)
        assert (stepper._take().label_u is None) != get(name).cls.supervised
        assert not get(name).supervised or get(name).baseline


class _TwoStage(Algorithm):
    """Records what the engine does to it."""

    name, title = "", "two-stage"
    networks = ("g", "f")
    phases = (
        Phase("first", (Update("first_loss", ("g",)),), extra=True, selectable=False),
        Phase("early", epochs=2),
        Phase(),
    )

    def prepare(self):
        self.calls = []
        self.state("seen", torch.zeros(self.setup.runs, self.setup.n_u))

    def first_loss(self, batch):
        return self.g(batch.x).mean(-1)

    def objective(self, f_p, f_u):
        return f_u.mean(-1) - f_p.mean(-1)

    def on_phase(self, phase, passes):
        self.calls.append(phase.name)
        assert passes.u(self.f).shape == (self.setup.runs, self.setup.n_u)

    def on_epoch(self, phase, epoch, passes):
        self.calls.append((phase.name, epoch))

    def schedule(self, phase, step, steps, epoch):
        return {"ramp": step / steps}

    def draws(self, draws, phase):
        return {"lam": draws.beta("lam", 0.3)}

    def after_step(self, batch):
        assert batch.draw["lam"].shape == (self.setup.runs,)
        self.ramp = batch.at["ramp"]
        assert batch.i_p.shape == (self.setup.runs, self.setup.batch_p)
        self.seen.scatter_add_(1, batch.i_u, torch.ones_like(batch.i_u, dtype=self.seen.dtype))


def test_phases_epochs_schedules_and_state(monkeypatch):
    x, data, hidden = toy()
    from puarena import catalog

    info = catalog.describe_algorithm(_TwoStage, "plugin")[0]
    monkeypatch.setitem(catalog.get_all(), "two-stage", info)
    f = Fleet(
        rows("two-stage", 2, data, hidden), replace(CONFIG, steps=70, warmup=30, record_every=25), x
    )
    g_before = f.algorithm.g.weight.clone()
    curves = f.train()
    epoch = f.algorithm.setup.epoch
    assert epoch == len(data.u_train) // 16
    assert curves.step.tolist() == [25, 50, 75, 100]
    assert curves.phase == ["first", "early", "early", "main"]
    assert epoch == 24
    assert curves.selectable.tolist() == [False, True, True, True]
    assert f.algorithm.calls == [
        "first",
        ("first", 0),
        ("first", 1),
        "early",
        ("early", 0),
        ("early", 1),
        "main",
        ("main", 0),
    ]
    assert f.algorithm.ramp.item() == pytest.approx(21 / 22)
    assert f.algorithm.seen.sum(-1).tolist() == [1600.0, 1600.0]
    assert not torch.equal(g_before, f.algorithm.g.weight)


def test_a_restored_fleet_calls_the_hooks_that_are_still_due(monkeypatch):
    """Records fall inside epochs (7), on an epoch's end (24, 48) and on a phase's end (30)."""
    x, data, hidden = toy()
    from puarena import catalog

    info = catalog.describe_algorithm(_TwoStage, "plugin")[0]
    monkeypatch.setitem(catalog.get_all(), "two-stage", info)
    some = rows("two-stage", 2, data, hidden)
    for every, steps in ((7, 70), (24, 18), (30, 60)):
        config = replace(CONFIG, steps=steps, warmup=24 if every == 24 else 30, record_every=every)
        whole = Fleet(some, config, x)
        states = [(len(whole.algorithm.calls), whole.state()) for _ in whole.segments()]
        for called, state in states:
            again = Fleet(some, config, x)
            again.restore(state)
            curves = again.train()
            assert again.algorithm.calls == whole.algorithm.calls[called:], state.notes["step"]
            assert curves.phase == whole.log.curves().phase
            assert torch.equal(again.algorithm.seen, whole.algorithm.seen)
            np.testing.assert_array_equal(curves.values["loss"], whole.log.curves().values["loss"])


def test_a_name_the_algorithm_lacks_is_refused():
    x, data, hidden = toy()
    with pytest.raises(Exception, match="nnpu has no hyperparameter 'betta'; did you mean 'beta'"):
        Fleet(rows("nnpu", 1, data, hidden, hyper={"betta": 1.0}), CONFIG, x)


def test_calibrated_and_plain_rows_travel_together():
    x, data, hidden = toy()
    mixed = [*rows("nnpu", 1, data, hidden), *rows("nnpu-c", 1, data, hidden)]
    algorithm = Fleet(mixed, CONFIG, x).algorithm
    n_p, n_u = len(data.p_train), len(data.u_train)
    assert algorithm.w.tolist() == pytest.approx([0.0, n_p / (n_p + n_u)])
    union = Fleet(rows("nnpu-c", 1, data, hidden, calibration="batch-union"), CONFIG, x).algorithm
    assert union.w.tolist() == [0.5]


def test_setup_knows_an_epoch():
    half = torch.tensor([0.5])
    assert Setup(half, half, half, half > 0, n_p=100, n_u=200, batch_p=16, batch_u=16).epoch == 12
