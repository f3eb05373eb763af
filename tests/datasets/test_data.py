"""Datasets: the registry, files and checksums, downloading (from a server of this machine), the real files if here."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import socket
import subprocess
import sys
import tarfile
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from puarena import datasets
from puarena.datasets import DataFile, download
from puarena.datasets.builtin import digits, letter, usps
from puarena.datasets.dataset import Archive, Dataset
from puarena.errors import UserError
from puarena.pu import Problem, draw_pu_data

CONTENT = b"A,1,2\nB,3,4\n" * 1000
SHA = hashlib.sha256(CONTENT).hexdigest()
REAL = os.environ.get(download.ENVIRONMENT)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder, no named folder, and no waiting between attempts."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(download, "cache_folder", lambda: folder)
    monkeypatch.setattr(download, "RETRIES", 0)
    monkeypatch.setenv("NO_PROXY", "*")
    datasets.registry._load_built_in.cache_clear()
    monkeypatch.delenv(download.ENVIRONMENT, raising=False)
    yield folder
    datasets.registry._load_built_in.cache_clear()


class Quiet(http.server.SimpleHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012
    failures = 0

    def do_GET(self):
        Quiet.asked.append(self.path)
        if Quiet.failures:
            Quiet.failures -= 1
            self.send_error(503)
        else:
            super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    """A server of files on this machine: ``(folder, address)``."""
    folder = tmp_path / "served"
    folder.mkdir()
    Quiet.asked, Quiet.failures = [], 0
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(folder))
    ) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def made(address: str, **changes) -> datasets.DatasetInfo:
    file = DataFile("table.data", f"{address}/table.data", SHA, len(CONTENT))
    return replace(letter.INFO, name="made", files=(replace(file, **changes),))


# The registry


def test_every_dataset_is_described():
    first = ["digits", "letter", "letter-standardised", "usps", "cifar10", "imagenette"]
    tables = ["spambase", "mushroom", "magic", "adult", "connect-4", "fashion-mnist"]
    assert datasets.names() == [
        *first,
        *(name for table in tables for name in (table, f"{table}-standardised")),
    ]
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
    names = [
        "".join(letter.INFO.class_names[k] for k in letter.INFO.cases[case]) for case in (1, 2)
    ]
    assert names == ["BCHIJKLORSVWZ", "ABCDGIJLQTWYZ"]


@pytest.mark.parametrize("call", [datasets.load, datasets.info, datasets.fetch, datasets.verify])
def test_unknown_dataset_names_the_nearest(call):
    with pytest.raises(UserError, match="unknown dataset 'lettre'; did you mean 'letter'"):
        call("lettre")


def test_digits():
    dataset = datasets.load("digits")
    assert dataset.features.shape == (1797, 64)
    assert dataset.features.dtype == np.float32
    assert (dataset.features.min(), dataset.features.max()) == (0, 1)
    assert list(np.bincount(dataset.classes)) == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert dataset.positive(1)[[1, 3, 5, 7, 9]].all()
    assert dataset.prior_of(1) == 0.5
    assert datasets.load("digits") is dataset
    assert len(dataset.revision) == 12
    assert datasets.verify("digits") == []
    assert datasets.fetch("digits") == []


def test_revision_follows_the_content():
    one = datasets.load("digits")
    features = one.features.copy()
    features[5, 5] += 1
    assert replace(one, features=features, revision="").revision != one.revision
    assert replace(one, revision="").revision == one.revision


def test_a_dataset_needs_a_test_set():
    dataset = datasets.load("digits")
    for parts in (
        {"test_fraction": None},
        {"train": np.arange(9)},
        {"train": np.arange(9), "test": np.arange(9, 12)},
    ):
        with pytest.raises(ValueError, match="either train and test indices or a test_fraction"):
            replace(dataset, **parts)


def test_importing_the_room_is_light():
    heavy = (
        "torch",
        "pandas",
        "duckdb",
        "sklearn",
        "pooch",
        "requests",
        "pydantic",
        "PIL",
        "rich",
        "safetensors",
    )
    code = f"import sys, puarena.datasets; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# Reading the official formats, on small files made here


def as_official(tmp_path, monkeypatch, module, contents: dict[str, bytes]):
    """Put files where the reader looks and make them the expected ones."""
    folder = tmp_path / module.INFO.name
    folder.mkdir(parents=True)
    files = []
    for file in module.INFO.files:
        (folder / file.name).write_bytes(contents[file.name])
        files.append(replace(file, sha256=hashlib.sha256(contents[file.name]).hexdigest()))
    monkeypatch.setattr(module, "INFO", replace(module.INFO, files=tuple(files)))


def test_letter_format(tmp_path, monkeypatch):
    text = "T,2,8,3,5,1,8,13,0,6,6,10,8,0,8,0,8\nA,5,12,3,7,2,10,5,5,4,13,3,9,2,8,4,15\n"
    as_official(tmp_path, monkeypatch, letter, {"letter-recognition.data": text.encode()})
    dataset = letter.read(tmp_path)
    assert list(dataset.classes) == [19, 0]
    assert dataset.features.shape == (2, 16)
    assert list(dataset.features[1, :3]) == [5, 12, 3]
    assert dataset.features[1, -1] == 15
    assert (dataset.test, dataset.test_fraction) == (None, 0.1)


def test_usps_format(tmp_path, monkeypatch):
    import bz2

    def line(label, value):
        return (
            f"{label} "
            + " ".join(f"{i}:{v:.6f}" for i, v in enumerate([value] * 255 + [1.0], 1))
            + " \n"
        )

    files = {"usps.bz2": line(7, -1) + line(10, 0.048299), "usps.t.bz2": line(1, -0.999729)}
    as_official(
        tmp_path,
        monkeypatch,
        usps,
        {name: bz2.compress(text.encode()) for name, text in files.items()},
    )
    dataset = usps.read(tmp_path)
    assert list(dataset.classes) == [6, 9, 0]
    assert (list(dataset.train), list(dataset.test)) == ([0, 1], [2])
    expected = (
        np.array([0, 133, 0]) / 255 - 0.1307
    ) / 0.3081  # bytes as the reference reads them: cut, not rounded
    assert dataset.features[:, 0] == pytest.approx(expected, rel=1e-6)
    assert dataset.features[:, -1] == pytest.approx((1 - 0.1307) / 0.3081, rel=1e-6)


# Files and checksums


@pytest.mark.parametrize("place", ["made/table.data", "table.data"])
@pytest.mark.parametrize("by", ["argument", "environment"])
def test_files_of_a_named_folder(tmp_path, monkeypatch, place, by):
    info = made("http://127.0.0.1:1")
    path = tmp_path / "have" / place
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    if by == "environment":
        monkeypatch.setenv(download.ENVIRONMENT, str(tmp_path / "have"))
    folder = download.named_folder(tmp_path / "have" if by == "argument" else None)
    assert download.locate(info, info.files[0], folder) == path
    (status,) = download.verify(info, None if by == "environment" else folder)
    assert (status.status, status.path, status.actual) == ("ok", path, SHA)


def test_wrong_checksum_in_a_named_folder(tmp_path):
    info = made("http://127.0.0.1:1")
    path = tmp_path / "table.data"
    path.write_bytes(CONTENT[:-1])
    found = hashlib.sha256(CONTENT[:-1]).hexdigest()
    with pytest.raises(UserError) as caught:
        download.locate(info, info.files[0], tmp_path)
    for part in (str(path), SHA, found, "delete it", "puarena data fetch made"):
        assert part in str(caught.value)
    (status,) = download.verify(info, tmp_path)
    assert (status.status, status.expected, status.actual) == ("wrong checksum", SHA, found)
    path.write_bytes(CONTENT)  # put right: the remembered checksum must not be believed
    assert download.locate(info, info.files[0], tmp_path) == path


def test_a_file_is_hashed_once(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_bytes(CONTENT)
    assert download.sha256(path) == SHA
    monkeypatch.setattr(hashlib, "sha256", None)
    assert download.sha256(path) == SHA


def test_a_missing_folder(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="named by --data does not exist"):
        datasets.load("letter", tmp_path / "nowhere")
    monkeypatch.setenv(download.ENVIRONMENT, str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="named by PUARENA_DATA does not exist"):
        datasets.verify("usps")


# Downloading


def test_download_into_the_cache(server, cache):
    folder, address = server
    (folder / "table.data").write_bytes(CONTENT)
    info = made(address)
    path = download.locate(info, info.files[0], None)
    assert path == cache / "made" / "table.data"
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    download.locate(info, info.files[0], None)
    assert len(Quiet.asked) == 1


def test_named_folder_then_cache_then_network(server, cache, tmp_path):
    folder, address = server
    (folder / "table.data").write_bytes(CONTENT)
    info = made(address)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert download.locate(info, info.files[0], empty) == cache / "made" / "table.data"
    assert download.locate(info, info.files[0], empty) == cache / "made" / "table.data"
    assert len(Quiet.asked) == 1
    assert not list(empty.iterdir())


def test_fetch_into_a_folder(server, cache, tmp_path):
    folder, address = server
    (folder / "table.data").write_bytes(CONTENT)
    info = made(address)
    assert download.fetch(info, tmp_path / "new") == [tmp_path / "new" / "made" / "table.data"]
    assert download.fetch(info, tmp_path / "new") == [tmp_path / "new" / "made" / "table.data"]
    assert len(Quiet.asked) == 1
    assert not cache.exists()
    assert [s.status for s in download.verify(info, tmp_path / "new")] == ["ok"]


def test_wrong_download_leaves_nothing(server, cache):
    folder, address = server
    (folder / "table.data").write_bytes(b"something else")
    info = made(address)
    with pytest.raises(UserError) as caught:
        download.fetch(info)
    for part in (
        "table.data",
        address,
        SHA,
        hashlib.sha256(b"something else").hexdigest(),
        "not kept",
    ):
        assert part in str(caught.value)
    assert list((cache / "made").iterdir()) == []
    assert [s.status for s in download.verify(info)] == ["missing"]


def test_a_short_failure_is_retried(server, cache, monkeypatch):
    folder, address = server
    (folder / "table.data").write_bytes(CONTENT)
    monkeypatch.setattr(download, "RETRIES", 1)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    Quiet.failures = 1
    assert download.fetch(made(address))[0].read_bytes() == CONTENT
    assert len(Quiet.asked) == 2


@pytest.mark.parametrize("reason", ["refused", "not found"])
def test_no_network_is_one_clear_sentence(server, cache, reason):
    address = f"http://127.0.0.1:{closed_port()}" if reason == "refused" else server[1]
    with pytest.raises(UserError) as caught:
        download.fetch(made(address))
    text = str(caught.value).lower()
    for part in (
        "cannot fetch 'table.data'",
        f"{address}/table.data",
        "puarena_data or --data",
        reason,
    ):
        assert part in text
    assert "\n" not in text
    assert not list((cache / "made").iterdir())


def test_a_file_without_checksum_is_not_downloaded(server, cache):
    with pytest.raises(
        UserError,
        match=r"no checksum of 'table\.data' is known, so it is not downloaded; get it from",
    ):
        download.fetch(made(server[1], sha256=None))
    assert Quiet.asked == []
    assert [s.status for s in datasets.verify("imagenette")] == ["missing"]


def test_an_unwritable_folder(server, tmp_path):
    folder, address = server
    (folder / "table.data").write_bytes(CONTENT)
    (tmp_path / "taken").write_text("a file where a folder should be")
    with pytest.raises(UserError, match="cannot write"):
        download.fetch(made(address), tmp_path / "taken" / "below")


def packed(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


def test_files_of_an_archive(server, cache):
    folder, address = server
    content = packed({"sub/one": CONTENT, "sub/two": b"2", "sub/three": b"not wanted"})
    (folder / "all.tar.gz").write_bytes(content)
    archive = Archive(
        "all.tar.gz", f"{address}/all.tar.gz", "md5:" + hashlib.md5(content).hexdigest()
    )
    files = tuple(
        DataFile(name, archive.url, hashlib.sha256(part).hexdigest(), len(part), archive)
        for name, part in (("sub/one", CONTENT), ("sub/two", b"2"))
    )
    info = replace(made(address), files=files)
    assert [path.read_bytes() for path in download.fetch(info)] == [CONTENT, b"2"]
    assert len(Quiet.asked) == 1
    here = {
        str(path.relative_to(cache / "made"))
        for path in (cache / "made").rglob("*")
        if path.is_file()
    }
    assert here == {"sub/one", "sub/two"}

    wrong = replace(files[1], name="sub/three")
    with pytest.raises(UserError, match=r"'sub/three' in all\.tar\.gz has the wrong checksum"):
        download.fetch(replace(info, files=(wrong,)))
    assert not (cache / "made" / "sub" / "three").exists()
    assert len(list((cache / "made" / "sub").iterdir())) == 2

    (cache / "made" / "sub" / "two").unlink()
    (cache / "made" / "all.tar.gz").unlink()
    (folder / "all.tar.gz").write_bytes(content + bytes(2 * download.BESIDES))
    with pytest.raises(UserError, match="sends more bytes than the file has"):
        download.fetch(info)


# The real files


@pytest.fixture
def real(cache, monkeypatch):
    if not REAL:
        pytest.skip("set PUARENA_DATA to a folder with letter/ and usps/ to test the real files")
    monkeypatch.setattr(download, "_retrieve", None)  # no network in a test
    return REAL


def test_real_letter(real):
    dataset = datasets.load("letter", real)
    counts = dict(zip(dataset.class_names, np.bincount(dataset.classes), strict=True))
    assert len(dataset.classes) == 20000
    assert {name: counts[name] for name in "ABHUZ"} == {
        "A": 789,
        "B": 766,
        "H": 734,
        "U": 813,
        "Z": 734,
    }
    assert (dataset.features.min(), dataset.features.max()) == (0, 15)
    assert [dataset.positive(case)[dataset.classes].sum() for case in (1, 2)] == [9747, 9983]
    with pytest.raises(
        UserError,
        match=r"letter case 1, setting ts, rate 0\.4: class '.' has \d+ training examples",
    ):
        draw_pu_data(dataset, Problem("letter", 1, "ts", 0.4), 0)
    for case in (1, 2):
        for trial in range(3):
            pu, _ = draw_pu_data(dataset, Problem("letter", case, "ts", 0.3), trial)
            assert len(pu.u_train) + len(pu.u_val) == 9100


def test_real_usps(real):
    dataset = datasets.load("usps", real)
    assert dataset.features.shape == (9298, 256)
    assert list(np.bincount(dataset.classes[dataset.train])) == [
        1194,
        1005,
        731,
        658,
        652,
        556,
        664,
        645,
        542,
        644,
    ]
    assert list(np.bincount(dataset.classes[dataset.test])) == [
        359,
        264,
        198,
        166,
        200,
        160,
        170,
        147,
        166,
        177,
    ]
    assert dataset.features.min() == pytest.approx(-0.1307 / 0.3081)
    assert [dataset.positive(case)[dataset.classes[dataset.train]].sum() for case in (1, 2)] == [
        3039,
        3507,
    ]
    for case, rate, expected in ((1, 0.4, 1578), (2, 0.4, 1582), (1, 0.5, 1898), (2, 0.5, 1942)):
        pu, _ = draw_pu_data(dataset, Problem("usps", case, "ts", rate), 0)
        assert len(pu.p_train) + len(pu.p_val) == expected


@pytest.mark.parametrize("name", ["letter", "usps"])
def test_real_files_verify(real, name):
    assert {status.status for status in datasets.verify(name, real)} == {"ok"}


def test_digits_is_a_dataset_like_any_other():
    dataset = datasets.load("digits")
    assert isinstance(dataset, Dataset)
    pu, hidden = draw_pu_data(dataset, Problem("digits", 1, "os", 0.3), 0)
    assert len(pu.p_train) + len(pu.p_val) == round(0.3 * digits.INFO.size)
    assert len(pu.test) == len(hidden.test) == 359
