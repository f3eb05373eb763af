"""Data files: named folders, the cache, checksums, and downloads from a server of this machine."""

from __future__ import annotations

import hashlib
import http.server
import io
import socket
import tarfile
import threading
from dataclasses import replace
from functools import partial

import pytest

from puarena import datasets
from puarena.datasets import DataFile, download
from puarena.datasets.base import Archive
from puarena.datasets.builtin import letter
from user_errors import raises_user_error

CONTENT = b"A,1,2\nB,3,4\n" * 1000
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache folder, no named folder, and no waiting between attempts."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(download.CACHE_VARIABLE, str(folder))
    monkeypatch.delenv(download.DATA_VARIABLE, raising=False)
    monkeypatch.setattr(download, "MAX_RETRIES", 0)
    monkeypatch.setenv("NO_PROXY", "*")
    return folder


class Quiet(http.server.SimpleHTTPRequestHandler):
    requests: list[str] = []  # noqa: RUF012
    failures = 0

    def do_GET(self):
        Quiet.requests.append(self.path)
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
    (folder / "table.data").write_bytes(CONTENT)
    Quiet.requests, Quiet.failures = [], 0
    handler = partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def find_closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_info(address: str, **changes) -> datasets.DatasetInfo:
    file = DataFile("table.data", f"{address}/table.data", SHA)
    return replace(letter.INFO, name="made", files=(replace(file, **changes),))


def fails(call, code: str, *tokens: object) -> None:
    with raises_user_error(code, *tokens):
        call()


# Files that are here


@pytest.mark.parametrize("place", ["made/table.data", "table.data"])
@pytest.mark.parametrize("by", ["argument", "environment"])
def test_files_of_a_named_folder(tmp_path, monkeypatch, place, by):
    info = make_info("http://127.0.0.1:1")
    path = tmp_path / "have" / place
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    if by == "environment":
        monkeypatch.setenv(download.DATA_VARIABLE, str(tmp_path / "have"))
    folder = download.named_folder(tmp_path / "have" if by == "argument" else None)
    assert download.locate(info, info.files[0], folder) == path
    (status,) = download.verify(info, None if by == "environment" else folder)
    assert (status.status, status.path, status.actual) == ("ok", path, SHA)


def test_a_wrong_checksum_in_a_named_folder(tmp_path):
    info = make_info("http://127.0.0.1:1")
    path = tmp_path / "table.data"
    path.write_bytes(CONTENT[:-1])
    found = hashlib.sha256(CONTENT[:-1]).hexdigest()
    locate = partial(download.locate, info, info.files[0], tmp_path)
    fails(locate, "damaged-file", path, SHA, found, "puarena data fetch made")
    (status,) = download.verify(info, tmp_path)
    assert (status.status, status.expected, status.actual) == ("wrong checksum", SHA, found)
    path.write_bytes(CONTENT)  # once repaired, the remembered checksum must not be used
    assert locate() == path


def test_a_file_is_hashed_once(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_bytes(CONTENT)
    assert download.sha256(path) == SHA
    monkeypatch.setattr(hashlib, "file_digest", None)
    assert download.sha256(path) == SHA


def test_a_missing_folder(tmp_path, monkeypatch):
    nowhere = tmp_path / "nowhere"
    fails(partial(datasets.load, "letter", nowhere), "missing-file", nowhere, "--data")
    monkeypatch.setenv(download.DATA_VARIABLE, str(nowhere))
    fails(partial(datasets.verify, "usps"), "missing-file", nowhere, download.DATA_VARIABLE)


# Downloads


def test_named_folder_then_cache_then_network(server, cache, tmp_path):
    info = make_info(server[1])
    empty = tmp_path / "empty"
    empty.mkdir()
    for _ in range(2):
        path = download.locate(info, info.files[0], empty)
        assert path == cache / "made" / "table.data"
        assert path.read_bytes() == CONTENT
        assert list(path.parent.iterdir()) == [path]
    assert len(Quiet.requests) == 1
    assert not list(empty.iterdir())


def test_fetch_into_a_folder(server, cache, tmp_path):
    info = make_info(server[1])
    for _ in range(2):
        assert download.fetch(info, tmp_path / "new") == [tmp_path / "new" / "made" / "table.data"]
    assert len(Quiet.requests) == 1
    assert not cache.exists()
    assert [s.status for s in download.verify(info, tmp_path / "new")] == ["ok"]


def test_a_wrong_download_leaves_nothing(server, cache):
    folder, address = server
    (folder / "table.data").write_bytes(b"something else")
    info = make_info(address)
    fails(partial(download.fetch, info), "damaged-file", f"{address}/table.data", SHA)
    assert list((cache / "made").iterdir()) == []
    assert [s.status for s in download.verify(info)] == ["missing"]


def test_a_short_failure_is_retried(server, monkeypatch):
    monkeypatch.setattr(download, "MAX_RETRIES", 1)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    Quiet.failures = 1
    assert download.fetch(make_info(server[1]))[0].read_bytes() == CONTENT
    assert len(Quiet.requests) == 2


@pytest.mark.parametrize("reason", ["refused", "not found"])
def test_no_network_is_one_clear_sentence(server, cache, reason):
    folder, address = server
    (folder / "table.data").unlink()
    if reason == "refused":
        address = f"http://127.0.0.1:{find_closed_port()}"
    tokens = (f"{address}/table.data", download.DATA_VARIABLE, reason)
    fails(partial(download.fetch, make_info(address)), "cannot-read", *tokens)
    assert not list((cache / "made").iterdir())


def test_a_file_without_checksum_is_not_downloaded(server):
    fetch = partial(download.fetch, make_info(server[1], sha256=None))
    fails(fetch, "missing-file", "table.data", server[1])
    assert Quiet.requests == []


def test_an_unwritable_folder(server, tmp_path):
    (tmp_path / "taken").write_text("a file where a folder should be")
    folder = tmp_path / "taken" / "below"
    fails(partial(download.fetch, make_info(server[1]), folder), "cannot-write", folder)


def test_an_unwritable_cache_names_its_variable(server, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file where a folder should be")
    monkeypatch.setenv(download.CACHE_VARIABLE, str(tmp_path / "taken"))
    for fetch in (
        partial(download.fetch, make_info(server[1])),
        partial(download.locate_remote_table, "openml:44"),
    ):
        fails(fetch, "cannot-write", tmp_path / "taken", download.CACHE_VARIABLE)
    assert Quiet.requests == []


def test_files_of_an_archive(server, cache):
    folder, address = server
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, part in {"sub/one": CONTENT, "sub/two": b"2", "sub/three": b"3"}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(part)
            tar.addfile(entry, io.BytesIO(part))
    (folder / "all.tar.gz").write_bytes(stream.getvalue())
    checksum = "md5:" + hashlib.md5(stream.getvalue()).hexdigest()
    archive = Archive("all.tar.gz", f"{address}/all.tar.gz", checksum)
    files = tuple(
        DataFile(name, archive.url, hashlib.sha256(part).hexdigest(), archive)
        for name, part in (("sub/one", CONTENT), ("sub/two", b"2"))
    )
    info = replace(make_info(address), files=files)
    assert [path.read_bytes() for path in download.fetch(info)] == [CONTENT, b"2"]
    assert len(Quiet.requests) == 1
    paths = [path for path in (cache / "made").rglob("*") if path.is_file()]
    assert {path.relative_to(cache / "made").as_posix() for path in paths} == {"sub/one", "sub/two"}

    (cache / "made" / "sub" / "two").write_bytes(b"damaged")
    fails(partial(download.fetch, info), "damaged-file", "two")
