"""An hour of mixed suites in one process: do memory, handles, threads and processes stay flat?

    python benchmarks/soak.py --minutes 60 --csv soak.csv --svg docs/images/soak.svg

One suite follows the other: trained in this process and in a worker process, methods by steps and
classics, estimated priors, a user's table, fleets that break, runs stopped halfway and taken up
again; then the tables, the status and a look at every file. Meanwhile a thread notes what this
process and its children hold. Prints the figures, and draws them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import puarena
from puarena.experiments.doctor import examine
from puarena.experiments.spec import Spec
from puarena.experiments.status import read_status
from puarena.results import open_results

WARMING = 0.25  # of the time, in which libraries are loaded and caches filled
COLUMNS = {
    "driver": "memory of the driver, MB",
    "workers": "memory of workers, MB",
    "handles": "open files of the driver",
    "threads": "threads of the driver",
    "processes": "child processes",
}
PLUGIN = """
from puarena.algorithms import Algorithm, logistic

class Breaks(Algorithm):
    name, title, paper = "breaks", "Breaks", "a soak"

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)

    def on_epoch(self, phase, epoch, passes):
        if epoch == 2:
            raise RuntimeError("broken on purpose")
"""


def small(number: int, algorithms: list[str], **more: object) -> Spec:
    """A suite of a few seconds."""
    given: dict = {
        "problems": [{"dataset": "digits", "cases": [1 + number % 2]}],
        "algorithms": algorithms,
    }
    given |= {
        "splits": 1,
        "configs": 2,
        "steps": 200,
        "warmup": 50,
        "record_every": 50,
        "seed": number,
    }
    return Spec.load(given | more)


def own_table(folder: Path) -> Path:
    """A table of a user, as CSV, with a column of text."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(600, 4)), columns=list("abcd"))
    frame["outcome"] = np.where(frame["a"] + rng.normal(size=600) > 0, "yes", "no")
    frame.to_csv(folder / "own.csv", index=False)
    (folder / "own.yaml").write_text(
        "name: own\nfile: own.csv\nlabel: outcome\npositive: ['yes']\ntest: 0.2\n"
    )
    return folder / "own.yaml"


def mixes(folder: Path) -> list[Callable[[int, Path], None]]:
    """What is done one after the other; each with a number of its own and a folder that is gone
    afterwards.
    """
    table = own_table(folder)
    (folder / "breaks.py").write_text(PLUGIN)

    def suite(algorithms: list[str], engine: str, **more: object) -> Callable[[int, Path], None]:
        return lambda number, out: _run(small(number, algorithms, **more), out, engine)

    def stopped(number: int, out: Path) -> None:
        spec = small(number, ["nnpu", "pan"], steps=2000)
        puarena.run(spec, out, device="cpu", workers=1, progress=False, seconds=1.5)
        _run(spec, out, "inline")

    mine = [{"dataset": str(table), "rates": [0.1, 0.2]}]
    return [
        suite(["upu", "nnpu", "vpu"], "inline"),
        suite(["holistic-pu", "lbe"], "processes"),
        suite(["p3mix-c", "cvir", "pn-oracle"], "inline"),
        suite(["elkan-noto", "nnpu"], "inline", prior_source=["true", "estimate"]),
        suite(["nnpu-c", "vpu-c"], "processes", problems=mine),
        suite(["nnpu", "breaks"], "processes", plugins=[str(folder / "breaks.py")]),
        stopped,
    ]


def _run(spec: Spec, out: Path, engine: str) -> None:
    """Run a suite, then look at its results in every way."""
    puarena.run(spec, out, device="cpu", workers=1, engine=engine, progress=False)
    puarena.table(out)
    read_status(open_results(out))
    assert not examine(out).findings, examine(out)


def held() -> dict[str, float]:
    """What this process and its children hold now."""
    status = _status("self")
    children = [pid for pid in _children(os.getpid()) if _status(pid)]
    memory = [float(_status(pid).get("VmRSS", "0 kB").split()[0]) for pid in children]
    return {
        "driver": float(status["VmRSS"].split()[0]) / 1e3,
        "workers": sum(memory) / 1e3,
        "handles": len(os.listdir("/proc/self/fd")) - 1,  # less the one that reads them
        "threads": int(status["Threads"]),
        "processes": len(children),
    }


def _status(pid: str | int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _children(parent: int) -> list[int]:
    """The processes below this one."""
    found = []
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        try:
            own = [int(pid) for pid in task.read_text().split()]
        except OSError:
            continue
        found += [*own, *(pid for child in own for pid in _children(child))]
    return found


def soak(folder: Path, minutes: float, every: float, csv: Path) -> pd.DataFrame:
    """Suite after suite for so long; what was held at each moment."""
    began, rows, over, done = time.monotonic(), [], threading.Event(), [0]

    def watch() -> None:
        while not over.wait(every):
            rows.append({"minute": (time.monotonic() - began) / 60, "suites": done[0], **held()})
            pd.DataFrame(rows).to_csv(csv, index=False)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    kinds = mixes(folder)
    while time.monotonic() < began + 60 * minutes:
        kinds[done[0] % len(kinds)](done[0], folder / "out")
        shutil.rmtree(folder / "out")
        done[0] += 1
        if done[0] % 20 == 0:
            print(
                f"{(time.monotonic() - began) / 60:5.1f} min, {done[0]} suites: {held()}",
                flush=True,
            )
    over.set()
    watcher.join()
    return pd.DataFrame(rows)


def figures(frame: pd.DataFrame) -> str:
    """The growth per hour after the first quarter, in words."""
    late = frame[frame["minute"] >= WARMING * frame["minute"].max()]
    hours = late["minute"] / 60
    words = [
        f"{frame['suites'].max()} suites in {frame['minute'].max():.0f} minutes, {len(frame)} samples"
    ]
    for name, title in COLUMNS.items():
        slope = np.polyfit(hours, late[name], 1)[0]
        low, middle, high = late[name].min(), late[name].median(), late[name].max()
        words.append(
            f"{title}: {low:.0f} to {high:.0f}, median {middle:.0f}, trend {slope:+.2f} an hour"
        )
    return "\n  ".join(words)


def draw(frame: pd.DataFrame, file: Path) -> None:
    """One strip for each thing that is held."""
    import altair as alt

    from puarena.report.figures import save_chart
    from puarena.report.figures.base import VIOLET

    thin = frame.iloc[:: max(1, len(frame) // 400)]
    strips = []
    for name, title in COLUMNS.items():
        y = alt.Y(f"{name}:Q", title="", scale=alt.Scale(zero=True))
        x = alt.X(
            "minute:Q",
            title="minutes" if name == list(COLUMNS)[-1] else "",
            scale=alt.Scale(nice=False),
        )
        line = alt.Chart(thin, title=title).mark_line(color=VIOLET, strokeWidth=1).encode(x, y)
        strips.append(line.properties(width=640, height=80))
    save_chart(alt.vconcat(*strips), file)


def main() -> None:
    """Soak, print, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two samples")
    parser.add_argument("--csv", type=Path, default=Path("soak.csv"))
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        frame = soak(Path(place), given.minutes, given.every, given.csv)
    print(figures(frame))
    if given.svg is not None:
        draw(frame, given.svg)


if __name__ == "__main__":
    main()
