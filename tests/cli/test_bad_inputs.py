"""Every kind of bad input a newcomer gave: one clear sentence, exit code 2, no traceback, and nothing half-written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import puarena
from bad_inputs import call, refused
from puarena.errors import UserError

TINY = ["--algorithms", "nnpu", "--splits", "1", "--steps", "20", "--cases", "1"]
SPEC = (
    "problems: [{dataset: digits}]\nalgorithms: [nnpu, dist-pu]\nsplits: 1\nconfigs: 1\nsteps: 20\n"
)
PLUGIN = """
from puarena.algorithms import Algorithm, logistic

class Mine(Algorithm):
    name, title, paper, setting = "mine", "Mine", "me, 2026", "two-sample"

    def objective(self, f_p, f_u):
        {body}
"""
BODIES = {  # what an objective may do wrong, and the words about it
    "pass": "objective must return a tensor of [runs]; it returned None",
    "return 1.0": "it returned float",
    "return f_p": "it returned shape [3, 16] for 3 runs",
    "return f_p.mean()": "it returned a single number",
    "return f_p.mean(-1, keepdim=True)": "it returned [runs, 1]",
    "return f_p.mean(-1) + f_u.mean()": "rows mix",
    "return (f_p.mean(-1) * 0 - 1).log()": "not finite",
    "return f_p.mean(-1).detach()": "nothing can be learned",
    "return f_p.nothing": "AttributeError: 'Tensor' object has no attribute 'nothing' (line 8)",
    "raise RuntimeError('on purpose')": "RuntimeError: on purpose (line 8)",
    "exit(3)": "SystemExit: 3",
    "return self.prior * self.sharpnes": "sharpnes",
}
FILES = {
    "raises.py": "raise RuntimeError('at once')\n",
    "exits.py": "import sys\nsys.exit(5)\n",
    "syntax.py": "def (:\n",
    "empty.py": "",
    "all.py": PLUGIN.format(body="return f_p.mean(-1)").replace('"mine", "Mine"', '"all", "All"'),
    "upper.py": PLUGIN.format(body="return f_p.mean(-1)").replace(
        '"mine", "Mine"', '"Mine One", "Mine"'
    ),
    "built_in.py": PLUGIN.format(body="return f_p.mean(-1)").replace(
        '"mine", "Mine"', '"nnpu", "Mine"'
    ),
    "setting.py": PLUGIN.format(body="return f_p.mean(-1)").replace(
        '"two-sample"', '"three-sample"'
    ),
    "twice.py": PLUGIN.format(body="return f_p.mean(-1)")
    + "\nclass Other(Mine):\n    name = 'mine'\n",
    "circle.yaml": "a: &a [*a]\n",
    "twice.yaml": SPEC + "steps: 30\n",
    "twice_inside.yaml": "problems: [{dataset: digits, dataset: usps}]\n",
    "list.yaml": "[1, 2]\n",
    "text.yaml": "only words\n",
    "nothing.yaml": "",
    "broken.yaml": "a: [1\n",
    "python.yaml": "a: !!python/object/apply:os.system ['true']\n",
    "binary.yaml": "\x00\x01",
    "date.yaml": "name: 2020-13-45\n",
    "dataset.yaml": "file: t.csv\npositive: [1]\n",
    "unknown.yaml": SPEC + "stepps: 3\n",
    "semicolon.csv": "a;b;s\n1;2;1\n2;1;0\n",
    "tabs.csv": "a\tb\ts\n1\t2\t1\n2\t1\t0\n",
    "no_rows.csv": "a,b,s\n",
    "nothing.csv": "",
    "uneven.csv": "a,b,s\n1,2,1\n1,2,3,4,5\n",
    "only_label.csv": "s\n1\n0\n",
    "not.parquet": "this is no Parquet file",
    "file": "not a folder",
}
NUMBERS = {  # options of an experiment, values that are wrong, and what the message names
    "--splits": (["0", "100000000"], "split"),
    "--configs": (["0", "100000000"], "config"),
    "--steps": (["0", "-20"], "steps"),
    "--rates": (["0", "1.5", "nan", "a", ","], "rate"),
    "--priors": (["1", "inf", "x", "0.3"], "prior"),
    "--cases": (["0", "7", "1.5"], "case"),
    "--settings": (["ost", ","], "setting"),
    "--algorithms": (["nnpux", "nnpu;vpu", ","], "algorithm"),
    "--datasets": (["lettre", "missing.yaml", "nothing.yaml", ","], ""),
    "--network": (["mpl", ""], "network"),
    "--precision": (["float16"], "precision"),
    "--profile": (["release"], "profile"),
    "--prior": (["estimate:bbx", "0.5", ","], "prior"),
    "--plugin": (
        [
            "missing.py",
            "raises.py",
            "exits.py",
            "syntax.py",
            "empty.py",
            "all.py",
            "upper.py",
            "built_in.py",
            "setting.py",
            "twice.py",
            "file",
            ".",
        ],
        "plugin",
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with files that are wrong in many ways, and a good table."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    write_tables(tmp_path)
    return tmp_path


def write_tables(folder: Path) -> None:
    rng = np.random.default_rng(0)
    s = np.arange(80) < 20
    frame = pd.DataFrame(
        {"a": rng.normal(size=80) + s, "b": rng.normal(size=80), "s": s.astype(int)}
    )
    frame.to_csv(folder / "t.csv", index=False)
    frame.assign(a=np.where(np.arange(80) == 3, np.inf, frame["a"])).to_csv(
        folder / "infinite.csv", index=False
    )
    frame.assign(s=(np.arange(80) == 0).astype(int)).to_csv(folder / "one.csv", index=False)
    frame.assign(s=0).to_csv(folder / "none.csv", index=False)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("bad") / "results"
    assert call("run", "demo", *TINY, "--out", out, "--device", "cpu").exit_code == 0
    return out


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize(
    "option, value, word",
    [(option, v, word) for option, (values, word) in NUMBERS.items() for v in values],
)
def test_options_of_an_experiment(command, option, value, word, folder):
    out = ["--out", "out"] if command == "run" else []
    plain = [part for i, part in enumerate(TINY) if option not in (part, TINY[i - 1])]
    message = refused(folder, command, "demo", *plain, option, value, *out, "--device", "cpu")
    assert word in message


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".yaml")])
def test_a_spec_file(name, folder):
    message = refused(folder, "plan", name)
    assert message
    assert message == refused(
        folder, "run", name, "--out", "out"
    )  # plan refuses what run refuses, in the same words
    assert len(message) < 500


@pytest.mark.parametrize(
    "name", [name for name in FILES if name.endswith(".yaml") and name != "dataset.yaml"]
)
def test_a_dataset_file(name, folder):
    assert name in refused(folder, "plan", "demo", "--datasets", name) or name == "unknown.yaml"


@pytest.mark.parametrize("body, words", BODIES.items())
def test_a_plugin_is_looked_at_before_the_first_fleet(body, words, folder):
    (folder / "mine.py").write_text(PLUGIN.format(body=body))
    message = refused(
        folder,
        "run",
        "demo",
        *TINY[2:],
        "--algorithms",
        "mine",
        "--plugin",
        "mine.py",
        "--out",
        "out",
    )
    assert "algorithm 'mine' of plugin" in message
    assert words in message


FIT = ["fit", "t.csv", "--label", "s", "--steps", "5"]


@pytest.mark.parametrize(
    "args, words",
    [
        ([*FIT, "--out", "m", "--device", "cuda"], "no CUDA device"),
        ([*FIT, "--out", "m", "--device", "gpu"], "gpu"),
        ([*FIT, "--out", "file"], "'file' is a file"),
        ([*FIT, "--out", "file/model"], "is a file"),
        ([*FIT, "--out", "m", "--search", "-1"], "--search is -1"),
        ([*FIT, "--out", "m", "--search", "0"], "--search is 0"),
        (["fit", "t.csv", "--label", "s", "--steps", "0", "--out", "m"], "--steps 0"),
        ([*FIT, "--out", "m", "--algorithm", "nnpux"], "nnpu"),
        ([*FIT, "--out", "m", "--prior", "1.5"], "1.5"),
        ([*FIT, "--out", "m", "--prior", "estimate:bbx"], "bbx"),
        ([*FIT, "--out", "m", "--setting", "sample"], "'sample'"),
        ([*FIT, "--out", "m", "--selection", "acuracy"], "acuracy"),
        ([*FIT, "--out", "m", "--threshold", "half"], "half"),
        ([*FIT, "--out", "m", "--features", "z"], "'z'"),
        ([*FIT, "--out", "m", "--drop", "a,b"], ""),
        (["fit", "t.csv", "--label", "z", "--out", "m"], "'z'"),
        (["fit", "missing.csv", "--label", "s", "--out", "m"], "missing.csv"),
        (["fit", "semicolon.csv", "--label", "s", "--out", "m"], "semicolons"),
        (["fit", "tabs.csv", "--label", "s", "--out", "m"], "tabs"),
        (["fit", "no_rows.csv", "--label", "s", "--out", "m"], "no rows"),
        (["fit", "nothing.csv", "--label", "s", "--out", "m"], "nothing.csv"),
        (["fit", "uneven.csv", "--label", "s", "--out", "m"], "uneven.csv"),
        (["fit", "only_label.csv", "--label", "s", "--out", "m"], "'s'"),
        (
            [
                "fit",
                "infinite.csv",
                "--label",
                "s",
                "--out",
                "m",
                "--algorithm",
                "nnpu",
                "--steps",
                "5",
            ],
            "'a'",
        ),
        (["fit", "none.csv", "--label", "s", "--out", "m"], "one value"),
        (["fit", "one.csv", "--label", "s", "--out", "m"], "1 labeled positive"),
        (["fit", "not.parquet", "--label", "s", "--out", "m"], "Parquet"),
        (["fit", "file", "--label", "s", "--out", "m"], "neither"),
        (["predict", "nowhere", "t.csv", "--out", "o.csv"], "nowhere"),
        (["predict", "nowhere", "t.csv", "--out", "t.csv"], "would be lost"),
        (["predict", "nowhere", "t.csv", "--out", "o.txt"], "o.txt"),
        (["priors", "estimate", "t.csv", "--label", "z"], "'z'"),
        (["priors", "estimate", "t.csv", "--label", "s", "--method", "bbx"], "bbx"),
        (["priors", "estimate", "t.csv", "--label", "s", "--setting", "sample"], "sample"),
        (["priors", "estimate", "semicolon.csv", "--label", "s"], "semicolons"),
        (["priors", "estimate", "not.parquet", "--label", "s"], "Parquet"),
        (["priors", "estimate", "one.csv", "--label", "s"], "1 labeled positive"),
        (["priors", "estimate", "missing.csv", "--label", "s"], "missing.csv"),
        (["explain", "nnpux"], "'nnpu'"),
        (["explain", "mine", "--plugin", "missing.py"], "missing.py"),
        (["check", "nnpux"], "'nnpu'"),
        (["check", "raises.py"], "at once"),
        (["list", "algoritms"], "'algorithms'"),
        (["data", "prepare", "lettre"], "'letter'"),
        (["speed", "--runs", "0"], "--runs"),
        (["speed", "--algorithms", "nnpux"], "'nnpu'"),
        (["speed", "--network", "resnet"], "resnet"),
        (["run", "demo", *TINY, "--out", "file"], "file"),
        (["run", "demo", *TINY, "--out", "file/out"], "file"),
        (["run", "demo", *TINY, "--out", "out", "--workers", "0"], "workers"),
        (["run", "demo", *TINY, "--out", "out", "--device", "cuda"], "no CUDA device"),
        (["run", "demo", *TINY, "--out", "out", "--capture", "on"], "--capture"),
        (["run", "demo", *TINY, "--out", "out", "--data", "no/folder"], "no/folder"),
        (["run", "missing.yaml", "--out", "out"], "missing.yaml"),
        (["run", "dmeo", "--out", "out"], "'demo'"),
        (["run", ".", "--out", "out"], "suite"),
    ],
)
def test_commands(args, words, folder):
    assert words in refused(folder, *args)


@pytest.mark.parametrize(
    "args, words",
    [
        (["report", "{r}", "--metric", "acuracy"], "'accuracy'"),
        (["report", "{r}", "--metric", "acc,aucc"], "'auc'"),
        (["report", "{r}", "--metric", "rocauc"], "'auc'"),
        (["report", "{r}", "--criterion", "paucc"], "'pauc'"),
        (["report", "{r}", "--error", "variance"], "variance"),
        (["report", "{r}", "--algorithms", "vpu"], "vpu"),
        (["report", "{r}", "--datasets", "letter"], "letter"),
        (["report", "{r}", "--cases", "2"], "case '2'"),
        (["report", "{r}", "--settings", "ts"], "'ts'"),
        (["report", "{r}", "--settings", "two-sample"], "setting"),
        (["report", "{r}", "--rates", "0.7"], "0.7"),
        (["report", "{r}", "--csv", "x.out", "--html", "x.out"], "two outputs"),
        (["report", "{r}", "--markdown", "x.out", "--latex", "./x.out"], "two outputs"),
        (["report", "{r}", "--plugin", "missing.py"], "missing.py"),
        (["report", "file"], "file"),
        (["report", "nowhere"], "nowhere"),
        (["report", "not.parquet"], "not.parquet"),
        (["stats", "{r}", "--over", "blocks"], "blocks"),
        (["stats", "{r}", "--metric", "acuracy"], "'accuracy'"),
        (["stats", "{r}", "--against", "vpux"], "vpux"),
        (["compare", "{r}"], "nothing to compare"),
        (["compare", "{r}", "--published", "t.csv"], "no column"),
        (["compare", "{r}", "--published", "missing.csv"], "missing.csv"),
        (["compare", "{r}", "--csv", "x", "--markdown", "x"], "two outputs"),
        (["export", "{r}", "--out", "x.csv"], "ends in .parquet"),
        (["export", "{r}", "--out", "x"], "ends in .parquet"),
        (["merge", "{r}", "nowhere", "--out", "m"], "nowhere"),
        (["merge", "{r}", "{r}", "--out", "file"], "file"),
        (["figures", "{r}", "--out", "f", "--format", "gif"], "gif"),
        (["figures", "{r}", "--out", "f", "--metric", "acuracy"], "'accuracy'"),
        (["status", "nowhere"], "nowhere"),
        (["status", "file"], "file"),
        (["run", "demo", *TINY, "--seed", "5", "--out", "{r}"], "another spec"),
    ],
)
def test_commands_about_results(args, words, folder, results):
    assert words in refused(folder, *(arg.format(r=results) for arg in args))


@pytest.mark.parametrize(
    "what, words",
    [
        (lambda: puarena.run(3, out="x"), "3"),
        (lambda: puarena.run({}, out="x"), "'problems'"),
        (lambda: puarena.run({1: 2}, out="x"), "unknown key '1'"),
        (lambda: puarena.run("demo", out=None), "out is None"),
        (lambda: puarena.run("demo", out=""), "out is ''"),
        (lambda: puarena.run("demo", out=3), "out is 3"),
        (lambda: puarena.run("demo", out="x", device="gpu"), "gpu"),
        (lambda: puarena.run("demo", out="x", device="cuda"), "CUDA"),
        (lambda: puarena.run("demo", out="x", checkpoint_every=-1), "-1"),
        (lambda: puarena.run("demo", out="x", checkpoint_every=float("nan")), "nan"),
        (lambda: puarena.table("nowhere"), "nowhere"),
        (lambda: puarena.table(pd.DataFrame({"a": [1]})), "not a table of curves"),
        (lambda: puarena.table(pd.DataFrame()), "not a table of curves"),
        (lambda: puarena.table(3), "3"),
        (lambda: puarena.table(None), "None"),
        (lambda: puarena.load([1]), "[1]"),
        (lambda: puarena.load_model("nowhere"), "nowhere"),
    ],
)
def test_python(what, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        what()
    assert words in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert not list(tmp_path.iterdir())


GOOD = [  # what people write, and what they mean by it
    ["plan", "demo", *TINY, "--settings", "one-sample"],
    ["plan", "demo", *TINY, "--settings", "OS"],
    ["plan", "demo", *TINY, "--prior", "estimate"],
    ["plan", "demo", *TINY, "--prior", "estimate:bbe"],
    ["plan", "demo", *TINY, "--prior-source", "bbe"],
    ["report", "{r}", "--metric", "acc"],
    ["report", "{r}", "--metrics", "Accuracy,ROC_AUC", "--criteria", "PA"],
    ["report", "{r}", "--settings", "one-sample"],
    ["report", "{r}", "--error", "stderr-sample"],
    [
        "fit",
        "t.csv",
        "--label",
        "s",
        "--steps",
        "5",
        "--algorithm",
        "nnpu",
        "--setting",
        "os",
        "--prior",
        "0.5",
        "--out",
        "m",
    ],
    [
        "fit",
        "t.csv",
        "--label",
        "s",
        "--steps",
        "5",
        "--algorithm",
        "nnpu",
        "--setting",
        "one-sample",
        "--prior",
        "0.5",
        "--out",
        "m",
    ],
]


@pytest.mark.parametrize("args", GOOD, ids=lambda args: " ".join(args[:2] + args[-2:]))
def test_what_people_mean_is_understood(args, folder, results):
    result = call(*(arg.format(r=results) for arg in args))
    assert result.exit_code == 0, (result.output, result.exception)
