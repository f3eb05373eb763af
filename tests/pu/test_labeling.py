"""How labels are given: settings and mechanisms are looked up by name, found in their folder, and
exact.
"""

from __future__ import annotations

import pickle
import sys
from collections import Counter

import numpy as np
import pytest

from puarena import datasets
from puarena.datasets import builtin
from puarena.experiments.plan import make_plan
from puarena.experiments.spec import Spec
from puarena.pu import Problem, draw_pu_data, labeling
from puarena.pu.labeling import Candidates, Mechanism
from user_errors import raises_user_error

CLASS = """
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from puarena.pu.labeling.base import Mechanism


@dataclass(frozen=True)
class Ranked(Mechanism):
    name = "ranked"
    meaning = "later classes are labeled more often"
    strength: float = 1.0
    form: str = "power"

    def propensity(self, candidates):
        rank = np.repeat(np.arange(len(candidates.parts)), [len(part) for part in candidates.parts])
        weights, wanted = 2.0 ** (self.strength * rank), candidates.counts.sum()
        scale = brentq(lambda a: np.minimum(1, a * weights).sum() - wanted, 0, 1 / weights.min())
        return np.minimum(1, scale * weights)


MECHANISM = Ranked
"""
MECHANISMS = ["scar", "boundary", "class", "feature", "posterior", "property"]
SEEDS = [4019883385587539333, 7763420744240616813]  # of version 0.1.0
SPEC = {"algorithms": ["nnpu", "nnpu-c"], "splits": 1, "configs": 1, "steps": 10}


@pytest.fixture
def ranked(tmp_path, monkeypatch):
    """A mechanism that a file brings, and nothing but that file."""
    (tmp_path / "ranked.py").write_text(CLASS)
    monkeypatch.setattr(labeling, "__path__", [*labeling.__path__, str(tmp_path)])
    labeling._mechanisms.cache_clear()
    yield labeling.get_mechanism("ranked")
    labeling._mechanisms.cache_clear()
    del sys.modules["puarena.pu.labeling.ranked"]


# Settings


@pytest.mark.parametrize(
    ("name", "code"), [("os", "os"), ("OS", "os"), ("One-Sample", "os"), ("two-sample", "ts")]
)
def test_a_setting_by_any_of_its_names(name, code):
    setting = labeling.get_setting(name)
    assert (setting.code, setting.short) == (code, code.upper())
    assert labeling.get_setting(setting) is setting
    assert setting == pickle.loads(pickle.dumps(setting))
    assert hash(setting) == hash(pickle.loads(pickle.dumps(setting)))
    assert vars(setting) == {}, "nothing hides in it"
    assert Problem("digits", setting=name) == Problem("digits", setting=code)


def test_settings_are_told_apart():
    one, two = labeling.list_settings()
    assert [s.code for s in labeling.list_settings()] == ["os", "ts"]
    assert one != two
    assert (one.one_sample, two.one_sample) == (True, False)
    assert one.meaning != two.meaning
    with raises_user_error("unknown-name", "'two_sample'", "'two-sample'"):
        labeling.get_setting("two_sample")


@pytest.mark.parametrize("name", [s.code for s in labeling.list_settings()])
@pytest.mark.parametrize("prior", [0.2, 0.37, 0.8])
def test_the_prior_inside_u_and_back(name, prior):
    setting = labeling.get_setting(name)
    rate = setting.modest_rate(prior)
    inside = setting.prior_in_u(prior, rate)
    assert setting.prior_from_u(inside, rate) == pytest.approx(prior, rel=1e-12)
    assert setting.prior_from_u(np.array([inside, 0.0]), rate)[1] == pytest.approx(
        setting.lowest_prior(rate)
    )
    pu, hidden = draw_pu_data(datasets.load("digits"), Problem("digits", 1, name, rate, prior), 0)
    assert np.r_[hidden.u_train, hidden.u_val].mean() == pytest.approx(inside, abs=0.01)
    assert pu.setting is setting


# Mechanisms


def test_an_unknown_mechanism_names_the_nearest():
    assert labeling.list_mechanisms() == MECHANISMS
    assert labeling.get_mechanism("SCAR").text == "scar"
    with raises_user_error("unknown-name", "'scra'", "'scar'"):
        Problem("digits", labeling="scra")
    with raises_user_error("unknown-name", "'strength'"):
        labeling.get_mechanism("scar(strength=1)")
    with raises_user_error("unknown-name", "labeling", "'scra'"):
        Spec(problems=[{"dataset": "digits", "labeling": "scra"}])


def test_scar_is_what_it_was_before_there_was_a_choice():
    spec = Spec(problems=[{"dataset": "digits"}], **SPEC)
    named = Spec(problems=[{"dataset": "digits", "labeling": ["scar"]}], **SPEC)
    assert spec.hash() == named.hash()
    runs = make_plan(spec).runs
    assert [run.seed for run in runs] == SEEDS
    assert runs == make_plan(named).runs


def test_a_mechanism_is_one_file(ranked):
    assert set(labeling.list_mechanisms()) == {*MECHANISMS, "ranked"}
    assert ranked.text == "ranked(strength=1,form=power)"
    assert (
        labeling.get_mechanism("ranked( strength=0.5 )").text == "ranked(strength=0.5,form=power)"
    )
    with raises_user_error("invalid-value", "strength", "'much'"):
        labeling.get_mechanism("ranked(strength=much)")
    plans = [
        make_plan(Spec(problems=[{"dataset": "digits", "labeling": way}], **SPEC))
        for way in ("scar", "ranked")
    ]
    assert not set(plans[0].run_ids) & set(plans[1].run_ids)
    both = Spec(problems=[{"dataset": "digits", "labeling": ["scar", "ranked"]}], **SPEC)
    assert set(make_plan(both).run_ids) == {*plans[0].run_ids, *plans[1].run_ids}


@pytest.mark.parametrize("setting", [s.code for s in labeling.list_settings()])
def test_a_mechanism_works_in_either_setting(ranked, setting):
    digits = datasets.load("digits")
    labeled = {}
    for way in ("scar", "ranked"):
        pu, hidden = draw_pu_data(digits, Problem("digits", 1, setting, 0.2, 0.4, way), 0)
        p, u = np.r_[pu.p_train, pu.p_val], np.r_[pu.u_train, pu.u_val]
        assert not np.intersect1d(p, u).size
        assert digits.positive(1)[digits.classes[p]].all()
        assert np.r_[hidden.u_train, hidden.u_val].mean() == pytest.approx(
            pu.shifted_prior, abs=0.002
        )
        labeled[way] = Counter(digits.classes[p].tolist())
    assert labeled["scar"].total() == labeled["ranked"].total()
    assert max(labeled["scar"].values()) - min(labeled["scar"].values()) <= 1
    assert labeled["ranked"][9] > 2 * labeled["ranked"][1]


def test_labels_come_with_the_stated_probability(ranked):
    digits = datasets.load("digits")
    members = [np.flatnonzero(digits.classes == label)[:12] for label in range(4)]
    parts = [members[0][:0], members[1], members[2], members[3]]
    some = Candidates(digits, np.arange(100), digits.positive(1), parts, np.array([0, 3, 4, 3]))
    times = 4000
    for mechanism in (ranked, labeling.get_mechanism("scar")):
        expected = mechanism.propensity(some)
        assert expected.sum() == pytest.approx(10)
        rng = np.random.default_rng(0)
        counts = np.zeros(len(some.index))
        for _ in range(times):
            shuffled = Candidates(
                digits, some.pool, some.positive, [rng.permutation(p) for p in parts], some.counts
            )
            flags = mechanism.label(shuffled, mechanism.propensity(shuffled), rng)
            assert flags.sum() == 10
            counts += np.isin(some.index, shuffled.index[flags])
        deviation = np.sqrt(expected * (1 - expected) / times)
        assert (np.abs(counts / times - expected) < 5 * deviation + 1e-9).all()


def test_a_mechanism_must_say_its_propensity():
    with pytest.raises(TypeError, match="propensity"):
        type("Silent", (Mechanism,), {"name": "silent"})()


# Datasets


def test_a_dataset_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "wine.py").write_text(
        "from sklearn.datasets import load_wine\n"
        "from puarena.datasets.base import DatasetInfo, from_info\n"
        "INFO = DatasetInfo(name='wine', title='Wine', description='wines', license='CC BY 4.0', citation='UCI',\n"
        "    urls=(), files=(), examples=178, class_names=('a', 'b', 'c'), shape=(13,), kind='tabular',\n"
        "    network='mlp', cases={1: (0, 1)}, size=90, test_fraction=0.2, default_prior=2 / 3)\n"
        "def read(folder):\n"
        "    table = load_wine()\n"
        "    return from_info(INFO, table.data, table.target)\n"
    )
    monkeypatch.setattr(builtin, "__path__", [*builtin.__path__, str(tmp_path)])
    datasets.readers.cache_clear()
    try:
        assert datasets.names()[-1] == "wine"
        assert datasets.load("wine").features.shape == (178, 13)
        (run,) = make_plan(
            Spec(problems=[{"dataset": "wine"}], **(SPEC | {"algorithms": ["nnpu"]}))
        ).runs
        assert (run.problem.prior, run.network, run.views) == (2 / 3, "mlp", datasets.Views())
    finally:
        datasets.readers.cache_clear()
        del sys.modules["puarena.datasets.builtin.wine"]
