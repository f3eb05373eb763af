"""What people type wrong ends with exit code 2 and one message that names the mistake."""

from __future__ import annotations

import errno
import os

import numpy as np
import pandas as pd
import pytest

import puarena
from bad_inputs import call, refused
from puarena.cli import options
from puarena.errors import UserError
from puarena.priors import estimate_prior

TINY = "--algorithms nnpu --splits 1 --configs 1 --steps 20 --cases 1 --device cpu"
SPEC = (
    "problems: [{dataset: digits}]\nalgorithms: [nnpu, dist-pu]\nsplits: 1\nconfigs: 1\nsteps: 20\n"
)
PLUGIN = """
from puarena.algorithms import Algorithm, logistic

class Mine(Algorithm):
    name, title, paper, setting = "mine", "Mine", "me, 2026", "two-sample"

    def objective(self, f_p, f_u):
        BODY
"""
GOOD_PLUGIN = PLUGIN.replace("BODY", "return f_p.mean(-1)")
FILES = {
    "raises.py": "raise RuntimeError('at once')\n",
    "empty.py": "",
    "built_in.py": GOOD_PLUGIN.replace('"mine"', '"nnpu"'),
    "setting.py": GOOD_PLUGIN.replace('"two-sample"', '"three-sample"'),
    "ok.yaml": SPEC,
    "twice.yaml": SPEC + "steps: 30\n",
    "list.yaml": "[1, 2]\n",
    "broken.yaml": "a: [1\n",
    "unknown.yaml": SPEC + "stepps: 3\n",
    "empty_list.yaml": "problems: [{dataset: digits, cases: []}]\n",
    "plain.yaml": "problems: digits\n",
    "no_rows.csv": "a,b,s\n",
    "nothing.csv": "",
    "uneven.csv": "a,b,s\n1,2,1\n1,2,3,4,5\n",
    "twice.csv": "a,b,s,s\n1,2,1,1\n2,1,0,0\n",
    "no_header.csv": "1,2,1\n2,1,0\n",
    "not.parquet": "this is no Parquet file",
    "file": "not a folder",
}


def make_table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    s = (np.arange(80) < 20).astype(int)
    return pd.DataFrame({"a": rng.normal(size=80) + s, "b": rng.normal(size=80), "s": s})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with files that are wrong in many ways, and a good table."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.csv").write_bytes("größe,s\n1,1\n2,0\n".encode("latin-1"))
    frame = make_table()
    columns = {
        "t.csv": {},
        "infinite.csv": {"a": np.where(np.arange(80) == 3, np.inf, frame["a"])},
        "one.csv": {"s": (np.arange(80) == 0).astype(int)},
        "none.csv": {"s": 0},
        "text.csv": {"a": "x"},
        "empty_column.csv": {"a": np.nan},
        "words.csv": {"s": np.where(np.arange(80) < 20, "yes", "no")},
    }
    for name, changes in columns.items():
        frame.assign(**changes).to_csv(tmp_path / name, index=False)
    return tmp_path


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("wrong") / "results"
    assert call(f"run demo {TINY} --out {{out}}", out=out).exit_code == 0
    return out


EXPERIMENTS = [  # options of plan and run, and the token that the message names
    ("--splits 0", "splits"),
    ("--steps 0", "steps"),
    ("--steps many", "--steps"),
    ("--rates 0", "rate"),
    ("--rates 1.5", "1.5"),
    ("--rates a", "--rates"),
    ("--rates 0.9", "digits"),
    ("--priors 1.2", "1.2"),
    ("--cases 7", "7"),
    ("--cases one", "--cases"),
    ("--settings three-sample", "'three-sample'"),
    ("--algorithms nnpux", "'nnpu'"),
    ("--algorithms pn_oracle", "'pn-oracle'"),
    ("--algorithms ,", "--algorithms"),
    ("--datasets lettre", "'letter'"),
    ("--network mpl", "'mlp'"),
    ("--precision half", "half"),
    ("--prior estimate:bbx", "bbx"),
    ("--labeling 'class(strength=2'", "class(strength=2"),
    ("--plugin missing.py", "missing.py"),
    ("--plugin raises.py", "raises.py"),
    ("--plugin empty.py", "empty.py"),
    ("--plugin built_in.py", "nnpu"),
    ("--plugin setting.py", "three-sample"),
    ("--set steps", "NAME=VALUE"),
    ("--set stepz=3", "stepz"),
    ("--workers 0", "0"),
    ("--engine nope", "nope"),
    ("--device gpu", "gpu"),
    ("--device cuda", "CUDA"),
    ("--data no/folder", "no/folder"),
]


@pytest.mark.parametrize("options, token", EXPERIMENTS)
def test_options_of_an_experiment(options, token, folder):
    name = options.split()[0]
    known = [part for part in TINY.split("--") if part and part.split()[0] != name[2:]]
    given = "".join(f"--{part.strip()} " for part in known)
    command = "plan demo" if name == "--set" else "run demo --out out"
    assert token in refused(folder, f"{command} {given}{options}")


COMMANDS = [
    ("run dmeo --out out", "'demo'"),
    ("run missing.yaml --out out", "missing.yaml"),
    ("run demo", "--out"),
    ("run demo --out ''", "--out"),
    ("run demo --out=", "--out"),
    (f"run demo {TINY} --out file", "file"),
    (f"run demo {TINY} --out file/out", "file"),
    (f"run demo {TINY} --out out --for soon", "soon"),
    (f"run demo {TINY} --out out --fleet-size 0", "--fleet-size"),
    (f"run demo {TINY} --out out --gpus all", "gpus"),
    (f"run demo {TINY} --out out --set slurm_partition=p", "slurm"),
    (f"run demo {TINY} --out out --set fleet_timeout=soon", "soon"),
    ("plan ok.yaml --gpus some", "--gpus"),
    ("plan twice.yaml", "steps"),
    ("plan list.yaml", "list.yaml"),
    ("plan broken.yaml", "broken.yaml"),
    ("plan unknown.yaml", "'steps'"),
    ("plan empty_list.yaml", "cases"),
    ("plan plain.yaml", "problems"),
    ("frobnicate", "frobnicate"),
    ("list algoritms", "'algorithms'"),
    ("explain nnpux", "'nnpu'"),
    ("check nnpux", "'nnpu'"),
    ("check raises.py", "at once"),
    ("data prepare lettre", "'letter'"),
    ("predict nowhere t.csv --out o.csv", "nowhere"),
    ("predict nowhere t.csv --out t.csv", "t.csv"),
    ("predict nowhere t.csv --out o.txt", "o.txt"),
    ("priors estimate t.csv --label z", "'z'"),
    ("priors estimate t.csv --label s --method bbx", "bbx"),
    ("priors estimate t.csv --label s --setting sample", "sample"),
    ("priors estimate one.csv --label s", "1 labeled positive"),
    ("report nowhere", "nowhere"),
    ("report file", "file"),
    ("status nowhere", "nowhere"),
]


@pytest.mark.parametrize("line, token", COMMANDS)
def test_commands(line, token, folder):
    assert token in refused(folder, line)


FIT = [
    ("fit missing.csv --label s --out m", "missing.csv"),
    ("fit file --label s --out m", "file"),
    ("fit t.csv --label z --out m", "'z'"),
    ("fit no_rows.csv --label s --out m", "no_rows.csv"),
    ("fit nothing.csv --label s --out m", "nothing.csv"),
    ("fit uneven.csv --label s --out m", "uneven.csv"),
    ("fit twice.csv --label s --out m", "'s'"),
    ("fit no_header.csv --label s --out m", "header"),
    ("fit latin.csv --label s --out m", "UTF-8"),
    ("fit not.parquet --label s --out m", "Parquet"),
    ("fit infinite.csv --label s --out m --algorithm nnpu --steps 5", "'a'"),
    ("fit none.csv --label s --out m", "'s'"),
    ("fit one.csv --label s --out m", "1 labeled positive"),
    ("fit words.csv --label s --out m --positive maybe", "maybe"),
    ("fit words.csv --label s --out m --positive yes --negative yes", "'yes'"),
    ("fit t.csv --label s --out .", "folder"),
    ("fit t.csv --label s --out m --search 0", "--search"),
    ("fit t.csv --label s --out m --seed -1", "--seed"),
    ("fit t.csv --label s --out m --device gpu", "gpu"),
    ("fit t.csv --label s --out m --algorithm nnpux", "nnpu"),
    ("fit t.csv --label s --out m --algorithm elkan-noto --search 2", "elkan-noto"),
    ("fit t.csv --label s --out m --prior 1.5", "1.5"),
    ("fit t.csv --label s --out m --prior estimate:bbx", "bbx"),
    ("fit t.csv --label s --out m --setting sample", "'sample'"),
    ("fit t.csv --label s --out m --selection acuracy", "acuracy"),
    ("fit t.csv --label s --out m --threshold half", "half"),
    ("fit t.csv --label s --out m --text nonsense", "nonsense"),
    ("fit t.csv --label s --out m --features z", "'z'"),
    ("fit t.csv --label s --out m --drop a,b", "'s'"),
]


@pytest.mark.parametrize("line, token", FIT)
def test_fit(line, token, folder):
    assert token in refused(folder, line)


RESULTS = [
    ("report {r} --metric acuracy", "'accuracy'"),
    ("report {r} --criterion paucc", "'pauc'"),
    ("report {r} --error variance", "variance"),
    ("report {r} --algorithms vpu", "vpu"),
    ("report {r} --datasets letter", "letter"),
    ("report {r} --rates 0.7", "0.7"),
    ("report {r} --csv {r}", "--csv"),
    ("stats {r} --over blocks", "blocks"),
    ("stats {r} --against vpux", "vpux"),
    ("compare {r}", "compare"),
    ("compare {r} --published missing.csv", "missing.csv"),
    ("compare {r} --published t.csv --csv t.csv", "t.csv"),
    ("export {r} --out x.csv", "x.csv"),
    ("merge {r} nowhere --out m", "nowhere"),
    ("figures {r} --out f --format gif", "gif"),
    (f"run demo {TINY} --set seed=5 --out {{r}}", "another spec"),
]


@pytest.mark.parametrize("line, token", RESULTS)
def test_commands_about_results(line, token, folder, results):
    assert token in refused(folder, line, r=results)


HYPER = [  # algorithm, name, value, token
    ("'*'", "lr", "0", "lr"),
    ("'*'", "lr", "abc", "lr"),
    ("nnpu", "batch_size", "1.5", "batch_size"),
    ("nnpu", "learning_rate", "0.1", "learning_rate"),
    ("nnpux", "lr", "0.1", "nnpux"),
]


@pytest.mark.parametrize("algorithm, name, value, token", HYPER)
def test_hyperparameters_are_checked_when_the_spec_is_read(algorithm, name, value, token, folder):
    (folder / "hyper.yaml").write_text(f"{SPEC}hyper: {{{algorithm}: {{{name}: {value}}}}}\n")
    assert token in refused(folder, "plan hyper.yaml")


@pytest.mark.parametrize(
    "body, token",
    [
        ("pass", "None"),
        ("return f_p", "[3, 16]"),
        ("return f_p.mean()", "single number"),
        ("return f_p.mean(-1) + f_u.mean()", "mix"),
        ("return (f_p.mean(-1) * 0 - 1).log()", "finite"),
        ("return f_p.nothing", "'nothing'"),
    ],
)
def test_a_plugin_is_checked_before_the_first_fleet(body, token, folder):
    (folder / "mine.py").write_text(PLUGIN.replace("BODY", body))
    line = f"run demo {TINY} --algorithms mine --plugin mine.py --out out"
    assert token in refused(folder, line)


X, Y = np.random.default_rng(0).normal(size=(40, 2)), (np.arange(40) < 10).astype(int)
PROBLEMS = {"problems": [{"dataset": "digits"}]}
PYTHON = [
    (lambda: puarena.run({}, out="x"), "problems"),
    (lambda: puarena.run("demo", out=None), "None"),
    (lambda: puarena.run("demo", out=""), "out"),
    (lambda: puarena.run("demo", out="x", device="gpu"), "gpu"),
    (lambda: puarena.run("demo", out="x", stepz=3), "'steps'"),
    (lambda: puarena.run("demo", out="x", workers="two"), "workers"),
    (lambda: puarena.run("demo", out="x", seconds="2h"), "seconds"),
    (lambda: puarena.run("demo", out="x", checkpoint_every=-1), "-1"),
    (lambda: puarena.Spec(**PROBLEMS, hyper={"*": {"lr": -1}}), "lr"),
    (lambda: puarena.table("nowhere"), "nowhere"),
    (lambda: puarena.table(pd.DataFrame({"a": [1]})), "curves"),
    (lambda: puarena.load_model("nowhere"), "nowhere"),
    (lambda: estimate_prior(X, Y, method="bbx"), "bbx"),
    (lambda: puarena.PUNetClassifier("nnpu", prior=0.6, steps=2).fit(1e300 * X, Y), "column 0"),
]


@pytest.mark.parametrize("call, token", PYTHON)
def test_python(call, token, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as caught:
        call()
    assert token in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_user_error_has_a_code_and_is_a_value_error():
    with pytest.raises(UserError) as caught:
        puarena.run("dmeo", out="x")
    assert caught.value.code == "unknown-name"
    assert isinstance(caught.value, ValueError)


def test_a_summary_is_not_replaced_by_its_table(folder, results):
    assert call("export {r} --out s.parquet", r=results).exit_code == 0
    assert "s.parquet" in refused(folder, "report s.parquet --csv s.parquet")


def test_a_column_without_a_value_is_left_out_and_named(folder):
    fit = "fit empty_column.csv --label s --algorithm nnpu --steps 5 --prior 0.6 --out m"
    for line in (fit, "priors estimate empty_column.csv --label s"):
        result = call(line)
        assert result.exit_code == 0, result.output
        assert "'a'" in result.stderr
    assert call("predict m t.csv --out o.csv").exit_code == 0


def test_a_model_is_not_used_on_columns_of_another_kind(folder):
    fit = "fit text.csv --label s --algorithm nnpu --steps 5 --prior 0.6 --out m"
    assert call(fit).exit_code == 0
    assert "'a'" in refused(folder, "predict m t.csv --out o.csv")


def test_predictions_are_written_whole_or_not_at_all(folder, monkeypatch):
    fit = "fit t.csv --label s --algorithm nnpu --steps 5 --prior 0.6 --out m"
    assert call(fit).exit_code == 0
    (folder / "o.csv").write_text("kept")

    def fail(self, blob):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pathlib.Path.write_bytes", fail)
    result = call("predict m t.csv --out o.csv")
    assert result.exit_code == 2
    assert "full" in result.stderr
    assert (folder / "o.csv").read_text() == "kept"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused_before_training(folder):
    (folder / "locked").mkdir(mode=0o500)
    assert "locked" in refused(folder, "fit t.csv --label s --out locked/model")


@pytest.mark.parametrize(
    "line",
    [
        f"plan demo {TINY} --settings OS --prior estimate",
        f"plan demo {TINY} --prior-source bbe --set seed=3",
        "report {r} --metrics Accuracy,ROC_AUC --criteria PA",
        "report {r} --settings one-sample --error stderr-sample",
        "priors estimate t.csv --label s --method Estimate:BBE",
    ],
)
def test_other_spellings_are_understood(line, folder, results):
    result = call(line, r=results)
    assert result.exit_code == 0, (result.output, result.exception)


@pytest.mark.parametrize("name", ["spec.json", "planned.parquet", "shards/page.html"])
def test_an_output_replaces_no_file_of_a_results_folder(tmp_path, name):
    with pytest.raises(UserError, match=name) as error:
        options.check_outputs([tmp_path / "page.html", tmp_path / name], [tmp_path])
    assert error.value.code == "conflict"
