"""Guests: classifiers of other libraries as rows, named by text or by a variable of a plugin."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

import puarena
from puarena import PUClassifier, catalog, plugins
from puarena.classics import PRIOR, guests
from puarena.cli.options import split_at_commas
from puarena.errors import UserError
from puarena.experiments.plan import make_plan
from puarena.experiments.spec import Spec
from puarena.results import open_results
from tiny_suite import call, fails

LR = "sklearn:sklearn.linear_model.LogisticRegression"
PLUGIN = """from sklearn.neighbors import KNeighborsClassifier
near_ones = KNeighborsClassifier()
"""


class Foreign(ClassifierMixin, BaseEstimator):
    """A PU classifier of a foreign library: it has only decision values, and takes a prior."""

    fitted: ClassVar[list] = []

    def __init__(self, class_prior=None, random_state=None, scale=1.0):
        self.class_prior, self.random_state, self.scale = class_prior, random_state, scale

    def fit(self, X, y):
        self.fitted.append((self.class_prior, self.random_state, y.copy(), np.random.rand()))
        self.model = LogisticRegression(max_iter=200).fit(X, y)
        return self

    def decision_function(self, X):
        return self.scale * self.model.decision_function(X)

    def predict_proba(self, X):
        raise NotImplementedError("only decision values")


@pytest.fixture
def foreign(monkeypatch):
    """A module ``foreignlib`` with an estimator, a function, and a class that is no classifier."""
    module = ModuleType("foreignlib")
    module.Foreign, module.helper, module.Plain = Foreign, print, type("Plain", (), {})
    monkeypatch.setitem(sys.modules, "foreignlib", module)
    monkeypatch.setattr(Foreign, "fitted", [])
    return module


def test_a_guest_is_a_row_that_is_fitted_to_observed_labels(foreign, tmp_path):
    name = "sklearn:foreignlib.Foreign(class_prior=unlabeled_prior, scale=2)"
    spec = Spec(
        problems=[{"dataset": "digits"}],
        algorithms=[name, "naive-lr"],
        splits=1,
        configs=1,
    )
    puarena.run(spec, out=tmp_path, workers=1)
    rows = puarena.load(tmp_path).df().set_index("algorithm")
    full_name = "sklearn:foreignlib.Foreign(class_prior=unlabeled_prior, scale=2)"
    assert rows.loc[full_name, "test_accuracy"] > 0.6
    assert rows.loc[full_name, "test_auc"] > 0.9
    prior, seed, labels, _ = Foreign.fitted[0]
    n_p, n_u = int(rows.loc[full_name, "n_p"]), int(rows.loc[full_name, "n_u"])
    rate = n_p / (n_p + n_u)
    assert prior == pytest.approx((0.5 - rate) / (1 - rate), abs=0.01)
    assert isinstance(seed, int)
    assert (labels == np.repeat([1, 0], [n_p, n_u])).all()
    facts = {each["name"]: each for each in open_results(tmp_path).info.methods}
    assert facts[full_name]["origin"] == "guest"


def test_a_guest_that_draws_from_the_global_generator_repeats(foreign):
    state = np.random.get_state()[1].copy()
    x = np.random.default_rng(0).normal(size=(40, 2))
    for _ in range(2):
        model = catalog.get("sklearn:foreignlib.Foreign").make_estimator(7)
        model.fit(x, np.repeat([1, 0], 20))
    first, second = Foreign.fitted
    assert first[1] == second[1]
    assert first[3] == second[3]
    assert (np.random.get_state()[1] == state).all()


def test_one_guest_has_one_name():
    texts = [f"{LR}(max_iter=50,C=2.0)", f"{LR}( C = 2.0, max_iter=50)"]
    names = {catalog.get(text).name for text in texts}
    assert names == {f"{LR}(C=2.0, max_iter=50)"}
    assert catalog.get(f"{LR}()").name == LR
    spec = Spec(problems=[{"dataset": "digits"}], algorithms=texts, splits=1, configs=1)
    assert len({run.algorithm for run in make_plan(spec).runs}) == 1


def test_estimators_are_made_of_estimators():
    name = (
        "sklearn:sklearn.pipeline.Pipeline(steps=[('scale', "
        "sklearn.preprocessing.StandardScaler), ('fit', "
        "sklearn.linear_model.LogisticRegression(C=-(-0.5)))])"
    )
    prototype = guests.read_guest(name)[1]
    assert prototype.named_steps["fit"].C == 0.5
    assert list(prototype.named_steps) == ["scale", "fit"]


@pytest.mark.parametrize(
    "text, code, token",
    [
        ("nolib.Model()", "missing-dependency", "nolib"),
        ("sklearn.linear_model.LogistcRegression()", "unknown-name", "'LogisticRegression'"),
        ("sklearn.linear_model.LogisticRegression(max_itr=3)", "unknown-name", "'max_iter'"),
        ("sklearn.linear_model.LogisticRegression(3)", "invalid-value", "no name"),
        ("sklearn.linear_model.LogisticRegression(C=other)", "invalid-value", "'other'"),
        ("sklearn.linear_model.LogisticRegression(**{'C': 1})", "invalid-value", "no name"),
        ("sklearn.preprocessing.StandardScaler()", "invalid-value", "StandardScaler"),
        ("foreignlib.Plain()", "invalid-value", "foreignlib.Plain"),
        ("foreignlib.helper(sep='')", "invalid-value", "foreignlib.helper"),
        ("os.system(command='false')", "invalid-value", "os.system"),
        ("sklearn.linear_model.LogisticRegression(C=open('x'))", "invalid-value", "open"),
        ("sklearn.linear_model.LogisticRegression(C=[x for x in 'a'])", "invalid-value", "read"),
        ("sklearn.multiclass.OneVsRestClassifier()", "invalid-value", "estimator"),
        ("LogisticRegression()", "invalid-value", "LogisticRegression"),
        ("(", "invalid-value", "sklearn:("),
        ("", "invalid-value", "sklearn:"),
    ],
)
def test_what_is_no_guest_is_one_sentence(foreign, text, code, token):
    with pytest.raises(UserError) as caught:
        catalog.get(f"sklearn:{text}")
    assert caught.value.code == code
    assert token in str(caught.value)


def test_nothing_of_a_name_is_evaluated(foreign):
    calls = []
    foreign.helper = calls.append
    with pytest.raises(UserError):
        catalog.get("sklearn:foreignlib.Foreign(scale=foreignlib.helper(object=1))")
    assert not calls


def test_a_plugin_of_two_lines(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN)
    out = tmp_path / "results"
    options = ["--splits", "1", "--datasets", "digits", "--cases", "1"]
    result = call(
        "run", "demo", "--plugin", file, "--algorithms", "near-ones", *options, "--out", out
    )
    assert result.exit_code == 0, result.output
    rows = puarena.load(out).df()
    assert set(rows.algorithm) == {"near-ones"}
    assert rows.test_auc.min() > 0.6
    # Another file gives other runs.
    before = make_plan(Spec(problems=[{"dataset": "digits"}], algorithms=["near-ones"])).runs[0]
    file.write_text(PLUGIN.replace("KNeighborsClassifier()", "KNeighborsClassifier(n_neighbors=9)"))
    plugins.load(file)
    after = make_plan(Spec(problems=[{"dataset": "digits"}], algorithms=["near-ones"])).runs[0]
    assert before.run_id != after.run_id


def test_another_version_of_a_library_gives_other_runs(monkeypatch):
    spec = Spec(problems=[{"dataset": "digits"}], algorithms=[LR], splits=1)
    before = make_plan(spec).runs[0]
    monkeypatch.setattr(guests, "name_library", lambda prototype: "scikit-learn 99.0")
    assert make_plan(spec).runs[0].run_id != before.run_id


def test_commands_know_guests(tmp_path):
    result = call("explain", f"{LR}(C=3.0)")
    assert "scikit-learn" in result.stdout
    assert "LogisticRegression(C=3.0)" in result.stdout
    assert "nolib" in fails("plan", "demo", "--algorithms", "nnpu,sklearn:nolib.Model(a=1,b=2)")
    assert "fitted at once" in fails("check", LR)


def test_a_guest_is_not_wrapped_again():
    with pytest.raises(UserError) as caught:
        PUClassifier(LR).fit(np.eye(20), np.repeat([1, 0], 10))
    assert caught.value.code == "not-supported"


def test_a_prior_is_printed_as_it_is_written():
    assert catalog.describe_guest("x", Foreign(class_prior=PRIOR)).needs_prior
    assert guests.print_guest(Foreign(class_prior=PRIOR)) == "Foreign(class_prior=prior)"


@pytest.mark.parametrize(
    "text, parts",
    [
        ("a,b", ["a", "b"]),
        ("a(x=1,y=2),b", ["a(x=1,y=2)", "b"]),
        ("a(x=1, y=b(z=[1,2], w='),')),c", ["a(x=1, y=b(z=[1,2], w='),'))", "c"]),
        ("it's,b", ["it's", "b"]),
    ],
)
def test_lists_are_split_outside_of_brackets(text, parts):
    assert split_at_commas(text) == parts
