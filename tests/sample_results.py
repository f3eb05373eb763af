"""Invented results for the tests of results and reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from puarena import catalog
from puarena.metrics import CRITERIA, METRICS
from puarena.results import COLUMNS

PROBLEM = {
    "dataset": "d",
    "case": 1,
    "setting": "os",
    "rate": 0.3,
    "prior": 0.5,
    "labeling": "scar",
}
SPEC = {"name": "x", "problems": [{"dataset": "d"}]}  # of a folder that is not run
USUAL = {"profile": "definition", "prior_source": "true", "prior_used": 0.5}
USUAL |= {"precision": "float32", "optimizer": "protocol"}
VALUES = [record.column for record in (*CRITERIA.values(), *METRICS.values())]
RECORD = dict.fromkeys(VALUES, 0.5) | {"split": 0, "config": 0, "run": "r"}

DOUBLES = [name for name, kind in COLUMNS.items() if kind == "DOUBLE"]


def facts(algorithm: str) -> dict[str, Any]:
    """What the catalog declares of an algorithm; one that it does not know is a method of its own."""
    plain = {
        "base": algorithm,
        "calibrated": False,
        "variant": "",
        "baseline": False,
        "supervised": False,
    }
    entry = catalog.get_all().get(algorithm)
    return {"algorithm": algorithm} | {
        name: getattr(entry, name, value) for name, value in plain.items()
    }


def curves(fleet: str, runs: int = 2, records: int = 3, **fixed: Any) -> pd.DataFrame:
    """Made-up curves of a small fleet."""
    random = np.random.default_rng(0)
    rows = []
    for run in range(runs):
        for record in range(records):
            words = {name: "x" for name, kind in COLUMNS.items() if kind == "VARCHAR"}
            numbers = {name: float(random.random()) for name in (*DOUBLES, *VALUES)}
            counts = {name: 1 for name, kind in COLUMNS.items() if kind in {"INTEGER", "BIGINT"}}
            flags = {name: False for name, kind in COLUMNS.items() if kind == "BOOLEAN"}
            own = {
                "run": f"{fleet}-{run}",
                "fleet": fleet,
                "config": run,
                "profile": "definition",
                "status": "ok",
            }
            own |= {
                "rate": 0.3,
                "prior": 0.5,
                "step": 100 * record,
                "selectable": record > 0,
                "labeling": "scar",
            }
            rows.append(
                words
                | numbers
                | counts
                | flags
                | USUAL
                | facts(fixed.get("algorithm", "x"))
                | own
                | fixed
            )
    return pd.DataFrame(rows)


def frame(records: list[dict[str, Any]]) -> pd.DataFrame:
    """Records with everything that is not given filled in; step 0 is not selectable."""
    usual = PROBLEM | USUAL | RECORD
    rows = [
        usual | facts(r.get("algorithm", "nnpu")) | {"selectable": r["step"] > 0} | r
        for r in records
    ]
    return pd.DataFrame(rows)


HOSTILE = r"<script>alert('x')</script> a|b_c & 50% {x} \end{table} #1 $y$ ~^ *z* `q` [b]u[/b]"


def records(means: dict[str, float], splits: int = 3, **fixed: Any) -> pd.DataFrame:
    """One selectable record per algorithm and split; accuracies spread by a point around the mean."""
    rows = []
    for algorithm, mean in means.items():
        for split in range(splits):
            values = {
                f"test_{name}": mean + (split - (splits - 1) / 2) / 100
                for name in ("accuracy", "auc", "f1")
            }
            rows.append({"algorithm": algorithm, "split": split, "step": 100, **values, **fixed})
    return frame(rows)


ALL = {
    "pn-naive": 0.6,
    "nnpu-c": 0.9,
    "upu": 0.7,
    "nnpu": 0.8,
    "pn-oracle": 0.95,
    "p3mix-c": 0.5,
    "mine": 0.9,
}
