"""Every algorithm on small images: views, residual networks, teachers and frozen copies, on the
device under test.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from puarena import catalog, networks, training
from puarena.datasets import views_of
from puarena.networks.resnet import ResNet
from puarena.training import Fleet, FleetConfig, Row
from toys import toy

DEVICE = os.environ.get("PUARENA_TEST_DEVICE", "cpu")
HAS_GPU = torch.cuda.is_available()
VIEWS = views_of("cifar10", "definition")
CONFIG = FleetConfig(
    batch_size=8,
    steps=24,  # with five early epochs of four steps, where there are such
    warmup=8,
    record_every=8,
    network="tiny",
    device=DEVICE,
    weak=VIEWS.weak,
    strong=VIEWS.strong,
    evaluation=VIEWS.evaluation,
)
ENTRIES = {name: catalog.get(name) for name in catalog.names() if not catalog.get(name).is_classic}
NAMES = [name for name, entry in ENTRIES.items() if not entry.cls.knows_propensity]
if (
    DEVICE == "cpu"
):  # where the contract has trained them all on tables: calibration does not look at the inputs
    NAMES = [name for name in NAMES if not ENTRIES[name].calibrated]


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """A residual network with two stages, under a name of its own; in one thread, as workers train."""

    monkeypatch.setitem(
        networks._plugins, "tiny", type("Tiny", (ResNet,), {"stages": ((1, 16), (1, 32))})
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pictures(side: int = 8, n: int = 60) -> tuple[np.ndarray, list[Row]]:
    """Images whose classes differ in color and texture, and three runs on them with different
    learning rates.
    """
    _, data, hidden = toy(prior=0.4, n=n)
    rng = np.random.default_rng(1)
    label = np.zeros(n + 400, bool)
    label[data.p_train], label[data.p_val] = True, True
    label[data.u_train], label[data.u_val], label[data.test] = (
        hidden.u_train,
        hidden.u_val,
        hidden.test,
    )
    data, hidden = replace(data, test=data.test[:100]), replace(hidden, test=hidden.test[:100])
    x = rng.integers(0, 120, (len(label), 3, side, side))
    x[label, 0] += 60
    x[~label, :, ::2] += 60
    return x.astype(np.uint8), [
        Row("", data, hidden, seed=3 + i, lr=lr) for i, lr in enumerate((1e-3, 1e-2, 3e-2))
    ]


def of(name: str, rows: list[Row]) -> list[Row]:
    return [replace(row, algorithm=name) for row in rows]


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_trains_on_images_and_keeps_rows_apart(name):
    x, rows = pictures()
    rows = of(name, rows[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # on a GPU an uncaptured step would warn
        together = training.train(rows, CONFIG, x)
    assert np.isfinite(together.values["test_auc"]).all()
    alone = training.train(rows[1:2], CONFIG, x)
    for column, values in alone.values.items():
        np.testing.assert_allclose(
            together.values[column][:, 1:2], values, rtol=2e-2, atol=2e-2, err_msg=column
        )


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("name", ["holistic-pu", "pan"])
def test_captured_steps_on_images_give_the_curves_of_eager_ones(name):
    """With a strong view and a teacher; with two networks in turn, whose statistics are kept."""
    x, rows = pictures()
    config = replace(CONFIG, steps=12, warmup=4, record_every=4, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fleet = Fleet(of(name, rows[:2]), config, x)
        ours = fleet.train()
    assert fleet.evaluate.graph is not None
    # On a pretended device a CPU's eager steps are the same, and cost less.
    eager = replace(config, capture=False) if HAS_GPU else replace(config, device="cpu")
    for column, values in training.train(of(name, rows[:2]), eager, x).values.items():
        np.testing.assert_allclose(ours.values[column], values, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["nnpu", "vpu", "holistic-pu", "p3mix-e", "pan"])
def test_the_same_seeds_give_the_same_numbers(name):
    x, rows = pictures()
    first, again = (training.train(of(name, rows[:2]), CONFIG, x) for _ in range(2))
    for column, values in first.values.items():
        np.testing.assert_array_equal(again.values[column], values, err_msg=column)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_residual_network_learns(precision):
    x, rows = pictures(n=200)
    config = replace(CONFIG, batch_size=16, steps=40, record_every=20, precision=precision)
    curves = training.train(of("nnpu", rows[2:]), config, x)
    assert curves.values["test_auc"][-1] > 0.95


def test_a_diverging_run_harms_no_other():
    x, rows = pictures()
    clean = training.train(of("nnpu", rows), CONFIG, x)
    ruined = Fleet(of("nnpu", rows), CONFIG, x)
    with torch.no_grad():
        ruined.algorithm.f.weight[1] = float("nan")
    curves = ruined.train()
    assert curves.diverged.tolist() == [-1, 8, -1]
    for column, values in clean.values.items():
        np.testing.assert_allclose(
            curves.values[column][:, [0, 2]], values[:, [0, 2]], rtol=1e-5, err_msg=column
        )


def test_steps_see_the_weak_view_and_evaluation_does_not():
    x, rows = pictures()
    seen: dict[str, list[torch.Tensor]] = {"train": [], "eval": []}
    some = Fleet(of("nnpu", rows), replace(CONFIG, capture=False), x)
    network = some.algorithm.f
    network.register_forward_pre_hook(
        lambda module, inputs: seen["train" if module.training else "eval"].append(inputs[0].cpu())
    )
    some.train()
    plain = VIEWS.evaluation(torch.as_tensor(x), {})
    known = {image.numpy().tobytes() for image in plain}
    assert all(
        image.numpy().tobytes() in known for batch in seen["eval"] for image in batch.flatten(0, 1)
    )
    share = np.mean(
        [
            image.numpy().tobytes() in known
            for batch in seen["train"]
            for image in batch.flatten(0, 1)
        ]
    )
    assert share < 0.1  # a crop in the middle that was not mirrored has a chance of 1 in 162


def test_statistics_move_only_with_a_networks_own_update():
    """PAN's updates ask the other network, too: that is no second look at the batch."""
    x, rows = pictures()
    config = replace(CONFIG, steps=1, record_every=1, capture=False)
    trained, fresh = (Fleet(of("pan", rows), config, x) for _ in range(2))
    seen: dict[str, list[torch.Tensor]] = {"d": [], "f": []}
    for name, inputs in seen.items():
        getattr(trained.algorithm, name).register_forward_pre_hook(
            lambda module, given, inputs=inputs: (
                inputs.append(given[0]) if module.training else None
            )
        )
    trained.train()
    for name, inputs in seen.items():
        assert len(inputs) == 2
        moved, once = (getattr(some.algorithm, name) for some in (trained, fresh))
        once(inputs[0])
        torch.testing.assert_close(moved.mean, once.mean)
        torch.testing.assert_close(moved.variance, once.variance)


@pytest.mark.parametrize("network", ["mlp", "tiny"])
def test_bytes_without_a_view_are_numbers(network):
    x, rows = pictures()
    config = replace(CONFIG, network=network, weak=None, strong=None, evaluation=None)
    for name in ("nnpu", "p3mix-c"):
        bytes_, numbers = (
            training.train(of(name, rows[:1]), config, some) for some in (x, x.astype(np.float32))
        )
        np.testing.assert_array_equal(bytes_.values["test_auc"], numbers.values["test_auc"])


def test_only_who_asks_pays_for_a_strong_view():
    x, rows = pictures()
    assert set(Fleet(of("nnpu", rows), CONFIG, x).views) == {"weak"}
    assert set(Fleet(of("holistic-pu", rows), CONFIG, x).views) == {"weak", "strong"}


def test_evaluation_may_have_images_of_its_own():
    x, rows = pictures(side=12)
    config = replace(CONFIG, weak=None, evaluation=VIEWS.evaluation, strong=None)
    some = Fleet(of("nnpu", rows), config, x, evaluation=255 - x[:, :, 1:-1, 1:-1])
    assert some.algorithm.f.width == 10 * 10 * 16
    taken = some.inputs(some.held.test[:, :2]).cpu()
    wanted = VIEWS.evaluation(torch.as_tensor(255 - x[rows[0].data.test[:2], :, 1:-1, 1:-1]), {})
    torch.testing.assert_close(taken[0], wanted)


def test_pool_partners_enter_in_the_weak_view():
    x, rows = pictures()
    some = Fleet(of("p3mix-c", rows), CONFIG, x)
    position = torch.zeros(3, 40, dtype=torch.int64, device=DEVICE)
    views = some.passes.x_p(position)  # forty views of each run's first positive
    assert len({view.cpu().numpy().tobytes() for view in views[0]}) > 20
    some.step = 1
    assert not torch.equal(some.passes.x_p(position), views)


@pytest.mark.parametrize("name", ["holistic-pu", "p3mix-e"])
def test_teachers_follow_parameters_and_statistics(name):
    x, rows = pictures()
    some = Fleet(of(name, rows), CONFIG, x)
    before = some.algorithm.teacher.weight.clone()
    some.train()
    teacher = some.algorithm.teacher
    assert not torch.equal(teacher.weight, before)
    assert not torch.equal(teacher.mean, torch.zeros_like(teacher.mean))
    assert not teacher.weight.requires_grad


@pytest.mark.parametrize("name", ["nnpu", "holistic-pu", "p3mix-e", "pue"])
def test_an_interrupted_fleet_goes_on_as_if_nothing_had_happened(name):
    x, rows = pictures()
    whole = Fleet(of(name, rows), CONFIG, x)
    with training.use_own_stream(whole.device):
        states = [whole.state() for _ in whole.segments()]
    for state in (states[0], states[2]):
        resumed = Fleet(of(name, rows), CONFIG, x)
        resumed.restore(state)
        curves = resumed.train()
        for column, values in whole.log.curves().values.items():
            np.testing.assert_allclose(
                curves.values[column], values, rtol=0, atol=1e-6, err_msg=column
            )
