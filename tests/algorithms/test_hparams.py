"""The search draws what the released registry drew."""

from __future__ import annotations

import pytest

from goldens import cases, close
from puarena.algorithms import Choice, Hyper, LogUniform, draw_configuration
from puarena.networks.mlp import MLP
from puarena.networks.resnet import ResNet

TAU = {"tau": Hyper(0.5, "cut-off", search=Choice((0.5, 0.7, 0.9)))}
GOLDEN = cases("hparams")


@pytest.mark.parametrize("case", GOLDEN, ids=[case["id"] for case in GOLDEN])
def test_golden(case):
    expected, numbers = case["expected_value"], (case["params"]["config"], case["params"]["trial"])
    mlp = draw_configuration(*numbers, MLP, TAU, default_batch=64)
    resnet = draw_configuration(*numbers, ResNet, TAU)
    close(mlp.lr, expected["lr"], case, "float64", "lr")
    assert mlp.lr == resnet.lr
    assert (mlp.batch_size, resnet.batch_size) == (
        expected["batch_size_mlp"],
        expected["batch_size_resnet"],
    )
    assert mlp.momentum == expected["momentum"]
    assert mlp.hyper == {"tau": expected["pubn_tau"]}


def test_default_is_the_papers():
    assert draw_configuration(0, 0, MLP).batch_size == 128
    assert draw_configuration(0, 0, ResNet).batch_size == 64
    assert draw_configuration(0, 2, MLP).lr == 1e-3


def test_what_has_no_search_keeps_its_default():
    hypers = {
        "beta": Hyper(0.1, "never searched"),
        "decay": Hyper(1.0, "searched", search=LogUniform(-3, -1)),
    }
    drawn = draw_configuration(4, 0, MLP, hypers).hyper
    assert drawn["beta"] == 0.1
    assert 1e-3 <= drawn["decay"] <= 1e-1
    assert drawn == draw_configuration(4, 0, ResNet, hypers).hyper  # not a matter of the network
