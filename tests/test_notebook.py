"""What results show of themselves in a notebook, and the bar below its cell."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import puarena
from pu_tables import quick, table
from puarena import PUSearch
from puarena.experiments.progress import choose_progress
from puarena.experiments.run import Outcome
from puarena.experiments.worker import Failure
from puarena.priors import PriorEstimate, estimate_prior
from puarena.report.compare import compare
from puarena.utils.notebook import Bold, HtmlList, html_table, in_notebook

EVIL = "<script>alert(1)</script>"
SPEC = {
    "problems": [{"dataset": "digits"}],
    "algorithms": ["upu", "nnpu"],
    "splits": 1,
    "configs": 1,
    "steps": 30,
}


class Cells(HTMLParser):
    """The words of a piece of HTML, which must close every element it opens."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open += [tag] if tag != "br" else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def words_of(item) -> list[str]:
    """The words that an object shows in a notebook; no name in them became an element."""
    found = Cells(item._repr_html_())
    assert "script" not in found.tags
    return found.words


def test_a_table_escapes_every_word():
    html = html_table([EVIL], [[EVIL, Bold(EVIL)]], EVIL, [EVIL], bold=0)
    assert [word for word in Cells(html).words if word == EVIL] == [EVIL] * 5
    assert "<script" not in html


def test_an_outcome_shows_its_counts_and_what_failed():
    failure = Failure(
        fleet="f", label=EVIL, runs=2, exception="ValueError", message="it broke", place="here"
    )
    words = words_of(
        Outcome(Path("out"), 7, 3, 2, failures=[failure], stopped="time is up", notes=("left out",))
    )
    assert words[:1] == ["runs in out"]
    assert dict(zip(words[1:9:2], words[2:9:2], strict=True)) == {
        "planned": "7",
        "computed": "2",
        "there already": "3",
        "failed": "2",
    }
    assert words[-3:] == [
        f"{EVIL} failed: ValueError: it broke (here)",
        "Stopped: time is up",
        "left out",
    ]


def test_priors_show_the_interval_other_methods_and_notes():
    rng = np.random.default_rng(0)
    truth = np.arange(600) % 10 < 3
    X = rng.normal(size=(600, 2)) + 3 * truth[:, None]
    found = estimate_prior(
        X, truth & (rng.random(600) < 0.5), n_bootstrap=0, compare=["elkan-noto"], warn=False
    )
    words = words_of(found)
    assert {
        "saturation",
        "elkan-noto",
        f"{found.value:.3f}",
        f"{found.details['others']['elkan-noto'].value:.3f}",
    } <= set(words)
    alone = PriorEstimate(0.31, (0.2, 0.4), EVIL, {"notes": ["mind"]})
    assert words_of(alone) == [
        "method",
        "class prior",
        "about 95%",
        EVIL,
        "0.310",
        "0.200 to 0.400",
        "mind",
    ]


def test_comparisons_show_ours_beside_the_published():
    found = compare("published:tabular-released", metrics="accuracy", criteria="oa")
    words = words_of(found)
    assert [item.title in words for item in found] == [True] * len(found)
    assert found[0].verdict in words
    first = found[0].cells[0]
    assert f"{first.ours:.2f} ± {first.ours_error:.2f}" in words
    assert isinstance(found, list)


def test_tables_in_a_list_show_themselves():
    found = puarena.table(
        "published:tabular", metrics=["accuracy"], criteria=["pa"], algorithms=["nnpu", "nnpu-c"]
    )
    assert len(found) == 4
    words = words_of(found)
    assert all(item.title in words for item in found)
    assert words_of(HtmlList([EVIL])) == [repr(EVIL)]


def test_a_search_shows_what_was_tried():
    X, y, _ = table()
    search = PUSearch(quick(), n_iter=2, random_state=0)
    assert "PUSearch" in search._repr_mimebundle_()["text/html"]
    search.fit(X, y)
    html = search._repr_mimebundle_()["text/html"]
    for line in search.results_:
        assert f"<td>{'<b>' if line['rank'] == 1 else ''}{line['params']['lr']:.2e}" in html
    assert f"prior {search.prior_:.3f}" in html


# -- the bar ----------------------------------------------------------------------


@pytest.fixture
def kernel(monkeypatch):
    """A notebook's kernel, as far as anybody here asks for it: the list of what was drawn, and in
    which place.
    """
    drawn: list[tuple[int, str]] = []
    places: list[int] = []

    def display(item, display_id=False):
        assert display_id
        places.append(len(places))
        here = places[-1]
        drawn.append((here, item._repr_html_()))
        return SimpleNamespace(update=lambda again: drawn.append((here, again._repr_html_())))

    ipython, shown = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    ipython.display, shown.display = shown, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return drawn


def test_a_run_in_a_notebook_has_a_bar_that_is_redrawn(kernel, tmp_path):
    assert in_notebook()
    outcome = puarena.run(SPEC, out=tmp_path, device="cpu", workers=1)
    assert outcome.computed == 2
    assert {place for place, _ in kernel} == {0}  # one bar, not one after the other
    assert len(kernel) >= 2
    values = [float(html.partition('value="')[2].partition('"')[0]) for _, html in kernel]
    assert values == sorted(values)
    assert (values[0], values[-1]) == (0.0, 1.0)
    assert "2/2 runs" in kernel[-1][1]
    assert "computed" in words_of(outcome)


def test_sentences_stay_below_the_bar(kernel):
    bar = choose_progress(True)
    bar.message(EVIL)
    assert EVIL in Cells(kernel[-1][1]).words
    assert EVIL in repr(bar)


def test_a_terminals_ipython_is_no_notebook(monkeypatch):
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not in_notebook()
