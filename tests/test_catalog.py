"""The catalog: one record of every method, made from its class."""

from __future__ import annotations

import json

import pytest

from puarena import catalog, paper, plugins
from puarena.algorithms import Algorithm, Choice, Hyper, Phase, Update, logistic
from puarena.catalog import MethodInfo
from puarena.errors import UserError
from puarena.results.schema import COLUMNS


class Example(Algorithm):
    """``mean_P l+``."""

    name, title, paper, setting = "example", "Example", "me, 2026", "two-sample"
    calibrates = True
    networks = ("f", "g")
    phases = (Phase("first", (Update("loss", ("f", "g")),), extra=True), Phase())
    notes = {"letter": "it is hard"}  # noqa: RUF012
    weight = Hyper(0.5, "weight of nothing", Choice((0.5, 1.0)))
    form = Hyper("a", "the form", choices=("a", "b"))

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1)

    def on_epoch(self, phase, epoch, passes):
        """Do nothing."""


def test_a_record_has_what_the_class_declares():
    plain, calibrated = catalog.describe_algorithm(Example, "plugin")
    assert (plain.name, plain.base, plain.calibrated_form) == ("example", "example", "example-c")
    assert (calibrated.name, calibrated.base, calibrated.calibrated) == (
        "example-c",
        "example",
        True,
    )
    assert (plain.setting, calibrated.setting) == ("two-sample", "one-sample")
    assert plain.phases == ("first", "main")
    assert plain.extra_stages == 1
    assert plain.passes_every_epoch
    assert plain.engine_needs == ("first stage", "2 networks", "passes over the data every epoch")
    assert plain.hyperparameters["weight"]["search"] == "{0.5, 1.0}"
    assert plain.hyperparameters["form"]["choices"] == ["a", "b"]
    assert plain.fleet_key == calibrated.fleet_key
    assert plain.plugin_file == __file__


@pytest.mark.parametrize("name", catalog.names())
def test_every_record_survives_json(name):
    info = catalog.get(name)
    read = MethodInfo.from_json(json.loads(json.dumps(info.to_json())))
    assert read.cls is None
    assert read.to_json() == json.loads(json.dumps(info.to_json()))
    assert catalog.explain(read)


@pytest.mark.parametrize("name", catalog.names())
def test_every_method_says_what_it_is(name):
    info = catalog.get(name)
    assert info.name == name
    assert info.title
    assert info.paper
    assert info.description
    assert info.base in catalog.get_all()
    assert info.setting in catalog.SETTINGS
    assert info.origin in catalog.ORIGINS
    assert all(facts["meaning"] for facts in info.hyperparameters.values())
    assert info.differs or info.is_classic or info.origin == "plugin"
    if info.calibrated_form:
        assert catalog.get(info.calibrated_form).calibrated
    assert info.is_classic or info.cost > 0


def test_the_columns_of_results_are_fields():
    info = catalog.get("nnpu-c@released")
    assert set(catalog.STORED_FACTS) <= COLUMNS.keys()
    assert [getattr(info, name) for name in catalog.STORED_FACTS] == [
        "nnpu",
        True,
        "released",
        False,
        False,
    ]


def test_methods_are_in_the_papers_order():
    plain = [info.name for info in catalog.get_all().values() if info.name == info.base]
    assert tuple(name for name in plain if name in paper.ORDER) == paper.ORDER


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UserError, match="'nnpu'") as error:
        catalog.get("nnpux")
    assert error.value.code == "unknown-name"


def test_forms_of_another_variant():
    assert catalog.find_form("nnpu-c", "released") == "nnpu-c@released"
    assert catalog.find_form("nnpu@released", "") == "nnpu"
    assert catalog.find_form("pn-naive", "released") == "pn-naive"


def test_collected_records_include_the_plain_method():
    assert [info.name for info in catalog.collect(["nnpu-c", "spies"])] == [
        "nnpu-c",
        "nnpu",
        "spies",
    ]


@pytest.mark.parametrize(
    "name, setting, code",
    [
        ("My method", "either", "invalid-plugin"),
        ("all", "either", "invalid-plugin"),
        ("mine.py", "either", "invalid-plugin"),
        ("mine", "both", "invalid-plugin"),
        ("nnpu", "either", "conflict"),
        ("spies", "either", "conflict"),
        (5, "either", "invalid-plugin"),
    ],
)
def test_declarations_that_cannot_be_registered(name, setting, code):
    cls = type("Bad", (Example,), {"name": name, "setting": setting})
    before = dict(catalog.get_all())
    with pytest.raises(UserError) as error:
        catalog.register(cls)
    assert error.value.code == code
    assert str(setting if setting == "both" else name) in str(error.value)
    assert catalog.get_all() == before


@pytest.mark.parametrize("attribute, value", [("paper", 7), ("notes", 5), ("differs", ["x"])])
def test_attributes_of_a_wrong_type_cannot_be_registered(attribute, value):
    """The record would be stored, and then not be read."""
    before = dict(catalog.get_all())
    with pytest.raises(UserError) as error:
        catalog.register(type("Bad", (Example,), {"name": "bad-one", attribute: value}))
    assert error.value.code == "invalid-plugin"
    assert "bad-one" in str(error.value)
    assert catalog.get_all() == before


def test_a_plugins_name_can_be_used_again(monkeypatch):
    for name in ("example", "example-c"):
        monkeypatch.setitem(catalog.get_all(), name, catalog.get("nnpu"))
        monkeypatch.delitem(catalog.get_all(), name)
    again = type("Again", (Example,), {"__module__": __name__})
    assert catalog.register(Example) == ["example", "example-c"]
    assert catalog.register(again) == ["example", "example-c"]
    assert catalog.get("example").cls is again


def test_plugin_files_of_one_name_in_two_folders(tmp_path, monkeypatch):
    """Each algorithm keeps its own file, whose digest is part of its runs."""
    monkeypatch.setattr(plugins, "_loaded", {})
    for name in ("one", "two"):
        file = tmp_path / name / "mine.py"
        file.parent.mkdir()
        text = "from puarena.algorithms import Algorithm\nclass Mine(Algorithm):\n"
        file.write_text(f"{text}    name, title, paper = '{name}', '', ''\n")
        monkeypatch.setitem(catalog.get_all(), name, catalog.get("nnpu"))
        monkeypatch.delitem(catalog.get_all(), name)
        assert plugins.load(file) == [name]
    for name in ("one", "two"):
        assert catalog.get(name).plugin_file == str(tmp_path / name / "mine.py")
