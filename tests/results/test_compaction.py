"""Many shards become few, and a fleet counts once at every moment of it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from puarena.experiments.doctor import examine
from puarena.results import Folder, folder, open_results
from sample_results import curves
from user_errors import raises_user_error

SPEC = {"name": "demo", "problems": [{"dataset": "digits"}]}
FLEETS = [f"f{number}" for number in range(5)]


def read(path: Path) -> pd.DataFrame:
    frame = open_results(path).relation().df()
    return frame.sort_values(["run", "step"]).reset_index(drop=True)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setattr(folder, "MANY_FILES", 4)
    store = Folder.create(tmp_path / "out", SPEC, "abc")
    for number, fleet in enumerate(FLEETS):
        frame = curves(fleet)
        # Fleets of two methods have other columns.
        store.write_shard(fleet, frame.assign(val_own=0.5) if number == 4 else frame)
    return store


def test_nothing_changes_but_the_number_of_files(store: Folder) -> None:
    before = read(store.path)
    assert store.compact() == 5
    both = read(store.path)
    pd.testing.assert_frame_equal(both, before)
    # As if it had been killed here: the shards are still there, and count once.
    assert len(list(store.path.glob("shards/*"))) == 7
    assert [file.name[:7] for file in Folder(store.path).shards()] == ["packed-", "packed-"]
    (store.path / "shards" / "f1.parquet").write_bytes(b"half")
    pd.testing.assert_frame_equal(read(store.path), before)

    again = Folder.create(store.path, SPEC, "abc")
    assert len(list(store.path.glob("shards/*"))) == 2
    pd.testing.assert_frame_equal(read(store.path), before)
    assert all(again.has_shard(fleet) for fleet in FLEETS)
    assert not again.has_shard("f5")
    assert again.compact() == 0
    checkup = examine(store.path)
    assert (checkup.findings, checkup.runs) == ([], 10)
    assert not list(store.path.glob("claims/*"))


def test_few_shards_and_those_of_a_living_compaction_stay(store: Folder) -> None:
    claim = store.claim("compaction")
    assert claim is not None
    assert store.compact() == 0
    claim.release()
    (store.path / "shards" / "f0.parquet").unlink()
    (store.path / "shards" / "f1.parquet").unlink()
    assert store.compact() == 0


def test_a_damaged_pack_is_named_and_its_shards_are_kept(store: Folder) -> None:
    store.compact()
    pack = next(store.path.glob("shards/packed-*"))
    content = bytearray(pack.read_bytes())
    content[40] ^= 1
    pack.write_bytes(bytes(content))
    with raises_user_error("damaged-file", pack.name):
        read(store.path)
    Folder.create(store.path, SPEC, "abc")
    examine(store.path, repair=True)
    assert open_results(store.path).done_runs() == {
        f"{fleet}-{i}" for fleet in FLEETS for i in (0, 1)
    }


def test_two_packs_of_one_fleet_are_an_error(store: Folder) -> None:
    store.compact()
    packs = sorted(store.path.glob("shards/packed-*"))
    fleets = [[*folder._list_fleets(folder._read_all_footers([pack]).values())] for pack in packs]
    import duckdb

    with duckdb.connect() as con:
        rows = f"SELECT * FROM read_parquet('{packs[0]}')"
        store.write_rows(con, rows, "packed-zz", max(fleets, key=len)[:1])
    with raises_user_error("damaged-file", "packed-zz"):
        read(store.path)


def test_many_shards_are_opened_once(store: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries go to a table in memory, unless there are too many rows for one."""
    opened = open_results(store.path)
    relation = opened.relation()
    for file in store.path.glob("shards/*"):
        file.unlink()
    assert len(relation.df()) == 30
    monkeypatch.setattr(folder, "FEW_ROWS", 29)
    for fleet in FLEETS:
        store.write_shard(fleet, curves(fleet))
    assert len(open_results(store.path).relation().df()) == 30
