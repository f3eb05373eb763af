"""A spec: reading it, changing it by filters, and what it says about mistakes."""

from __future__ import annotations

import pytest

from puarena.errors import UserError
from puarena.experiments import suites
from puarena.experiments.spec import Spec
from puarena.utils.identity import file_digest

SMALL = {"problems": [{"dataset": "digits"}], "algorithms": ["nnpu"]}


def small(**values) -> Spec:
    return Spec(**{**SMALL, **values})


@pytest.mark.parametrize(
    "values, code, tokens",
    [
        ({"algoritms": ["nnpu"]}, "unknown-name", ["'algoritms'", "'algorithms'"]),
        ({"problems": {"dataset": "digits", "rate": 0.3}}, "unknown-name", ["rate'", "'rates'"]),
        ({"problems": {"dataset": "digits", "rates": [1.5]}}, "invalid-spec", ["rates", "1.5"]),
        ({"problems": {"dataset": "digits", "rates": True}}, "invalid-spec", ["rates", "True"]),
        ({"problems": {"dataset": "digits", "rates": []}}, "invalid-spec", ["rates"]),
        ({"problems": {"dataset": "digits", "priors": [0.3, 1]}}, "invalid-spec", ["priors"]),
        ({"problems": {"dataset": "digits", "priors": 0}}, "invalid-spec", ["priors", "0"]),
        (
            {"problems": [{"dataset": "digits", "settings": ["one_sample"]}]},
            "unknown-name",
            ["problems[0].settings[0]", "'one_sample'", "'one-sample'"],
        ),
        ({"problems": [{"cases": [1]}]}, "invalid-spec", ["problems[0].dataset"]),
        ({"problems": []}, "invalid-spec", ["'problems'"]),
        ({"problems": "digits"}, "invalid-spec", ["problems[0]", "'digits'"]),
        ({"problems": {"dataset": 3}}, "invalid-spec", ["problems[0].dataset", "3"]),
        ({"splits": 1.5}, "invalid-spec", ["'splits'", "1.5"]),
        ({"draws": "persplit"}, "invalid-spec", ["'draws'", "'persplit'", "'per-split'"]),
        ({"splits": 0}, "invalid-spec", ["'splits'", "0"]),
        ({"splits": True}, "invalid-spec", ["'splits'", "True"]),
        ({"steps": "many"}, "invalid-spec", ["'steps'", "'many'"]),
        ({"profile": "release"}, "invalid-spec", ["'profile'", "'released'"]),
        ({"precision": "half"}, "invalid-spec", ["'precision'", "'half'", "'bf16'"]),
        ({"prior_source": "estimate:bbf"}, "unknown-name", ["estimate:bbf", "'estimate:bbe'"]),
        ({"hyper": {"upu": {"lr": -1}}}, "invalid-spec", ["hyper.upu.lr", "-1"]),
        ({"hyper": {"*": {"batch_size": 1.5}}}, "invalid-spec", ["hyper.*.batch_size", "1.5"]),
    ],
)
def test_a_mistake_names_its_key_and_value(values, code, tokens):
    with pytest.raises(UserError) as error:
        small(**values)
    message = str(error.value)
    assert error.value.code == code
    assert "\n" not in message
    for token in tokens:
        assert token in message


@pytest.mark.parametrize(
    "values, code, tokens",
    [
        ({"algorithms": ["nnppu"]}, "unknown-name", ["'nnppu'", "'nnpu'"]),
        ({"problems": [{"dataset": "digit"}]}, "unknown-name", ["'digit'", "'digits'"]),
        ({"problems": [{"dataset": "nowhere/my.yaml"}]}, None, ["my.yaml"]),
        ({"network": "mpl"}, "unknown-name", ["'mpl'", "'mlp'"]),
        ({"hyper": {"nnpuu": {"lr": 0.1}}}, "unknown-name", ["'nnpuu'"]),
        ({"hyper": {"*": {"beta": 0.1}}}, "unknown-name", ["'beta'"]),
        ({"hyper": {"nnpu": {"bta": 1}}}, "unknown-name", ["nnpu", "'bta'"]),
        ({"hyper": {"nnpu": {"beta": "high"}}}, "invalid-value", ["beta", "'high'"]),
        ({"hyper": {"nnpu": {"beta": -1}}}, "invalid-value", ["beta", "-1"]),
        ({"hyper": {"cvir": {"unlabeled_prior": "p"}}}, "unknown-name", ["'p'", "'pi'"]),
        ({"plugins": ["nowhere.py"]}, None, ["nowhere.py"]),
    ],
)
def test_a_mistake_that_needs_the_catalog(values, code, tokens):
    with pytest.raises(UserError) as error:
        small(**values).resolve()
    assert code in (None, error.value.code)
    for token in tokens:
        assert token in str(error.value)


def test_unknown_suite_and_file(tmp_path):
    with pytest.raises(UserError, match=r"'tabula'.*'tabular'") as error:
        suites.load("tabula")
    assert error.value.code == "unknown-name"
    with pytest.raises(UserError, match=r"none\.yaml"):
        Spec.load(tmp_path / "none.yaml")
    for text in ("problems: [", "just words", "- a"):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(UserError, match=r"bad\.yaml"):
            Spec.load(str(tmp_path / "bad.yaml"))


def test_yaml_and_what_lies_beside_it(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "algorithms: nnpu\nplugins: method.py\nsteps: 50\n"
        "problems:\n  - {dataset: digits, rates: 0.2}\n  - dataset: own/table.yaml\n"
    )
    spec = Spec.load(file)
    assert (spec.name, spec.algorithms, spec.steps) == ("mine", ("nnpu",), 50)
    assert spec.plugins == (str(tmp_path / "method.py"),)
    assert [problem.dataset for problem in spec.problems] == [
        "digits",
        str(tmp_path / "own/table.yaml"),
    ]
    assert spec.problems[0].rates == (0.2,)


def test_filters_replace_what_the_spec_has_not():
    spec = suites.get("tabular").override(
        datasets=["digits"],
        priors=[0.3],
        settings=["ts"],
        cases=[2],
        algorithms=["upu"],
        splits=1,
        steps=None,
    )
    assert [problem.dataset for problem in spec.problems] == ["digits"]
    assert (spec.problems[0].priors, spec.problems[0].settings, spec.problems[0].cases) == (
        (0.3,),
        ("ts",),
        (2,),
    )
    assert (spec.algorithms, spec.splits, spec.configs, spec.steps) == (("upu",), 1, 10, 20_000)
    with pytest.raises(UserError, match="priors"):
        spec.override(priors=[1.0])


def test_filters_keep_what_the_spec_has():
    spec = suites.get("label-shift").override(rates=[0.3, 0.5])
    kept = [(problem.dataset, problem.settings, problem.rates) for problem in spec.problems]
    assert kept == [
        ("letter", ("os",), (0.3, 0.5)),
        ("letter", ("ts",), (0.3,)),  # the data cannot supply 50%
        ("usps", ("os", "ts"), (0.3, 0.5)),
        ("cifar10", ("os", "ts"), (0.3, 0.5)),
        ("imagenette", ("os", "ts"), (0.3, 0.5)),
    ]
    assert [p.dataset for p in spec.override(datasets=["usps"]).problems] == ["usps"]
    assert [p.rates for p in spec.override(datasets=["letter"], rates=[0.5]).problems] == [(0.5,)]


def test_hash_is_about_content():
    spec = small(algorithms=["nnpu", "upu"])
    assert spec.hash() == small(algorithms=["upu", "nnpu"], title="other words", name="x").hash()
    assert spec.hash() != small(algorithms=["nnpu"]).hash()
    assert spec.hash() != spec.override(steps=10).hash()
    assert spec.hash() != spec.override(precision="bf16").hash()
    assert Spec.load(spec.to_dict()) == spec


def test_differences():
    spec = small()
    assert not spec.differences(small(name="other", title="other words"))
    assert not spec.differences(small(draws="per-split", calibration="weighted"))  # the profile's
    released = small(profile="released", steps=5)
    assert spec.differences(released) == {
        "profile": ("definition", "released"),
        "calibration": ("weighted", "batch-union"),
        "steps": (20_000, 5),
    }
    assert not spec.differences(small(algorithms=["upu"], splits=1), {"algorithms", "splits"})


def test_all_means_built_in_and_named_plugins(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from puarena.algorithms import Algorithm, logistic\n"
        "class Mine(Algorithm):\n"
        "    name, title, paper = 'spec-test', 'Mine', 'me'\n"
        "    def objective(self, f_p, f_u):\n"
        "        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)\n"
    )
    everything = small(algorithms=["all"], plugins=[str(plugin)]).resolve().algorithms
    assert {"pn-oracle", "nnpu", "nnpu-c", "spec-test"} <= set(everything)
    assert not any("@" in name for name in everything)
    assert "spec-test" not in small(algorithms="all").resolve().algorithms
    assert small().override(plugins=[str(plugin)]).algorithms == ("nnpu", "spec-test")
    before = small(plugins=[str(plugin)]).hash()
    plugin.write_text(plugin.read_text() + "# changed\n")
    assert small(plugins=[str(plugin)]).hash() != before


def test_suites_say_what_they_are():
    paper = ["tabular", "tabular-standardised", "images", "paper", "label-shift"]
    others = ["bias-demo", "bias-tabular", "standard", "tables", "tables-standardised"]
    others += ["wild", "wild-demo"]
    assert suites.names() == ["demo", *paper, *others]
    for name in suites.names():
        assert suites.get(name).description.endswith((".", ")"))
        suites.get(name).resolve()


def test_what_a_plugin_imports_is_part_of_the_spec(tmp_path):
    from puarena import plugins

    plugin, helper, deeper = (
        tmp_path / "mine.py",
        tmp_path / "helper.py",
        tmp_path / "tools" / "__init__.py",
    )
    plugin.write_text("import helper\nimport os\nraise SystemExit('never run for this')")
    alone = plugins.digest_of(plugin)
    assert alone == file_digest(plugin)
    helper.write_text("from tools import x")
    deeper.parent.mkdir()
    deeper.write_text("x = 1")
    assert set(plugins.list_files(plugin)) == {plugin, helper, deeper}
    before = small(plugins=[str(plugin)]).hash()
    deeper.write_text("x = 2")
    assert small(plugins=[str(plugin)]).hash() != before
