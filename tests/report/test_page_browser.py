"""The page in a real browser (Chromium through playwright): no request, no error, and everything on
it works.

Without a Chromium these tests are skipped; where CI=true that is a failure, because CI may not skip
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from puarena import catalog
from puarena.metrics import METRICS, Metric
from puarena.report import write_page
from puarena.results import Folder
from sample_results import SPEC, curves

HOSTILE = "<script>alert(1)</script>"
PROBLEMS = [  # dataset, case, setting, rate, prior
    ("letter", 1, "os", 0.3, 0.5),
    ("letter", 2, "os", 0.3, 0.5),
    ("letter", 2, "os", 0.1, 0.7),
    (HOSTILE, 1, "os", 0.3, 0.5),
    (HOSTILE, 1, "os", 0.1, 0.5),
    (HOSTILE, 1, "ts", 0.1, 0.5),
    (HOSTILE, 1, "ts", 0.3, 0.5),
]
METHODS = ["pn-oracle", "upu", "nnpu", "nnpu-c", HOSTILE, "pn-naive"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with every kind of thing on it."""
    folder = tmp_path_factory.mktemp("page")
    store = Folder.create(
        folder / "out",
        {**SPEC, "name": "demo", "title": f"Title {HOSTILE}", "description": HOSTILE},
        "abc",
        methods=[catalog.get(name).to_json() for name in METHODS if name != HOSTILE],
    )
    parts = []
    for p, (dataset, case, setting, rate, prior) in enumerate(PROBLEMS):
        for m, algorithm in enumerate(METHODS):
            if algorithm == "nnpu-c" and setting == "ts":
                continue
            who = {
                "dataset": dataset,
                "case": case,
                "setting": setting,
                "rate": rate,
                "prior": prior,
            }
            for split in (0, 1):
                part = curves(
                    "a",
                    algorithm=algorithm,
                    split=split,
                    hyper='{"beta": 0.5}',
                    device="cpu",
                    **who,
                )
                part["run"] = [f"{p}-{m}-{split}-{config}" for config in part["config"]]
                part["test_accuracy"] = (
                    0.9 - 0.1 * m + 0.02 * p * (m % 2) + 0.01 * split + 0.001 * part["step"] / 100
                )
                part["val_pa"], part["val_oa"] = part["step"] / 1000, 1 - part["step"] / 1000
                part["test_auc"] = 0.5 + 0.05 * m + 0.001 * part["config"]
                parts.append(part)
    store.write_shard("a", pd.concat(parts))
    store.write_failure("b", ["b-0"], f"out of memory {HOSTILE}")
    write_page(store, folder / "page.html")
    return folder / "page.html"


class Opened:
    """A page, and everything that went wrong on it."""

    def __init__(self, browser: Any, file: Path, figures: int = 8, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.wrong: list[str] = []
        self.context.route("**/*", self._request)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self._say(message.type, message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        self.page.on("dialog", lambda dialog: (self.wrong.append("alert"), dialog.dismiss()))
        self.page.goto(file.as_uri())
        self.page.set_default_timeout(15_000)
        self.page.wait_for_function(
            f"document.querySelectorAll('#figures svg.marks').length >= {figures}"
        )

    def _request(self, route: Any) -> None:
        if route.request.url.startswith(("file:", "data:", "blob:")):
            route.continue_()
        else:
            self.wrong.append(f"request {route.request.url}")
            route.abort()

    def _say(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.wrong.append(f"{kind} {text}")

    def rows(self) -> list[list[str]]:
        """The leaderboard as text."""
        script = "rows => rows.map(row => [...row.cells].map(cell => cell.innerText.trim()))"
        found: list[list[str]] = self.page.eval_on_selector_all("#board tr[data-method]", script)
        return found

    def names(self) -> list[str]:
        found: list[str] = self.page.locator("#board tr[data-method] .link").all_inner_texts()
        return found

    def choose(self, name: str, text: str) -> None:
        self.page.select_option(f"#filters select[name={name}]", label=text)


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Opened]:
    opened = Opened(browser, file)
    yield opened
    assert opened.wrong == []
    opened.context.close()


def test_loads_without_request_or_error(opened: Opened) -> None:
    assert opened.page.title() == f"Title {HOSTILE}"
    assert opened.page.locator("h1").inner_text() == f"Title {HOSTILE}"
    assert len(opened.rows()) == len(METHODS)
    assert opened.page.locator("#figures svg.marks").count() == 8
    for svg in opened.page.locator("#figures svg.marks").all():
        assert svg.locator("path, line, text").count() > 10
    opened.page.select_option("#figure-filters select[name=criterion]", label="OA")
    opened.page.select_option("#figure-filters select[name=metric]", label="AUC")
    opened.page.wait_for_function("document.body.innerText.includes('lost, points')")


def test_a_hostile_name_is_text(opened: Opened) -> None:
    assert HOSTILE in opened.names()
    assert HOSTILE in opened.page.locator("#board thead").inner_text()
    assert opened.page.locator("#failures").inner_text().count(HOSTILE) == 1
    opened.page.locator("#board tbody").get_by_role("button", name=HOSTILE, exact=True).click()
    assert "no description of this method" in opened.page.locator("dialog[open]").inner_text()
    assert opened.page.locator("script").count() == 3


def test_sorting(opened: Opened) -> None:
    opened.choose("setting", "one-sample (OS)")
    assert (
        opened.page.locator("#board th[aria-sort=descending]").get_attribute("data-column")
        == "mean"
    )
    means = [float(row[2].split()[-1]) for row in opened.rows()]
    assert means == sorted(means, reverse=True)
    opened.page.get_by_role("button", name="Mean", exact=True).click()
    assert [float(row[2].split()[-1]) for row in opened.rows()] == sorted(means)
    assert (
        opened.page.locator("#board th[aria-sort=ascending]").get_attribute("data-column") == "mean"
    )
    opened.page.get_by_role("button", name="Method", exact=True).focus()
    opened.page.keyboard.press("Enter")
    assert opened.names() == sorted(opened.names())
    opened.page.keyboard.press("Enter")  # the focus stays on the header
    assert opened.names() == sorted(opened.names(), reverse=True)
    opened.page.locator("#board th[data-column=p0] button").click()
    values = [float(row[5].split()[0]) for row in opened.rows()]
    assert values == sorted(values, reverse=True)


def test_every_filter_changes_the_rows(opened: Opened) -> None:
    choices = {
        "metric": "AUC",
        "criterion": "OA",
        "dataset": "letter",
        "case": "2",
        "setting": "two-sample (TS)",
        "rate": "10%",
        "prior": "0.7",
    }
    usual = {"metric": "Accuracy", "criterion": "PA"}
    everything = opened.page.locator("#board").inner_text()
    for name, text in choices.items():
        opened.choose(name, text)
        assert opened.page.locator("#board").inner_text() != everything, name
        opened.choose(name, usual.get(name, "all"))
        assert opened.page.locator("#board").inner_text() == everything, name
    opened.choose("setting", "two-sample (TS)")
    assert "nnpu-c" not in opened.names()
    opened.choose("dataset", "letter")
    assert opened.rows() == []
    assert "No problem fits" in opened.page.locator("#board-words").inner_text()
    opened.choose("dataset", "all")
    opened.page.fill("#filters input[name=search]", "nnp")
    assert opened.names() == ["nnpu"]


def test_the_numbers_are_those_of_the_tables(opened: Opened) -> None:
    opened.page.evaluate("document.querySelectorAll('#tables details').forEach(d => d.open = true)")
    script = (
        "t => [...t.tBodies[0].rows].map(r => "
        "[r.cells[0].querySelector('.label').innerText, r.cells[1].firstChild.data.trim()])"
    )
    tables = opened.page.eval_on_selector_all("table.results", f"ts => ts.map({script})")
    board = {name: row[5:] for name, row in zip(opened.names(), opened.rows(), strict=True)}
    for i, table in enumerate(tables):
        for name, value in table:
            assert " ".join(board[name][i].split()) == value


def test_who_won(opened: Opened) -> None:
    page = opened.page
    assert "upu has the highest mean accuracy" in page.locator("#verdict").inner_text()
    opened.choose("setting", "one-sample (OS)")
    verdict = page.locator("#verdict").inner_text()
    assert "n = 5 problems, 2 datasets, 2 splits each" in verdict
    assert "too few" in verdict
    places = dict(zip(opened.names(), (row[0] for row in opened.rows()), strict=True))
    assert (places["pn-oracle"], places["pn-naive"]) == ("", "")  # frames have no place
    assert sorted(place for place in places.values() if place) == ["1", "2", "3", "4"]
    page.fill("#filters input[name=search]", "nnp")
    for name, row in zip(opened.names(), opened.rows(), strict=True):
        assert row[0] == places[name]  # searching does not move anybody
    page.fill("#filters input[name=search]", "")
    page.get_by_role("button", name="Method", exact=True).click()
    assert dict(zip(opened.names(), (row[0] for row in opened.rows()), strict=True)) == places
    assert (
        page.locator("#board tr:has(button:text-is('nnpu-c')) .chip:not(.chance)").inner_text()
        == "calibrated"
    )
    assert page.locator("#board tr:has(button:text-is('nnpu')) .chip:not(.chance)").count() == 0
    for table in page.locator("table").all():
        assert table.locator("caption").count() == 1
    for chart in page.locator("#figures .chart svg.marks").all():
        assert chart.get_attribute("aria-label")


def test_the_tied_stand_together(browser: Any, tmp_path: Path) -> None:
    levels = {"upu": 0.70, "nnpu": 0.80, "nnpu-c": 0.802, "vpu": 0.79, "pan": 0.71}
    rows = []
    for i in range(6):
        for name, level in levels.items():
            part = curves(f"{name}{i}", algorithm=name, dataset=f"d{i}", selectable=True)
            jump = {"nnpu": 0.01, "pan": 0.14}.get(name, 0.0) * (i % 2)
            rows.append(part.assign(test_accuracy=level + jump + 0.01 * i))
    write_page(pd.concat(rows), tmp_path / "page.html")
    opened = Opened(browser, tmp_path / "page.html", figures=5)
    words = opened.page.locator("#board tr.group").all_inner_texts()
    assert [text.strip() for text in words] == [
        "Tied first: 3 methods that cannot be told apart from the best",
        "Behind the best by more than chance",
    ]
    # pan varies so much that it is tied, although vpu, which is not, has a better mean
    tied = ["nnpu", "nnpu-c", "pan"]
    assert opened.page.locator("#board tr.tied .link").all_inner_texts() == tied
    assert opened.names() == [*tied, "vpu", "upu"]
    assert (
        opened.page.locator("#board tr.tied .plot .line").count() == 2
    )  # the best has no difference from itself
    assert ": nnpu-c, pan (" in opened.page.locator("#verdict").inner_text()
    assert opened.page.locator("#figure-missing").inner_text().count("label shift") == 1
    assert not opened.page.locator("#figure-label-shift").is_visible()
    assert opened.wrong == []
    opened.context.close()


def test_the_address_keeps_the_filters(browser: Any, file: Path, opened: Opened) -> None:
    opened.choose("metric", "AUC")
    opened.choose("dataset", "letter")
    opened.page.fill("#filters input[name=search]", "nnp")
    opened.page.select_option("#figure-filters select[name=criterion]", label="OA")
    address = opened.page.url
    assert "#metric=auc&dataset=letter&search=nnp&chosen-by=oa" in address
    board = opened.page.locator("#board").inner_text()
    opened.page.click("nav a[href='#tables']")
    assert opened.page.url == address
    other = browser.new_context()
    page = other.new_page()
    page.goto(address)
    page.wait_for_selector("#board tr[data-method]")
    assert page.locator("#board").inner_text() == board
    assert page.locator("#filters input[name=search]").input_value() == "nnp"
    assert page.locator("#figure-filters select[name=criterion]").input_value() == "oa"
    page.goto(
        file.as_uri() + "#metric=nothing&dataset=%3Cimg%3E&sort=x.y"
    )  # what is not known is left out
    page.wait_for_selector("#board tr[data-method]")
    assert page.locator("#filters select[name=metric] option:checked").inner_text() == "Accuracy"
    other.close()


def test_the_first_result_is_on_the_first_screen_of_a_phone(browser: Any, file: Path) -> None:
    opened = Opened(browser, file, viewport={"width": 400, "height": 800})
    box = opened.page.locator("#board tr[data-method]").first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 800
    opened.context.close()


def test_a_method_opens_by_mouse_and_by_keyboard(opened: Opened) -> None:
    page = opened.page
    page.click("#board tr:has(button:text-is('nnpu')) td:last-child")
    dialog = page.locator("dialog[open]")
    dialog.locator("svg.marks").wait_for()
    words = dialog.inner_text()
    for expected in (
        "nnPU",
        "Kiryo",
        "max(-beta",
        "tolerance",
        "Differences from the published code",
        "letter, case 2",
    ):
        assert expected in words
    assert dialog.locator("svg.marks path").count() > 10
    dialog.locator("summary", has_text="Every selected checkpoint").click()
    assert "beta 0.5" in dialog.inner_text()
    dialog.get_by_role("button", name="nnpu-c").click()
    assert "Calibrated for one-sample data" in dialog.inner_text()
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    page.locator("#board tr:has(button:text-is('upu')) .link").focus()
    page.keyboard.press("Enter")
    assert "uPU" in dialog.inner_text()
    page.get_by_role("button", name="Close").press("Enter")
    assert not dialog.is_visible()


def test_the_spec_can_be_saved(opened: Opened) -> None:
    with opened.page.expect_download() as waiting:
        opened.page.click("#download")
    assert waiting.value.suggested_filename == "demo.json"
    assert (
        json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))["description"] == HOSTILE
    )
    assert "puarena run demo.json --out results" in opened.page.locator("#origin").inner_text()


@pytest.mark.parametrize("scheme, width", [("dark", 1200), ("light", 375)])
def test_dark_and_phone(browser: Any, file: Path, scheme: Any, width: int) -> None:
    opened = Opened(browser, file, viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = opened.page
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(background[4:].split(",")[0]) < 60) == (scheme == "dark")
    page.click("#board tr:nth-child(2) .link")
    page.locator("dialog[open] svg.marks").wait_for()
    assert page.evaluate(
        "document.querySelector('dialog').scrollWidth <= document.querySelector('dialog').clientWidth"
    )
    assert opened.wrong == []
    opened.context.close()


def test_without_a_spec(browser: Any, tmp_path: Path) -> None:
    rows = [
        curves(a, algorithm=a, dataset=f"d{i}", selectable=True)
        for i in range(5)
        for a in ("upu", "nnpu", "vpu")
    ]
    rows = [row.assign(run=row["run"] + row["dataset"]) for row in rows]
    write_page(pd.concat(rows), tmp_path / "page.html")
    opened = Opened(browser, tmp_path / "page.html", figures=4)
    assert "without a spec" in opened.page.locator("#origin").inner_text()
    assert len(opened.rows()) == 3
    assert opened.wrong == []
    opened.context.close()


def test_less_is_better(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Metric(
        "brier", "Brier", "squared error", abs, "score", higher=False, percent=False, high=None
    )
    monkeypatch.setitem(METRICS, record.name, record)
    errors = {"pn-oracle": 0.05, "upu": 0.3, "nnpu": 0.1234, "vpu": 0.2}
    rows = [
        curves(f"{a}{i}", algorithm=a, dataset=f"d{i}", selectable=True, test_brier=e + 0.01 * i)
        for a, e in errors.items()
        for i in range(5)
    ]
    write_page(pd.concat(rows), tmp_path / "page.html")
    opened = Opened(browser, tmp_path / "page.html", figures=4)
    opened.choose("metric", "Brier")
    assert opened.names() == ["pn-oracle", "nnpu", "vpu", "upu"]  # the best first
    nnpu = opened.rows()[1]
    assert nnpu[0] == "1"
    assert nnpu[2:6] == ["0.1434", "1", "1.0", "0.1234"]
    assert opened.page.locator("#board td.best").all_inner_texts()[:3] == [
        "0.1434",
        "1.0",
        "0.1234",
    ]
    assert "nnpu has the lowest mean brier (0.1434)" in opened.page.locator("#verdict").inner_text()
    assert "Test brier (lower is better)" in opened.page.locator("#board-words").inner_text()
    opened.page.get_by_role("button", name="Mean", exact=True).click()
    assert opened.names()[0] == "upu"
    opened.page.click("#board tr:has(button:text-is('nnpu')) td:last-child")
    opened.page.locator("dialog[open] svg.marks").wait_for()
    assert "test brier" in opened.page.locator("dialog[open] svg.marks").inner_html()
    assert opened.wrong == []
    opened.context.close()
