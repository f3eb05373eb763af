"""Runs and their identities, and how they are stacked into fleets."""

from __future__ import annotations

import dataclasses

import pytest

from puarena.errors import UserError
from puarena.experiments.plan import group, make_plan
from puarena.experiments.spec import Spec


def plan_of(dataset="digits", algorithms=("upu", "upu-c"), **values):
    problem = {
        key: values.pop(key) for key in ("cases", "settings", "rates", "priors") if key in values
    }
    defaults = {"splits": 2, "configs": 3, "steps": 20}
    return make_plan(
        Spec(
            problems=[{"dataset": dataset, **problem}],
            algorithms=algorithms,
            **{**defaults, **values},
        )
    )


def test_counts():
    plan = plan_of(cases=[1, 2], rates=[0.2, 0.3])
    assert len(plan.runs) == 2 * 2 * 2 * 2 * 3
    assert len(set(plan.run_ids)) == len(plan.runs)
    assert len({run.seed for run in plan.runs}) == len(plan.runs)
    assert all(0 <= run.seed < 2**63 for run in plan.runs)


def test_identity_holds_what_changes_numbers_and_nothing_else():
    ids = plan_of().run_ids
    assert ids == plan_of(title="another title", description="words", name="x").run_ids
    assert (
        ids == plan_of(priors=[0.5]).run_ids == plan_of(priors=[None, 0.5]).run_ids
    )  # the default, by its number
    assert (
        ids[0] in plan_of(splits=1, configs=1).run_ids
    )  # how many others there are does not matter
    for change in (
        {"steps": 30},
        {"record_every": 10},
        {"seed": 1},
        {"rates": [0.2]},
        {"priors": [0.4]},
        {"settings": ["ts"]},
        {"hyper": {"upu": {"lr": 0.1}}},
    ):
        assert ids[0] not in plan_of(**change).run_ids, change
    plain, calibrated = (plan_of(calibration="batch-union").run_ids[k::6] for k in (0, 6))
    assert plain[0] in ids  # a plain run is not calibrated in either form
    assert not set(calibrated[:1]) & set(ids)
    run = plan_of().runs[0]
    assert dataclasses.replace(run, lr=run.lr * 2).run_id != run.run_id


def test_looking_closer_does_not_change_the_training():
    assert [run.seed for run in plan_of().runs] == [
        run.seed for run in plan_of(steps=50, record_every=5).runs
    ]


def test_identities_are_the_same_tomorrow():
    """Resuming depends on it: folders whose runs have other ids are not continued."""
    plan = plan_of()
    assert (plan.runs[0].run_id, plan.runs[0].seed) == ("fb9ee80b6cb86728", 7030809277652917679)
    assert plan.spec.hash() == "6ab6daee0e61bdca"


def test_shared_and_per_split_draws():
    shared = {(run.config, run.lr, run.batch_size) for run in plan_of(draws="shared").runs}
    assert len(shared) == 3
    apart = {(run.split, run.config, run.lr) for run in plan_of().runs}
    assert len({lr for _, config, lr in apart if config == 1}) == 2
    assert {lr for _, config, lr in apart if config == 0} == {1e-3}


def test_calibrated_in_two_samples_is_left_out_with_a_note():
    plan = plan_of(settings=["os", "ts"])
    assert {run.algorithm for run in plan.runs if run.problem.setting == "ts"} == {"upu"}
    assert len(plan.notes) == 1
    assert "upu-c" in plan.notes[0]
    with pytest.raises(UserError, match="upu-c") as error:
        plan_of(algorithms=["upu-c"], settings=["ts"])
    assert error.value.code == "invalid-spec"


def test_fixed_hyperparameters():
    plan = plan_of(algorithms=["upu"], hyper={"upu": {"lr": 0.5, "batch_size": 8}})
    assert {(run.lr, run.batch_size) for run in plan.runs} == {(0.5, 8)}
    plan = plan_of(hyper={"*": {"lr": 0.5}, "upu": {"lr": 0.1}})
    assert {(run.algorithm, run.lr) for run in plan.runs} == {("upu", 0.1), ("upu-c", 0.5)}


def test_fleets_hold_what_has_equal_shapes():
    plan = plan_of(cases=[1, 2], algorithms=["upu", "upu-c", "nnpu"], configs=4)
    fleets = group(plan.runs, 64)
    assert sorted(run.run_id for fleet in fleets for run in fleet.runs) == sorted(plan.run_ids)
    upu = [fleet for fleet in fleets if fleet.first.algorithm.startswith("upu")]
    assert len(upu) == len({run.batch_size for run in plan.runs})
    for fleet in upu:  # both cases, all splits, plain and calibrated travel together
        assert {run.algorithm for run in fleet.runs} == {"upu", "upu-c"}
        assert {run.problem.case for run in fleet.runs} == {1, 2}
        assert len({run.batch_size for run in fleet.runs}) == 1
    assert [fleet.fleet_id for fleet in fleets] == [
        fleet.fleet_id for fleet in group(plan.runs, 64)
    ]
    assert sum(fleet.steps for fleet in fleets) == 20 * len(plan.runs)


def test_two_sample_cases_have_their_own_fleets():
    fleets = group(plan_of(cases=[1, 2], settings=["ts"], algorithms=["upu"]).runs, 64)
    assert all(len({run.problem.case for run in fleet.runs}) == 1 for fleet in fleets)


def test_fleets_are_capped_evenly():
    plan = plan_of(algorithms=["upu"], configs=1, splits=10)
    assert [len(fleet.runs) for fleet in group(plan.runs, 4)] == [3, 3, 4]
    assert [len(fleet.runs) for fleet in group(plan.runs, 10)] == [10]
