"""Biased labels from the spec to the store, the table, the figure and the page."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bad_inputs import call
from puarena import report
from puarena.errors import UserError
from puarena.experiments import run as bench
from puarena.experiments import suites
from puarena.experiments.plan import group, make_plan
from puarena.experiments.spec import Spec
from puarena.report.bias import _bootstrap_mean, compute_bias_costs
from puarena.report.figures import draw_figure, find_figures, read_figure_data

SPEC = {
    "problems": [
        {
            "dataset": "digits",
            "rates": 0.2,
            "labeling": ["scar", "class(strength=1)", "class(strength=3)", "lbe-b"],
        }
    ],
    "algorithms": ["pn-naive", "pn-quantile", "nnpu-c", "sar-oracle", "sar-em-lr"],
    "splits": 2,
    "configs": 1,
    "steps": 60,
    "warmup": 10,
    "record_every": 20,
    "hyper": {"*": {"lr": 0.03, "batch_size": 64}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("bias") / "out"
    outcome = bench.run(Spec(**SPEC), out, device="cpu", workers=1)
    assert not outcome.failures
    return out


def test_ways_of_labeling_share_a_fleet():
    runs = make_plan(Spec(**SPEC)).runs
    fleets = group(runs)
    assert len(fleets) == len(SPEC["algorithms"])
    assert {len(fleet.runs) for fleet in fleets} == {8}


def test_columns_of_the_store(folder):
    frame = report.load(folder).df()
    ways = {"scar", "class(strength=1)", "class(strength=3)", "boundary(delta=0,power=10)"}
    assert set(frame["labeling"]) == ways
    assert frame["val_pa_ipw"].notna().all()
    biased = frame[frame["labeling"] != "scar"]
    assert frame[frame["labeling"] == "scar"]["val_label_strength"].isna().all()
    assert (biased["val_posterior_auc"] > 0.9).all()
    assert (
        biased[biased["labeling"].str.startswith("boundary")]["val_label_strength"] < -0.3
    ).all()
    scar = frame[frame["labeling"] == "scar"]
    assert (scar["val_pa_ipw"] - scar["val_pa"]).abs().max() < 1e-6


def test_tables_say_that_pa_is_biased(folder):
    tables = {item.problem.labeling: item for item in report.table(folder)}
    assert "PA is biased here" not in tables["scar"].caption()
    caption = tables["class(strength=3)"].caption()
    assert "PA is biased here" in caption
    assert "labels by class(strength=3)" in tables["class(strength=3)"].title
    assert "pa-ipw" in {column.criterion for column in tables["class(strength=3)"].columns}


def test_the_figure_and_the_page(folder, tmp_path):
    (figure,) = [figure for figure in find_figures() if figure.name == "bias"]
    (drawing,) = list(draw_figure(figure, read_figure_data(folder, metrics=["accuracy"])))
    values = next(iter(drawing.chart.to_dict()["datasets"].values()))
    points = {(v["panel"], v["strength"], v["criterion"]) for v in values}
    assert {
        ("class", 0, "PA"),
        ("class", 1, "PAUC"),
        ("class", 3, "OA"),
        ("boundary", 10, "PA-IPW"),
    } <= points
    report.write_page(folder, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "Labels that are not given at random" in page
    assert "by boundary(power=10) on digits" in page
    assert "PA is biased here" in page
    assert "Positives close to the negatives are labeled more often" in page


def test_a_page_without_biased_labels_does_not_speak_of_them(tmp_path):
    spec = Spec(
        **{**SPEC, "problems": [{"dataset": "digits"}], "algorithms": ["pn-naive"], "steps": 5}
    )
    bench.run(spec, tmp_path / "out", device="cpu", workers=1)
    report.write_page(tmp_path / "out", tmp_path / "page.html")
    assert "Labels that are not given at random</h2>" not in (tmp_path / "page.html").read_text()
    (figure,) = [figure for figure in find_figures() if figure.name == "bias"]
    (drawing,) = draw_figure(figure, read_figure_data(tmp_path / "out", metrics=["accuracy"]))
    assert "labeling" in drawing.reason


def test_suites():
    assert {"pue-c", "pn-quantile"} <= {*suites.get("bias-demo").algorithms}
    demo, whole = make_plan(suites.get("bias-demo")), make_plan(suites.get("bias-tabular"))
    ways = {run.problem.labeling.partition("(")[0] for run in demo.runs}
    assert ways == {"scar", "posterior", "boundary", "feature", "class", "property"}
    by_dataset = {}
    for run in whole.runs:
        by_dataset.setdefault(run.problem.dataset, set()).add(run.problem.labeling)
    assert {name: len(found) for name, found in by_dataset.items()} == {
        "letter": 13,
        "usps": 14,
        "digits": 14,
    }
    assert {"sar-oracle", "sar-em", "ntc-tmi", "lbe", "pusb", "pue"} <= {
        run.algorithm for run in whole.runs
    }


def test_command_line():
    show = "bias show digits --labeling"
    assert "sar-pu" in call("list mechanisms").output
    shown = call(f"{show} class(strength=2) --rate 0.1 --json")
    assert json.loads(shown.output)["labeling"] == "class(strength=2)"
    assert "labels by class: 1 " in call(f"{show} class").output
    assert "at random" in call(f"{show} class(strength=0)").output
    bad = call(f"{show} feature(feature=99)")
    assert bad.exit_code == 2
    assert "64 columns" in bad.stderr
    labeling = "posterior(power=10,strength=2),scar"
    plan = call(f"plan demo --labeling '{labeling}' --algorithms nnpu --json")
    assert json.loads(plan.output.splitlines()[-1])["runs"] == 2 * 2 * 3


def test_the_toy_shows_what_is_lost_and_recovered():
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    toy = importlib.import_module("bias_toy")
    sys.path.pop(0)
    found = toy.measure_thresholds(20_000, (0.5,), ("scar", "lbe-b", "pusb"))
    rows = {row["labeling"]: row for row in found}
    assert rows["scar"]["pa"] == pytest.approx(rows["scar"]["best"], abs=0.01)
    assert rows["lbe-b"]["pa"] < 0.80
    assert rows["lbe-b"]["pa-ipw"] == pytest.approx(rows["lbe-b"]["best"], abs=0.01)
    found = toy.measure_directions(4_000, ("scar", "feature(feature=1,strength=3)"))
    angles = {row["labeling"]: row["angle"] for row in found}
    assert abs(angles["scar"]) < 12
    assert angles["feature(feature=1,strength=3)"] > 40


def test_compute_bias_costs(folder):
    table = compute_bias_costs(folder, criterion="oa").set_index(["labeling", "method"])
    assert set(table["naive"]) == {"pn-quantile"}  # the better of two naive baselines
    assert (table.loc[(slice(None), "pn-quantile"), "gain"] == 0).all()
    assert (table.loc[(slice(None), "pn-naive"), "gain"] < 0).all()
    assert table.loc[("class", "nnpu-c"), "n"] == 4  # two strengths, two splits
    assert table.loc[("scar", "nnpu-c"), "fall"] == 0
    row = table.loc[("class", "nnpu-c")]
    assert row["gain_low"] <= row["gain"] <= row["gain_high"]
    result = call("bias verdict {f}", f=folder)
    assert result.output.startswith("| method | boundary | class | scar |")
    assert f"AUC {row['auc']:.1f}" in result.output
    with pytest.raises(UserError, match="there are 0"):
        compute_bias_costs(report.load(folder).filter("algorithm NOT LIKE 'pn-%'"))


def test_intervals_of_few_values_are_wide_enough():
    """Of 400 means of four normal values, 95% are inside; the plain bootstrap has 80%."""
    draws = np.random.default_rng(0).normal(size=(400, 4))
    low, high = np.array([_bootstrap_mean(values) for values in draws]).T
    assert 0.92 < ((low <= 0) & (high >= 0)).mean() < 0.99
    assert np.isnan(_bootstrap_mean(np.array([1.0]))).all()
