"""What a plugin cannot do to the criteria that select its models; test_contract.py has the cheats
that only a promise finds.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from defective import Sound

from puarena import catalog
from puarena.errors import UserError
from puarena.testing import contract
from puarena.training import Fleet, FleetConfig, Row
from puarena.training.evaluate import RESERVED_RECORDS
from toys import toy

CONFIG = FleetConfig(batch_size=16, steps=6, record_every=3)


@pytest.fixture
def train(monkeypatch):
    """Train a class as a plugin's for a few steps and return its curves."""

    def run(cls):
        info = catalog.describe_algorithm(cls, "plugin")[0]
        monkeypatch.setitem(catalog.get_all(), "cheat", info)
        x, data, hidden = toy(0.3)
        return Fleet([Row("cheat", data, hidden, 3, lr=1e-2)], CONFIG, x).train()

    return run


class NamesARecordLikeACriterion(Sound):
    def records(self):
        return {"pa": torch.ones_like(self.prior) * 5}


class NamesARecordLikeACount(Sound):
    """Criteria are computed from counts again when results are read."""

    def records(self):
        return {"positive_p": torch.ones_like(self.prior) * 1000}


class ChangesItsPrior(Sound):
    def on_phase(self, phase, passes):
        self.prior.fill_(5)
        self.setup.prior.fill_(5)
        self.one_sample.fill_(False)
        self.setup.one_sample.fill_(False)


class SearchesThePasses(Sound):
    found: tuple = ()

    def on_phase(self, phase, passes):
        names = [name for name in dir(passes) if not name.startswith("__")]
        SearchesThePasses.found = tuple((name, getattr(passes, name)) for name in names)
        assert not hasattr(passes, "__dict__")


@pytest.mark.parametrize(
    "cheat, name", [(NamesARecordLikeACriterion, "'pa'"), (NamesARecordLikeACount, "'positive_p'")]
)
def test_a_record_cannot_replace_a_criterion(train, cheat, name):
    with pytest.raises(UserError) as error:
        train(cheat)
    assert error.value.code == "invalid-plugin"
    assert name in str(error.value)
    problems = dict(contract.check_algorithm("cheat", quick=True))
    assert name in problems["takes first steps"]


def test_every_stored_column_is_reserved(train):
    stored = {name.removeprefix("val_") for name in train(Sound).values if name.startswith("val_")}
    assert stored | {"oa", "pa_ipw", "label_strength"} <= RESERVED_RECORDS


def test_criteria_use_the_prior_and_setting_of_the_run(train):
    honest, cheat = train(Sound), train(ChangesItsPrior)
    for column in ("val_pa", "val_pauc", "val_oa"):
        np.testing.assert_array_equal(honest.values[column], cheat.values[column])
    assert honest.values["val_pa"].max() < 2


def test_hooks_receive_functions_and_no_data(train):
    train(SearchesThePasses)
    assert {name for name, _ in SearchesThePasses.found} == {"p", "u", "val_p", "val_u", "x_p"}
    for name, value in SearchesThePasses.found:
        assert not isinstance(getattr(value, "__self__", None), (Fleet, torch.Tensor)), name
