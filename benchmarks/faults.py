"""What interruptions cost: processes killed at random moments, bits flipped, folders raced for.

Prints figures. One kind of fault per call, ``python benchmarks/faults.py KIND --times N``:

    group     kill -9 of the whole process group
    worker    kill -9 of single worker processes
    driver    kill -9 of the process that manages them
    drivers   two drivers in one folder, one killed
    ray       a local Ray of three nodes: nodes, raylets, workers and the driver are killed
    slurm     a SLURM on this machine (apt-get install slurm-wlm munge, as root): five faults
    flips     single bits of shards and states
    race      two specs for one folder
    limits    disk full, few handles, little memory, a folder that goes

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
os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
SLURM_SECONDS = 600.0  # after which a run on SLURM counts as one that never ends
RAY_SECONDS = 1500.0  # after which a run on Ray counts as one that never ends


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


def command(
    folder: Path, workers: int = 2, spec: Spec = SPEC, checkpoints: float | None = 1
) -> subprocess.Popen[bytes]:
    """The experiment as a command with a process group of its own."""
    (folder / "spec.json").write_text(json.dumps(spec.to_dict()))
    words = ["run", folder / "spec.json", "--out", folder / "out", "--device", "cpu"]
    words += ["--workers", workers]
    if checkpoints is not None:
        words += ["--set", f"checkpoint_every={checkpoints:g}"]
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


def is_worker(pid: int) -> bool:
    """Is it a worker process of the run?"""
    with suppress(OSError):
        return "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()
    return False


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def undisturbed(folder: Path, spec: Spec = SPEC) -> Path:
    puarena.run(spec, folder / "whole", device="cpu", workers=1)
    return folder / "whole"


def killed(
    folder: Path,
    times: int,
    chance: random.Random,
    who: str,
    checkpoints: float | None,
    seconds: float,
) -> None:
    """Kill the group, the driver or one worker of it, at random moments, until that was done often
    enough, or for so many seconds.
    """
    ends = time.monotonic() + seconds
    whole, done, complete, left, training = undisturbed(folder), 0, 0, 0, 0
    while done < times:
        began, process = time.time(), command(folder, checkpoints=checkpoints)
        early = chance.random() < 0.2  # while it starts; else when it trains
        until = time.monotonic() + chance.uniform(0, 8) if early else float("inf")
        while process.poll() is None and done < times:
            if time.monotonic() > ends:
                times = done
            trains = any(
                _written(file) > began for file in (folder / "out" / "claims").glob("[!.]*")
            )
            if until == float("inf") and trains:
                until = time.monotonic() + chance.uniform(0, 6)
            if time.monotonic() >= until:
                # multiprocessing's own tracker of resources is no worker.
                others = [pid for pid in members(process.pid) if is_worker(pid)]
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
    process = command(folder, checkpoints=checkpoints)
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
    """A Ray of three nodes: nodes, raylets, workers of Ray and the driver are killed during many
    small fleets.
    """
    from ray.cluster_utils import Cluster

    small = SMALL.override(configs=max(1, fleets // 20))
    puarena.run(small, folder / "whole", device="cpu", workers=1, fleet_size=1)
    for number in range(times):
        out = folder / f"out-{number}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            head = {"num_cpus": 0, "include_dashboard": False}
            disturb = Disturb(Cluster(initialize_head=True, head_node_args=head), chance)
        began = time.monotonic()
        code = disturb.run_disturbed(folder, out, small)
        took = time.monotonic() - began
        disturb.cluster.shutdown()
        failed = len(open_results(out).failures())
        if failed:  # a fleet whose process was killed four times
            puarena.run(small, out, device="cpu", workers=1, retry_failed=True)
        print(
            f"run {number}: exit {code}, {len(open_results(out).shards())} fleets in {took:.0f} s "
            f"with {disturb.counts} killed, {failed} failed; {compare(out, folder / 'whole')}",
            flush=True,
        )


class Disturb:
    """Kills a node, a raylet, a worker or the driver of a Ray now and then; replaces nodes."""

    def __init__(self, cluster: Any, chance: random.Random) -> None:
        self.cluster, self.chance = cluster, chance
        self.nodes: list[Any] = []
        while len(self.nodes) < 3:
            self.add_node()
        self.counts = {"nodes": 0, "raylets": 0, "workers": 0, "drivers": 0}

    def add_node(self) -> None:
        """Start a node; Ray gives up on a machine that is too busy, and the next try follows."""
        with suppress(Exception):
            self.nodes.append(self.cluster.add_node(num_cpus=1))

    def run_disturbed(self, folder: Path, out: Path, spec: Spec) -> int | str:
        """Run a spec on the Ray, again if the driver was killed; return its exit code."""
        (folder / "spec.json").write_text(json.dumps(spec.to_dict()))
        words = ["run", folder / "spec.json", "--out", out, "--device", "cpu", "--fleet-size", 1]
        words += ["--engine", "ray", "--set", f"address={self.cluster.address}"]
        call = [sys.executable, "-m", "puarena", *map(str, words), "--set", "checkpoint_every=1"]
        log = (folder / "ray.log").open("w")
        quiet = {"env": ENVIRONMENT, "stdout": log, "stderr": log}
        driver, due = subprocess.Popen(call, **quiet), float("inf")
        latest, stored = time.monotonic() + RAY_SECONDS, 0
        while driver.poll() is None:
            time.sleep(0.2)
            now, found = time.monotonic(), len(list(out.glob("shards/[!.]*")))
            if now > latest:
                driver.kill()
                return "NEVER ENDED"
            if due == float("inf") and found > stored:
                due = now + self.chance.uniform(0, 4)
            if now > due:
                self.kill_one(driver)
                # Sometimes again while everything starts; on a busy machine that takes long.
                soon = self.chance.random() < 0.3
                due = time.monotonic() + self.chance.uniform(1, 6) if soon else float("inf")
                stored = found
            if driver.poll() == -signal.SIGKILL:
                driver = subprocess.Popen(call, **quiet)
        return driver.returncode

    def kill_one(self, driver: subprocess.Popen[bytes]) -> None:
        """Kill something, or replace a node that was killed."""
        if len(self.nodes) < 3:
            self.add_node()
            return
        kind = self.chance.choice(list(self.counts))
        if kind == "drivers":
            driver.kill()
            driver.wait()
        elif kind == "nodes":
            node = self.nodes.pop(self.chance.randrange(3))
            self.cluster.remove_node(node, allow_graceful=False)
        elif kind == "raylets":
            node = self.nodes.pop(self.chance.randrange(3))
            node.all_processes["raylet"][0].process.kill()
        else:
            workers = [pid for pid in members_below(os.getpid()) if is_busy(pid)]
            if not workers:
                return
            os.kill(self.chance.choice(workers), signal.SIGKILL)
        self.counts[kind] += 1


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


SLURM_CONF = """
ClusterName=faults
SlurmctldHost=HOST(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=PLACE/munge.socket
CredType=cred/munge
StateSaveLocation=PLACE/state
SlurmdSpoolDir=PLACE/spool
SlurmctldPidFile=PLACE/slurmctld.pid
SlurmdPidFile=PLACE/slurmd.pid
SlurmctldLogFile=PLACE/slurmctld.log
SlurmdLogFile=PLACE/slurmd.log
SlurmctldPort=16817
SlurmdPort=16818
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdTimeout=20
KillWait=5
MinJobAge=60
SchedulerParameters=sched_interval=5
NodeName=HOST NodeAddr=127.0.0.1 CPUs=CORES State=UNKNOWN
PartitionName=faults Nodes=HOST Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """A SLURM on this machine without accounting: munged, slurmctld and slurmd of one's own."""

    def __init__(self, place: Path) -> None:
        self.place, self.daemons = place, {}
        for name in ("state", "spool"):
            (place / name).mkdir()
        place.chmod(0o755)
        key = place / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        text = SLURM_CONF.replace("PLACE", str(place)).replace("HOST", os.uname().nodename)
        (place / "slurm.conf").write_text(text.replace("CORES", str(os.cpu_count())))
        os.environ["SLURM_CONF"] = ENVIRONMENT["SLURM_CONF"] = str(place / "slurm.conf")
        self.start("munged")
        self.start("slurmctld")
        self.start("slurmd")
        until = time.monotonic() + 60
        while "idle" not in self.ask("sinfo", "--noheader", "--format=%T"):
            if time.monotonic() > until:
                raise SystemExit(f"SLURM does not start; see {place}/*.log")
            time.sleep(0.5)

    def start(self, name: str) -> None:
        """Start a daemon in the foreground."""
        options = {
            "munged": [
                "--foreground", "--force", f"--key-file={self.place}/munge.key",
                f"--socket={self.place}/munge.socket", f"--pid-file={self.place}/munged.pid",
                f"--log-file={self.place}/munged.log", f"--seed-file={self.place}/munged.seed",
            ],
            "slurmctld": ["-D"],
            "slurmd": ["-D", "-N", os.uname().nodename],
        }  # fmt: skip
        log = (self.place / f"{name}.out").open("a")
        call = [f"/usr/sbin/{name}", *options[name]]
        self.daemons[name] = subprocess.Popen(call, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        """Kill a daemon."""
        self.daemons[name].kill()
        self.daemons[name].wait()

    @staticmethod
    def ask(*call: str) -> str:
        """The answer of a command of SLURM."""
        return subprocess.run(call, capture_output=True, text=True, timeout=60).stdout

    def jobs(self) -> list[str]:
        """The jobs that run."""
        call = ["squeue", "--noheader", "--array", "--states=RUNNING", "--format=%A"]
        return self.ask(*call).split()

    def end(self) -> None:
        """End all jobs and daemons."""
        self.ask("scancel", "--user=root")
        time.sleep(2)
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            daemon.wait()


def on_slurm(folder: Path, times: int, chance: random.Random) -> None:
    """Five faults of a real SLURM: each run ends, and the next one computes what is missing."""
    place = folder / "slurm"
    place.mkdir()
    small = SPEC.override(algorithms=["upu", "nnpu", "vpu"], steps=1500, warmup=0)
    puarena.run(small, folder / "whole", device="cpu", workers=1)
    (folder / "spec.json").write_text(json.dumps(small.to_dict()))
    cluster = Cluster(place)
    try:
        for number in range(times):
            for name, fault in SLURM_FAULTS.items():
                out = folder / f"out-{number}-{name}".replace(" ", "-")
                words = ["run", folder / "spec.json", "--out", out, "--device", "cpu"]
                words += ["--engine", "slurm", "--workers", 2, "--set", "checkpoint_every=5"]
                call = [sys.executable, "-m", "puarena", *map(str, words)]
                began, codes = time.monotonic(), []
                for attempt in range(4):
                    log = (folder / "slurm.log").open("w")
                    driver = subprocess.Popen(call, env=ENVIRONMENT, stdout=log, stderr=log)
                    if attempt == 0:
                        wait_for_training(driver, out)
                        time.sleep(chance.uniform(0, 4))
                        fault(cluster, driver)
                    try:
                        codes.append(driver.wait(SLURM_SECONDS))
                    except subprocess.TimeoutExpired:
                        driver.kill()
                        codes.append("NEVER ENDED")
                    if codes[-1] == 0:
                        break
                    call = [*call, "--retry-failed"]
                cluster.ask("scancel", "--user=root")
                print(
                    f"{name}: exits {codes} after {time.monotonic() - began:.0f} s, "
                    f"{compare(out, folder / 'whole')}",
                    flush=True,
                )
    finally:
        cluster.end()


def wait_for_training(driver: subprocess.Popen[bytes], out: Path) -> None:
    """Wait until a job has stored a fleet or a checkpoint."""
    while driver.poll() is None and not (
        any(out.glob("shards/[!.]*")) or any(out.glob("progress/[!.]*"))
    ):
        time.sleep(0.2)


def kill_job(cluster: Cluster, driver: subprocess.Popen[bytes]) -> None:
    """Kill all processes of one job, which SLURM without accounting forgets."""
    job = cluster.jobs()[0]
    cluster.ask("scancel", "--signal=KILL", "--full", job)


def kill_trainer(cluster: Cluster, driver: subprocess.Popen[bytes]) -> None:
    """Kill one process of a job that trains."""
    found = subprocess.run(["pgrep", "-f", "submitit.core._submit"], capture_output=True, text=True)
    below = {pid for pid in map(int, found.stdout.split()) if is_of(pid, cluster.jobs())}
    if below:
        os.kill(max(below), signal.SIGKILL)


def is_of(pid: int, jobs: list[str]) -> bool:
    """Is it a process of one of these jobs of SLURM?"""
    with suppress(OSError):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return any(f"SLURM_JOB_ID={job}".encode() in variables for job in jobs)
    return False


def kill_node(cluster: Cluster, driver: subprocess.Popen[bytes]) -> None:
    """Kill slurmd and all jobs of its node, and start it again after a while."""
    cluster.kill("slurmd")
    for job in cluster.jobs():
        for pid in map(int, (path.name for path in Path("/proc").glob("[0-9]*"))):
            if is_of(pid, [job]):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
    time.sleep(5)
    cluster.start("slurmd")


def kill_controller(cluster: Cluster, driver: subprocess.Popen[bytes]) -> None:
    """Kill slurmctld and start it again after a while."""
    cluster.kill("slurmctld")
    time.sleep(8)
    cluster.start("slurmctld")


def kill_driver(cluster: Cluster, driver: subprocess.Popen[bytes]) -> None:
    """Kill the process that submitted the jobs; they go on."""
    driver.kill()


def send_time_limit(cluster: Cluster, driver: subprocess.Popen[bytes]) -> None:
    """Send the signal of the time limit: the job saves checkpoints and is queued again."""
    for job in cluster.jobs()[:1]:
        cluster.ask("scancel", "--signal=USR2", job)


SLURM_FAULTS = {
    "a job killed": kill_job,
    "a process of a job killed": kill_trainer,
    "a node lost": kill_node,
    "slurmctld killed": kill_controller,
    "the driver killed": kill_driver,
    "time limit": send_time_limit,
}


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
        "kind",
        choices=["group", "worker", "driver", "drivers", "ray", "slurm", "flips", "race", "limits"],
    )
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--fleets", type=int, default=60)
    parser.add_argument("--checkpoints", type=float, help="seconds; default: the package's")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of killing, at most")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if given.kind in ("group", "worker", "driver"):
            options = given.kind, given.checkpoints, given.seconds
            killed(folder, given.times, chance, *options)
        elif given.kind == "drivers":
            drivers(folder, given.times, chance)
        elif given.kind == "flips":
            flips(folder, given.times, chance)
        elif given.kind == "race":
            race(folder, given.times)
        elif given.kind == "ray":
            on_ray(folder, given.fleets, given.times, chance)
        elif given.kind == "slurm":
            on_slurm(folder, given.times, chance)
        else:
            limits(folder)


if __name__ == "__main__":
    main()
