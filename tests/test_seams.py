"""Additions of contributors, tried in a copy of the package: each is one file.

An addition is a new file, or a few more lines in an existing one. The copy has all of them, and
another process uses them as a user would.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import puarena
from run_python import run_python

PACKAGE = Path(__file__).parents[1] / "src" / "puarena"

TABLE = """
from pathlib import Path
import numpy as np
from puarena.datasets.base import Dataset, DatasetInfo, from_info

INFO = DatasetInfo(
    name="two-moons", title="Two moons", description="400 points", examples=400, class_names=("low", "high"),
    shape=(2,), cases={1: (1,)}, size=200, test_fraction=0.2,
)

def read(folder: Path | None) -> Dataset:
    classes = np.arange(400) % 2
    return from_info(INFO, np.random.default_rng(0).normal(size=(400, 2)) + 2 * classes[:, None], classes)
"""

VIEW = '''
from dataclasses import dataclass
import torch

@dataclass(frozen=True)
class Darker:
    """Bytes, some of them darker."""

    def shape(self, shape):
        return shape

    def draws(self, draws, name, n):
        return {f"{name}:darker": draws.uniform(f"{name}:darker", n)}

    def __call__(self, x, u):
        (share,) = (values for key, values in u.items() if key.endswith(":darker"))
        return (x * share[..., None, None, None]).to(torch.uint8)
'''

IMAGES = """
from pathlib import Path
import numpy as np
from puarena.datasets.base import Dataset, DatasetInfo, from_info
from puarena.datasets.views import Views

def views():
    from puarena.datasets.views.darker import Darker
    from puarena.datasets.views.images import ImageView
    half = (0.5, 0.5, 0.5)
    return {"": Views(ImageView(half, half, (Darker(),)), ImageView(half, half, (Darker(),)), ImageView(half, half))}

INFO = DatasetInfo(
    name="stripes", title="Stripes", description="120 images", examples=120, class_names=("dark", "light"),
    shape=(3, 8, 8), kind="image", network="resnet32", cases={1: (1,)}, size=60, test_fraction=0.2, views=views,
)

def read(folder: Path | None) -> Dataset:
    classes = np.arange(120) % 2
    pixels = np.random.default_rng(0).integers(0, 128, (120, 3, 8, 8)) + 100 * classes[:, None, None, None]
    return from_info(INFO, pixels.astype(np.uint8), classes)
"""

CRITERION = """
CRITERIA["lifted"] = Criterion(
    "lifted", "Lifted", "how much more often P' is predicted positive than U'",
    lambda c: c.tpr - c.positive_u / c.size_u, needs="counts", low=-1.0, color="#123456",
)
"""

METRIC = """
METRICS["error"] = Metric(
    "error", "Error", "share of test points on the wrong side", lambda d, y: 1 - accuracy(d, y), "decision",
    higher=False,
)
"""

NETWORK = '''
from torch import nn
from puarena.networks.base import Stacked

class Narrow(Stacked):
    """A small perceptron."""

    name, images, meaning = "narrow", False, "one hidden layer of eight"

    @staticmethod
    def make(features):
        return nn.Sequential(nn.Linear(features, 8), nn.ReLU(), nn.Linear(8, 1))
'''

ALGORITHM = '''
import torch
from puarena.algorithms import Algorithm, Phase, Update, logistic

class Twins(Algorithm):
    """Two networks, each of which learns from the other's view of the unlabeled points."""

    name, title, paper, setting = "twins", "Twins", "nobody, 2026", "either"
    needs_prior = False
    networks = ("f", "g")
    phases = (Phase(updates=(Update("first", ("f",)), Update("second", ("g",)))),)

    def learn(self, batch, learner, teacher):
        with torch.no_grad():
            _, t = batch.split(teacher(batch.x))
        f_p, f_u = batch.split(learner(batch.x))
        return logistic(f_p, +1).mean(-1) + (logistic(f_u, -1) * torch.sigmoid(-t)).mean(-1)

    def first(self, batch):
        return self.learn(batch, self.f, self.g)

    def second(self, batch):
        return self.learn(batch, self.g, self.f)
'''

SUITE = """
SUITES.append(Spec(name="moons", title="Moons", description="Small.", problems=[ProblemSpec(dataset="two-moons")],
                    algorithms=("nnpu", "vpu"), splits=2, configs=1, steps=4))
"""

MECHANISM = '''
from dataclasses import dataclass
import numpy as np
from puarena.pu.labeling.base import Candidates, Chances, Mechanism, solve_weights

@dataclass(frozen=True)
class First(Mechanism):
    """Those that come first in the file."""

    name, meaning = "first", "examples early in the file are labeled more often"
    strength: float = 1.0

    def propensity(self, candidates: Candidates) -> Chances:
        place = candidates.index / len(candidates.dataset.classes)
        return solve_weights(-self.strength * place.astype(np.float64), candidates.labels, self.text)
'''

EXECUTOR = '''
from puarena.experiments.executors.local import Inline

class Backwards(Inline):
    """Trains in this process, the last fleet first."""

    name, takes = "backwards", ("greeting",)

    @classmethod
    def preference(cls, options, fleets):
        return 0

    def train(self, fleets, job):
        print("backwards:", self.options.greeting)
        yield from super().train(fleets[::-1], job)
'''

FIGURE = '''
from puarena.report.figures import base

class Counted(base.Figure):
    """How many splits there are."""

    name, title, caption = "counted", "How many splits", "The number of splits of every method."
    per_metric = per_criterion = False

    def draw(self, data, metric, criterion):
        import altair as alt
        return alt.Chart(base.keep_comparable(data.selection)).mark_bar().encode(y="method:N", x="count():Q")
'''

NEW = {  # files that are added
    "a table dataset": {"datasets/builtin/two_moons.py": TABLE},
    "an image dataset": {"datasets/builtin/stripes.py": IMAGES, "datasets/views/darker.py": VIEW},
    "a network": {"networks/narrow.py": NETWORK},
    "an algorithm with two networks": {"algorithms/twins.py": ALGORITHM},
    "a labeling mechanism": {"pu/labeling/first.py": MECHANISM},
    "an executor": {"experiments/executors/backwards.py": EXECUTOR},
    "a figure": {"report/figures/counted.py": FIGURE},
}
LINES = {  # files that get lines more: where, and which
    "a criterion": {"metrics/criteria.py": ("\n\ndef get_criterion(", CRITERION)},
    "a test metric": {"metrics/scores.py": ("\n\ndef get_metric(", METRIC)},
    "a suite": {"experiments/suites.py": ("\n\ndef names(", SUITE)},
    "an executor": {
        "experiments/executors/base.py": (
            "\n    @classmethod\n    def names",
            "    greeting: str | None = None\n",
        )
    },
}

USE = """
import json, sys
from pathlib import Path
import numpy as np
from typer.testing import CliRunner
from puarena import PUNetClassifier, PUScorer, PUSearch
from puarena.cli import app

def call(line):
    done = CliRunner().invoke(app, line.split())
    if done.exit_code:
        sys.exit(f"{line}: {done.output}{done.exception!r}")
    return done.output

names = lambda what: [row["name"] for row in json.loads(call(f"list {what} --json"))]
small = "--steps 4 --splits 2 --configs 1 --device cpu"
kinds = ("datasets", "criteria", "networks", "algorithms", "suites", "engines")
said = {what: names(what) for what in kinds}
said["help"] = call("run --help") + call("report --help")
said["mechanisms"] = call("list mechanisms")
said["explain"] = call("explain twins")
said["run"] = call(f"run moons --out moons {small} --algorithms nnpu,twins --engine backwards --set greeting=hello")
small += " --algorithms nnpu --rates 0.2"
said["biased"] = call(f"run moons --out biased {small} --labeling first --network narrow")
spec = {"problems": [{"dataset": "stripes"}], "algorithms": ["nnpu", "vpu"], "splits": 1, "configs": 1, "steps": 2}
Path("stripes.yaml").write_text(json.dumps(spec))
call("run stripes.yaml --out images --device cpu")
for folder in ("moons", "images"):
    said[f"report {folder}"] = call(f"report {folder} --html {folder}.html --csv {folder}.csv")
said["chosen"] = call("report moons --criterion lifted --metric error")
said["before"] = call(f"report before --criterion lifted")
call("figures moons --out figures --format svg --metric error --criterion lifted")
said["figures"] = sorted(file.name for file in Path("figures").iterdir())
rng = np.random.default_rng(0)
truth = np.arange(200) % 2 == 0
X, y = rng.normal(size=(200, 2)) + 3 * truth[:, None], truth & (rng.random(200) < 0.5)
options = dict(network="narrow", selection="lifted", steps=4, prior=0.5, members=1, random_state=0)
clf = PUNetClassifier("twins", **options).fit(X, y)
search = PUSearch(clf, algorithms=["nnpu", "twins"], criterion="lifted", n_iter=1, random_state=0).fit(X, y)
said["search"] = [row["lifted"] for row in search.results_]
said["curve"] = sorted(clf.curve_[0])
said["score"] = PUScorer("lifted", prior=0.5)(clf, X, y)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What the commands said, in a folder that has the page, the tables and the figures."""
    folder = tmp_path_factory.mktemp("seams")
    package = shutil.copytree(
        PACKAGE, folder / "copy" / "puarena", ignore=shutil.ignore_patterns("__pycache__")
    )
    for files in NEW.values():
        for name, text in files.items():
            assert not (package / name).exists()
            (package / name).write_text(text)
    for files in LINES.values():
        for name, (place, text) in files.items():
            before = (package / name).read_text()
            assert before.count(place) == 1
            (package / name).write_text(before.replace(place, text + place))
    spec = {
        "problems": [{"dataset": "digits"}],
        "algorithms": ["nnpu", "vpu"],
        "splits": 1,
        "configs": 1,
        "steps": 2,
    }
    puarena.run(
        spec, out=folder / "before", device="cpu", progress=False
    )  # by a package that has none of all this
    printed = run_python("-c", USE, cwd=folder, first=folder / "copy")
    return json.loads(printed.splitlines()[-1]), folder


def test_each_is_as_many_files_as_promised():
    files = {what: [*NEW.get(what, ()), *LINES.get(what, ())] for what in (*NEW, *LINES)}
    more = {"an image dataset", "an executor"}  # a view, an option
    assert {what: len(names) for what, names in files.items()} == {
        what: 1 + (what in more) for what in files
    }


def test_a_dataset(said):
    words, folder = said
    assert {"two-moons", "stripes"} <= set(words["datasets"])
    assert "two-moons, case 1" in words["report moons"]
    assert "stripes, case 1" in words["report images"]
    assert "two-moons" in (folder / "moons.html").read_text()


def test_a_criterion_and_a_test_metric(said):
    words, folder = said
    assert "lifted" in words["criteria"]
    assert "Lifted" in words["report moons"]
    assert "Error: lower is better" in words["report moons"]
    assert "Lifted" in words["chosen"]
    assert "PAUC" not in words["chosen"]
    for name in ("lifted", "error"):
        assert name in words["help"]
        assert name in (folder / "moons.csv").read_text()
    for title in ("Lifted", "Error"):
        assert title in (folder / "moons.html").read_text()
    assert "wins-error-lifted.svg" in words["figures"]
    assert "lifted" in words["curve"]
    assert all(isinstance(value, float) for value in (*words["search"], words["score"]))


def test_a_criterion_made_of_counts_costs_no_training(said):
    words, _ = said
    assert "digits, case 1" in words["before"]
    assert "Lifted" in words["before"]


def test_a_network_and_a_labeling_mechanism(said):
    words, folder = said
    assert "narrow" in words["networks"]
    assert "first(strength=1)" in words["mechanisms"]
    records = puarena.load(folder / "biased").df()
    assert set(records["network"]) == {"narrow"}
    assert set(records["labeling"]) == {"first(strength=1)"}


def test_an_algorithm_with_two_networks(said):
    words, folder = said
    assert "twins" in words["algorithms"]
    assert "Engine: 2 networks" in words["explain"]
    assert "twins" in (folder / "moons.html").read_text()


def test_a_suite_and_an_executor_with_an_option(said):
    words, _ = said
    assert "moons" in words["suites"]
    assert "backwards" in words["engines"]
    assert "backwards: hello" in words["run"]


def test_a_figure(said):
    words, folder = said
    assert "counted.svg" in words["figures"]
    assert "How many splits" in (folder / "moons.html").read_text()
