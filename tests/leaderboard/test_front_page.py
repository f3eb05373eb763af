"""The front page of the leaderboards: boards, rows, badges and versions, and what is left out."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser

import pytest

import puarena
from puarena.leaderboard import site
from puarena.leaderboard.publish import compute_checksum
from puarena.leaderboard.site import Board, cite
from puarena.results import published
from puarena.results.published import COMMUNITY, read_card, verdict_file
from tiny_suite import PLUGIN, TINY, WHO, call, fails

EVIL = '<img src=x onerror="alert(1)">'


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the text of every row of the table."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[str] = []
        self.in_row = False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append("")
            self.in_row = True

    def handle_endtag(self, tag):
        self.in_row = self.in_row and tag != "tr"

    def handle_data(self, data):
        if self.in_row:
            self.rows[-1] += f" {data.strip()}"

    def links(self) -> list[str]:
        return [attrs["href"] or "" for tag, attrs in self.found if tag == "a"]


def build(shelf, out):
    """Build a site without the pages of boards, which are slow; return its front page."""
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site, "write_page", lambda shown, path, home: path.write_text(home))
        boards = site.build(shelf, out, said.append)
    return Elements((out / "index.html").read_text(encoding="utf-8")), boards, said


@pytest.fixture
def sent(shelf, mine):
    """A shelf with a submission."""
    done = call(
        "submit", mine, *WHO, "--author", "Me <me>", "--out", shelf / COMMUNITY / "my-method"
    )
    assert done.exit_code == 0, done.output
    assert "It appears on the board tiny-definition." in done.stdout
    return shelf


def test_a_row_of_every_method(sent, tmp_path):
    page, (board,), said = build(sent, tmp_path / "site")
    assert not said
    assert board.community == ("My method",)
    rows = [row for row in page.rows if "tiny-definition" in row]
    own = next(row for row in rows if " mine " in row)
    assert "community" in own
    assert "Me <me>" in own
    assert "published by us" in next(row for row in rows if " vpu " in row)
    assert "https://example.org/mine" in page.links()
    for link in page.links():
        if not link.startswith(("#", "http")):
            assert (tmp_path / "site" / link).exists(), link
    titles = [attrs["aria-label"] for tag, attrs in page.found if tag == "svg"]
    assert [str(title).partition(":")[0] for title in titles] == ["tiny-definition"]
    version = ".".join(puarena.__version__.split(".")[:2])
    assert (tmp_path / "site" / version / "tiny-definition.html").read_text() == "../index.html"


def test_names_are_text_and_addresses_are_addresses(sent, tmp_path):
    card = json.loads((sent / COMMUNITY / "my-method" / "card.json").read_text())
    card["name"] = card["author"] = EVIL
    (sent / COMMUNITY / "my-method" / "card.json").write_text(json.dumps(card))
    own = json.loads((sent / "tiny-definition.json").read_text())
    own["machine"] = own["question"] = own["command"] = EVIL
    (sent / "tiny-definition.json").write_text(json.dumps(own))
    page, _, _ = build(sent, tmp_path / "site")
    assert "img" not in {tag for tag, _ in page.found}
    assert EVIL in " ".join(page.rows)
    card["code"] = "javascript:alert(1)"
    (sent / COMMUNITY / "my-method" / "card.json").write_text(json.dumps(card))
    page, _, said = build(sent, tmp_path / "site")
    assert "--code" in said[0]
    assert not [link for link in page.links() if link.startswith("javascript")]


def test_the_badge_of_a_verdict_is_of_one_card(sent, tmp_path):
    summary = sent / COMMUNITY / "my-method" / "summary.parquet"
    verdict = {
        "card": compute_checksum(summary.with_name("card.json")),
        "row": "mine",
        "problem": "digits, case 1",
        "seed": 3,
        "reproduced": True,
        "verdict": "The same to the last bit.",
        "version": puarena.__version__,
        "device": "cpu",
        "date": "2026-11-18",
    }
    verdict_file(summary).write_text(json.dumps(verdict))
    page, _, _ = build(sent, tmp_path / "site")
    assert "reproduced" in next(row for row in page.rows if " mine " in row)
    verdict_file(summary).write_text(json.dumps(verdict | {"card": "0" * 64}))
    page, _, _ = build(sent, tmp_path / "site")
    assert "reproduced" not in next(row for row in page.rows if " mine " in row)


def test_frozen_and_newest_versions(shelf, tmp_path):
    older = shelf / "0.1"
    older.mkdir()
    for end in ("parquet", "csv", "json"):
        shutil.copyfile(shelf / f"tiny-definition.{end}", older / f"tiny-definition.{end}")
    card = read_card(older / "tiny-definition.parquet")
    card = card.model_copy(update={"version": "0.1.3"})
    (older / "tiny-definition.json").write_text(card.to_json())
    page, boards, _ = build(shelf, tmp_path / "site")
    assert [board.newest for board in boards] == [True, False]
    versions = [row for row in page.rows if "frozen" in row or "newest" in row]
    assert [("newest" in row, "0.1" in row.split()) for row in versions] == [
        (True, False),
        (False, True),
    ]


def test_what_is_sent_appears_or_submit_names_the_reason(sent, made, mine, tmp_path):
    assert "nnpu (of puarena)" in fails("submit", made, *WHO)
    other = ("--name", "Another", "--code", "https://example.org")
    assert "mine (of 'My method')" in fails("submit", mine, *other)
    # A suite, or a version, without published results has a board of its own.
    for file in sent.glob("tiny-definition.*"):
        file.unlink()
    (tmp_path / "mine.py").write_text(PLUGIN.replace('"mine"', '"second"'))
    spec = TINY.override(algorithms=["second"], plugins=[str(tmp_path / "mine.py")])
    puarena.run(spec, tmp_path / "second", device="cpu", workers=1)
    done = call("submit", tmp_path / "second", *other, "--out", sent / COMMUNITY / "another")
    assert "on the board tiny-definition-community." in done.stdout
    page, (board,), said = build(sent, tmp_path / "site")
    assert not said
    assert board.community == ("Another", "My method")
    assert board.place.endswith("/tiny-definition-community")
    rows = " ".join(page.rows)
    assert all(f" {name} " in rows for name in ("mine", "second", "vpu"))


def test_the_papers_boards_are_first():
    boards = [
        Board(f"0.2/{file.stem}", card, None, departs=card.departs, ours=frozenset({"nnpu"}))
        for file in published.folder().glob("*.parquet")
        for card in [read_card(file)]
    ]
    names = [board.name for board in sorted(boards, key=Board.sort_key)]
    assert names[:2] == ["tabular-definition", "tabular-released"]
    assert all(board.card.question for board in boards)


@pytest.mark.parametrize(
    "paper, short",
    [
        ("Kato, Teshima, Honda: Learning from. ICLR 2019", "Kato et al., 2019"),
        ("Hu, Le: A title, in 2020, of 2021", "Hu, Le, 2021"),
        ("me, 2026", "me, 2026"),
        ("none", "none"),
    ],
)
def test_citations_in_short(paper, short):
    assert cite(paper) == short


# -- in a browser --------------------------------------------------------------------


def test_searching_and_sorting(browser, sent, tmp_path):
    build(sent, tmp_path / "site")
    page = browser.new_page(viewport={"width": 400, "height": 800})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((tmp_path / "site" / "index.html").as_uri())

    def rows() -> list[str]:
        names = page.locator("#lines tbody tr:visible th").all_inner_texts()
        return [name.strip() for name in names]

    assert set(rows()) == {"mine", "nnpu", "vpu"}
    page.fill("#search", "me <ME>")
    assert rows() == ["mine"]
    page.fill("#search", "")
    page.select_option("#badge-choice", "published by us")
    assert set(rows()) == {"nnpu", "vpu"}
    page.reload()  # the choice is part of the address
    assert set(rows()) == {"nnpu", "vpu"}
    page.select_option("#badge-choice", "")
    accuracy = page.locator("#lines thead button").nth(3)
    for order in (-1, 1):
        accuracy.click()
        shown = page.locator("#lines tbody tr td:nth-child(4)").all_inner_texts()
        numbers = [order * float(text) for text in shown]
        assert numbers == sorted(numbers)
    # Nothing is wider than a phone, except tables, which scroll.
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    # Nothing is cut off or broken in the middle of a word: every chip is one line, the menu is whole.
    heights = "[...document.querySelectorAll('.chip')].map(e => e.getClientRects()[0].height)"
    assert max(page.evaluate(heights)) < 30
    ends = "[...document.querySelectorAll('nav a')].map(e => e.getBoundingClientRect().right)"
    assert max(page.evaluate(ends)) <= 400
    assert not errors
    page.close()
