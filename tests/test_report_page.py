"""The page: whole, self-contained, and safe with any name."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from puarena.bench.store import Store
from puarena.errors import UserError
from puarena.report import write_page
from test_report import ALL, HOSTILE, records
from test_store import curves

VOID = {"meta", "link", "br", "hr", "img"}


class Page(HTMLParser):
    """Reads a page: text, tags and attributes; complains about tags that do not match."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


@pytest.fixture
def store(tmp_path: Path) -> Store:
    spec = {"name": "demo", "title": f"Title {HOSTILE}", "description": "</pre><script>boo()</script>"}
    store = Store.create(tmp_path / "out", spec, "abc")
    store.write_shard("a", curves("a", algorithm=HOSTILE, dataset="d<b>"))
    store.write_shard("b", curves("b", algorithm="nnpu-c", dataset="d<b>", status="diverged at step 100"))
    store.write_failure("c", ["c-0"], "out of <i>memory</i>")
    return store


def test_page(store: Store, tmp_path: Path) -> None:
    write_page(store.path, tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    words = " ".join(page.text.split())
    assert not any(tag in {"script", "i", "iframe", "img"} for tag, _ in page.tags)
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    for expected in (
        f"Title {HOSTILE}",
        HOSTILE,
        "</pre><script>boo()</script>",
        "d<b>, case 1",
        "out of <i>memory</i>",
        "diverged at step 100",
        "2 of 4 runs diverged",
        '"name": "demo"',
        "proxy accuracy",
        "oracle accuracy",
        "calibrated",
        "pn-oracle",
        "torch",
    ):
        assert expected in words
    assert "PA released" not in words


def test_nothing_is_fetched(store: Store, tmp_path: Path) -> None:
    write_page(store, tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    links = [
        value or "" for _, attributes in page.tags for name, value in attributes.items() if name in {"src", "href"}
    ]
    assert links
    assert all(link.startswith("#") or link == "data:," for link in links)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "url(" not in text
    assert "@import" not in text
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert "prefers-color-scheme: dark" in text


def test_table_of_the_page(tmp_path: Path) -> None:
    source = records(ALL).assign(status="ok", device="cpu", version="0", torch="2", prior=math.nan)
    write_page(source, tmp_path / "page.html", metrics=["auc"], criteria=["oa", "pa-released"])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(tmp_path / "page.html")
    assert text.count('<td class="best">90.00 ± 0.47</td>') == 4  # two tied methods, two columns
    assert 'class="best">95.00' not in text
    assert sum(attributes.get("class") == "calibrated" for _, attributes in page.tags) == 1
    assert sum(attributes.get("class") == "frame" for _, attributes in page.tags) == 2
    assert "PA released" in page.text
    assert "PAUC, proxy AUC" not in page.text
    assert "no run diverged" in page.text


def test_page_without_results(tmp_path: Path) -> None:
    write_page(Store.create(tmp_path / "out", {"name": "n"}, "abc"), tmp_path / "page.html")
    assert "There are no results yet" in Page(tmp_path / "page.html").text


def test_unwritable(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot write"):
        write_page(store, tmp_path / "nowhere" / "page.html")
    with pytest.raises(UserError, match="there is no results folder"):
        write_page(tmp_path / "no", tmp_path / "page.html")
