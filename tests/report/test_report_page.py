"""The page: whole, self-contained, and safe with any name."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from puarena import catalog
from puarena.errors import UserError
from puarena.pu.problem import Problem
from puarena.report import write_page
from puarena.report.export import export
from puarena.report.page.page import MAX_VIEWS, embed_json, list_views
from puarena.report.sources import open_curves
from puarena.report.statistics import summarize
from puarena.results import Folder, Results
from puarena.results.records import Origin
from sample_results import ALL, HOSTILE, SPEC, curves, records

MADE = {"status": "ok", "device": "cpu", "version": "0", "torch": "2"}
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """Reads a page: text, tags and attributes; complains about tags that do not match."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.scripts: list[str] = []
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
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.text += data


@pytest.fixture
def store(tmp_path: Path) -> Results:
    spec = SPEC | {
        "name": "demo",
        "title": f"Title {HOSTILE}",
        "description": "</pre><script>boo()</script>",
    }
    store = Folder.create(tmp_path / "out", spec, "abc")
    store.write_shard("a", curves("a", algorithm=HOSTILE, dataset="d<b>"))
    store.write_shard(
        "b", curves("b", algorithm="nnpu-c", dataset="d<b>", status="diverged at step 100")
    )
    store.write_failure("c", ["c-0"], "out of <i>memory</i>")
    return store


def test_page(store: Results, tmp_path: Path) -> None:
    write_page(store.path, tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    words = " ".join(page.text.split())
    assert not any(tag in {"iframe", "img", "boo"} for tag, _ in page.tags)
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    assert scripts == [
        {"type": "application/json", "id": "data"},
        {},
        {},
    ]  # the data, Vega, and the page's own
    assert not any("boo()" in script or HOSTILE[:8] in script for script in page.scripts[:1])
    assert json.loads(page.scripts[0])["methods"][0]["label"] in {HOSTILE, "nnpu-c"}
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
        "torch",
    ):
        assert expected in words
    assert "PA released" not in words


def test_nothing_is_fetched(store: Results, tmp_path: Path) -> None:
    write_page(store, tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    links = [
        value or ""
        for _, attributes in page.tags
        for name, value in attributes.items()
        if name in {"src", "href"}
    ]
    assert links
    assert all(link.startswith("#") or link == "data:," for link in links)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in text  # the browser itself forbids requests
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert len(text.encode()) < 1_500_000
    assert "prefers-color-scheme: dark" in text


def test_table_of_the_page(tmp_path: Path) -> None:
    source = records(ALL).assign(status="ok", device="cpu", version="0", torch="2", prior=math.nan)
    write_page(source, tmp_path / "page.html", metrics=["auc"], criteria=["oa", "pa-released"])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(tmp_path / "page.html")
    assert text.count('<td class="best">90.00 ± 0.47</td>') == 4  # two tied methods, two columns
    assert 'class="best">95.00' not in text
    assert sum(attributes.get("class") == "calibrated" for _, attributes in page.tags) == 1
    assert sum(attributes.get("class") == "baseline" for _, attributes in page.tags) == 2
    assert "PA released" in page.text
    words = " ".join(page.text.split())
    assert "pn-oracle is trained with true labels" in words
    assert "pn-naive takes the easy way out" in words
    assert "PAUC, proxy AUC" not in page.text
    assert "no run diverged" in page.text


def test_the_data_of_the_page(tmp_path: Path) -> None:
    source = records(ALL).assign(status="ok", device="cpu", version="0", torch="2", prior=math.nan)
    curves = open_curves(source)
    curves.methods = {"upu": catalog.get("upu"), "nnpu-c": catalog.get("nnpu-c")}
    write_page(
        curves, tmp_path / "page.html", error="std", algorithms=["upu", "nnpu-c", "pn-oracle"]
    )
    data = json.loads(Page(tmp_path / "page.html").scripts[0])
    assert [method["label"] for method in data["methods"]] == ["upu", "nnpu-c", "pn-oracle"]
    assert [method["kind"] for method in data["methods"]] == ["", "calibrated", "baseline"]
    assert data["problems"][0]["prior"] is None
    cells = data["cells"][[metric["name"] for metric in data["metrics"]].index("accuracy")]
    assert cells[0][0][0] == [
        70,
        "70.00 ± 1.00",
        3,
        0,
    ]  # mean, text and n of upu by PA; above chance
    assert data["about"]["upu"]["paper"]
    assert data["about"]["nnpu-c"]["calibrated"] is True
    assert "pn-oracle" not in data["about"]
    assert len(data["picks"]) == 3 * 3 * 3
    hidden = {"calibration", "ranks", "wins", "label-shift", "time"}
    assert {figure["name"] for figure in data["figures"] if not figure["charts"]} >= hidden - {
        "wins"
    }
    assert all(figure["charts"] or figure["reason"] for figure in data["figures"])


def test_page_and_stats_say_the_same(tmp_path: Path) -> None:
    import pandas as pd

    means = {
        "upu": 0.7,
        "nnpu": 0.8,
        "nnpu-c": 0.8 + 1e-13,
        "mine": 0.7991,
        "pn-oracle": 0.95,
        "pn-naive": 0.9,
    }
    parts = []
    for i in range(6):
        part = records(
            {name: mean + i / 100 for name, mean in means.items()}, dataset=f"d{i}", case=1
        )
        wave = (i % 2) * 0.009 * (part["algorithm"] == "mine")  # ahead on every other dataset
        parts.append(
            part.assign(
                test_accuracy=part["test_accuracy"] + wave - 0.004 * (part["algorithm"] == "mine")
            )
        )
    source = pd.concat(parts).assign(status="ok", device="cpu", version="0", torch="2")
    (found,) = summarize(source, "accuracy", "pa")
    write_page(source, tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    data = json.loads(page.scripts[0])
    view = data["views"]["0,1,2,3,4,5"]["accuracy.pa"]
    verdict = found.verdict
    assert verdict.startswith("nnpu, nnpu-c have the highest mean accuracy (82.50)")
    assert ": mine (n" in verdict
    assert view["verdict"] == verdict
    assert verdict in " ".join(page.text.split())
    assert found.naive.startswith("0 of 4 methods")
    assert view["naive"] == found.naive
    assert found.naive in " ".join(page.text.split())
    assert data["notes"][view["note"]] == found.standings.note
    assert "6 datasets" in found.standings.note
    rows = {data["methods"][int(i)]["label"]: row for i, row in view["rows"].items()}
    assert {name: row[3] for name, row in rows.items() if len(row) > 2} == {
        "nnpu": "1=",
        "nnpu-c": "1=",
        "mine": "3",
        "upu": "4",
    }
    assert [len(rows[name]) for name in ("pn-oracle", "pn-naive")] == [
        2,
        2,
    ]  # frames have a mean and no place
    for name, item in found.standings.table.iterrows():
        assert rows[name][1] == f"{item['mean']:.2f}"
        assert rows[name][5] == item["tied"]
        assert rows[name][6:] == pytest.approx([item["low"], item["high"]], abs=1e-3)
    assert found.standings.tied == ("nnpu", "nnpu-c", "mine")
    single = data["views"]["3"][
        "accuracy.pa"
    ]  # of one problem the splits are drawn, and that is said
    assert "datasets: 1 (5 needed)" in data["notes"][single["note"]]
    for name in (
        "calibrated",
        "baseline",
        "tied: cannot be told apart",
        "Page written on",
        "whole datasets",
    ):
        assert name in page.text
    captions = sum(tag == "caption" for tag, _ in page.tags)
    assert captions == sum(tag == "table" for tag, _ in page.tags)


def test_a_large_suite_stays_small(tmp_path: Path) -> None:
    problems = [
        Problem(f"d{i % 9}", case, "os", rate, 0.5, "scar")
        for i in range(9)
        for case in (1, 2)
        for rate in (0.1, 0.3, 0.5)
    ]
    listed = list_views(problems)
    assert len(listed) == MAX_VIEWS
    assert listed[0] == tuple(
        range(len(problems))
    )  # everything comes first, then choices by one filter
    assert {tuple(range(i, i + 6)) for i in range(0, 54, 6)} <= set(listed)
    assert list_views(problems[:1]) == [(0,)]


@pytest.mark.parametrize("text", ["</script><script>", "<!--", "a\u2028b\u2029", "&lt;", '"\\'])
def test_data_cannot_leave_its_element(text: str) -> None:
    made = embed_json({text: [text, math.nan, math.inf, 1.0, 0.123456789]})
    assert not set(made) & set("<>&\u2028\u2029")
    assert json.loads(made) == {text: [text, None, None, 1, 0.123457]}


def test_nothing_could_be_selected(tmp_path: Path) -> None:
    source = records(ALL).assign(status="ok", device="cpu", version="0", torch="2")
    source = source.assign(val_pa=math.nan, val_pauc=math.nan, val_oa=math.nan)
    write_page(source, tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    data = json.loads(page.scripts[0])
    assert data["picks"] == []
    assert not any(figure["charts"] for figure in data["figures"])
    assert "Not a number" in page.text


def test_page_of_a_summary(tmp_path: Path) -> None:
    store = Folder.create(tmp_path / "out", SPEC, "abc")
    for name in ("upu", "nnpu"):
        store.write_shard(name, curves(name, records=30, algorithm=name))
    export(store, tmp_path / "small.parquet")
    write_page(tmp_path / "small.parquet", tmp_path / "page.html")
    page = Page(tmp_path / "page.html")
    assert "from an exported summary" in page.text
    assert "120 checkpoints tested" in " ".join(
        page.text.split()
    )  # of the results, not of the summary
    (regret,) = (
        figure for figure in json.loads(page.scripts[0])["figures"] if figure["name"] == "regret"
    )
    assert "against OA" in json.dumps(regret["charts"])
    assert "against the best checkpoint" not in json.dumps(regret["charts"])


def test_page_of_joined_results(store: Results, tmp_path: Path) -> None:
    origin = Origin(
        folder="a<b>",
        kind="results folder",
        runs=2,
        spec_hash="abc",
        versions={"puarena": "0.1.0"},
        spec=SPEC,
    )
    store.info = store.info.model_copy(update={"sources": (origin,)})
    write_page(store, tmp_path / "page.html")
    words = " ".join(Page(tmp_path / "page.html").text.split())
    assert "a<b> (results folder): 2 runs, spec abc, made with puarena 0.1.0" in words
    assert "exported summary" not in words


def test_page_without_results(tmp_path: Path) -> None:
    write_page(Folder.create(tmp_path / "out", SPEC, "abc"), tmp_path / "page.html")
    assert "There are no results yet" in Page(tmp_path / "page.html").text


def test_unwritable(store: Results, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        write_page(store, tmp_path / "nowhere" / "page.html")
    assert error.value.code == "cannot-write"
    with pytest.raises(UserError, match=str(tmp_path / "no")):
        write_page(tmp_path / "no", tmp_path / "page.html")


def words_of(source: Any, path: Path) -> tuple[str, dict[str, Any]]:
    """The text of a source's page, and its data."""
    write_page(source, path)
    page = Page(path)
    return " ".join(page.text.split()), json.loads(page.scripts[0])


def test_several_configurations_only_where_there_were_several(tmp_path: Path) -> None:
    for runs, expected in (
        (1, "with one hyperparameter configuration"),
        (4, "configurations (up to 4)"),
    ):
        store = Folder.create(tmp_path / str(runs), SPEC, "0" * 16)
        store.write_shard("a", curves("a", runs=runs, algorithm="nnpu"))
        words, _ = words_of(store.path, tmp_path / "page.html")
        assert expected in words
        assert ("several hyperparameter configurations" in words) == (runs > 1)


def test_who_made_it_when_and_where(tmp_path: Path) -> None:
    about = {"machine": "AMD EPYC, 2 cores", "commit": "abcdef0123456789"}
    store = Folder.create(tmp_path / "out", SPEC, "0" * 16, **about)
    store.write_shard("a", curves("a", algorithm="nnpu", device="cpu"))
    words, _ = words_of(store.path, tmp_path / "page.html")
    assert "on AMD EPYC, 2 cores" in words
    assert "commit abcdef012345" in words
    words, _ = words_of("published:tabular-definition", tmp_path / "page.html")
    for expected in ("results of 2026-11-16", "on one NVIDIA H200", "commit 151cd70"):
        assert expected in words


def test_one_number_has_one_text_where_it_is_half_way(tmp_path: Path) -> None:
    """74.425 on the leaderboard is what it is in the table, whatever its last bits are."""
    for value in (0.74425, 0.74455, 0.744249999999999, 0.74125):
        frame = records({"nnpu": value, "vpu": 0.5}, splits=1)
        frame["test_accuracy"] = frame["test_accuracy"].where(frame["algorithm"] != "nnpu", value)
        _, data = words_of(frame.assign(**MADE), tmp_path / "page.html")
        (cell,) = [row[0] for row in data["cells"][0][0] if row[0] and row[0][0] > 60]
        view = next(iter(next(iter(data["views"].values())).values()))
        (pick,) = [pick for pick in data["picks"] if pick[0] == view["best"] and pick[3] == 0]
        assert (
            view["rows"][str(view["best"])][1]
            == cell[1].split(" ± ")[0]
            == f"{pick[-1][0] / 100:.2f}"
        )
        assert view["verdict"].startswith("nnpu ")
        assert f"({cell[1]})" in view["verdict"]


def test_a_method_at_chance_level_is_marked(tmp_path: Path) -> None:
    frame = records({"nnpu": 0.9, "vpu": 0.45}).assign(**MADE)
    _, data = words_of(frame, tmp_path / "page.html")
    marks = {
        method["algorithm"]: data["cells"][0][0][i][0][3]
        for i, method in enumerate(data["methods"])
    }
    assert marks == {"nnpu": 0, "vpu": 1}


def test_how_failed_runs_are_tried_again(store: Results, tmp_path: Path) -> None:
    assert (
        "command with --retry-failed tries them again"
        in words_of(store.path, tmp_path / "page.html")[0]
    )
