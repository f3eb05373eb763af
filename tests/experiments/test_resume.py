"""Going on after an interruption: the same curves as without one, and nothing foreign is gone on
from.
"""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save

import puarena
from puarena import networks, training
from puarena.algorithms import Phase
from puarena.errors import UserError
from puarena.experiments import checkpoints
from puarena.experiments.doctor import examine
from puarena.experiments.plan import make_plan
from puarena.experiments.progress import Progress
from puarena.experiments.spec import Spec
from puarena.networks.resnet import ResNet
from puarena.results import Folder, open_results
from puarena.training import Fleet, FleetConfig, State, StateError
from puarena.training.checkpoint import made_by
from puarena.training.engine import Best
from puarena.utils import files
from stand_still import command, plugged, until
from tiny_suite import read_curves
from toys import rows, toy

CONFIG = FleetConfig(batch_size=64, steps=60, warmup=20, record_every=10)
SPEC = Spec(
    problems=[{"dataset": "digits"}],
    algorithms=["nnpu", "nnpu-c", "holistic-pu"],
    splits=2,
    configs=1,
    steps=60,
    warmup=20,
    record_every=10,
)


# -- fleets ----------------------------------------------------------------------


def interrupted(some: list, config: FleetConfig, x: np.ndarray, at: int) -> State:
    """The state of a fleet at the record of step ``at``."""
    f = Fleet(some, config, x)
    with training.use_own_stream(f.device):
        for step, _ in f.segments():
            if step == at:
                return f.state()
    raise AssertionError(f"no record at step {at}")


def goes_on(some: list, config: FleetConfig, x: np.ndarray, state: State) -> Fleet:
    f = Fleet(some, config, x)
    f.restore(state)
    f.train()
    return f


def same(a: training.Curves, b: training.Curves, atol: float = 0.0) -> None:
    assert a.step.tolist() == b.step.tolist()
    assert (a.phase, a.selectable.tolist()) == (b.phase, b.selectable.tolist())
    assert a.diverged.tolist() == b.diverged.tolist()
    assert list(a.values) == list(b.values)
    for name, values in a.values.items():
        np.testing.assert_allclose(values, b.values[name], rtol=0, atol=atol, err_msg=name)


def test_lost_rows_stay_lost_and_seconds_go_on():
    x, data, hidden = toy()
    some = rows("upu", 3, data, hidden)
    some[1] = replace(some[1], lr=1e30)
    whole = training.train(some, CONFIG, x)
    assert whole.diverged.tolist() == [-1, 10, -1]
    state = interrupted(some, CONFIG, x, 30)
    again = goes_on(some, CONFIG, x, state)
    same(whole, again.log.curves())
    assert again.optimizers["f"].descent.tolist()[1] == 0
    seconds = again.log.curves().seconds
    assert seconds[:3].tolist() == state.notes["log"]["seconds"]
    assert (np.diff(seconds) > 0).all()
    assert seconds[3] < seconds[2] + 60, "the time in between does not count"


def test_the_best_checkpoint_is_that_of_an_uninterrupted_fleet():
    x, data, hidden = toy()
    some, config = rows("nnpu", 4, data, hidden), replace(CONFIG, keep="pa")
    whole = Fleet(some, config, x)
    whole.train()
    for at in (10, 40):
        again = goes_on(some, config, x, interrupted(some, config, x, at))
        assert again.best is not None
        for name, values in whole.best.state().items():
            assert torch.equal(values, again.best.state()[name]), name


def test_residual_networks_go_on_with_their_statistics(monkeypatch):
    """Of PUe, whose first network only evaluates in the second phase."""
    monkeypatch.setitem(
        networks._plugins, "tiny", type("Tiny", (ResNet,), {"stages": ((1, 8), (1, 16))})
    )
    x, data, hidden = toy(n=200, features=3 * 8 * 8)
    data, hidden = replace(data, test=data.test[:40]), replace(hidden, test=hidden.test[:40])
    x, some = x.reshape(-1, 3, 8, 8), rows("pue", 2, data, hidden)
    config = FleetConfig(
        batch_size=32, steps=6, warmup=3, record_every=3, network="tiny", keep="pa"
    )
    whole = Fleet(some, config, x)
    whole.train()
    for at in (3, 6):
        again = goes_on(some, config, x, interrupted(some, config, x, at))
        same(whole.log.curves(), again.log.curves())
        assert whole.best is not None
        assert again.best is not None
        assert torch.equal(whole.best.kept["f.mean"], again.best.kept["f.mean"])


def test_the_best_checkpoint_has_the_buffers_of_networks():
    x, data, hidden = toy()
    algorithm = Fleet(rows("nnpu", 2, data, hidden), CONFIG, x).algorithm
    algorithm.f.register_buffer("mean", torch.zeros(2, 3))
    best = Best(algorithm, "pa")
    for step, value in enumerate(([0.5, 0.5], [0.7, 0.3])):
        algorithm.f.mean.fill_(step + 1)
        best.offer(
            step, Phase(), torch.tensor(value, dtype=torch.float64), torch.tensor([False, False])
        )
    best.restore()
    assert algorithm.f.mean.tolist() == [[2.0] * 3, [1.0] * 3]


@pytest.mark.parametrize(
    "what", ["seed", "config", "puarena", "torch", "device", "names", "shapes"]
)
def test_a_foreign_state_is_refused_and_changes_nothing(what):
    x, data, hidden = toy()
    some = rows("nnpu", 2, data, hidden)
    state = interrupted(some, CONFIG, x, 20)
    here, config, tensors = some, CONFIG, dict(state.tensors)
    if what == "seed":
        here = rows("nnpu", 2, data, hidden, first_seed=7)
    elif what == "config":
        config = replace(CONFIG, batch_size=32)
    elif what == "names":
        tensors["stray"] = tensors.pop("log.lost_at")
    elif what == "shapes":
        tensors["log.lost_at"] = tensors["log.lost_at"][:1]
    else:
        state = State(tensors, state.notes | {what: "another"})
    f = Fleet(here, config, x)
    with pytest.raises(StateError):
        f.restore(State(tensors, state.notes))
    same(training.train(here, config, x), f.train())


# -- results folders -----------------------------------------------------------------


class Told(Progress):
    """Remembers what it is told; interrupts at the ``stop``-th record."""

    def __init__(self, stop: int | None = None) -> None:
        super().__init__()
        self.stop, self.records, self.said = stop, 0, []

    def record(self, fleet, steps):
        super().record(fleet, steps)
        self.records += 1
        if self.records == self.stop:
            raise KeyboardInterrupt

    def message(self, text):
        self.said.append(text)


def go(out: Path, stop: int | None = None, spec: Spec = SPEC, **how) -> Told:
    """Run a spec with a state at every record, to the end or to an interruption."""
    told = Told(stop)
    how = {"device": "cpu", "workers": 1, "checkpoint_every": 0} | how
    if stop is None:
        assert puarena.run(spec, out, progress=told, **how).failures == []
    else:
        with pytest.raises(KeyboardInterrupt):
            puarena.run(spec, out, progress=told, **how)
    return told


def rewrite(file: Path, tensors: dict | None = None, **changes: str | None) -> None:
    """Write a state with other tensors or marks (None: without one), and a right checksum."""
    with safe_open(file, framework="pt") as opened:
        marks = opened.metadata() | {"seal": files.SEAL} | changes
    kept = {key: value for key, value in marks.items() if value is not None}
    file.write_bytes(files.add_seal(save(tensors or load_file(file), kept)))


def states(out: Path) -> list[Path]:
    return sorted(out.glob("progress/*"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> pd.DataFrame:
    out = tmp_path_factory.mktemp("whole")
    told = go(out)
    assert (told.records, told.said, states(out)) == (
        6 + 8,
        [],
        [],
    )  # nnpu with nnpu-c, holistic-pu
    return read_curves(out)


@pytest.mark.parametrize("stop", [2, 8, 12])
def test_interrupted_and_resumed(tmp_path, whole, stop):
    told = go(tmp_path, stop)
    (file,) = states(tmp_path)
    assert told.steps_done < told.steps
    told = go(tmp_path)
    assert len(told.said) == 1
    assert "continues after" in told.said[0]
    assert told.records == 14 - stop, "nothing is computed twice"
    assert told.steps_done == told.steps
    assert states(tmp_path) == [], file
    pd.testing.assert_frame_equal(whole, read_curves(tmp_path), check_exact=True)
    assert (puarena.load(tmp_path).df().groupby("run")["seconds"].diff().dropna() > 0).all()


@pytest.mark.skipif(os.name == "nt", reason="kills a group of processes")
def test_killed_and_resumed(tmp_path):
    """SIGKILL to a command and its two worker processes; the next run takes up what both kept."""
    spec, flag = plugged(tmp_path, SPEC)
    flag.write_text("wait")
    kept = (tmp_path / "out" / "progress").glob
    with command(tmp_path, spec, "--workers", "2", "--set", "checkpoint_every=0s") as process:
        until(lambda: len(list(kept("[!.]*"))) == 2, process)
    assert process.returncode == -signal.SIGKILL, "it ended before it was killed"
    flag.unlink()
    assert open_results(tmp_path / "out").done_runs() == set()
    told = go(tmp_path / "out", spec=spec)
    assert ["continues after" in text for text in told.said] == [True, True]
    assert 0 < told.records < 12
    assert states(tmp_path / "out") == [], "what was being written is gone, too"
    go(tmp_path / "whole", spec=spec)
    pd.testing.assert_frame_equal(
        read_curves(tmp_path / "whole"), read_curves(tmp_path / "out"), check_exact=True
    )


def test_a_fleet_that_broke_goes_on(tmp_path):
    spec, flag = plugged(tmp_path, SPEC)
    flag.write_text("break")
    outcome = puarena.run(spec, tmp_path / "out", device="cpu", workers=1, checkpoint_every=0)
    assert {failure.reason.split(" (")[0] for failure in outcome.failures} == {
        "RuntimeError: broken on purpose"
    }
    assert {file.stem for file in states(tmp_path / "out")} == {
        failure.fleet for failure in outcome.failures
    }
    flag.unlink()
    again = puarena.run(spec, tmp_path / "out", device="cpu")
    assert (again.computed, again.failed_before) == (0, 2), "only where that is asked for"
    told = go(tmp_path / "out", spec=spec, retry_failed=True)
    assert ["continues after" in text for text in told.said] == [True, True]
    assert told.records < 12
    assert open_results(tmp_path / "out").failures() == []
    go(tmp_path / "whole", spec=spec)
    pd.testing.assert_frame_equal(
        read_curves(tmp_path / "whole"), read_curves(tmp_path / "out"), check_exact=True
    )


def test_a_fleet_of_several_shapes(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "shape_of", lambda row: row.seed % 2)  # as if their data differed
    spec = SPEC.override(algorithms=["nnpu", "nnpu-c"])
    assert go(tmp_path / "whole", spec=spec).records == 2 * 6
    for stop in (6, 8):  # at the end of the first part, in the second
        go(tmp_path / str(stop), stop, spec)
        told = go(tmp_path / str(stop), spec=spec)
        assert told.records == 2 * 6 - stop
        assert told.steps_done == told.steps == 4 * 60
        pd.testing.assert_frame_equal(
            read_curves(tmp_path / "whole"), read_curves(tmp_path / str(stop)), check_exact=True
        )


def test_a_checkpoint_of_no_use_is_removed_and_reported(tmp_path, whole):
    go(tmp_path, 3)
    (file,) = states(tmp_path)
    content, store, runs = file.read_bytes(), open_results(tmp_path), make_plan(SPEC).runs
    states_here = checkpoints.CheckpointFolder(file.parent, store.spec_hash, "cpu")
    with safe_open(file, framework="pt") as opened:
        marks = opened.metadata()
    for key in ("format", "puarena", "torch", "device", "spec"):
        rewrite(file, **{key: "other"})
        said: list[str] = []
        assert checkpoints.find_interrupted(store, runs, states_here, said.append) == {}
        assert said == [
            f"'{file}' was made with {key} other instead of {marks[key]}; "
            "its runs start from the beginning"
        ]
        assert not file.exists()
        file.write_bytes(content)
    for damaged in (b"", content[:100], content[:-100]):
        file.write_bytes(damaged)
        said = []
        assert checkpoints.find_interrupted(store, runs, states_here, said.append) == {}
        assert said[0].startswith(f"'{file}' is damaged")
        assert not file.exists()
    file.write_bytes(content[:-100])
    assert go(tmp_path).records == 14
    pd.testing.assert_frame_equal(whole, read_curves(tmp_path), check_exact=True)


@pytest.mark.parametrize(
    "key, value",
    [
        ("runs", None),
        ("done", None),
        ("parts", None),
        ("runs", "{}"),
        ("runs", '["a", "a"]'),
        ("done", "x"),
        ("done", "1000000"),
        ("parts", "[{}]"),
        ("parts", '[{"log": {"step": [10, 20]}}]'),
        ("parts", '[{"step": 60, "log": {"step": [10, 20]}}]'),
    ],
)
def test_odd_marks_of_a_state(tmp_path, whole, key, value):
    """The file is set aside and reported, and its runs are trained from the beginning."""
    go(tmp_path, 3)
    (file,) = states(tmp_path)
    rewrite(file, **{key: value})
    found = [(each.file, each.what) for each in examine(tmp_path).findings]
    assert found == (
        [] if value == "1000000" else [(str(file), "is not the checkpoint of a fleet")]
    )
    told = go(tmp_path)
    assert f"'{file}' is damaged" in told.said[0]
    assert (tmp_path / "damaged" / file.name).exists()
    pd.testing.assert_frame_equal(whole, read_curves(tmp_path), check_exact=True)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
def test_a_flipped_bit_of_a_state_is_noticed(tmp_path, whole, part):
    go(tmp_path, 3)
    (file,) = states(tmp_path)
    content = bytearray(file.read_bytes())
    content[int(part * len(content))] ^= 4
    file.write_bytes(content)
    assert "is damaged" in go(tmp_path).said[0]
    pd.testing.assert_frame_equal(whole, read_curves(tmp_path), check_exact=True)


def test_a_state_that_does_not_fit_its_fleet_is_not_used(tmp_path, whole):
    """As if the program had changed under the same version."""
    go(tmp_path, 3)
    (file,) = states(tmp_path)
    tensors = load_file(file)
    tensors["0/stray"] = tensors.pop("0/log.lost_at")
    rewrite(file, tensors)
    with pytest.warns(UserWarning, match="its tensors have other names"):
        go(tmp_path)
    pd.testing.assert_frame_equal(whole, read_curves(tmp_path), check_exact=True)


def test_a_folder_keeps_its_fleets(tmp_path, whole):
    """What a run is trained with changes the rounding of its numbers, so a folder is grouped once."""
    go(tmp_path / "a", 2)
    with pytest.raises(UserError) as refused:
        go(tmp_path / "a", fleet_size=2)
    assert refused.value.code == "conflict"
    go(tmp_path / "a")
    pd.testing.assert_frame_equal(whole, read_curves(tmp_path / "a"), check_exact=True)
    go(tmp_path / "b", 2, fleet_size=2)
    with pytest.raises(UserError, match="at most 2 runs") as refused:
        go(tmp_path / "b", fleet_size=3)
    assert refused.value.code == "conflict"
    go(tmp_path / "b", fleet_size=2)
    assert puarena.load(tmp_path / "b").df().groupby("fleet")["run"].nunique().max() == 2


def test_of_two_groupings_that_race_one_is_refused(tmp_path, monkeypatch):
    """Both saw that none was kept; every run would be trained twice, in fleets of other sizes."""
    spec = SPEC.override(steps=10)
    put = Folder.keep_planned

    def later(store, planned, first=False):
        monkeypatch.setattr(Folder, "keep_planned", put)
        puarena.run(spec, tmp_path, device="cpu", workers=1)  # the other driver
        put(store, planned, first)

    monkeypatch.setattr(Folder, "keep_planned", later)
    with pytest.raises(UserError) as refused:
        puarena.run(spec, tmp_path, device="cpu", workers=1, fleet_size=1)
    assert refused.value.code == "conflict"


def test_states_of_runs_that_are_done_go_silently(tmp_path):
    go(tmp_path, 2)
    (file,) = states(tmp_path)
    content = file.read_bytes()
    go(tmp_path)
    file.write_bytes(content)
    assert go(tmp_path).said == []
    assert states(tmp_path) == []


def test_a_full_disk_does_not_end_the_training(tmp_path, whole, monkeypatch):
    def full(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints, "write_file", full)
    with pytest.warns(UserWarning, match="No space left"):
        go(tmp_path)
    assert states(tmp_path) == []
    pd.testing.assert_frame_equal(whole, read_curves(tmp_path), check_exact=True)


def test_states_are_rare(tmp_path):
    written = []

    class Seen(Told):
        def record(self, fleet, steps):
            written.append(states(tmp_path))
            super().record(fleet, steps)

    with pytest.raises(KeyboardInterrupt):
        puarena.run(
            SPEC,
            tmp_path,
            device="cpu",
            workers=1,
            progress=Seen(10),
            checkpoint_every=checkpoints.CHECKPOINT_SECONDS,
        )
    assert not any(written)
    assert len(states(tmp_path)) == 1, "but a last one is kept"
    with pytest.raises(UserError, match="checkpoint_every is -1") as refused:
        puarena.run(SPEC, tmp_path, device="cpu", checkpoint_every=-1)
    assert refused.value.code == "invalid-value"


def test_what_reads_results_does_not_see_states(tmp_path):
    from puarena.experiments.status import read_status
    from puarena.results.combine import merge

    go(tmp_path / "a", 8)
    store = open_results(tmp_path / "a")
    found = read_status(store)
    assert (found.count("done"), found.count("missing"), found.count("begun")) == (4, 2, 2)
    assert len(store.runs_with_state()) == 2
    go(tmp_path / "b", spec=SPEC.override(algorithms=["upu"]))
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    assert states(tmp_path / "both") == []
    assert len(states(tmp_path / "a")) == 1


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("name", ["nnpu", "p3mix-e", "holistic-pu"])
@pytest.mark.parametrize("at", [10, 20, 50])
def test_resumed_on_a_gpu(name, at):
    x, data, hidden = toy()
    some = rows(name, 5, data, hidden)
    config = replace(CONFIG, device="cuda", batch_size=128)
    state = interrupted(some, config, x, at)
    assert {tensor.device.type for tensor in state.tensors.values()} == {"cpu"}
    assert state.notes["device"] == made_by("cuda")["device"]
    same(training.train(some, config, x), goes_on(some, config, x, state).log.curves(), atol=1e-6)
