"""Problems whose sizes are given in place of a rate, and the CIFAR-10 problem of the literature."""

from __future__ import annotations

import numpy as np
import pytest

import puarena
from puarena import catalog, datasets
from puarena.datasets import Dataset
from puarena.experiments import suites
from puarena.experiments.plan import group, make_plan
from puarena.experiments.spec import ProblemSpec, Spec
from puarena.pu import Problem, draw_pu_data
from puarena.results import ask, open_results
from user_errors import raises_user_error


def toy(per_class=100, classes=5):
    """Four classes in ten and more for the test; every fifth example of a class is a test example."""
    labels = np.repeat(np.arange(classes), per_class)
    index = np.arange(len(labels))
    features = index[:, None].astype(np.float32)
    names = tuple(f"c{i}" for i in range(classes))
    return Dataset(
        name="toy",
        features=features,
        classes=labels,
        class_names=names,
        cases={1: (0, 1)},
        size=200,
        train=index[index % 5 > 0],
        test=index[index % 5 == 0],
        default_prior=0.4,
    )


def parts(problem, split=0, dataset=None):
    pu, hidden = draw_pu_data(dataset or toy(), problem, split)
    return (
        pu,
        hidden,
        np.concatenate([pu.p_train, pu.p_val]),
        np.concatenate([pu.u_train, pu.u_val]),
    )


def test_two_samples_of_given_sizes():
    pu, hidden, p, u = parts(Problem("toy", setting="ts", labeled=40, unlabeled=200))
    assert (len(p), len(u), len(pu.p_val), len(pu.u_val)) == (40, 200, 4, 20)
    assert pu.rate == pytest.approx(1 / 6)
    assert np.concatenate([hidden.u_train, hidden.u_val]).mean() == pu.shifted_prior == 0.4
    assert not np.isin(p, u).any()  # there are enough of every class
    assert len(pu.test) == 100  # the prior is that of the sample, so nothing is thinned


def test_u_may_be_the_whole_training_set():
    dataset = toy()
    problem = Problem("toy", setting="ts", labeled=50, unlabeled=400)
    pu, _, p, u = parts(problem, dataset=dataset)
    assert sorted(u) == sorted(dataset.train)
    assert len(set(p)) == 50
    assert np.isin(p, u).all()
    assert not np.isin(
        pu.p_val, np.concatenate([pu.p_train, pu.u_train])
    ).any()  # nothing trained on validates
    assert not np.isin(pu.u_val, np.concatenate([pu.p_train, pu.u_train])).any()
    share = [parts(problem, split)[1].u_val.mean() for split in range(99)]
    assert np.mean(share) == pytest.approx(0.4, abs=0.03)


def test_no_more_than_needed_is_shared():
    _, _, p, u = parts(Problem("toy", setting="ts", labeled=100, unlabeled=300))
    assert np.isin(p, u).sum() == 100 + 0.4 * 300 - 160


def test_one_sample_of_given_sizes():
    _, hidden, p, u = parts(Problem("toy", labeled=40, unlabeled=360))
    assert (len(p), len(u)) == (40, 360)
    assert not np.isin(p, u).any()
    assert hidden.u_train.sum() + hidden.u_val.sum() == 160 - 40


@pytest.mark.parametrize("setting", ["os", "ts"])
def test_sizes_that_the_data_has_not(setting):
    with raises_user_error("missing-data", "80 training examples", "fewer"):
        parts(Problem("toy", setting=setting, labeled=100, unlabeled=900))


@pytest.mark.parametrize(
    "sizes", [{"labeled": 100}, {"unlabeled": 9, "labeled": 50}, {"labeled": 1.5, "unlabeled": 50}]
)
def test_wrong_sizes(sizes):
    with raises_user_error("invalid-value", "labeled", "at least 10"):
        Problem("toy", **sizes)
    with raises_user_error("invalid-spec", "labeled"):
        Spec(problems=[{"dataset": "digits", **sizes}])


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_sizes_and_rates_exclude_one_another(rate):
    with raises_user_error("invalid-spec", "rates", "labeled", "unlabeled"):
        Spec(problems=[{"dataset": "digits", "rates": rate, "labeled": 50, "unlabeled": 300}])


def test_a_spec_with_sizes_is_written_and_read():
    spec = Spec(problems=[{"dataset": "digits", "labeled": 50, "unlabeled": 300}])
    assert Spec(**spec.model_dump()) == spec


def test_two_sizes_that_no_table_tells_apart_are_refused():
    problems = [{"dataset": "digits", "labeled": n, "unlabeled": 9 * n} for n in (50, 100)]
    with raises_user_error("conflict", "rate 0.1", "sizes"):
        make_plan(Spec(problems=problems, algorithms=["upu"]).resolve())


def test_seeds_do_not_depend_on_sizes_that_are_not_given():
    assert set(Problem("toy").identity()) == {"dataset", "case", "setting", "rate", "prior"}


def test_sizes_from_a_spec_to_fleets():
    spec = Spec(
        problems=[
            ProblemSpec(dataset="digits", settings="ts", labeled=50, unlabeled=n)
            for n in (300, 400)
        ],
        algorithms=["nnpu"],
        splits=1,
        configs=1,
    )
    plan = make_plan(Spec.load(spec.to_dict()))
    assert [run.problem.unlabeled for run in plan.runs] == [300, 400]
    assert (
        len({run.run_id for run in plan.runs})
        == len({run.seed for run in plan.runs})
        == len(group(plan.runs))
        == 2
    )
    assert spec.hash() != spec.override(rates=[0.1]).hash()
    assert {run.problem.labeled for run in make_plan(spec.override(rates=[0.1])).runs} == {None}


def test_the_grouping_of_problems_does_not_change_the_hash():
    def sized(settings, unlabeled=300):
        return ProblemSpec(dataset="digits", settings=settings, labeled=50, unlabeled=unlabeled)

    apart = Spec(problems=[sized(["ts"]), sized(["os"])])
    assert apart.hash() == Spec(problems=[sized(["os", "ts"])]).hash()
    assert apart.hash() != Spec(problems=[sized(["os", "ts"], 400)]).hash()


def test_a_run_with_sizes_is_stored(tmp_path):
    problem = {"dataset": "digits", "settings": "ts", "labeled": 50, "unlabeled": 400}
    spec = Spec(
        problems=[problem], algorithms=["nnpu"], splits=1, configs=1, steps=4, record_every=2
    )
    puarena.run(spec, tmp_path, device="cpu", workers=1)
    rows = ask(
        open_results(tmp_path).relation(), "SELECT DISTINCT rate, n_p, n_u FROM curves"
    ).fetchall()
    assert rows == [(pytest.approx(1 / 9), 45, 360)]


def test_the_standard_problem():
    spec = suites.get("standard")
    (problem,) = {run.problem for run in make_plan(spec).runs}
    assert (problem.case, problem.setting, problem.prior) == (3, "ts", 0.4)
    assert (problem.labeled, problem.unlabeled, problem.rate) == (1000, 50_000, 1000 / 51_000)
    info = datasets.info("cifar10")
    assert [info.class_names[i] for i in info.cases[3]] == [
        "airplane",
        "automobile",
        "ship",
        "truck",
    ]
    assert (info.prior_of(1), info.prior_of(3)) == (0.5, 0.4)
    authors = {run.algorithm for run in make_plan(spec).runs if run.optimizer == "authors"}
    assert {"vpu", "dist-pu", "tedn"} <= authors


def test_all_known_is_everything_but_the_released_variants():
    known = Spec(problems=[{"dataset": "digits"}], algorithms=["all-known"]).resolve().algorithms
    paper = Spec(problems=[{"dataset": "digits"}], algorithms=["all"]).resolve().algorithms
    assert set(paper) < set(known)
    assert {"tedn", "pulda", "self-pu", "imb-pu", "pu-auc"} <= set(known) - set(paper)
    assert set(catalog.names()) - set(known) == {
        n for n in catalog.names() if catalog.get(n).variant
    }
    assert any(catalog.get(name).is_classic for name in known)
