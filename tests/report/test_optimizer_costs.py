"""The table of what the common optimizer costs whom (benchmarks/optimizers.py)."""

import importlib.util
import math
import sys
from pathlib import Path

import pandas as pd
import pytest

from puarena.results import Folder
from sample_results import curves, records

FILE = Path(__file__).parents[2] / "benchmarks" / "optimizers.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("optimizers", FILE)
    module = sys.modules["optimizers"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_paired_over_problems_and_splits(script):
    """Gaps of 4, 5 and 6 points on one problem and 10, 11, 12 on another: 8 +- t(0.975, 5) * s /
    sqrt(6).
    """
    protocol = pd.concat([records({"nnpu": 0.8, "p3mix-c": 0.7}, case=case) for case in (1, 2)])
    gains = {1: 0.05, 2: 0.11}
    own = [
        records({"nnpu": 0.8 + gain}, case=case, optimizer="authors")
        for case, gain in gains.items()
    ]
    for part in own:
        part["test_accuracy"] += (part["split"] - 1) / 100
    authors = pd.concat(
        [*own, records({"p3mix-c": 0.7}), records({"vpu": 0.7}, optimizer="authors")]
    )
    found, same = script.costs(script.chosen(protocol, "oa"), script.chosen(authors, "oa"))
    (cost,) = found
    assert (cost.method.algorithm, cost.n) == ("nnpu", 6)
    assert cost.difference == pytest.approx(8)
    gaps = pd.Series([4, 5, 6, 10, 11, 12])
    assert cost.half == pytest.approx(2.5706 * gaps.std() / math.sqrt(6), rel=1e-4)
    assert cost.sure
    assert [method.algorithm for method in same] == ["p3mix-c"]  # vpu has no partner


def test_the_table_says_what_else_differs(script, tmp_path):
    for name, steps in (("protocol", 10), ("authors", 20)):
        spec = {"problems": [{"dataset": "digits"}], "optimizer": name, "steps": steps}
        folder = Folder.create(tmp_path / name, spec, "x")
        rows = [
            curves(f"f{split}", split=split, algorithm="pan", optimizer=name) for split in range(2)
        ]
        for i, part in enumerate(rows):
            folder.write_shard(f"f{i}", part.assign(run=part["run"] + name))
    text = script.table(str(tmp_path / "protocol"), [str(tmp_path / "authors")], [])
    assert "| pan | Adam 0.0001, betas 0.5 and 0.999, weight decay 0.001 | 2 |" in text
    assert "differ in more than the optimizer (steps: 10 and 20)" in text
    with pytest.raises(script.UserError, match="no problem"):
        script.table(str(tmp_path / "protocol"), [str(tmp_path / "protocol")], [])
