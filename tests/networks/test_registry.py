"""Networks declare themselves: what the other rooms know of one is its class, wherever that comes
from.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import puarena
from puarena import networks, random, training
from puarena.cli import methods
from puarena.datasets import views_of
from puarena.errors import UserError
from puarena.experiments import duration, suites
from puarena.experiments.plan import group, make_plan
from puarena.experiments.spec import Spec
from puarena.networks import RunNetwork, Stacked
from puarena.networks.resnet import ResNet
from puarena.training import FleetConfig
from toys import rows, toy

OWN = ["mlp", "resnet32", "resnet34"]  # of the package
SHORT = {"configs": 1, "steps": 4, "record_every": 2}


class Linear(RunNetwork):
    """The smallest network one can bring: a linear one."""

    name = "linear"
    family = "mlp"
    images = False
    meaning = "no hidden layer"
    capacity = {"cpu": 3, "cuda": 5}  # noqa: RUF012
    default_batch = 32
    batch_exponents = (3, 4)

    def __init__(self, seeds, shape, stream="init", dtype=torch.float32, precision="float32"):
        super().__init__(seeds, shape, stream, dtype, precision)
        features = torch.Size(shape).numel()
        self.weight = nn.Parameter(0.1 * random.normal(seeds, stream, (features, 1)).to(dtype))
        self.bias = nn.Parameter(torch.zeros(len(seeds), 1, dtype=dtype, device=seeds.device))

    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(2) @ self.weight)[..., 0] + self.bias


class Deep(Stacked):
    """A plain torch module."""

    name = "deep"

    @staticmethod
    def make(features: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)
        )


class Small(ResNet):
    """A network for images."""

    name = "small"
    stages = ((1, 8), (1, 16))


@pytest.fixture(autouse=True)
def own(monkeypatch):
    """Networks of these tests' own are forgotten after each."""
    monkeypatch.setattr(networks, "_plugins", {})


def spec(**values) -> Spec:
    return suites.get("demo").override(**{"algorithms": ["nnpu"], **SHORT, **values})


# what there is


def test_the_packages_own_networks():
    assert networks.names() == OWN
    known = [networks.get(name) for name in networks.names()]
    assert all(cls.meaning and set(cls.probe) == {"cpu", "cuda"} for cls in known)
    assert networks.DEFAULT == "mlp"
    said = {
        cls.name: (cls.images, cls.fills_gpu, cls.family, dict(cls.capacity), cls.default_batch)
        for cls in known
    }
    assert said["mlp"] == (False, False, "mlp", {"cpu": 64, "cuda": 256}, 128)
    assert said["resnet32"] == (True, True, "resnet", {"cpu": 4, "cuda": 32}, 64)
    assert said["resnet34"] == (True, True, "resnet", {"cpu": 4, "cuda": 8}, 64)
    assert {name: networks.get(name).batch_exponents for name in ("mlp", "resnet32")} == {
        "mlp": (4, 7),
        "resnet32": (5, 8),
    }


@pytest.mark.parametrize("name", OWN)
def test_the_packages_own_networks_are_fit(name):
    assert networks.find_fault(networks.get(name)) == ""


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UserError, match=r"'resnet3[24]'") as error:
        networks.get("resnet33")
    assert error.value.code == "unknown-name"


# registration


@pytest.mark.parametrize("cls", [Linear, Deep, Small])
def test_a_fit_network_is_registered_and_listed(cls):
    assert networks.register(cls) == cls.name
    assert networks.names()[3:] == [cls.name]
    assert networks.get(cls.name) is cls
    assert networks.is_plugin(cls.name)
    row = methods.list_networks()[-1]
    assert (row["name"], row["needs_images"], row["meaning"]) == (cls.name, cls.images, cls.meaning)
    again = type(
        cls.__name__, (cls,), {"__module__": cls.__module__}
    )  # the same file, loaded once more
    again.__qualname__ = cls.__qualname__
    networks.register(again)
    assert networks.get(cls.name) is again


def mixed(self, x):
    return Linear.forward(self, x - x.mean(0))


def unseeded(self, x):
    return Linear.forward(self, x) + torch.randn(())


def flat_only(self, x):
    return (x @ self.weight)[..., 0] + self.bias


def shared(self, *given):
    Linear.__init__(self, *given)
    self.scale = nn.Parameter(torch.ones(()))


@pytest.mark.parametrize(
    "changes, token",
    [
        ({"name": ""}, "''"),
        ({"name": "my net"}, "'my net'"),
        ({"images": None}, "images = True"),
        ({"forward": RunNetwork.forward}, "forward"),
        ({"capacity": {"cpu": 4}}, "{'cpu': 4}"),
        ({"forward": lambda self, x: Linear.forward(self, x)[..., None]}, "(2, 4, 1)"),
        ({"forward": mixed}, "runs mix"),
        ({"forward": unseeded}, "seed"),
        ({"forward": flat_only}, "x.flatten(2)"),
        ({"__init__": lambda self, seeds: None}, "TypeError"),
        ({"__init__": shared}, "axis of the runs"),
        ({"decays": lambda self: []}, "0 masks for 2 parameters"),
    ],
)
def test_an_unfit_network_is_refused(changes, token):
    with pytest.raises(UserError) as error:
        networks.register(type("Unfit", (Linear,), changes))
    assert error.value.code == "invalid-plugin"
    assert token in str(error.value)
    assert networks.names() == OWN


def dropping(features):
    return nn.Sequential(nn.Linear(features, 1), nn.Dropout())


def test_a_module_that_cannot_be_stacked_is_refused():
    with pytest.raises(UserError, match=r"'deep'.*dropout"):
        networks.register(type("Dropping", (Deep,), {"make": staticmethod(dropping)}))


def test_two_networks_of_one_name_are_refused():
    networks.register(Linear)
    for changes in ({}, {"name": "mlp"}):
        with pytest.raises(UserError, match=changes.get("name", "linear")) as error:
            networks.register(type("Other", (Linear,), changes))
        assert error.value.code == "conflict"


# in a plan


def test_a_second_table_network_is_planned_as_it_declares():
    networks.register(Linear)
    letter = suites.get("tabular").override(
        datasets=["letter"], algorithms=["nnpu"], configs=4, splits=2
    )
    plan = make_plan(letter.override(network="linear"))
    assert plan.notes == ()
    assert {run.network for run in plan.runs} == {"linear"}
    assert {(run.config == 0, run.batch_size) for run in plan.runs} == {(True, 32), (False, 8)}
    for device, most in Linear.capacity.items():
        sizes = [len(part.runs) for part in group(plan.runs, None, device)]
        assert max(sizes) <= most
        assert sum(sizes) == len(plan.runs)
    assert not any(part.fills_gpu for part in group(plan.runs))
    assert not set(plan.run_ids) & set(make_plan(letter).run_ids)


def test_precisions_are_the_networks_own():
    networks.register(
        type("Rough", (Linear,), {"name": "rough", "precisions": ("float32", "bf16")})
    )
    networks.register(Linear)
    assert {run.precision for run in make_plan(spec(network="rough", precision="bf16")).runs} == {
        "bf16"
    }
    plain = make_plan(spec(network="linear", precision="bf16"))
    assert {run.precision for run in plain.runs} == {"float32"}
    (note,) = plain.notes
    assert "bf16" in note


def test_another_file_of_a_network_is_another_run(monkeypatch):
    networks.register(Linear)
    first = make_plan(spec(network="linear"))
    monkeypatch.setattr("puarena.plugins.digest_of", lambda path: "changed")
    assert not set(first.run_ids) & set(make_plan(spec(network="linear")).run_ids)
    assert {run.source for run in make_plan(spec()).runs} == {""}


def test_an_image_network_leaves_tables_their_own():
    networks.register(Small)
    plan = make_plan(suites.get("paper").override(algorithms=["nnpu"], network="small", configs=1))
    assert {run.problem.dataset: run.network for run in plan.runs} == {
        "letter": "mlp",
        "usps": "mlp",
        "cifar10": "small",
        "imagenette": "small",
    }
    assert len(plan.notes) == 2
    assert all("letter" in note or "usps" in note for note in plan.notes)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_table_network_on_images_is_planned_and_timed(device):
    networks.register(Linear)
    plan = make_plan(
        suites.get("images").override(algorithms=["nnpu"], network="linear", configs=1)
    )
    assert {run.network for run in plan.runs} == {"linear"}
    first = group(plan.runs, None, device)[0]
    _, runs = duration.shrink(duration.shape_of(plan, first), len(first.runs), device)
    assert runs <= Linear.probe[device][0]


# in training


def test_a_second_table_network_really_trains(tmp_path, monkeypatch):
    networks.register(Linear)
    passed = []
    forward = Linear.forward
    monkeypatch.setattr(
        Linear, "forward", lambda self, x: passed.append(len(x)) or forward(self, x)
    )
    curves = {}
    for name in ("linear", "mlp"):
        given = spec(network=name, splits=2)
        assert not puarena.run(given, tmp_path / name, device="cpu", workers=1).failures
        frame = puarena.load(tmp_path / name).df()
        assert set(frame["network"]) == {name}
        curves[name] = frame["test_auc"].to_numpy()
    assert set(passed) == {2}  # four runs, in fleets of two: three fit
    assert not np.allclose(curves["linear"], curves["mlp"])


def test_a_table_network_trains_on_images():
    networks.register(Linear)
    x, data, hidden = toy(n=200, features=3 * 8 * 8)
    images = (40 * x + 128).clip(0, 255).astype(np.uint8).reshape(-1, 3, 8, 8)
    seen = views_of("cifar10", "definition").evaluation
    config = FleetConfig(
        batch_size=16, steps=60, record_every=30, network="linear", weak=seen, evaluation=seen
    )
    curves = training.train(rows("nnpu", 2, data, hidden), config, images)
    assert np.nanmax(curves.values["test_auc"]) > 0.8
