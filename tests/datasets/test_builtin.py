"""The registry of built-in datasets, the official formats, and the real files if they are here."""

from __future__ import annotations

import bz2
import hashlib
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from puarena import datasets
from puarena.datasets import download
from puarena.datasets.base import Dataset
from puarena.datasets.builtin import digits, letter, usps
from puarena.errors import UserError
from puarena.pu import Problem, draw_pu_data

REAL_DATA = os.environ.get(download.DATA_VARIABLE)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and no named folder."""
    monkeypatch.setenv(download.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(download.DATA_VARIABLE, raising=False)
    datasets._load_built_in.cache_clear()
    yield
    datasets._load_built_in.cache_clear()


def test_every_dataset_is_described():
    first = ["digits", "letter", "letter-standardised", "usps", "cifar10", "imagenette"]
    tables = ["spambase", "mushroom", "magic", "adult", "connect-4", "fashion-mnist"]
    both = [name for table in tables for name in (table, f"{table}-standardised")]
    regions = ["awt", "can", "nsw", "nz", "sa", "swi"]
    observed = ["nhanes-diabetes", *(f"nceas-{region}" for region in regions)]
    assert datasets.names() == [*first, *both, *observed]
    for name in datasets.names():
        info = datasets.info(name)
        assert info.name == name
        for text in (info.title, info.description, info.license, info.citation, *info.urls):
            assert text
            assert "\n" not in text
        for case, positive in info.cases.items():
            assert 0 < len(set(positive)) < info.class_count
            assert set(positive) <= set(range(info.class_count))
            assert not info.balanced or info.prior_of(case) == len(positive) / info.class_count
        assert info.network == {"tabular": "mlp", "image": "resnet32"}[info.kind]
        assert not info.balanced or info.size % info.class_count == 0
        for file in info.files:
            assert file.url.startswith("https://")
            assert file.sha256 is None or len(file.sha256) == 64


def test_letter_cases_by_name():
    letters = letter.INFO.class_names
    names = ["".join(letters[k] for k in letter.INFO.cases[case]) for case in (1, 2)]
    assert names == ["BCHIJKLORSVWZ", "ABCDGIJLQTWYZ"]


@pytest.mark.parametrize("call", [datasets.load, datasets.info, datasets.fetch, datasets.verify])
def test_an_unknown_dataset(call):
    with pytest.raises(UserError, match="'letter'") as caught:
        call("lettre")
    assert caught.value.code == "unknown-name"


def test_digits():
    dataset = datasets.load("digits")
    assert isinstance(dataset, Dataset)
    assert dataset.features.shape == (1797, 64)
    assert dataset.features.dtype == np.float32
    assert (dataset.features.min(), dataset.features.max()) == (0, 1)
    assert list(np.bincount(dataset.classes)) == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert dataset.positive(1)[[1, 3, 5, 7, 9]].all()
    assert dataset.prior_of(1) == 0.5
    assert datasets.load("digits") is dataset
    assert datasets.verify("digits") == datasets.fetch("digits") == []
    pu, hidden = draw_pu_data(dataset, Problem("digits", 1, "os", 0.3), 0)
    assert len(pu.p_train) + len(pu.p_val) == round(0.3 * digits.INFO.size)
    assert len(pu.test) == len(hidden.test) == 359


def test_the_revision_follows_the_content():
    dataset = datasets.load("digits")
    features = dataset.features.copy()
    features[5, 5] += 1
    assert replace(dataset, features=features, revision="").revision != dataset.revision
    assert replace(dataset, revision="").revision == dataset.revision


def test_a_dataset_needs_a_test_set():
    dataset = datasets.load("digits")
    for parts in (
        {"test_fraction": None},
        {"train": np.arange(9)},
        {"train": np.arange(9), "test": np.arange(9, 12)},
    ):
        with pytest.raises(ValueError, match="test_fraction"):
            replace(dataset, **parts)


def test_importing_the_package_is_light():
    heavy = ["torch", "pandas", "duckdb", "sklearn", "pooch", "requests", "pydantic", "PIL", "rich"]
    code = f"import sys, puarena.datasets; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# Reading the official formats, in small files made here


def write_official(tmp_path, monkeypatch, module, contents: dict[str, bytes]):
    """Write files where the reader looks, and make them the published ones."""
    folder = tmp_path / module.INFO.name
    folder.mkdir(parents=True)
    files = []
    for file in module.INFO.files:
        (folder / file.name).write_bytes(contents[file.name])
        files.append(replace(file, sha256=hashlib.sha256(contents[file.name]).hexdigest()))
    monkeypatch.setattr(module, "INFO", replace(module.INFO, files=tuple(files)))


def test_letter_format(tmp_path, monkeypatch):
    text = "T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8\nA,5,12,3,7,2,10,5,5,4,13,3,9,2,8,4,15\n"
    write_official(tmp_path, monkeypatch, letter, {"letter-recognition.data": text.encode()})
    dataset = letter.read(tmp_path)
    assert list(dataset.classes) == [19, 0]
    assert dataset.features.shape == (2, 16)
    assert dataset.features[1, [0, 1, 2, -1]].tolist() == [5, 12, 3, 15]
    assert (dataset.test, dataset.test_fraction) == (None, 0.1)


def test_usps_format(tmp_path, monkeypatch):
    def line(label, value):
        values = [value] * 255 + [1.0]
        return f"{label} " + " ".join(f"{i}:{v:.6f}" for i, v in enumerate(values, 1)) + " \n"

    texts = {"usps.bz2": line(7, -1) + line(10, 0.048299), "usps.t.bz2": line(1, -0.999729)}
    contents = {name: bz2.compress(text.encode()) for name, text in texts.items()}
    write_official(tmp_path, monkeypatch, usps, contents)
    dataset = usps.read(tmp_path)
    assert list(dataset.classes) == [6, 9, 0]
    assert (list(dataset.train), list(dataset.test)) == ([0, 1], [2])
    # Bytes as the reference reads them: cut, not rounded.
    expected = (np.array([0, 133, 0]) / 255 - 0.1307) / 0.3081
    assert dataset.features[:, 0] == pytest.approx(expected, rel=1e-6)
    assert dataset.features[:, -1] == pytest.approx((1 - 0.1307) / 0.3081, rel=1e-6)


# The real files


@pytest.fixture
def real(monkeypatch):
    if not REAL_DATA:
        pytest.skip(f"set {download.DATA_VARIABLE} to a folder with letter/ and usps/")
    monkeypatch.setattr(download, "_retrieve", None)  # no network in a test
    return REAL_DATA


def test_real_letter(real):
    dataset = datasets.load("letter", real)
    counts = dict(zip(dataset.class_names, np.bincount(dataset.classes).tolist(), strict=True))
    assert len(dataset.classes) == 20000
    some = {"A": 789, "B": 766, "H": 734, "U": 813, "Z": 734}
    assert {name: counts[name] for name in some} == some
    assert (dataset.features.min(), dataset.features.max()) == (0, 15)
    assert [dataset.positive(case)[dataset.classes].sum() for case in (1, 2)] == [9747, 9983]
    with pytest.raises(UserError) as caught:
        draw_pu_data(dataset, Problem("letter", 1, "ts", 0.4), 0)
    assert caught.value.code == "missing-data"
    for case in (1, 2):
        for split in range(3):
            pu, _ = draw_pu_data(dataset, Problem("letter", case, "ts", 0.3), split)
            assert len(pu.u_train) + len(pu.u_val) == 9100


def test_real_usps(real):
    dataset = datasets.load("usps", real)
    assert dataset.features.shape == (9298, 256)
    train, test = dataset.classes[dataset.train], dataset.classes[dataset.test]
    assert list(np.bincount(train)) == [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
    assert list(np.bincount(test)) == [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]
    assert dataset.features.min() == pytest.approx(-0.1307 / 0.3081)
    assert [dataset.positive(case)[train].sum() for case in (1, 2)] == [3039, 3507]
    for case, rate, expected in ((1, 0.4, 1578), (2, 0.4, 1582), (1, 0.5, 1898), (2, 0.5, 1942)):
        pu, _ = draw_pu_data(dataset, Problem("usps", case, "ts", rate), 0)
        assert len(pu.p_train) + len(pu.p_val) == expected


@pytest.mark.parametrize("name", ["letter", "usps"])
def test_real_files_verify(real, name):
    assert {status.status for status in datasets.verify(name, real)} == {"ok"}
