"""The site, and what it is made of: every link leads somewhere, every method has a page, nothing is
fetched.
"""
# ruff: noqa: RUF001 (letters that look like others are meant)

from __future__ import annotations

import json
import logging
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest
from documents import ROOT

from browsers import find_chromium, open_browser
from puarena import catalog
from puarena.results.schema import COLUMNS
from run_python import run_python

sys.path.insert(0, str(ROOT / "docs" / "make"))

import figures
import method_pages
import page_numbers
import tutorial
from formula import FormulaError, mathml

DOCS = ROOT / "docs"
SIZES = {"steps=500": "steps=20", '"steps": 300': '"steps": 20', '"splits": 3': '"splits": 1'}


class Links(HTMLParser):
    """What a page leads to, what it loads, and the names that one can lead to in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.names: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        values = {key: value or "" for key, value in attrs}
        self.names |= {values[key] for key in ("id", "name") if key in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in ("link", "script", "img", "iframe", "source"):
            self.loaded += [
                values[key]
                for key in ("href", "src")
                if values.get(key) and values.get("rel") != "canonical"
            ]


# -- the built site ------------------------------------------------------------------


def built(out: Path, monkeypatch) -> list[str]:
    """Build the site strictly; return what was said. The boards, which have tests of their own, are
    empty pages.
    """
    pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'puarena[docs]'")
    pytest.importorskip(
        "material", reason="mkdocs-material is not installed: pip install 'puarena[docs]'"
    )
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    from puarena.leaderboard import site

    def boards(results: Path, place: Path) -> None:
        names = [file.stem for file in Path(results).glob("*.parquet")]
        for file in (
            "index.html",
            *(f"{name}.{end}" for name in names for end in ("html", "csv", "json", "parquet")),
        ):
            (place / file).write_text("<p>a board</p>")

    monkeypatch.setattr(site, "build", boards)
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger("mkdocs")
    logger.addHandler(handler)
    try:
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(out), strict=True)
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    finally:
        logger.removeHandler(handler)
    return said


def test_the_site_is_whole(tmp_path, monkeypatch):
    """One build and everything that is asked of it: building takes the time."""
    warnings = built(tmp_path, monkeypatch)
    assert not warnings
    pages = read_site(tmp_path)
    assert len(pages) > 60
    assert not lost_links(pages), "\n".join(lost_links(pages))
    assert not fetched(pages), "\n".join(fetched(pages))
    ours = [
        entry for entry in catalog.get_all().values() if entry.origin != "plugin"
    ]  # other tests bring plugins
    for entry in ours:  # every form of a method is on the page of its base
        text = (tmp_path / "algorithms" / f"{entry.base}.html").read_text(encoding="utf-8")
        assert f"<code>{entry.name}</code>" in text
    nnpu = (tmp_path / "algorithms" / "nnpu.html").read_text(encoding="utf-8")
    assert "<math" in nnpu
    assert "tabular-definition" in nnpu
    assert "class NNPU" in re.sub("<[^>]+>", "", nnpu)
    pictures = (tmp_path / "pictures.html").read_text(encoding="utf-8")
    assert pictures.count('class="picture" role="img" aria-label="') == len(figures.PICTURES)
    assert pictures.count("<svg") >= len(figures.PICTURES)
    for loaded in tmp_path.rglob("*.css"):
        assert "@import" not in loaded.read_text(encoding="utf-8", errors="ignore")
    listed = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    for place in re.findall(r"\]\(([^)]+)\)", listed):
        assert (tmp_path / place).is_file(), place
    assert "(assistants.html)" in listed
    assert "(algorithms/nnpu.html)" in listed
    # An interval that does not exist is not printed.
    assert "nan to nan" not in (tmp_path / "leaderboard.html").read_text(encoding="utf-8")
    if find_chromium():
        search_from_a_folder(tmp_path)


def search_from_a_folder(site: Path) -> None:
    """Search the site as somebody does who opened it without a server."""
    with open_browser() as browser:
        page = browser.new_page()
        page.goto((site / "index.html").as_uri())
        page.click(".md-search__input")
        page.wait_for_function("typeof __index === 'object'")
        # Letters that are typed before the index is read are not searched for.
        page.wait_for_function(
            """() => {
                const input = document.querySelector(".md-search__input");
                input.value = input.value === "proxy" ? "proxy accuracy" : "proxy";
                input.dispatchEvent(new Event("input", { bubbles: true }));
                input.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }));
                return document.querySelector(".md-search-result__item") !== null;
            }""",
            polling=500,
        )
        assert "criteria.html" in page.inner_html(".md-search-result__list")


def read_site(folder: Path) -> dict[Path, Links]:
    """The pages of a site."""
    return {file: Links(file.read_text(encoding="utf-8")) for file in folder.rglob("*.html")}


def lost_links(pages: dict[Path, Links]) -> list[str]:
    """Links inside the site that lead to no file, or to no place in a page."""
    lost = []
    for file, page in pages.items():
        for link in (*page.links, *page.loaded):
            there = urlsplit(link)
            if (
                there.scheme or there.netloc or file.name == "404.html"
            ):  # 404 speaks of the site's own address
                continue
            target = (file.parent / unquote(there.path)).resolve() if there.path else file
            target = target / "index.html" if target.is_dir() else target
            places = pages[target].names if target in pages else set()
            if not target.exists() or (
                there.fragment and target in pages and unquote(there.fragment) not in places
            ):
                lost.append(f"{file} leads to {link}")
    return lost


def fetched(pages: dict[Path, Links]) -> list[str]:
    """What pages load from elsewhere."""
    return [
        f"{file} loads {url}"
        for file, page in pages.items()
        for url in page.loaded
        if urlsplit(url).netloc
    ]


def test_a_lost_link_would_be_seen(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a id="here" href="b.html#there">x</a><a href="b.html#no">x</a><a href="c.html">x</a><a href="#here">x</a>'
    )
    (tmp_path / "b.html").write_text(
        '<p id="there">x</p><script src="https://example.org/a.js"></script>'
    )
    pages = read_site(tmp_path)
    assert sorted(line.split()[-1] for line in lost_links(pages)) == ["b.html#no", "c.html"]
    assert [line.split()[-1] for line in fetched(pages)] == ["https://example.org/a.js"]


# -- formulas ----------------------------------------------------------------------


def words(markup: str) -> str:
    """What a formula shows, without its structure."""
    return "".join(ElementTree.fromstring(markup).itertext())


@pytest.mark.parametrize(
    "text, shown",
    [
        (
            "prior mean_P l+ + max(-beta, mean_U l- - prior mean_P l-)",
            "πmeanPℓ++max(−β,meanUℓ−−πmeanPℓ−)",
        ),
        ("p(y=1|x)", "p(y=1|x)"),
        ("alpha |sum_P a - n_P|", "α|∑Pa−nP|"),
        ("lam ~ Beta(0.3, 0.3)", "λ∼Beta(0.3,0.3)"),
        ("s~ >= 1e-6", "s~≥10−6"),
        ("mean_U' g", "meanU′g"),
        ("pi_bar", "π¯"),
        ("1(sigma > eta) f", "𝟙(σ>η)f"),
    ],
)
def test_formulas_show_what_is_written(text, shown):
    assert words(mathml(text)) == shown


def test_fractions_take_the_factors_beside_the_stroke():
    (fraction,) = ElementTree.fromstring(mathml("r mean_P l+/e + 1")).iter("mfrac")
    assert ["".join(part.itertext()) for part in fraction] == ["ℓ+", "e"]
    (fraction,) = ElementTree.fromstring(mathml("(pi - r) / (1 - r)")).iter("mfrac")
    assert ["".join(part.itertext()) for part in fraction] == [
        "π−r",
        "1−r",
    ]  # brackets are not needed there
    (fraction,) = ElementTree.fromstring(mathml("|a - b| / 2")).iter("mfrac")
    assert "".join(fraction[0].itertext()) == "|a−b|"  # these are


def test_every_formula_of_every_method_can_be_typeset():
    count = 0
    for entry in catalog.get_all().values():
        html = method_pages.typeset(entry.description)
        for found in re.findall(r"<math.*?</math>", html):
            ElementTree.fromstring(found)
            count += 1
        assert "``" not in html
    assert count > 100


@pytest.mark.parametrize("text", ["(a", "a)", "a / ", "a # b", "|a"])
def test_what_is_no_formula_is_refused(text):
    with pytest.raises(FormulaError, match=re.escape(text.strip()[0])):
        mathml(text)


def test_settings_of_options_stay_code():
    html = method_pages.typeset("With ``form = exact`` it is ``q = 1``.", ("form",))
    assert "<code>form = exact</code>" in html
    assert html.count("<math") == 1


# -- pages of one's own hand ---------------------------------------------------------


@pytest.mark.parametrize("page", page_numbers.pages(), ids=lambda page: page.name)
def test_numbers_in_pages_are_those_of_the_results(page):
    text = page.read_text(encoding="utf-8")
    assert page_numbers.renewed(text) == text, (
        f"results or facts have changed since docs/{page.name} was written: run python docs/make/page_numbers.py, and "
        "read the text around the numbers again"
    )


@pytest.mark.parametrize("name", figures.PICTURES)
def test_pictures_in_the_repository_are_those_that_the_library_draws(name):
    """By their words, the numbers in them: how glyphs are placed may differ between versions."""
    kept = (figures.IMAGES / f"{name}.svg").read_text(encoding="utf-8")
    assert text_of(kept) == text_of(figures.file_of(name)), "run python docs/make/figures.py"
    assert "currentColor" in kept


def text_of(svg: str) -> list[str]:
    """The words of a picture."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_every_column_is_explained():
    text = (DOCS / "results-format.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?) \|", text, re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert set(COLUMNS) <= named
    assert {name for name in named if not name.startswith(("val_", "test_"))} == set(COLUMNS)


def test_messages_that_are_quoted_are_given():
    """What docs/trouble.md quotes as a message stands in the program."""
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    plain = re.sub(r'"\s*\n\s*f?"', "", source)
    quoted = re.findall(
        r'^\*\*[^"*\n]*"(.+?)"', (DOCS / "trouble.md").read_text(encoding="utf-8"), re.M
    )
    assert len(quoted) > 6
    lacking = [message for message in quoted if message not in plain]
    assert not lacking


# -- the notebook --------------------------------------------------------------------


def test_the_tutorial_runs(tmp_path):
    """Its code cells, smaller than a reader's, show the same kinds of things as those that were
    kept.
    """
    cells = tutorial.read()
    for this, that in SIZES.items():
        assert any(this in cell["source"] for cell in cells)
        for cell in cells:
            cell["source"] = cell["source"].replace(this, that)
    smaller = tmp_path / "tutorial.ipynb"
    tutorial.write(cells, smaller)
    code = "import tutorial as t; t.write(t.run(t.read(t.Path('tutorial.ipynb'))), t.Path('tutorial.ipynb'))"
    run_python("-c", code, cwd=tmp_path, first=DOCS / "make")
    ran = tutorial.read(smaller)
    assert [kinds(cell) for cell in ran] == [kinds(cell) for cell in cells]
    assert sum(cell["cell_type"] == "code" for cell in ran) >= 10
    assert "<progress" in smaller.read_text(encoding="utf-8")  # a run has its bar


def kinds(cell) -> list[tuple[str, ...]]:
    """What kinds of things a cell shows."""
    return [
        (output["output_type"], *sorted(output.get("data", ())))
        for output in cell.get("outputs", ())
    ]


def test_the_notebook_is_one():
    book = json.loads(tutorial.FILE.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in book["cells"]]
    assert len(set(ids)) == len(ids)
    counts = [cell["execution_count"] for cell in book["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))  # it was run from top to bottom
    for target in re.findall(r"\]\(\.\./(docs/[\w-]+\.md)", "".join(map(str, book["cells"]))):
        assert (ROOT / target).is_file()


def test_an_error_in_a_cell_is_an_error():
    with pytest.raises(ZeroDivisionError):
        tutorial.run([{"cell_type": "code", "source": "1 / 0"}])
    (cell,) = tutorial.run([{"cell_type": "code", "source": "print('a')\n'b'"}])
    assert [
        output.get("text", "") or output["data"]["text/plain"] for output in cell["outputs"]
    ] == ["a\n", "'b'"]
