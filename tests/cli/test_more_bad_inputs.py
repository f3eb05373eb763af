"""More kinds of bad input, of every command and of Python: refused in a sentence, or understood and said so."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest

import puarena
from bad_inputs import call, refused
from puarena.errors import UserError
from puarena.priors import estimate_prior

SPEC = "problems: [{{dataset: digits{problem}}}]\nalgorithms: [nnpu]\nsplits: 1\nconfigs: 1\nsteps: 20\n"
TABLES = {  # columns of a table of 40 rows, 10 of them labeled
    "t.csv": {},
    "empty_column.csv": {"a": np.nan},
    "text.csv": {"a": "x"},
    "huge.csv": {"a": 1e300},
    "words.csv": {"s": np.where(np.arange(40) < 10, "yes", "no")},
}
FILES = {
    "twice.csv": "a,b,s,s\n1,2,1,1\n2,1,0,0\n",
    "no_header.csv": "1,2,1\n2,1,0\n",
    "decimal.csv": "a;b;s\n1,5;2,5;1\n2,5;1,5;0\n",
    "latin.csv": "größe,s\n1,1\n2,0\n".encode("latin-1"),
    "file": "not a folder",
    "ok.yaml": SPEC.format(problem=""),
}
FIT = ["--label", "s", "--algorithm", "nnpu", "--steps", "5", "--prior", "0.6", "--out", "m"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    s = (np.arange(40) < 10).astype(int)
    frame = pd.DataFrame({"a": rng.normal(size=40) + s, "b": rng.normal(size=40), "s": s})
    for name, columns in TABLES.items():
        frame.assign(**columns).to_csv(tmp_path / name, index=False)
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    for name in ("dir.csv", "dir.parquet", "dir.yaml"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("more") / "results"
    options = [
        "--algorithms",
        "nnpu",
        "--splits",
        "1",
        "--steps",
        "20",
        "--cases",
        "1",
        "--device",
        "cpu",
    ]
    assert call("run", "demo", *options, "--out", out).exit_code == 0
    return out


EMPTY = [
    ["plan", ""],
    ["plan", "ok.yaml", "--network", ""],
    ["run", "ok.yaml", "--out", ""],
    ["run", "ok.yaml", "--out="],
    ["run", "ok.yaml", "--out", "x", "--for", ""],
    ["report", ""],
    ["report", "r", "--csv", ""],
    ["status", ""],
    ["fit", "t.csv", "--label", "", "--out", "m"],
    ["fit", "t.csv", "--label", "s", "--out", ""],
    ["predict", "", "t.csv", "--out", "o.csv"],
    ["export", "r", "--out", ""],
    ["figures", "r", "--out", ""],
    ["merge", "r", "", "--out", "m"],
    ["explain", ""],
    ["data", "fetch", ""],
    ["priors", "estimate", "t.csv", "--label="],
]


@pytest.mark.parametrize("args", EMPTY, ids=" ".join)
def test_an_empty_word_is_no_value(args, folder):
    """``--out "$UNSET"`` must not write into the present folder."""
    assert "empty" in refused(folder, *args)


@pytest.mark.parametrize(
    "args, words",
    [
        (["fit", "dir.csv", *FIT], "is a folder"),
        (["fit", "twice.csv", *FIT], "two columns called 's'"),
        (["fit", "no_header.csv", *FIT], "is its first line a header?"),
        (["fit", "decimal.csv", *FIT], "semicolons"),
        (["fit", "latin.csv", *FIT], "UTF-8"),
        (["fit", "huge.csv", *FIT], "column 'a' has numbers beyond"),
        (
            ["fit", "words.csv", *FIT, "--positive", "maybe"],
            "--positive is 'maybe', and column 's' has the values",
        ),
        (
            ["fit", "words.csv", *FIT, "--positive", "yes", "--negative", "never"],
            "--negative is 'never'",
        ),
        (
            ["fit", "words.csv", *FIT, "--positive", "yes", "--negative", "yes"],
            "a row cannot be both",
        ),
        (["fit", "t.csv", *FIT, "--features", "a,a"], "named twice"),
        (["fit", "t.csv", *FIT, "--seed", "-1"], "--seed is -1"),
        (["fit", "t.csv", *FIT, "--setting", "samples"], "unknown setting"),
        (["fit", "t.csv", *FIT, "--algorithm", "elkan-noto", "--search", "2"], "nothing to search"),
        (["predict", "m", "t.csv", "--out", "dir.csv"], "is a folder"),
        (["predict", "m", "t.csv", "--out", "file/o.csv"], "is a file"),
        (["priors", "estimate", "t.csv", "--label", "s", "--seed", "-1"], "--seed is -1"),
        (
            ["priors", "estimate", "t.csv", "--label", "s", "--method", "estimate:bbx"],
            "unknown method",
        ),
        (["plan", "ok.yaml", "--steps", "9" * 23], "steps"),
        (["plan", "ok.yaml", "--labeling", "class("], "a bracket is missing"),
        (["plan", "ok.yaml", "--labeling", "class(strength=2"], "a bracket is missing"),
        (["plan", "ok.yaml", "--labeling", "class(strength=1e308)"], "finite number"),
        (["plan", "ok.yaml", "--labeling", "class(strength=1,strength=2)"], "given twice"),
        (["plan", "ok.yaml", "--gpus", "0"], "--gpus is '0'"),
        (["plan", "ok.yaml", "--gpus", "some"], "--gpus is 'some'"),
        (["plan", "ok.yaml", "--workers", "0"], "the number of workers is 0; give 1 or more"),
        (
            ["run", "ok.yaml", "--out", "x", "--workers", "0"],
            "the number of workers is 0; give 1 or more",
        ),
        (["run", "ok.yaml", "--out", "x", "--threads", "0"], "the number of threads is 0"),
        (["run", "ok.yaml", "--out", "x", "--engine", "nope"], "unknown executor"),
        (
            ["run", "ok.yaml", "--out", "x", "--device", "cpu", "--gpus", "all"],
            "--gpus is for the engine",
        ),
        (["run", "ok.yaml", "--out", "x", "--address", "here"], "--address is for the engine"),
        (
            ["run", "ok.yaml", "--out", "x", "--gpus-per-fleet", "0.5"],
            "--gpus-per-fleet is for the engine",
        ),
        (["run", "ok.yaml", "--out", "x", "--slurm", "account=me"], "--slurm is for the engine"),
        (["speed", "--features", "0"], "--features"),
        (["speed", "--features", "-1"], "--features"),
        (["speed", "--batch-size", "0"], "--batch-size"),
        (["speed", "--seconds", "0"], "--seconds"),
        (["speed", "--seconds", "nan"], "--seconds"),
        (["speed", "--out", "dir.csv"], "is a folder"),
        (["bias", "show", "digits", "--labeling", "scar", "--split", "-1"], "--split"),
        (["explain", "all"], "more"),
    ],
)
def test_commands(args, words, folder):
    assert words in refused(folder, *args)


def test_what_yaml_takes_for_text_and_people_for_numbers(folder):
    """``lr: 1e-3`` has no point, so PyYAML reads text; a merge key is no key that stands twice."""
    (folder / "e.yaml").write_text(
        SPEC.format(problem="") + "hyper: {nnpu: &n {lr: 1e-3}, vpu: {<<: *n}}\n"
    )
    spec = puarena.Spec.from_yaml("e.yaml")
    assert spec.hyper == {"nnpu": {"lr": 0.001}, "vpu": {"lr": 0.001}}
    result = call("plan", "e.yaml")
    assert result.exit_code == 0, result.output
    assert "sets values for vpu" in result.stderr


OUTPUTS = [
    (["report", "{r}", "--html", "{r}/spec.json"], "belongs to the results"),
    (["report", "{r}", "--csv", "{r}/shards/x.csv"], "belongs to the results"),
    (["report", "{r}", "--csv", "{r}/failures"], "is a folder"),
    (["export", "{r}", "--out", "{r}/planned.parquet"], "belongs to the results"),
    (["report", "{r}", "--html", "dir.csv"], "is a folder"),
    (["report", "{r}", "--html", "file/page.html"], "is a file"),
    (["export", "{r}", "--out", "dir.parquet"], "is a folder"),
    (["compare", "{r}", "--published", "t.csv", "--csv", "t.csv"], "would be lost"),
]


@pytest.mark.parametrize("args, words", OUTPUTS)
def test_outputs_that_would_destroy_something_or_cannot_be_written(args, words, folder, results):
    before = (results / "spec.json").read_bytes()
    assert words in refused(folder, *(arg.format(r=results) for arg in args))
    assert (results / "spec.json").read_bytes() == before


def test_a_summary_is_not_replaced_by_its_table(folder, results):
    assert call("export", results, "--out", "s.parquet").exit_code == 0
    assert "would be lost" in refused(folder, "report", "s.parquet", "--csv", "s.parquet")


def test_a_column_without_a_value_is_left_out_and_named(folder):
    for command in (
        ["fit", "empty_column.csv", *FIT],
        ["priors", "estimate", "empty_column.csv", "--label", "s"],
    ):
        result = call(*command)
        assert result.exit_code == 0, result.output
        assert "a column without any value is no feature; left out: 'a'" in result.stderr
    assert call("predict", "m", "t.csv", "--out", "o.csv").exit_code == 0


def test_a_model_is_not_used_on_columns_of_another_kind(folder):
    assert call("fit", "text.csv", *FIT).exit_code == 0
    assert "was of text when the model was fitted" in refused(
        folder, "predict", "m", "t.csv", "--out", "o.csv"
    )


def test_predictions_are_there_whole_or_not_at_all(folder, monkeypatch):
    assert call("fit", "t.csv", *FIT).exit_code == 0
    (folder / "o.csv").write_text("kept")

    def full(self, blob):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    result = call("predict", "m", "t.csv", "--out", "o.csv")
    assert result.exit_code == 2
    assert "full" in result.stderr
    assert (folder / "o.csv").read_text() == "kept"


@pytest.mark.parametrize("words", ["bbe", "BBE", "estimate:bbe", "Estimate:BBE"])
def test_a_way_to_estimate_the_prior_is_named_the_same_everywhere(words, folder):
    y = (np.arange(40) < 10).astype(int)
    x = np.random.default_rng(0).normal(size=(40, 2)) + y[:, None]
    assert estimate_prior(x, y, method=words, warn=False).method == "bbe"
    assert puarena.Spec(problems=[{"dataset": "digits"}], prior_source=words).prior_source == (
        "estimate:bbe",
    )
    estimated = call("priors", "estimate", "t.csv", "--label", "s", "--method", words).stdout
    assert estimated.splitlines()[1].startswith("bbe ")
    assert call("fit", "t.csv", *FIT, "--prior", words).exit_code == 0
    assert call("plan", "ok.yaml", "--prior", words).exit_code == 0


SMALL = {
    "problems": [{"dataset": "digits"}],
    "algorithms": ["nnpu"],
    "splits": 1,
    "configs": 1,
    "steps": 3,
}
X, Y = np.random.default_rng(0).normal(size=(40, 2)), (np.arange(40) < 10).astype(int)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"stepz": 3}, "did you mean 'steps'?"),
        ({"problems": []}, "run 'problems'"),
        ({"steps": -1}, "steps"),
        ({"algorithms": "nnpux"}, "'nnpu'"),
        ({"workers": 1.5}, "workers"),
        ({"workers": "two"}, "workers"),
        ({"workers": True}, "workers"),
        ({"threads": "a"}, "threads"),
        ({"fleet_size": 0}, "fleet_size"),
        ({"fleet_size": "a"}, "fleet_size"),
        ({"checkpoint_every": "often"}, "often"),
        ({"seconds": -1}, "seconds"),
        ({"seconds": "2h"}, "seconds"),
        ({"seconds": float("nan")}, "seconds"),
        ({"fleet_timeout": -3}, "fleet_timeout"),
        ({"device": None}, "device"),
        ({"engine": 3}, "executor"),
        ({"slurm": (("a", "b"),)}, "slurm"),
        ({"datasets": 3}, "dataset '3'"),
        ({"settings": 7}, "setting '7'"),
        ({"plugins": "nowhere.py"}, "'nowhere.py' is not a file"),
    ],
)
def test_run(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        puarena.run(SMALL, out="x", progress=False, **options)
    assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "what, words",
    [
        (lambda r: puarena.table(r, algorithms=3), "neither"),
        (lambda r: puarena.table(r, metrics=3), "neither"),
        (lambda r: puarena.table(r, algorithms="nnpux"), "'nnpux'"),
        (lambda r: puarena.table(puarena.load(r).df().assign(step="a")), "not a table of curves"),
        (lambda r: estimate_prior(X, Y, n_bootstrap=-1), "n_bootstrap"),
        (lambda r: estimate_prior(X, Y, method=None), "unknown method"),
    ],
)
def test_python(what, words, results, folder):
    with pytest.raises(ValueError, match=words):
        what(results)


def test_a_matrix_with_a_column_without_values_is_fitted_and_predicted(folder):
    gaps = np.column_stack([X, np.full(40, np.nan)])
    with pytest.warns(UserWarning, match="left out: 'column 2'"):
        clf = puarena.PUNetClassifier("nnpu", prior=0.6, steps=2, random_state=0).fit(gaps, Y)
    full = np.column_stack([X, np.ones(40)])
    assert np.array_equal(clf.decision_function(full), clf.decision_function(gaps))


def test_options_of_the_experiment_can_be_given_to_run(tmp_path):
    """``puarena.run("demo", steps=3)`` is ``puarena run demo --steps 3``."""
    out = puarena.run(
        "demo", tmp_path / "x", progress=False, algorithms="nnpu", steps=3, splits=1, cases=1
    )
    assert (out.planned, out.computed) == (1, 1)
    assert puarena.load(tmp_path / "x").df()["step"].max() == 3
    shutil.rmtree(tmp_path / "x")
