"""The search draws what the released registry drew."""

from __future__ import annotations

import pytest

from goldens import cases, close
from puarena.algorithms import Choice, Hyper, LogUniform
from puarena.algorithms.core import configurations
from puarena.bench.duration import PROBED_IMAGES
from puarena.bench.plan import MAX_RUNS
from puarena.networks import NETWORKS

TAU = {"tau": Hyper(0.5, "cut-off", search=Choice((0.5, 0.7, 0.9)))}
GOLDEN = cases("hparams")


@pytest.mark.parametrize("case", GOLDEN, ids=[case["id"] for case in GOLDEN])
def test_golden(case):
    expected, numbers = case["expected_value"], (case["params"]["config"], case["params"]["trial"])
    mlp = configurations.draw(*numbers, "mlp", TAU, default_batch=64)
    resnet = configurations.draw(*numbers, "resnet", TAU)
    close(mlp.lr, expected["lr"], case, "float64", "lr")
    assert mlp.lr == resnet.lr
    assert (mlp.batch_size, resnet.batch_size) == (expected["batch_size_mlp"], expected["batch_size_resnet"])
    assert mlp.momentum == expected["momentum"]
    assert mlp.hyper == {"tau": expected["pubn_tau"]}


def test_default_is_the_papers():
    assert configurations.draw(0, 0).batch_size == 128
    assert configurations.draw(0, 0, "resnet").batch_size == 64
    assert configurations.draw(0, 2).lr == 1e-3


def test_families_of_networks():
    assert [configurations.family_of(name) for name in NETWORKS] == ["mlp", "resnet", "resnet"]
    assert [set(limits) for limits in MAX_RUNS.values()] == [set(NETWORKS)] * 2
    assert {name for _, name in PROBED_IMAGES} == set(NETWORKS)  # a new network needs its sizes there


def test_what_has_no_search_keeps_its_default():
    hypers = {"beta": Hyper(0.1, "never searched"), "decay": Hyper(1.0, "searched", search=LogUniform(-3, -1))}
    drawn = configurations.draw(4, 0, hypers=hypers).hyper
    assert drawn["beta"] == 0.1
    assert 1e-3 <= drawn["decay"] <= 1e-1
    assert drawn == configurations.draw(4, 0, "resnet", hypers).hyper  # not a matter of the network
