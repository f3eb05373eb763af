"""Experiments on images: suites, networks and precision, fleets, estimates of time, reports."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import puarena
from puarena import catalog, datasets, training
from puarena.cli import app, methods
from puarena.datasets import Dataset, DatasetInfo, Views
from puarena.experiments import duration, suites
from puarena.experiments.executors import gpu, local
from puarena.experiments.executors.base import ExecutorOptions
from puarena.experiments.plan import group, make_plan
from puarena.experiments.spec import Spec
from puarena.experiments.worker import FleetUpdate
from puarena.report import table, write_page
from puarena.report.compare import compare, read_published
from puarena.report.figures import draw_figure, find_figures, read_figure_data
from sample_results import records

SIDE = 8
PLAIN = datasets.views_of("cifar10", "").evaluation  # a view that only makes numbers of bytes
TINY = {"splits": 1, "configs": 1, "steps": 2, "record_every": 1, "hyper": {"*": {"batch_size": 4}}}


@pytest.fixture
def tiny(monkeypatch):
    """A dataset of 8x8 images in two classes, dark and bright."""
    bright = np.arange(160) % 2
    rng = np.random.default_rng(0)
    images = (
        rng.integers(0, 100, (160, 3, SIDE, SIDE)) + 150 * bright[:, None, None, None]
    ).astype(np.uint8)
    known = dict.fromkeys(("title", "description", "license", "citation"), "")
    info = DatasetInfo(
        name="tiny",
        urls=(),
        files=(),
        examples=160,
        class_names=("dark", "bright"),
        shape=(3, SIDE, SIDE),
        kind="image",
        network="resnet32",
        cases={1: (1,), 2: (0,)},
        size=80,
        views=lambda: {"": Views(PLAIN, PLAIN, PLAIN)},
        **known,
    )
    dataset = Dataset(
        name="tiny",
        features=images,
        classes=bright.astype(np.int64),
        class_names=info.class_names,
        cases=info.cases,
        size=info.size,
        train=np.arange(120),
        test=np.arange(120, 160),
    )
    monkeypatch.setitem(
        datasets.readers(), "tiny", SimpleNamespace(INFO=info, read=lambda folder: dataset)
    )
    yield dataset
    datasets._load_built_in.cache_clear()


def tiny_spec(**values) -> Spec:
    return Spec(**{"problems": [{"dataset": "tiny"}], "algorithms": ["nnpu"], **TINY, **values})


def images(**values) -> Spec:
    return suites.get("images").override(**values)


# suites


def test_suites(monkeypatch):
    monkeypatch.setattr(datasets, "load", lambda *given: pytest.fail("a plan needs no files"))
    whole = suites.get("images")
    assert (whole.splits, whole.configs, whole.algorithms) == (
        3,
        10,
        suites.get("tabular").algorithms,
    )
    plan = make_plan(whole.override(splits=1, configs=2))
    assert len(plan.runs) == 2 * 2 * 2 * len(plan.spec.algorithms)
    assert {
        (run.problem.setting, run.problem.rate, run.steps, run.network) for run in plan.runs
    } == {("os", 0.3, 20_000, "resnet32")}
    assert {run.batch_size for run in plan.runs if run.config == 0} == {64}
    assert {run.batch_size for run in plan.runs} <= {32, 64, 128}
    tabular, paper = (
        make_plan(suites.get(name).override(splits=1, configs=2)) for name in ("tabular", "paper")
    )
    assert set(paper.run_ids) == {*plan.run_ids, *tabular.run_ids}


def test_label_shift_has_an_image_part_that_can_be_left_out():
    spec = suites.get("label-shift").override(splits=1, configs=1, algorithms=["nnpu"])
    plan = make_plan(spec)
    for name in ("cifar10", "imagenette"):
        mine = {
            (r.problem.setting, r.problem.rate, r.problem.case)
            for r in plan.runs
            if r.problem.dataset == name
        }
        assert mine == {(s, r, c) for s in ("os", "ts") for r in suites.RATES for c in (1, 2)}
    tabular = make_plan(spec.override(datasets=["letter", "usps"]))
    assert set(tabular.sources) == {"letter", "usps"}  # nothing else is loaded


# networks and precision in a plan


def test_a_residual_network_is_for_images():
    plan = make_plan(
        suites.get("paper").override(algorithms=["nnpu"], network="resnet34", configs=1)
    )
    trained = {run.problem.dataset: run.network for run in plan.runs}
    assert trained == {
        "letter": "mlp",
        "usps": "mlp",
        "cifar10": "resnet34",
        "imagenette": "resnet34",
    }
    for note, name in zip(plan.notes, ("letter", "usps"), strict=True):
        assert all(word in note for word in ("resnet34", name, "mlp"))
    flat = make_plan(images(algorithms=["nnpu"], network="mlp", configs=1))
    assert {(run.network, run.batch_size) for run in flat.runs} == {("mlp", 128)}
    assert flat.notes == ()
    assert not set(flat.run_ids) & set(plan.run_ids)


def test_a_precision_without_a_residual_network_is_said_to_do_nothing():
    spec = suites.get("paper").override(algorithms=["nnpu"], precision="bf16", configs=1)
    assert make_plan(spec).notes == ()
    tables = make_plan(spec.override(datasets=["letter"]))
    (note,) = tables.notes
    assert "bf16" in note


def test_precision_is_about_residual_networks_only():
    spec = suites.get("paper").override(algorithms=["nnpu", "biased-lr"], configs=1, splits=1)
    before, after = make_plan(spec), make_plan(spec.override(precision="bf16"))
    for old, new in zip(before.runs, after.runs, strict=True):
        residual = old.algorithm == "nnpu" and old.problem.dataset in ("cifar10", "imagenette")
        assert new.precision == ("bf16" if residual else "float32")
        assert (old.run_id == new.run_id) is not residual
        assert old.seed == new.seed
    assert make_plan(spec.override(precision="float32")).run_ids == before.run_ids
    assert spec.override(precision="float32").hash() == spec.hash()


def test_classics_have_no_residual_network():
    ids = [
        make_plan(images(algorithms=["spies"], network=name)).run_ids
        for name in (None, "mlp", "resnet34")
    ]
    assert ids[0] == ids[1] == ids[2]


def test_what_takes_hours_on_images_is_said():
    spec = suites.get("paper").override(
        algorithms=["nnpu", "upu", "bagging-pu"], configs=2, splits=3
    )
    notes = make_plan(spec.override(prior_source=["true", "estimate:bbe"])).notes
    classic, priors = notes
    assert " 12 " in priors  # two datasets, two cases, three splits, shared by the algorithms
    assert classic.startswith("bagging-pu")
    assert "12 runs" in classic
    tables = spec.override(datasets=["letter"], prior_source=["true", "estimate:bbe"])
    assert make_plan(tables).notes == ()


# fleets


def test_fleet_sizes_by_device_and_network():
    many = {"algorithms": ["nnpu"], "configs": 1, "splits": 160}
    runs = (
        make_plan(suites.get("paper").override(**many)).runs
        + make_plan(images(network="resnet34", **many)).runs
    )
    for device, limits in (
        ("cpu", {"mlp": 64, "resnet32": 4, "resnet34": 4}),
        ("cuda", {"mlp": 320, "resnet32": 32, "resnet34": 8}),
    ):
        largest: dict[str, int] = {}
        for each in group(runs, None, device):
            largest[each.first.network] = max(largest.get(each.first.network, 0), len(each.runs))
        assert largest == limits | (
            {"mlp": 160} if device == "cuda" else {}
        )  # 320 runs: two fleets of 256 at most
    assert {len(fleet.runs) for fleet in group(runs, 10, "cuda")} == {10}


def test_precisions_do_not_share_a_fleet():
    runs = make_plan(images(algorithms=["nnpu"], configs=1)).runs
    mixed = [dataclasses.replace(run, precision="bf16") if run.split == 0 else run for run in runs]
    assert all(len({run.precision for run in fleet.runs}) == 1 for fleet in group(mixed, 64))


def test_residual_fleets_have_a_gpu_to_themselves(monkeypatch):
    fleets = group(
        make_plan(suites.get("paper").override(algorithms=["nnpu"], configs=1)).runs, device="cuda"
    )
    monkeypatch.setattr(torch.cuda, "Stream", object)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(gpu, "STREAMS", 2)
    kinds = ("mlp", "resnet32")
    assert all(sum(fleet.first.network == kind for fleet in fleets) > 1 for kind in kinds)
    for wanted, expected in ((None, {"mlp": 2, "resnet32": 1}), (1, {"mlp": 1, "resnet32": 1})):
        order, in_flight, most = [], [], dict.fromkeys(kinds, 0)

        def train(fleet, sharing, order=order, in_flight=in_flight, most=most, expected=expected):
            kind = fleet.first.network
            assert sharing == expected[kind]
            order.append(kind)
            in_flight.append(kind)
            most[kind] = max(most[kind], len(in_flight))
            assert set(in_flight) == {kind}, "each kind apart"
            yield FleetUpdate(fleet, 1)
            in_flight.remove(kind)
            yield FleetUpdate(fleet, fleet.steps, "stored")

        job = SimpleNamespace(train=train)
        updates = gpu.Streams(ExecutorOptions(wanted)).train(fleets, job)
        assert {update.fleet for update in updates if update.ending} == set(fleets)
        assert order == sorted(order), "those that fill the device come last"
        assert most == expected


# running


def test_run_and_store(tiny, tmp_path):
    outcome = puarena.run(
        tiny_spec(precision="bf16", algorithms=["nnpu", "biased-lr"]), tmp_path, device="cpu"
    )
    assert not outcome.failures
    frame = puarena.load(tmp_path).df()
    trained, fitted = (frame[frame["algorithm"] == name] for name in ("nnpu", "biased-lr"))
    assert (set(trained["network"]), set(fitted["network"])) == ({"resnet32"}, {"mlp"})
    assert list(trained["step"]) == [1, 2]
    assert (set(trained["precision"]), set(fitted["precision"])) == ({"bf16"}, {"float32"})
    assert fitted["test_accuracy"].item() > 0.9  # the classes differ in brightness


def test_fleets_compute_in_the_precision_of_the_plan(tiny, tmp_path, monkeypatch):
    seen = []

    def make(rows, config, *given, **named):
        seen.append((config.network, config.precision))
        return training.engine.Fleet(rows, config, *given, **named)

    monkeypatch.setattr(training, "Fleet", make)
    for name, precision in (("a", "bf16"), ("b", "float32")):
        puarena.run(tiny_spec(precision=precision), tmp_path / name, device="cpu")
    assert seen == [("resnet32", "bf16"), ("resnet32", "float32")]


def test_an_estimated_prior_on_images(tiny, tmp_path):
    outcome = puarena.run(
        tiny_spec(prior_source=["estimate:elkan-noto"], network="mlp"), tmp_path, device="cpu"
    )
    assert not outcome.failures
    frame = puarena.load(tmp_path).df()
    assert set(frame["network"]) == {"mlp"}
    priors = frame["prior_used"].tolist()
    assert len(priors) == 2
    assert 0.3 < priors[0] == priors[1] < 0.8


def test_images_as_a_table(tiny):
    index = np.array([5, 0])
    x = tiny.table(index)
    assert (x.shape, x.dtype) == ((2, 3 * SIDE * SIDE), np.float32)
    np.testing.assert_allclose(x[0, :SIDE] * 255, tiny.features[5, 0, 0], rtol=1e-6)
    cropped = dataclasses.replace(tiny, evaluation=tiny.features[:, :, 1:-1, 1:-1].copy())
    assert cropped.table(index)[1, 0] == pytest.approx(tiny.features[0, 0, 1, 1] / 255)
    digits = datasets.load("digits")
    np.testing.assert_array_equal(digits.table(index), digits.features[index])


# estimates


def shape(**changes) -> duration.Shape:
    views = Views(PLAIN, PLAIN, PLAIN)
    known = duration.Shape((3, SIDE, SIDE), 600, 1400, 500, 64, "resnet32", views=views)
    return dataclasses.replace(known, **changes)


def test_a_probe_on_images_is_small_and_tables_are_probed_as_they_are():
    small, runs = duration.shrink(shape(), 4, "cpu")
    assert runs * small.batch_size < 20
    assert small.evaluated < 20
    assert small.n_p - small.n_p // 10 >= small.batch_size
    assert len({duration.shrink(shape(batch_size=b), 4, "cpu")[0] for b in (32, 64, 128)}) == 1
    flat = shape(features=(16,), network="mlp")
    assert duration.shrink(flat, 100, "cpu") == (flat, 12)


def test_a_probe_trains_the_real_thing(monkeypatch):
    seen = []
    real = training.Fleet

    def make(rows, config, features, evaluation=None):
        seen.append((config, features, evaluation))
        return real(rows, config, features, evaluation)

    monkeypatch.setattr(training, "Fleet", make)
    speed = duration.measure_speed(shape(precision="bf16"), 4, "cpu")
    assert 0 < speed.slow <= speed.usual <= speed.fast
    ((config, features, evaluation),) = seen
    assert (config.network, config.precision, features.dtype) == ("resnet32", "bf16", np.uint8)
    assert (features.shape[1:], evaluation) == ((3, SIDE, SIDE), None)


def test_cost_in_proportion(tiny, monkeypatch):
    monkeypatch.setattr(duration, "measure_speed", lambda *given: duration.Speed(5, 10, 20))
    monkeypatch.setattr(duration, "shape_of", lambda *given: shape())
    hyper = {"*": {"batch_size": 64}}
    plan = make_plan(tiny_spec(steps=1000, record_every=100, hyper=hyper, splits=4))
    (fleet,) = group(plan.runs, device="cpu")
    (seconds,) = duration.estimate_fleets(plan, [fleet], "cpu")
    low, usual, high = (each - duration.STORE_SECONDS for each in seconds)
    cost = catalog.get(fleet.first.algorithm).cost
    work = 4 * (1000 * 3 * 2 * 64 * cost + 10 * (60 + 140 + 500))
    assert [low, usual, high] == pytest.approx([work / 20, work / 10, work / 5])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_estimate_without_files(device, monkeypatch):
    """With made-up speeds: what is added up; a GPU gains nothing from residual fleets at once."""
    monkeypatch.setattr(datasets, "load", lambda *given: pytest.fail("an estimate needs no files"))
    monkeypatch.setattr(duration, "choose_device", lambda name: name)
    # It draws problems whose files are here.
    monkeypatch.setattr(duration, "check_problems", lambda *given: None)
    probed = []

    def measure(shape, runs, device, seconds):
        probed.append(shape)
        return duration.Speed(1e5, 1e5, 1e5)

    monkeypatch.setattr(duration, "measure_speed", measure)
    plan = make_plan(images(algorithms=["nnpu"], configs=1))
    found = duration.summarize(plan, device)
    assert {shape.stored for shape in probed} == {None, (3, 73, 73)}
    work = sum(20_000 * 3 * 2 * run.batch_size for run in plan.runs) / 1e5
    at_once = 1 if device == "cuda" else min(local.count_cores(), found["fleets"])
    assert work / at_once <= found["seconds"] <= 1.5 * work / at_once + 10
    assert found["seconds_low"] < found["seconds"] < found["seconds_high"]
    assert (found["runs"], found["steps"]) == (12, 12 * 20_000)


# command line


def test_command_line(tiny, tmp_path):
    given = [
        "plan",
        "images",
        "--datasets",
        "tiny",
        "--algorithms",
        "nnpu",
        "--configs",
        "1",
        "--splits",
        "1",
    ]
    for network in ("mlp", "resnet32"):
        done = CliRunner().invoke(
            app, [*given, "--network", network, "--precision", "bf16", "--json"]
        )
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["runs"] == 2
    for option, value in (("--network", "resnet33"), ("--precision", "bf32")):
        done = CliRunner().invoke(app, [*given, option, value])
        assert done.exit_code == 2
        assert value in done.stderr
    ran = CliRunner().invoke(
        app,
        [
            "run",
            "demo",
            "--algorithms",
            "upu",
            "--network",
            "resnet32",
            "--steps",
            "2",
            "--splits",
            "1",
            "--out",
            str(tmp_path / "out"),
            "--device",
            "cpu",
        ],
    )
    assert "resnet32 needs images: digits keeps mlp" in ran.stderr


def test_lists():
    kinds = {row["name"]: (row["kind"], row["network"]) for row in methods.list_datasets()}
    assert {name for name, what in kinds.items() if what == ("image", "resnet32")} == {
        "cifar10",
        "imagenette",
    }


# reports


def paper() -> pd.DataFrame:
    """Results on all four datasets: what was published, and the frames."""
    published = {
        k: v for k, v in read_published().items() if k[0].case == 1 and k[3:] == ("accuracy", "pa")
    }
    theirs = {(k[0].dataset, k[1] + "-c" * bool(k[2])): v[0] / 100 for k, v in published.items()}
    parts = []
    for dataset in ("letter", "imagenette", "usps", "cifar10"):
        means = {name: value for (d, name), value in theirs.items() if d == dataset}
        parts.append(
            records({"pn-oracle": 0.99, **means, "pn-naive": 0.5}, dataset=dataset, case=1)
        )
    return pd.concat(parts).assign(status="ok", device="cpu", version="0", torch="2")


def test_tables_and_comparison_of_four_datasets():
    source = paper()
    found = table(source)
    assert [t.title.split(",")[0] for t in found] == ["cifar10", "imagenette", "letter", "usps"]
    assert [len(t.rows) for t in found] == [25] * 4
    compared = compare(source, metrics="accuracy", criteria="pa")
    assert [c.problem.dataset for c in compared] == ["cifar10", "imagenette", "letter", "usps"]
    for item in compared:
        assert len(item.cells) == 23
        assert max(abs(line.difference) for line in item.cells) < 1e-6


def test_page_and_figures_of_four_datasets(tmp_path):
    source = paper()
    write_page(source, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f"{name}, case 1" in text for name in ("cifar10", "imagenette", "letter", "usps"))
    read = read_figure_data(source, ["accuracy"], ["pa"])
    drawn = {
        d.figure.name: d.chart is not None
        for figure in find_figures()
        for d in draw_figure(figure, read)
    }
    assert drawn["overall"]
    assert drawn["ranks"]
    assert drawn["learning-curves"]


def test_label_shift_figure_of_images():
    parts = [
        records(
            {"nnpu": 0.8, **({"nnpu-c": 0.9} if setting == "os" else {})},
            dataset=name,
            setting=setting,
            rate=rate,
        )
        for name in ("cifar10", "imagenette", "usps")
        for setting in ("os", "ts")
        for rate in (0.1, 0.5)
    ]
    read = read_figure_data(pd.concat(parts), ["accuracy"], ["pa"])
    (figure,) = [figure for figure in find_figures() if figure.name == "label-shift"]
    chart = next(d.chart for d in draw_figure(figure, read)).to_dict()
    drawn = pd.concat([pd.DataFrame(rows) for rows in chart["datasets"].values()])
    assert set(drawn["panel"]) == {
        f"nnpu: {name}, case 1" for name in ("cifar10", "imagenette", "usps")
    }
