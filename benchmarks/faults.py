"""What interruptions cost: processes killed at random moments, bits flipped, folders raced for.
Prints figures.

    python benchmarks/faults.py group --times 50      # kill -9 of the whole process group python
    benchmarks/faults.py worker --times 20     # kill -9 of single worker processes python
    benchmarks/faults.py driver --times 20     # kill -9 of the process that manages them python
    benchmarks/faults.py drivers --times 5     # two drivers in one folder, one killed python
    benchmarks/faults.py ray --times 5         # a local Ray of three nodes: nodes, raylets, workers
    killed python benchmarks/faults.py flips --times 400     # single bits of shards and states
    python benchmarks/faults.py race --times 200      # two specs for one folder python
    benchmarks/faults.py limits                # disk full, few handles, little memory, a folder
    that goes

benchmarks/soak.py has the hour of mixed suites.

Every experiment that was disturbed is compared with one that was not, bit by bit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

import puarena
from puarena.errors import UserError
from puarena.experiments.progress import Progress
from puarena.experiments.spec import Spec
from puarena.results import Folder, open_results

SPEC = Spec(
    problems=[{"dataset": "digits", "cases": [1, 2]}],
    algorithms=["upu", "nnpu", "vpu", "holistic-pu", "pn-naive"],
    splits=2,
    configs=2,
    steps=1000,
    warmup=200,
    record_every=50,
)
SMALL = SPEC.override(steps=200, warmup=50)
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def curves(out: Path) -> pd.DataFrame:
    """All stored values, but how long it took."""
    frame = puarena.load(out).df().drop(columns=["seconds"])
    return frame.sort_values(["run", "step"]).reset_index(drop=True)


def compare(out: Path, whole: Path) -> str:
    """Runs lost, doubled and different, in words."""
    a, b = curves(whole), curves(out)
    lost = len(set(a["run"]) - set(b["run"]))
    doubled = int(b.duplicated(["run", "step"]).sum())
    both = a.merge(b, on=["run", "step"], suffixes=("", "_b"))
    columns = [name for name in a.columns if name not in ("run", "step", "fleet")]
    same = pd.Series(True, index=both.index)
    for name in columns:
        same &= (both[name] == both[f"{name}_b"]) | (both[name].isna() & both[f"{name}_b"].isna())
    different = both.loc[~same, "run"].nunique()
    return (
        f"{len(set(a['run']))} runs: {lost} lost, {doubled} doubled records, {different} different"
    )


def command(folder: Path, workers: int = 2, spec: Spec = SPEC) -> subprocess.Popen[bytes]:
    """The experiment as a command with a process group of its own."""
    (folder / "spec.json").write_text(json.dumps(spec.to_dict()))
    words = ["run", folder / "spec.json", "--out", folder / "out", "--device", "cpu"]
    words += ["--workers", workers, "--set", "checkpoint_every=1"]
    call = [sys.executable, "-m", "puarena", *map(str, words)]
    return subprocess.Popen(
        call,
        env=ENVIRONMENT,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def members(group: int) -> list[int]:
    """The living processes of a group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
            if int(words[2]) == group and words[0] != "Z":
                found.append(int(stat.parent.name))
        except (OSError, IndexError):
            continue
    return found


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def undisturbed(folder: Path, spec: Spec = SPEC) -> Path:
    puarena.run(spec, folder / "whole", device="cpu", workers=1)
    return folder / "whole"


def killed(folder: Path, times: int, chance: random.Random, who: str) -> None:
    """Kill the group, the driver or one worker of it, at random moments, until that was done often
    enough.
    """
    whole, done, complete, left, training = undisturbed(folder), 0, 0, 0, 0
    while done < times:
        began, process = time.time(), command(folder)
        early = chance.random() < 0.2  # while it starts; else when it trains
        until = time.monotonic() + chance.uniform(0, 8) if early else float("inf")
        while process.poll() is None and done < times:
            trains = any(
                _written(file) > began for file in (folder / "out" / "claims").glob("[!.]*")
            )
            if until == float("inf") and trains:
                until = time.monotonic() + chance.uniform(0, 6)
            if time.monotonic() >= until:
                others = [pid for pid in members(process.pid) if pid != process.pid]
                victims = others if who == "worker" else [process.pid]
                if victims:
                    (os.killpg if who == "group" else os.kill)(
                        chance.choice(victims), signal.SIGKILL
                    )
                    done, training = done + 1, training + trains
                    print(f"  {done} killed", flush=True)
                until = time.monotonic() + chance.uniform(0, 6)
            time.sleep(0.02)
        process.wait()
        waited = time.monotonic() + 10
        while members(process.pid) and time.monotonic() < waited:
            time.sleep(0.1)
        left += len(members(process.pid))
        if process.returncode == 0:
            complete += 1
            print(f"  {done} kills: {compare(folder / 'out', whole)}", flush=True)
            if done < times:
                shutil.rmtree(folder / "out")
    process = command(folder)
    process.wait()
    what = {"worker": "single processes", "group": "process groups", "driver": "drivers"}[who]
    print(
        f"{done} {what} killed, {training} of them while fleets were in training; {complete} experiments ended under "
        f"it; {compare(folder / 'out', whole)}; {left + len(members(process.pid))} processes left behind, "
        f"{len(list((folder / 'out').rglob('.*')))} files left behind, "
        f"{len(open_results(folder / 'out').failures())} fleets failed"
    )


def drivers(folder: Path, times: int, chance: random.Random) -> None:
    """Two drivers share a folder; one is killed."""
    whole = undisturbed(folder)
    for number in range(times):
        shutil.rmtree(folder / "out", ignore_errors=True)
        first, second = command(folder, 1), command(folder, 1)
        time.sleep(chance.uniform(4, 20))
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
        code = second.wait()
        first.wait()
        print(
            f"trial {number}: second driver ended with {code}; {compare(folder / 'out', whole)}",
            flush=True,
        )


def flips(folder: Path, times: int, chance: random.Random) -> None:
    """Flip single bits of a shard and of a state; count what goes unnoticed."""

    class Halt(Progress):
        def record(self, fleet: Any, steps: int) -> None:
            super().record(fleet, steps)
            if self.fleets_done:
                raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        puarena.run(
            SPEC, folder / "out", device="cpu", workers=1, progress=Halt(), checkpoint_every=0
        )
    unnoticed = {"shards": 0, "progress": 0}
    for kind in unnoticed:
        file = next((folder / "out" / kind).glob("[!.]*"))
        content = file.read_bytes()
        for _ in range(times):
            damaged, bit = bytearray(content), chance.randrange(8 * len(content))
            damaged[bit // 8] ^= 1 << bit % 8
            file.write_bytes(damaged)
            store = Folder(folder / "out")
            if kind == "progress":
                unnoticed[kind] += bool(store.states()[file])
                continue
            try:
                store.outcomes()
                unnoticed[kind] += 1
            except UserError:
                pass
        file.write_bytes(content)
    print(
        f"of {times} flipped bits each, unnoticed: {unnoticed['shards']} in a shard, {unnoticed['progress']} in a state"
    )


def race(folder: Path, times: int) -> None:
    """Two specs for one new folder, at once."""
    both = neither = 0
    for number in range(times):
        accepted, start = [], threading.Barrier(2)

        def create(
            name: str, number: int = number, start: Any = start, accepted: list[str] = accepted
        ) -> None:
            start.wait()
            try:
                Folder.create(folder / str(number), {"name": name}, name)
                accepted.append(name)
            except UserError:
                pass

        threads = [threading.Thread(target=create, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        both += len(accepted) == 2
        neither += not accepted
    print(f"of {times} races both specs were accepted in {both}, none in {neither}")


def on_ray(folder: Path, fleets: int, times: int, chance: random.Random) -> None:
    """A Ray of three nodes: nodes, raylets and workers of Ray are killed during many small fleets."""
    import ray
    from ray.cluster_utils import Cluster

    small = SMALL.override(configs=max(1, fleets // 20))
    puarena.run(small, folder / "whole", device="cpu", workers=1, fleet_size=1)
    quiet = {"log_to_driver": False, "logging_level": "error"}
    for number in range(times):
        out = folder / f"out-{number}"
        head = {"num_cpus": 0, "include_dashboard": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cluster = Cluster(initialize_head=True, head_node_args=head)
            disturb = Disturb(cluster, chance)
            ray.init(address=cluster.address, **quiet)
        began = time.monotonic()
        how: dict[str, Any] = {"engine": "ray", "fleet_size": 1, "checkpoint_every": 1}
        outcome = puarena.run(small, out, device="cpu", progress=disturb, **how)
        ray.shutdown()
        cluster.shutdown()
        print(
            f"{len(open_results(out).shards())} fleets in {time.monotonic() - began:.0f} s with "
            f"{disturb.counts} killed; {compare(out, folder / 'whole')}; "
            f"{len(outcome.failures)} failed",
            flush=True,
        )


class Disturb(Progress):
    """Kills a node, a raylet or a worker of Ray now and then, and replaces nodes.

    It does so when a fleet ends: Ray's cluster may only be changed from the main thread.
    """

    def __init__(self, cluster: Any, chance: random.Random) -> None:
        super().__init__()
        self.cluster, self.chance = cluster, chance
        self.nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
        self.counts = {"nodes": 0, "raylets": 0, "workers": 0}
        self.due = time.monotonic() + 10

    def end(self, fleet: Any, failure: str | None = None) -> None:
        super().end(fleet, failure)
        if time.monotonic() < self.due:
            return
        self.due = time.monotonic() + self.chance.uniform(2, 10)
        if len(self.nodes) < 3:
            self.nodes.append(self.cluster.add_node(num_cpus=1))
            return
        kind = self.chance.choice(list(self.counts))
        self.counts[kind] += 1
        if kind == "nodes":
            node = self.nodes.pop(self.chance.randrange(3))
            self.cluster.remove_node(node, allow_graceful=False)
        elif kind == "raylets":
            node = self.nodes.pop(self.chance.randrange(3))
            node.all_processes["raylet"][0].process.kill()
        else:
            workers = [pid for pid in members_below(os.getpid()) if is_busy(pid)]
            if workers:
                os.kill(self.chance.choice(workers), signal.SIGKILL)


def members_below(parent: int) -> list[int]:
    """The descendants of a process."""
    found = []
    for file in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):
            for pid in map(int, file.read_text().split()):
                found += [pid, *members_below(pid)]
    return found


def is_busy(pid: int) -> bool:
    """Is it a worker of Ray that has a task?"""
    with suppress(OSError):
        return "train_in_task" in Path(f"/proc/{pid}/cmdline").read_text()
    return False


def limits(folder: Path) -> None:
    """Run into the machine's limits, then once more without them."""
    whole = undisturbed(folder, SMALL)
    (folder / "spec.json").write_text(json.dumps(SMALL.to_dict()))
    words = [
        sys.executable,
        "-m",
        "puarena",
        "run",
        str(folder / "spec.json"),
        "--device",
        "cpu",
        "--workers",
        "2",
    ]
    trials = {
        "a disk of 100 kB": "mount -t tmpfs -o size=100k tmpfs OUT || exit 99",
        "a read-only file system": "mount -t tmpfs -o ro tmpfs OUT || exit 99",
        "files of at most 20 kB": "ulimit -f 20",
        "24 file handles": "ulimit -n 24",
        "1 GB of address space": "ulimit -v 1000000",
        "stderr is full": "exec 2>/dev/full",
        "stdout is closed": "exec 1>&-",
        "nobody reads stdout and stderr any more": "exec > >(head -c 100 > /dev/null) 2>&1",
    }
    for name, limit in trials.items():
        out = folder / name.replace(" ", "-")
        out.mkdir()
        script = f"{limit.replace('OUT', str(out))}; exec {' '.join(words)} --out {out}"
        first = subprocess.run(
            ["bash", "-c", script], env=ENVIRONMENT, capture_output=True, text=True
        )
        said = (first.stderr.strip().splitlines() or [""])[-1][:200]
        if first.returncode == 99:
            print(f"{name}: not tried, only root can mount", flush=True)
            continue
        if os.path.ismount(out):
            more = "remount,rw,size=100m"
            subprocess.run(["mount", "-o", more, str(out)], check=True)
        stored = len(open_results(out).done_runs()) if (out / "spec.json").exists() else 0
        second = subprocess.run(
            [*words, "--out", str(out), "--retry-failed"], env=ENVIRONMENT, capture_output=True
        )
        traceback = "Traceback" in first.stderr
        print(
            f"{name}: exit {first.returncode}, {stored} runs stored, traceback {traceback}, '{said}'; then exit "
            f"{second.returncode}, {compare(out, whole)}",
            flush=True,
        )
        if os.path.ismount(out):
            subprocess.run(["umount", str(out)], check=True)
    process = command(folder, spec=SMALL)
    while not any((folder / "out" / "claims").glob("[!.]*")):
        time.sleep(0.1)
    os.rename(folder / "out", folder / "moved")
    code = process.wait()
    second = subprocess.run(
        [*words, "--out", str(folder / "moved")], env=ENVIRONMENT, capture_output=True
    )
    print(
        f"folder renamed under way: exit {code}; then exit {second.returncode}, {compare(folder / 'moved', whole)}"
    )


def main() -> None:
    """Run one kind of fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "kind", choices=["group", "worker", "driver", "drivers", "ray", "flips", "race", "limits"]
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--fleets", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if given.kind in ("group", "worker", "driver"):
            killed(folder, given.times, chance, given.kind)
        elif given.kind == "drivers":
            drivers(folder, given.times, chance)
        elif given.kind == "flips":
            flips(folder, given.times, chance)
        elif given.kind == "race":
            race(folder, given.times)
        elif given.kind == "ray":
            on_ray(folder, given.fleets, given.times, chance)
        else:
            limits(folder)


if __name__ == "__main__":
    main()
