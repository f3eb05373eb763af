"""What the reader of a document has already: tables, files, variables of a script."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import sklearn
from documents import ROOT

import puarena
from puarena.datasets.tables import read_table

VARIABLES = {  # of a Python block
    "X": "import numpy; X = numpy.random.default_rng(0).normal(size=(400, 3)); X[:200] += 1.5",
    "labeled": "labeled = numpy.arange(400) < 80",
    "X_new": "X_new = X[:50]",
}
TINY = """
name: tiny
problems: [{dataset: digits}]
algorithms: [nnpu, vpu]
splits: 1
configs: 1
steps: 20
"""


def _table(column: str, yes: str, no: str) -> Callable[[Path], None]:
    """A CSV file of two features and a column of labels."""

    def write(file: Path) -> None:
        rng = np.random.default_rng(0)
        positive = np.arange(400) < 200
        rows = [
            f"{a:.3f},{b:.3f},{yes if p else no}"
            for a, b, p in zip(*rng.normal(size=(2, 400)) + 1.5 * positive, positive, strict=True)
        ]
        file.write_text("\n".join([f"age,income,{column}", *rows]) + "\n")

    return write


def _patients(file: Path) -> None:
    """A CSV file of two features, a diagnosis that half of the ill have, and the truth."""
    rng = np.random.default_rng(0)
    ill = np.arange(400) < 160
    x = rng.normal(size=(400, 2)) + 1.5 * ill[:, None]
    rows = zip(x.tolist(), ill & (rng.random(400) < 0.5), ill, strict=True)
    lines = [f"{a:.3f},{b:.3f},{d:d},{t:d}" for (a, b), d, t in rows]
    file.write_text("\n".join(["age,weight,diagnosed,ill", *lines]) + "\n")


def penguins(file: Path) -> None:
    """The table 42585 of OpenML, real bytes: scikit-learn brings them for its own tests."""
    (packed,) = Path(sklearn.__file__).parent.glob(
        "datasets/tests/data/openml/id_42585/data*.arff.gz"
    )
    arff = file.with_suffix(".arff")
    arff.write_bytes(gzip.decompress(packed.read_bytes()))
    read_table(arff).to_csv(file, index=False)


@lru_cache(maxsize=1)
def _results() -> tempfile.TemporaryDirectory[str]:
    """The results of a very small run, made once."""
    folder = tempfile.TemporaryDirectory()
    spec = {
        "problems": [{"dataset": "digits", "priors": [0.4]}],
        "algorithms": ["nnpu", "nnpu-c", "vpu"],
        "splits": 2,
        "steps": 20,
    }
    puarena.run(spec | {"configs": 1}, out=folder.name, workers=1, device="cpu", progress=False)
    return folder


FILES: dict[str, Callable[[Path], None]] = {
    "data.csv": _table("s", "1", "0"),
    "new.csv": _table("s", "1", "0"),
    "churn.csv": _table("outcome", "yes", "no"),
    "patients.csv": _patients,
    "tiny.yaml": lambda file: file.write_text(TINY) and None,
    "penguins.csv": penguins,
    "results": lambda folder: shutil.copytree(_results().name, folder) and None,
    "benchmarks": lambda folder: shutil.copytree(ROOT / "benchmarks", folder) and None,
}
