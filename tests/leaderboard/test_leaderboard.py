"""Published results: reading them by name, one's own rows among them, submissions, the site,
rerunning a row.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
from pathlib import Path

import duckdb
import pytest

import puarena
from puarena.datasets import remote
from puarena.errors import UserError
from puarena.experiments import suites
from puarena.experiments.machine import describe_command
from puarena.experiments.spec import Spec
from puarena.leaderboard.publish import (
    compute_checksum,
    describe_departures,
    find_suite,
    write_command,
)
from puarena.leaderboard.submit import check_results, check_submission
from puarena.report.compare import read_published
from puarena.report.export import export
from puarena.results import Folder, open_results, published
from puarena.utils.identity import digest
from tiny_suite import PLUGIN, TINY, WHO, call, fails


def rewrite(folder: Path, change: str) -> None:
    """Change values of the first shard with SQL, and keep its marks."""
    file = sorted(folder.glob("shards/*.parquet"))[0]
    store = Folder(folder)
    frame = duckdb.sql(f"SELECT * REPLACE ({change}) FROM read_parquet('{file}')").df()
    store.write_shard(file.stem, frame)


# -- what comes with the package -----------------------------------------------------


def test_the_package_brings_the_tables_of_both_profiles():
    for name in published.list_summaries():
        store = open_results(f"published:{name}")
        file = published.find(f"published:{name}")
        card = published.read_card(file)
        assert card.runs["done"] == len(store.done_runs())
        assert card.spec_hash == store.spec_hash
        assert card.command.startswith("puarena run ")
        assert card.commit
        assert card.machine
        assert card.published
        cells = read_published(file.with_suffix(".csv"))
        assert {key[0].case for key in cells} == (
            {1, 2} if card.suite == "tabular" else {c for _, c in _in(store)}
        )
        # A card may say more than its spec: results that are older than a correction say so.
        assert set(describe_departures(store.spec)) <= set(card.departs)
        assert (not card.departs) or card.departs[0] in " ".join(store.info.notes)
    assert published.find("published:tabular") == published.find("published:tabular-definition")
    assert puarena.load("published:tabular").count("*").fetchall()[0][0] > 3000
    assert sum(f.stat().st_size for f in published.folder().rglob("*") if f.is_file()) < 5_000_000


def _in(store):
    return store.relation().project('dataset, "case"').distinct().fetchall()


def test_what_is_published_says_how_to_run_it_again(tmp_path):
    path = Path(__file__).parents[2] / "benchmarks" / "repeat.py"
    spec = importlib.util.spec_from_file_location("repeat", path)
    repeat = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(repeat)
    calls = repeat.commands(published.folder(), tmp_path / "out")
    assert set(calls) == set(published.list_summaries())
    for name, (run, publish, _) in calls.items():
        assert run[3:4] == ["run"]
        assert (
            run[run.index("--out") + 1]
            == publish[publish.index("publish") + 1]
            == str(tmp_path / "out" / name)
        )
    card = json.loads((published.folder() / "tabular-released.json").read_text())
    card |= {"command": "puarena run SPEC.yaml --out RESULTS", "spec": TINY.to_dict()}
    (tmp_path / "shelf").mkdir()
    shutil.copy(published.folder() / "tabular-released.parquet", tmp_path / "shelf" / "x.parquet")
    (tmp_path / "shelf" / "x.json").write_text(json.dumps(card))
    ((run, _, _),) = repeat.commands(tmp_path / "shelf", tmp_path / "out").values()
    assert Spec.load(run[4]).hash() == TINY.hash()
    with pytest.raises(SystemExit, match="has no y"):
        repeat.commands(tmp_path / "shelf", tmp_path, ["y"])


def test_the_wheel_takes_the_results_along():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '[tool.hatch.build.targets.wheel.force-include]\n"results" = "puarena/published"' in text


def test_a_name_that_is_not_published():
    assert "did you mean 'tabular-definition'" in fails("report", "published:tabular-definitoin")


# -- publish ----------------------------------------------------------------------


def test_publish(shelf, made):
    card = json.loads((shelf / "tiny-definition.json").read_text())
    assert (card["commit"], card["machine"], card["wall_seconds"]) == ("abc", "a desk", 2)
    assert card["command"] == "puarena run SPEC.yaml --out RESULTS"  # run by Python
    assert card["runs"] == {"planned": 4, "done": 4, "diverged": 0, "failed": 0, "missing": 0}
    assert card["missing"] == []
    rows = list(csv.DictReader((shelf / "tiny-definition.csv").open()))
    heads = [
        "dataset",
        "case",
        "algorithm",
        "calibrated",
        "test_metric",
        "criterion",
        "mean",
        "error",
    ]
    assert list(rows[0])[:8] == heads
    assert len(rows) == 2 * 5 * 3  # methods, metrics, criteria
    assert {row["algorithm"] for row in rows} == {"nnPU", "VPU"}
    own = puarena.table(made, metrics=["accuracy"], criteria=["oa"])[0]
    mean = next(row.cells[0].mean for row in own.rows if row.method.algorithm == "vpu")
    line = next(
        r
        for r in rows
        if (r["algorithm"], r["test_metric"], r["criterion"]) == ("VPU", "accuracy", "oa")
    )
    assert float(line["mean"]) == pytest.approx(mean, abs=0.006)
    assert (
        puarena.load("published:tiny").count("*").fetchall()[0][0]
        == puarena.load(shelf / "tiny-definition.parquet").count("*").fetchall()[0][0]
    )
    for command in ("report", "stats", "status"):
        assert call(command, "published:tiny").exit_code == 0
    agreement = call("compare", "published:tiny", "--published", shelf / "tiny-definition.csv")
    assert "18 of 18 cells (100.0%; Accuracy, AUC, F1) lie within 2 points" in agreement.output


def test_numbers_of_a_version_are_frozen(shelf, made):
    assert "are frozen" in fails("publish", made, "--out", shelf)
    card = shelf / "tiny-definition.json"
    card.write_text(card.read_text().replace('"version": "0.', '"version": "0.1'))
    before = (shelf / "tiny-definition.csv").read_text()
    assert call("publish", made, "--out", shelf).exit_code == 0
    (older,) = shelf.glob("0.1*")
    assert (older / "tiny-definition.csv").read_text() == before
    assert f"{older.name}/tiny-definition" in published.list_summaries()


def test_what_is_not_the_suite_says_so_everywhere(shelf, tmp_path):
    spec = TINY.override(
        algorithms=["pan", "p3mix-c"], configs=1, splits=3, optimizer="authors", steps=10
    )
    puarena.run(spec, tmp_path / "r", device="cpu", workers=1)
    done = call("publish", tmp_path / "r", "--out", shelf)
    assert done.exit_code == 0, done.output
    words = "splits is 3, and 2 in the suite"
    assert words in done.stdout
    card = json.loads((shelf / "tiny-definition-authors.json").read_text())
    assert (card["configs"], card["splits"], card["optimizer"]) == (1, 3, "authors")
    assert any(words in item for item in card["departs"])
    rows = list(csv.DictReader((shelf / "tiny-definition-authors.csv").open()))
    assert {(row["n"], row["configs"]) for row in rows} == {("3", "1")}
    assert {row["algorithm"] for row in rows} == {"PAN (authors' optimizer)", "P3MIX-C"}
    told = " ".join(call("report", "published:tiny-definition-authors").stdout.split())
    assert "Not the suite as it stands" in told
    assert words in told
    call("site", shelf, "--out", tmp_path / "site")
    assert words in (tmp_path / "site" / "index.html").read_text()
    assert words in (tmp_path / "site" / "tiny-definition-authors.html").read_text()
    assert words not in (tmp_path / "site" / "tiny-definition.html").read_text()


@pytest.mark.parametrize(
    ("prior", "same"), [(0.248, True), (0.382, False)]
)  # Adult has 0.239; copies lack a few rows
def test_a_copy_of_a_table_with_its_own_prior_is_the_suites(prior, same):
    tables = suites.get("tables")
    parts = [
        part.model_copy(update={"priors": (prior,)}) if part.dataset == "adult" else part
        for part in tables.problems
    ]
    words = describe_departures(tables.model_copy(update={"problems": tuple(parts)}))
    assert (words == []) == same
    assert same or words[1] == "the suite has no adult case 1 (os, 10%, prior 0.382)"


def test_one_configuration_is_no_search_and_another_spec_is_no_suite():
    assert describe_departures(suites.get("tabular").override(algorithms=["upu"])) == []
    assert describe_departures(suites.get("tabular").override(configs=1)) == [
        "configs is 1, and 10 in the suite",
        "with one configuration, the default, nothing is searched",
    ]
    assert describe_departures(TINY.model_copy(update={"name": "mine"})) == [
        "'mine' is no suite that comes with the package"
    ]


def test_a_spec_that_no_command_says_is_on_the_card(shelf, tmp_path):
    spec = TINY.override(algorithms=["upu"], hyper={"*": {"lr": 0.5}})
    puarena.run(spec, tmp_path / "r", device="cpu", workers=1)
    call("publish", tmp_path / "r", "--out", shelf, "--name", "fast")
    card = json.loads((shelf / "fast.json").read_text())
    assert card["command"] == "puarena run SPEC.yaml --out RESULTS"
    assert Spec.load(card["spec"]).hash() == card["spec_hash"]


def test_too_much_to_travel_is_said(shelf, made, monkeypatch):
    monkeypatch.setattr("puarena.leaderboard.publish.MAX_PUBLISHED_BYTES", 1000)
    assert (
        "the package takes 0.001 MB"
        in call("publish", made, "--out", shelf, "--name", "again").stderr
    )


def test_incomplete_results_are_published_only_if_told(copy, tmp_path):
    sorted(copy.glob("shards/*"))[0].unlink()
    assert "is incomplete" in fails("publish", copy, "--out", tmp_path / "out")
    assert call("publish", copy, "--out", tmp_path / "out", "--partial").exit_code == 0
    card = json.loads((tmp_path / "out" / "tiny-definition.json").read_text())
    assert len(card["missing"]) == 1
    assert "2 of 2 runs" in card["missing"][0]


# -- one's own rows among published ones ---------------------------------------------


def test_own_rows_among_published_ones(shelf, mine, tmp_path):
    page = tmp_path / "page.html"
    done = call(
        "report", mine, "--with", "published:tiny", "--csv", tmp_path / "t.csv", "--html", page
    )
    assert done.exit_code == 0, done.output
    assert "protocol" not in done.stderr
    assert "1 is in both, and shown from results" in done.stderr
    rows = list(csv.DictReader((tmp_path / "t.csv").open()))
    assert {row["algorithm"] for row in rows} == {"mine", "nnpu", "vpu"}
    assert {row["n"] for row in rows} == {"2"}  # nothing was averaged over both experiments
    assert "Every row of results is shown" in page.read_text()
    assert "tiny-definition" in page.read_text()


def test_another_protocol_is_named_first(shelf, tmp_path):
    puarena.run(
        TINY.override(algorithms=["upu"], steps=10, splits=1),
        tmp_path / "short",
        device="cpu",
        workers=1,
    )
    done = call("report", tmp_path / "short", "--with", "published:tiny")
    first = done.stderr.splitlines()[0]
    assert "tiny-definition was run under another protocol than short" in first
    assert "steps: 10 and 20; splits: 1 and 2" in first
    assert "another protocol" in " ".join(done.stdout.split())  # under the table, too
    puarena.run(
        TINY.override(cases=[2], algorithms=["upu"]), tmp_path / "other", device="cpu", workers=1
    )
    assert "none of the problems" in fails("report", tmp_path / "other", "--with", "published:tiny")


# -- submissions ---------------------------------------------------------------------


def test_submit_and_site(shelf, mine, tmp_path):
    folder = shelf / "community" / "my-method"
    done = call("submit", mine, *WHO, "--out", folder)
    assert done.exit_code == 0, done.output
    assert "open a pull request" in done.stdout
    assert "ok: mine: learns" in done.stderr
    assert {f.name for f in folder.iterdir()} == {
        "card.json",
        "mine.py",
        "results.csv",
        "spec.yaml",
        "summary.parquet",
    }
    assert sum(f.stat().st_size for f in folder.iterdir()) < 1_000_000
    card = check_submission(folder)
    assert (card.name, card.suite, card.runs["done"]) == ("My method", "tiny", 4)
    for file in folder.iterdir():
        assert str(tmp_path) not in file.read_bytes().decode(
            errors="ignore"
        )  # no folder of this machine

    built = call("site", shelf, "--out", tmp_path / "site")
    assert built.exit_code == 0, built.output
    names = {
        str(f.relative_to(tmp_path / "site"))
        for f in (tmp_path / "site").rglob("*.*")
        if f.is_file()
    }
    version = ".".join(puarena.__version__.split(".")[:2])
    assert names >= {
        "index.html",
        "tiny-definition.csv",
        "tiny-definition.html",
        f"{version}/tiny-definition.csv",
    }
    assert "My method" in (tmp_path / "site" / "index.html").read_text()
    theirs = list(
        csv.DictReader((tmp_path / "site" / version / "tiny-definition-community.csv").open())
    )
    assert {(row["algorithm"], row["submission"]) for row in theirs} == {
        ("Mine", "My method"),
        ("VPU", "My method"),
    }
    assert (tmp_path / "site" / "tiny-definition.csv").read_text() == (
        shelf / "tiny-definition.csv"
    ).read_text()

    rerun = call("reproduce", folder / "summary.parquet", "mine", "--split", "1", "--device", "cpu")
    assert rerun.exit_code == 0, rerun.output
    assert "The same to the last bit: 1 run of mine" in rerun.stdout

    numbers, honest = folder / "results.csv", (folder / "results.csv").read_text()
    numbers.write_text(honest.replace(",50", ",99").replace("Mine", "Best"), encoding="utf-8")
    assert numbers.read_text() != honest
    assert "results.csv" in call("site", shelf, "--out", tmp_path / "site").stderr
    # Computing the checksum again does not help: the site takes all numbers from the summary.
    content = json.loads((folder / "card.json").read_text())
    content["files"]["results.csv"] = compute_checksum(numbers)
    (folder / "card.json").write_text(json.dumps(content))
    built = call("site", shelf, "--out", tmp_path / "forged")
    assert "left out" not in built.stderr
    for file in ("tiny-definition-community.csv", "tiny-definition.csv"):
        forged, expected = (tmp_path / site / version / file for site in ("forged", "site"))
        assert "Best" not in forged.read_text()
        assert not expected.exists() or forged.read_text() == expected.read_text()


def test_what_is_submitted_needs_a_name_and_an_address(made, tmp_path):
    assert "--code takes the address" in fails("submit", made, "--name", "x", "--code", "mine.py")
    assert "--name needs" in fails("submit", made, "--name", " ", "--code", "https://example.org")
    export(made, tmp_path / "s.parquet")
    assert "is a summary; submit the results folder" in fails(
        "submit", tmp_path / "s.parquet", *WHO
    )


def test_an_incomplete_submission_is_refused(copy, tmp_path):
    sorted(copy.glob("shards/*"))[0].unlink()
    assert "it is incomplete, 2 of 4 runs are missing" in fails(
        "submit", copy, *WHO, "--out", tmp_path / "s"
    )
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "change, words",
    [
        ("seed + 1 AS seed", "seed"),
        ("lr * 2 AS lr", "lr"),
        ("replace(hyper, '0.9', '0.8') AS hyper", "hyper"),
        ("step + 1 AS step", "records up to step 21"),
        ("replace(version, '0.', '9.') AS version", "puarena 9."),
    ],
)
def test_an_edited_submission_is_refused(copy, tmp_path, change, words):
    rewrite(copy, change)
    assert words in fails("submit", copy, *WHO, "--out", tmp_path / "s")


def test_an_edited_spec_is_refused(copy):
    file = copy / "spec.json"
    file.write_text(file.read_text().replace('"steps": 20', '"steps": 30'))
    assert "was edited" in fails("submit", copy, *WHO)


def test_another_spec_is_refused(tmp_path):
    for changes, words in (
        ({"steps": 10}, "steps is 10, and 20 in the suite"),
        ({"splits": 1}, "splits is 1, and 2 in the suite"),
        ({"seed": 3}, "seed is 3"),
        ({"cases": [2]}, "it lacks digits case 1"),
        ({"hyper": {"*": {"lr": 0.1}}}, "it fixes other hyperparameters"),
    ):
        with pytest.raises(UserError, match="is not the suite 'tiny'") as error:
            find_suite(TINY.override(**changes))
        assert words in str(error.value)
        assert "puarena run tiny --algorithms nnpu,vpu" in str(error.value)
    assert find_suite(TINY.override(algorithms=["upu"]).resolve())[0] == "tiny"
    assert find_suite(suites.get("tabular").override(profile="released").resolve())[0] == "tabular"


def test_the_way_to_right_results_names_the_plugin(tmp_path):
    (tmp_path / "my method.py").write_text(PLUGIN)
    spec = TINY.override(algorithms=["mine"], plugins=[str(tmp_path / "my method.py")], steps=10)
    with pytest.raises(UserError, match="is not the suite 'tiny'") as error:
        find_suite(spec)
    assert f"--algorithms mine --plugin '{tmp_path}/my method.py' --out NEW" in str(error.value)


def test_a_plugin_that_breaks_the_contract_is_refused(mine, monkeypatch):
    def broken(names, device="cpu"):
        return iter([(names[0], "repeats", "it does not")]) if names else iter(())

    monkeypatch.setattr("puarena.testing.contract.check_all", broken)
    assert "mine breaks the contract of the benchmark (repeats: it does not)" in fails(
        "submit", mine, *WHO
    )


def test_good_results_pass(made):
    assert check_results(open_results(made)) == 4


@pytest.mark.parametrize(
    "given, command",
    [
        ("puarena run tabular --out r", "puarena run tabular"),
        (
            "/bin/puarena -q run --profile=released tabular --data /home/me --workers 2 --out r",
            "puarena run tabular --profile released",
        ),
        (
            "puarena run tabular --algorithms all,mine --plugin /home/me/mine.py --out r",
            "puarena run tabular --algorithms all,mine --plugin mine.py",
        ),
        ("puarena run my.yaml --out r", ""),
        ("puarena demo", ""),
        ("script.py run tabular", ""),
    ],
)
def test_the_command_that_is_stored(given, command):
    assert describe_command(given.split()) == command


def test_a_command_is_on_the_card(tmp_path, monkeypatch):
    argv = ["puarena", "run", "tiny", "--algorithms", "upu", "--out", str(tmp_path / "r")]
    monkeypatch.setattr("sys.argv", argv)
    assert call(*argv[1:], "--device", "cpu", "--workers", "1").exit_code == 0
    call("publish", tmp_path / "r", "--out", tmp_path / "shelf")
    card = json.loads((tmp_path / "shelf" / "tiny-definition.json").read_text())
    assert card["command"] == "puarena run tiny --algorithms upu --out RESULTS"
    assert "spec" not in card


def test_publishing_runs_nothing_that_a_folder_names(made, tmp_path):
    folder = Path(shutil.copytree(made, tmp_path / "theirs"))
    (tmp_path / "theirs.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    info = json.loads((folder / "spec.json").read_text())
    info["spec"]["plugins"] = [str(tmp_path / "theirs.py")]
    info["spec"]["problems"][0]["dataset"] = str(tmp_path / "theirs.yaml")
    info["spec_seal"] = digest(info["spec"])
    (folder / "spec.json").write_text(json.dumps(info))
    (folder / "planned.parquet").unlink()
    for command in (("publish", folder, "--out", tmp_path / "out"), ("status", folder)):
        assert call(*command).exit_code == 0
    call("doctor", folder)
    assert not (tmp_path / "ran").exists()


def test_the_command_of_merged_results_makes_all_of_them(tmp_path, monkeypatch):
    parts = {name: tmp_path / name for name in ("nnpu", "vpu")}
    for name, out in parts.items():
        argv = ["puarena", "run", "tiny", "--algorithms", name, "--splits", "1", "--out", str(out)]
        monkeypatch.setattr("sys.argv", argv)
        assert call(*argv[1:], "--device", "cpu", "--workers", "1").exit_code == 0
    assert call("merge", *parts.values(), "--out", tmp_path / "both").exit_code == 0
    assert open_results(tmp_path / "both").info.command == ""
    done = call("publish", tmp_path / "both", "--out", tmp_path / "shelf")
    assert done.exit_code == 0, done.output
    card = json.loads((tmp_path / "shelf" / "tiny-definition.json").read_text())
    assert card["command"] == "puarena run tiny --splits 1 --out RESULTS"
    assert card["departs"] == ["splits is 1, and 2 in the suite"]


@pytest.mark.parametrize(
    "parts, command",
    [
        (
            [{"datasets": ["letter"]}, {"datasets": ["usps"]}],
            "puarena run tabular",
        ),
        (
            [{"datasets": ["letter"], "cases": [1]}, {"datasets": ["letter"], "cases": [2]}],
            "puarena run tabular --datasets letter",
        ),
        (
            [{"datasets": ["letter"], "profile": "released", "algorithms": ["nnpu"]}],
            "puarena run tabular --algorithms nnpu@released --datasets letter --profile released",
        ),
        ([{"datasets": ["letter"], "cases": [1]}, {"datasets": ["usps"]}], ""),  # not a product
        ([{"seed": 1}], ""),  # no option of the command
        ([{"name": "mine"}], ""),
    ],
)
def test_the_command_of_a_spec(parts, command):
    specs = [suites.get("tabular").override(**part).resolve() for part in parts]
    problems = [problem for spec in specs for problem in spec.problems]
    spec = specs[0].model_copy(update={"problems": tuple(problems)})
    assert write_command(spec) == command
    if command:
        argv = command.split()[2:]
        options = {n[2:]: v.split(",") for n, v in zip(argv[1::2], argv[2::2], strict=True)}
        options |= {name: options[name][0] for name in options.keys() & {"profile"}}
        assert suites.get(argv[0]).override(**options).resolve().hash() == spec.hash()


@pytest.mark.parametrize("file", ["theirs.yaml", "THEIRS.YML", "theirs.txt"])
def test_no_table_is_fetched_that_a_folder_names(made, tmp_path, monkeypatch, file):
    fetched: list[str] = []
    monkeypatch.setattr(remote, "_fetch", lambda source, *_: fetched.append(source))
    (tmp_path / file).write_text("file: hf:theirs/theirs@1\nlabel: y\npositive: [1]\n")
    folder = Path(shutil.copytree(made, tmp_path / "theirs"))
    info = json.loads((folder / "spec.json").read_text())
    info["spec"]["problems"].append({"dataset": str(tmp_path / file)})
    info["spec_seal"] = digest(info["spec"])
    (folder / "spec.json").write_text(json.dumps(info))
    for command in ("status", "doctor", "report", "publish", "submit"):
        options = {"publish": ["--out", tmp_path / "out"], "submit": [*WHO]}.get(command, [])
        call(command, folder, *options)
        assert fetched == [], command
    assert "is not the suite 'tiny'" in fails("submit", folder, *WHO)


# -- reproduce ----------------------------------------------------------------------


def test_reproduce(shelf):
    done = call(
        "reproduce",
        "published:tiny",
        "vpu",
        "--dataset",
        "digits",
        "--case",
        "1",
        "--device",
        "cpu",
    )
    assert done.exit_code == 0, done.output
    assert "The same to the last bit: 2 runs of vpu" in done.stdout
    assert done.stdout.count("published") == 9 + 1  # cells and verdict
    assert "unknown row 'vpux'" in fails("reproduce", "published:tiny", "vpux")
    assert "unknown dataset" in fails("reproduce", "published:tiny", "vpu", "--dataset", "usps")
    assert "there is no split 5" in fails("reproduce", "published:tiny", "vpu", "--split", 5)
