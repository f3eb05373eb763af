"""Selection, all tables and the page over 5,520 made-up runs with 200 records each: how long, how
much memory.

Not a test: ``python benchmarks/scale_report.py [FOLDER]`` prints the figures. The folder is made if
it is not there.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from puarena import catalog
from puarena.metrics import CRITERIA, METRICS
from puarena.report import aggregate, select, table, to_csv, to_latex, to_markdown, write_page
from puarena.report.compare import compare
from puarena.report.export import export
from puarena.report.statistics import summarize
from puarena.results import COLUMNS, Folder

PROBLEMS = [(name, case) for name in ("letter", "usps", "cifar10", "imagenette") for case in (1, 2)]
ENTRIES = [
    entry
    for entry in catalog.get_all().values()
    if entry.origin == "puarena" and not entry.baseline
][:23]
FACTS = catalog.STORED_FACTS
VALUES = [record.column for record in (*CRITERIA.values(), *METRICS.values())]
SPLITS, CONFIGS, RECORDS = 3, 10, 200


def make(folder: Path) -> None:
    """Write 8 problems x 23 algorithms x 3 splits x 10 configurations, one shard per problem and
    algorithm.
    """
    random = np.random.default_rng(0)
    store = Folder.create(folder, {"name": "scale"}, "scale")
    runs = SPLITS * CONFIGS
    for dataset, case in PROBLEMS:
        for entry in ENTRIES:
            fleet = f"{dataset}-{case}-{entry.name}"
            rows = runs * RECORDS
            words = {name: "x" for name, kind in COLUMNS.items() if kind == "VARCHAR"}
            frame = pd.DataFrame(words, index=range(rows))
            for name, kind in COLUMNS.items():
                if kind == "DOUBLE":
                    frame[name] = 0.5
                elif kind in {"INTEGER", "BIGINT"}:
                    frame[name] = 1
            frame = frame.assign(**{name: random.random(rows) for name in VALUES})
            run = np.repeat(np.arange(runs), RECORDS)
            about = {
                "dataset": dataset,
                "case": case,
                "setting": "os",
                "rate": 0.3,
                "prior": 0.5,
                "status": "ok",
            }
            about |= {
                "profile": "definition",
                "prior_source": "true",
                "precision": "float32",
                "labeling": "scar",
            }
            about |= {"optimizer": "protocol"} | {name: getattr(entry, name) for name in FACTS}
            frame = frame.assign(**about, algorithm=entry.name, fleet=fleet, selectable=True)
            frame = frame.assign(
                run=[f"{fleet}-{i}" for i in run], split=run // CONFIGS, config=run % CONFIGS
            )
            store.write_shard(
                fleet, frame.assign(step=np.tile(np.arange(1, RECORDS + 1) * 100, runs))
            )


def tables(folder: Path) -> None:
    """All metrics by all criteria, in all forms."""
    everything = table(folder, METRICS, CRITERIA)
    for form in (to_markdown, to_latex, to_csv):
        form(everything)


def main() -> None:
    """Make the folder if need be (a second call measures a process that did not make it), and
    measure.
    """
    with tempfile.TemporaryDirectory() as temp:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temp) / "scale"
        if not (folder / "spec.json").exists():
            make(folder)
        page = Path(temp) / "page.html"
        jobs = {
            "all tables": lambda: tables(folder),
            "the page": lambda: write_page(folder, page),
            "selection by all criteria": lambda: aggregate(select(folder)),
            "statistics": lambda: summarize(folder),
            "comparison": lambda: compare(folder),
            "export": lambda: export(folder, Path(temp) / "summary.parquet"),
        }
        for name, job in jobs.items():
            began, spent = time.perf_counter(), time.process_time()
            job()
            wall, cpu = time.perf_counter() - began, time.process_time() - spent
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
            print(
                f"{name}: {wall:.1f} s ({cpu:.1f} s of all cores), at most {memory:.0f} MiB so far"
            )
        print(f"the page has {page.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
