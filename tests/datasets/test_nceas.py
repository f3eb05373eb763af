"""Species: presences, background and surveys of a region, made up in the form of the real files."""

import os

import numpy as np
import pandas as pd
import pytest

from puarena import datasets, report
from puarena.datasets import download
from puarena.errors import UserError
from puarena.experiments import run as bench
from puarena.experiments.spec import Spec
from puarena.pu import Problem, draw_pu_data

rdata = pytest.importorskip("rdata")
REAL_DATA = os.environ.get(download.DATA_VARIABLE)
SWISS = {"swi01": 40, "swi02": 12, "swi03": 50, "swi04": 35}  # presences


def make_places(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "siteid": np.arange(n),
            "x": rng.normal(size=n),
            "y": rng.normal(size=n),
            "degree": 10 + 3 * rng.normal(size=n),
            "calc": rng.integers(0, 3, n),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Switzerland with four species; no checksum of its files is known."""
    monkeypatch.setenv(download.DATA_VARIABLE, str(tmp_path))
    (tmp_path / "nceas").mkdir()
    seen = make_places(sum(SWISS.values()), 1)
    seen["spid"] = np.repeat(np.array(list(SWISS), object), list(SWISS.values()))
    survey = make_places(200, 2)
    found = survey[["siteid", "x", "y"]].copy()
    found["swi01"] = (survey["degree"] > 11).astype(int)
    found["swi02"] = found["swi01"]
    found["swi03"] = (np.arange(200) < 3).astype(int)
    files = {
        "train_po": seen,
        "train_bg": make_places(300, 3).assign(occ=0),
        "test_env": survey,
        "test_pa": found,
    }
    for part, frame in files.items():
        frame.index = pd.RangeIndex(1, len(frame) + 1)  # as R numbers rows
        rdata.write_rds(tmp_path / "nceas" / f"SWI{part}.rds", frame)
    datasets._load_built_in.cache_clear()
    yield tmp_path
    datasets._load_built_in.cache_clear()


def test_a_region_is_read(folder):
    data = datasets.load("nceas-swi")
    assert data.features.shape == (300 + 137 + 200, 1 + 3)  # a number, and three categories
    assert list(data.observed) == [1]
    labels = data.observed[1]
    pu, hidden = draw_pu_data(
        data, Problem("nceas-swi", 1, "ts", labels.rate, data.prior_of(1), "observed"), 0
    )
    assert len(pu.p_train) + len(pu.p_val) == 40
    assert len(pu.u_train) + len(pu.u_val) == 300
    assert len(pu.test) == 200
    # The survey's temperature decides about this species.
    assert (
        data.features[pu.test[hidden.test], 0].min() > data.features[pu.test[~hidden.test], 0].max()
    )
    assert np.isnan(pu.prior)
    assert set(np.round(data.features[:, 1:].std(0), 1)) == {1.0}


@pytest.mark.parametrize(("case", "word"), [(2, "12"), (3, "3 of 200"), (4, "swi04"), (5, "swi05")])
def test_species_without_enough_data_are_refused(folder, case, word):
    with pytest.raises(UserError) as error:
        datasets.load("nceas-swi").positive(case)
    assert error.value.code == "missing-data"
    assert word in str(error.value)


def test_a_region_that_somebody_points_to_runs(folder, tmp_path):
    spec = Spec(
        problems=[{"dataset": "nceas-swi"}],
        algorithms=["nnpu", "maxent"],
        splits=1,
        configs=1,
        steps=20,
        record_every=10,
        warmup=10,
    )
    outcome = bench.run(spec, tmp_path / "out", device="cpu", workers=1, progress=False)
    assert not outcome.failures
    frame = report.load(tmp_path / "out").df()
    assert set(frame["setting"]) == {"ts"}
    assert frame["test_auc"].notna().all()
    assert frame["prior"].isna().all()


def test_a_damaged_file_is_refused(folder):
    (folder / "nceas" / "SWItest_pa.rds").write_bytes(b"RDX3 and no more")
    with pytest.raises(UserError) as error:
        datasets.load("nceas-swi")
    assert error.value.code == "damaged-file"
    assert "SWItest_pa.rds" in str(error.value)


def test_a_file_without_checksum_is_not_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv(download.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.delenv(download.DATA_VARIABLE, raising=False)
    with pytest.raises(UserError) as error:
        datasets.load("nceas-sa")
    assert error.value.code == "missing-file"
    assert download.DATA_VARIABLE in str(error.value)


@pytest.mark.skipif(not REAL_DATA, reason="set PUARENA_DATA to a folder with nceas/")
@pytest.mark.parametrize(("region", "species"), [("awt", 31), ("nsw", 27), ("nz", 32)])
def test_real_regions(region, species):
    name = f"nceas-{region}"
    assert {file.status for file in datasets.verify(name)} == {"ok"}
    data = datasets.load(name)
    assert len(data.observed) == species
    assert data.features.shape == (datasets.info(name).examples, *datasets.info(name).shape)
    for labels in data.observed.values():
        assert len(labels.unlabeled) == 10_000
        assert len(labels.labeled) >= 30
        assert 5 <= labels.truth[labels.test].sum() <= len(labels.test) - 5
