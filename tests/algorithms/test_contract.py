"""Every registered algorithm keeps the contract; a class that breaks a promise is caught.

On a GPU machine ``make test-gpu`` runs the same checks there.
"""

from dataclasses import replace

import pytest
import torch

import goldens
from puarena import algorithms, contract
from puarena.algorithms import Algorithm, logistic
from puarena.algorithms.core import registry

CONFIG = replace(contract.CONFIG, device=goldens.DEVICE)


@pytest.mark.parametrize("check", contract.CHECKS)
@pytest.mark.parametrize("name", algorithms.names("puarena"))
def test_contract(name, check):
    contract.CHECKS[check](name, CONFIG)


class _Base(Algorithm):
    title = paper = "a defect"

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)


class _Leaks(_Base):
    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) + f_u.mean() ** 2


class _Looks(_Base):
    def objective(self, f_p, f_u):
        value = super().objective(f_p, f_u)
        return value * 2 if value.sum() > 1 else value


class _Masks(_Base):
    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) + f_u[f_u > 0].sum()


class _Unlearns(_Base):
    def objective(self, f_p, f_u):
        return -super().objective(f_p, f_u).clamp_max(3)


class _Forgets(_Base):
    def after_step(self, batch):
        self.total = batch.x.sum()


class _Counts(_Base):
    def prepare(self):
        self.epochs = 0

    def on_epoch(self, phase, epoch, passes):
        self.epochs += 1

    def schedule(self, phase, step, steps, epoch):
        return {"lr": 1 / (1 + self.epochs)}


class _UsesGlobalRandomness(_Base):
    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) * torch.rand(1, device=f_u.device)


class _Breaks(_Base):
    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) / (f_u.shape[-1] - 37)


@pytest.mark.parametrize(
    "cls, check",
    [
        (_Leaks, "keeps rows apart"),
        (_Looks, "steps without looking"),
        (_Masks, "steps without looking"),
        (_Unlearns, "learns"),
        (_Forgets, "registers its state"),
        (_Counts, "resumes"),
        (_UsesGlobalRandomness, "repeats"),
        (_Breaks, "takes any batch size"),
    ],
)
def test_defects_are_caught(cls, check, monkeypatch):
    monkeypatch.setitem(registry._plugins, "defect", registry.entries_of(cls, "plugin")[0])
    with pytest.raises(contract.ContractError):
        contract.CHECKS[check]("defect", CONFIG)


def test_the_smallest_algorithm_keeps_the_contract(monkeypatch):
    monkeypatch.setitem(registry._plugins, "small", registry.entries_of(_Base, "plugin")[0])
    for check in contract.CHECKS.values():
        check("small", CONFIG)
