"""The page of a fit: whole, offline, safe with any name, and what it computes."""

from __future__ import annotations

import json
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

from browsers import open_browser
from pu_tables import quick, table
from puarena import PUClassifier, load_model
from puarena.cli import app
from puarena.datasets.encoding import TableEncoder, TableWarning
from puarena.errors import PUWarning
from puarena.estimators.fit_page import bin_calibration, list_cuts, list_gains
from puarena.estimators.importance import compute_importances

HOSTILE = "<script>alert(1)</script> & \"'"
X, s, truth = table(900, prior=0.3, labeled=0.4, seed=1, gap=2.5)


def make_frame():
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"word{at}" for at in range(40)])
    text = [" ".join(rng.choice(vocabulary, 6)) for _ in truth]
    return pd.DataFrame(
        {
            HOSTILE: X.sum(1),
            "noise": rng.normal(size=len(X)),
            "town": [f"town {i}" for i in rng.integers(0, 60, len(X))],
            "note": np.where(truth & (rng.random(len(X)) < 0.7), "dispute ", "") + text,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, len(X)), "D"),
            "customer_id": rng.permutation(len(X)) + 10_000,
        }
    )


@pytest.fixture(scope="module")
def clf():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = np.where(s, HOSTILE, "rest")
        model = PUClassifier(
            threshold="f1", costs=(1, 5), budget=40, positive_label=HOSTILE, random_state=0
        )
        return model.fit(make_frame(), y)


@pytest.fixture(scope="module")
def file(clf, tmp_path_factory):
    return clf.report(tmp_path_factory.mktemp("page") / "fit.html", title=HOSTILE)


class Page(HTMLParser):
    """Reads tags, attributes and text, except that of styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.style = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.style = tag == "style"

    def handle_endtag(self, tag):
        self.style = False

    def handle_data(self, data):
        self.words += "" if self.style else data


def test_the_page_is_whole_and_offline(file):
    text = file.read_text(encoding="utf-8")
    page = Page(text)
    names = {tag for tag, _ in page.tags}
    assert "script" not in names
    assert "img" not in names
    assert "iframe" not in names
    assert not any(name.startswith("on") for _, given in page.tags for name in given)
    links = [v for _, given in page.tags for k, v in given.items() if k in {"href", "src"}]
    assert links
    assert all(link.startswith("#") or link == "data:," for link in links)
    ids = [given["id"] for _, given in page.tags if "id" in given]
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert "default-src 'none'" in text
    assert len(text) < 400_000
    words = " ".join(page.words.split())
    assert words.count(" ".join(HOSTILE.split())) >= 4  # title, columns, label, card
    for expected in (
        f"{s.sum():,}",
        "left out columns that identify rows: 'customer_id'",
        "dates (year, month, weekday, days): day",
        "text (by its words): note",
        "all together",
        "lift, highest 5%",
        "threshold='f1'",
        "PA lost if shuffled",
        "positives found",
        "probability, mean of a bin",
        "if the share of positives were",
        "Not meant for",
    ):
        assert expected in words, expected
    chosen = [tag for tag, given in page.tags if given.get("class") == "chosen"]
    assert len(chosen) == 2  # a cut and a learner
    assert sum(given.get("class") == "vega" for _, given in page.tags) == 6


def test_the_page_in_a_browser(file):
    seen = []
    with open_browser() as browser:
        for width in (1400, 400):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.on("console", lambda message: seen.append(message.text))
            page.on("request", lambda request: seen.append(request.url))
            page.goto(file.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") == width
            sizes = "[...document.querySelectorAll('svg.vega')].map(s => s.clientWidth)"
            assert all(200 < size <= width for size in page.evaluate(sizes))
            page.close()
    assert set(seen) <= {file.as_uri(), "data:,"}


def test_importances_are_of_rows_that_models_have_not_seen(clf):
    found = {each.column: each for each in compute_importances(clf)}
    assert set(found) == {HOSTILE, "noise", "town", "note", "day"}
    assert found[HOSTILE].loss > 0.1
    assert found["note"].loss > found["noise"].loss + 2 * found["noise"].deviation
    for name in ("noise", "town", "day"):  # that trees learn by heart
        assert abs(found[name].loss) < 0.03
    sample = clf.sample_
    decision = clf.model_.decide(sample.rows, sample.fold)
    np.testing.assert_allclose(np.sort(decision), np.sort(clf.held_out_.decision), atol=1e-6)


def test_no_row_of_the_table_is_in_a_file(clf, tmp_path):
    clf.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert not hasattr(loaded, "sample_")
    assert compute_importances(loaded) == []
    text = loaded.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "no file of a model contains" in text
    assert "left out columns that identify rows" in text  # warnings are kept


def test_the_places_of_columns():
    frame = make_frame()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        encoder = TableEncoder().fit(frame)
    encoder.fit_rates(frame, s, 0)
    before = encoder.encode(frame)
    places = encoder.find_places()
    for form in range(3):
        every = [at for place in places.values() for at in place[form]]
        assert sorted(every) == list(range(before[form].shape[1]))
    for name, place in places.items():
        other = frame.assign(**{name: frame[name].sample(frac=1, random_state=1).to_numpy()})
        for form, after in enumerate(encoder.encode(other)):
            changed = np.unique((after != before[form]).nonzero()[1])
            assert set(changed) <= set(place[form])
            assert len(changed) > 0


def test_cuts_and_what_they_cost(clf):
    lines = {line.name: line for line in list_cuts(clf)}
    assert [name for name in lines if lines[name].chosen] == ["f1"]
    assert lines["budget"].positive_u == pytest.approx(40, abs=2)
    assert lines["cost"].cost == min(line.cost for line in lines.values())
    one = lines["model"]
    assert one.cost == pytest.approx(one.false + 5 * one.missed)
    expected = len(X) * one.evaluation.prior.value * (1 - one.evaluation.recall.value)
    assert one.missed == pytest.approx(expected)
    assert clf.threshold == "f1"  # it was only looked at


def test_calibration_and_gains_agree_with_the_truth():
    clf = PUClassifier(prior=0.3, random_state=0).fit(X, s)
    bins = bin_calibration(clf)
    inside = [each.low <= each.predicted <= each.high for each in bins]
    assert np.mean(inside) >= 0.7
    assert np.mean([each.share for each in bins]) == pytest.approx(0.3, abs=0.02)
    above, found = list_gains(clf.held_out_)
    assert (np.diff(above) > 0).all()
    assert (np.diff(found) >= 0).all()
    assert (above[-1], found[-1]) == (pytest.approx(1), 1)
    assert np.interp(0.3, above, found) > 0.75


def test_other_models_have_a_page(tmp_path):
    for model in (
        PUClassifier(LogisticRegression(), random_state=0),
        PUClassifier("elkan-noto", prior=0.3),
        quick(members=1),
        quick(members=2),
        PUClassifier("nnpu", prior=(0.2, 0.4), random_state=0),
        PUClassifier(LogisticRegression(), setting="two-sample"),
    ):
        if getattr(model, "algorithm", "") == "nnpu":
            model.set_params(max_samples=200)
        text = model.fit(X, s).report(tmp_path / "fit.html").read_text(encoding="utf-8")
        assert "column 1" in text


def test_warnings_are_kept_and_issued_where_fit_is_called():
    frame = make_frame()
    with pytest.warns(TableWarning, match="customer_id") as caught:
        clf = PUClassifier(LogisticRegression(), prior=0.3).fit(frame.drop(columns="note"), s)
    own = [item for item in caught if issubclass(item.category, PUWarning)]
    assert {item.filename for item in own} == {__file__}
    assert any("customer_id" in note for note in clf.notes_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.notes_ = []
        assert any("customer_id" in note for note in clf.fit(frame, s).notes_)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)
        with pytest.raises(TableWarning):
            clf.fit(frame, s)


def test_the_command_writes_a_page(tmp_path):
    data, out = tmp_path / "data.csv", tmp_path / "fit.html"
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(s=s.astype(int)).to_csv(data, index=False)
    words = ["fit", data, "--label", "s", "--prior", "0.3", "--algorithm", "elkan-noto"]
    words += ["--out", tmp_path / "model", "--html"]
    done = CliRunner().invoke(app, [*map(str, words), str(out), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["html"] == str(out)
    assert "data.csv" in out.read_text(encoding="utf-8")
    same = CliRunner().invoke(app, [*map(str, words), str(tmp_path / "model")])
    assert same.exit_code == 2
