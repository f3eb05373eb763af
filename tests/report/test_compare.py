"""Our numbers beside published ones."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from puarena import catalog
from puarena.cli import app
from puarena.errors import UserError
from puarena.pu.problem import Problem
from puarena.report.compare import (
    Comparison,
    add_paper_rows,
    compare,
    comparison_to_csv,
    comparison_to_markdown,
    describe_rankings,
    make_slug,
    read_published,
    show_comparison,
)
from puarena.report.tables import table
from puarena.results import Folder
from sample_results import SPEC, curves, records

LETTER = {"dataset": "letter", "case": 1}
ENTRIES = [catalog.get(name) for name in catalog.names("puarena")]
NAMES = {(entry.base, entry.calibrated): entry.name for entry in ENTRIES}


def letter(metric: str = "accuracy", criterion: str = "pa") -> dict[str, tuple[float, float]]:
    """What is published about letter."""
    of = "letter", 1, metric, criterion
    return {
        NAMES[k[1:3]]: v
        for k, v in read_published().items()
        if (k[0].dataset, k[0].case, *k[3:]) == of
    }


def test_the_published_numbers() -> None:
    found = read_published()
    assert len(found) == 2760 == 8 * 23 * 5 * 3
    assert len({key[0] for key in found}) == 8  # four datasets, two cases
    letter, usps = (
        Problem(name, 1, "os", 0.3, 0.5, "scar", check=False) for name in ("letter", "usps")
    )
    assert found[letter, "nnpu", False, "accuracy", "pa"] == (85.13, 0.46)
    second = Problem("letter", 2, "os", 0.3, 0.5, "scar", check=False)
    assert found[second, "nnpu", False, "accuracy", "pa"] == (84.68, 0.34)
    assert found[usps, "vpu", True, "accuracy", "pa"] == (92.92, 0.07)
    assert {key[1:3] for key in found} <= set(NAMES)  # every name is one of ours
    calibrated = {key[1] for key in found if key[2]}
    assert calibrated == {"upu", "nnpu", "nnpu-ga", "pusb", "vpu", "dist-pu"}
    assert len({key[1] for key in found}) == 17
    assert make_slug("Count Loss") == "count-loss"


def only(source: pd.DataFrame, **options: Any) -> Comparison:
    (found,) = compare(source, **options)
    return found


def test_differences_and_ranking() -> None:
    theirs = letter()
    source = records({name: mean / 100 + 0.01 for name, (mean, _) in theirs.items()}, **LETTER)
    found = only(source, metrics="accuracy", criteria="pa")
    assert found.spearman == pytest.approx(1)
    assert len(found.cells) == 23
    assert [line.algorithm for line in found.cells][:4] == ["upu", "upu-c", "nnpu", "nnpu-c"]
    for line in found.cells:
        assert line.difference == pytest.approx(1)
        assert line.in_errors == pytest.approx(1 / theirs[line.algorithm][1])
        assert line.n == 3
    assert "Spearman correlation of the ranking 1.00 (n = 23)" in found.verdict
    assert "mean difference +1.00 points" in found.verdict
    near = sum(1 / error <= 2 for _, error in theirs.values())
    assert f"{near} of 23 within two published standard errors" in found.verdict
    turned = records({name: -mean / 100 for name, (mean, _) in theirs.items()}, **LETTER)
    assert only(turned, metrics="accuracy", criteria="pa").spearman == pytest.approx(-1)


def test_which_profile_compares_with_what() -> None:
    means = {"upu": 0.7, "nnpu": 0.8, "vpu": 0.9}
    released = records(
        {f"{name}@released": mean for name, mean in means.items()}, profile="released", **LETTER
    )
    both = pd.concat([records(means, **LETTER), released])
    found = compare(both, metrics="accuracy")
    pairs = {(item.profile, item.criterion, item.published_criterion) for item in found}
    assert pairs == {
        ("definition", "pa", "pa"),
        ("definition", "pauc", "pauc"),
        ("definition", "oa", "oa"),
        ("released", "pa-released", "pa"),
        ("released", "pauc", "pauc"),
        ("released", "oa", "oa"),
    }
    (mine,) = [item for item in found if item.criterion == "pa-released"]
    assert [line.algorithm for line in mine.cells] == [
        "upu@released",
        "nnpu@released",
        "vpu@released",
    ]
    assert {line.method.base: line.published for line in mine.cells} == {
        name: letter()[name][0] for name in ("upu", "nnpu", "vpu")
    }
    assert "PA released (published as PA), profile released" in mine.title
    assert "'definition'" in describe_rankings(found)
    assert "'released'" in describe_rankings(found)


def test_only_the_published_problems_compare() -> None:
    means = {"upu": 0.7, "nnpu": 0.8, "vpu": 0.9}
    others: list[dict[str, Any]] = [
        {"case": 3},
        {"setting": "ts"},
        {"rate": 0.1},
        {"prior": 0.3},
        {"prior": math.nan},
    ]
    source = pd.concat([records(means, **(LETTER | other)) for other in others])
    for wrong, code, token in (
        (source, "missing-data", "case 1 OS rate 0.3 prior 0.5"),
        (records(means), "missing-data", "cifar10, imagenette, letter, usps"),
        (records({"mine": 0.5}, **LETTER), "missing-data", "case 1"),
        (records(means)[:0], "no-results", ""),
    ):
        with pytest.raises(UserError) as error:
            compare(wrong)
        assert error.value.code == code
        assert token in str(error.value)


def test_too_few_for_a_ranking() -> None:
    found = only(records({"upu": 0.7, "nnpu": 0.8}, **LETTER), metrics="accuracy", criteria="pa")
    assert math.isnan(found.spearman)
    assert "needs 3 algorithms, and there are 2" in found.verdict
    assert "no ranking" in describe_rankings([found])
    tied = only(
        records(dict.fromkeys(("upu", "nnpu", "vpu"), 0.7), **LETTER),
        metrics="accuracy",
        criteria="pa",
    )
    assert "all 3 algorithms are tied" in tied.verdict


HEAD = "dataset,case,algorithm,calibrated,test_metric,criterion,mean,error"


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(
        f"{HEAD},setting,rate,prior\nd,1,uPU,0,accuracy,pa,70.5,0.5,ts,0.1,0.4\nd,1,uPU,1,accuracy,pa,60,,ts,0.1,0.4\n"
        "d,1,My Method,0,accuracy,pa,75,0,ts,0.1,0.4\n"
    )
    means = {"upu": 0.71, "upu-c": 0.61, "my-method": 0.7}
    found = only(records(means, setting="ts", rate=0.1, prior=0.4), published=file)
    assert [line.algorithm for line in found.cells] == ["upu", "upu-c", "my-method"]
    upu, calibrated, mine = found.cells
    assert upu.in_errors == pytest.approx(1)
    assert math.isnan(calibrated.in_errors)
    assert math.isnan(mine.in_errors)  # a published error of zero measures nothing
    assert "1 of 1 within" in found.verdict
    for text, token in (
        ("a,b\n1,2\n", "dataset, case"),
        (f"{HEAD}\nd,one,uPU,0,accuracy,pa,70,1\n", "line 2"),
        (f"{HEAD}\nd,1,uPU,0,accuracy,pa\n", "line 2"),
        ("", "dataset, case"),
        (b"\xff\xfe\x00", "UTF-8"),
    ):
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(UserError, match=token) as error:
            compare(records(means), published=file)
        assert error.value.code == "wrong-format"
    with pytest.raises(UserError) as error:
        compare(records(means), published=tmp_path / "none.csv")
    assert error.value.code == "cannot-read"


def test_forms(tmp_path: Path) -> None:
    found = compare(
        records({"upu": 0.7, "nnpu": 0.8, "vpu-c": 0.9}, **LETTER), metrics=["accuracy", "auc"]
    )
    assert [(item.metric, item.criterion) for item in found] == [
        (metric, criterion) for metric in ("accuracy", "auc") for criterion in ("pa", "pauc", "oa")
    ]
    text = comparison_to_csv(found, tmp_path / "c.csv")
    assert (tmp_path / "c.csv").read_text(encoding="utf-8") == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 6 * 3
    row = next(
        row
        for row in rows
        if (row["algorithm"], row["metric"], row["criterion"]) == ("nnpu", "accuracy", "pa")
    )
    assert (row["published"], row["published_error"], row["profile"], row["n"]) == (
        "85.13",
        "0.46",
        "definition",
        "3",
    )
    assert float(row["difference"]) == pytest.approx(80 - 85.13)
    assert float(row["in_errors"]) == pytest.approx((80 - 85.13) / 0.46)
    assert -1 <= float(row["spearman"]) <= 1
    markdown = comparison_to_markdown(found, tmp_path / "c.md")
    assert "| nnpu | 80.00 ± 0.47 | 85.13 ± 0.46 | -5.13 | -11.2 |" in markdown
    assert "Accuracy by PA, profile definition" in markdown
    shown = io.StringIO()
    show_comparison(found, Console(file=shown, width=120))
    assert "80.00 ± 0.47" in shown.getvalue()
    assert "median Spearman correlation" in shown.getvalue()


def test_command(tmp_path: Path) -> None:
    store = Folder.create(tmp_path / "out", SPEC, "abc")
    store.write_shard("a", curves("a", algorithm="nnpu", dataset="letter", setting="os"))
    options = [
        "--metric",
        "auc",
        "--markdown",
        str(tmp_path / "c.md"),
        "--csv",
        str(tmp_path / "c.csv"),
    ]
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "out"), *options])
    assert done.exit_code == 0, done.output
    assert "published" in done.stdout
    assert "nnpu" in (tmp_path / "c.md").read_text(encoding="utf-8")
    assert len((tmp_path / "c.csv").read_text(encoding="utf-8").splitlines()) == 1 + 3
    other = Folder.create(tmp_path / "other", SPEC, "abc")
    other.write_shard("a", curves("a"))
    wrong = CliRunner().invoke(app, ["compare", str(other.path)])
    assert (wrong.exit_code, wrong.stderr.count("\n")) == (2, 1)
    assert "nothing to compare" in wrong.stderr


def test_the_paper_in_tables() -> None:
    """Its row is after ours, has its numbers and does not compete; without ours it is there too."""
    source = pd.concat([records({"nnpu": 0.7, "mine": 0.6}, dataset="letter", case=2)])
    (plain,) = table(source)
    (found,) = add_paper_rows([plain])
    labels = [row.method.label for row in found.rows]
    assert labels.index("nnpu (paper)") == labels.index("nnpu") + 1
    assert "vpu-c (paper)" in labels
    row = found.rows[labels.index("nnpu (paper)")]
    assert (row.cells[0].mean, row.cells[0].error) == (84.68, 0.34)
    assert row.title == "nnPU (paper)"
    assert not any(cell.best for row in found.rows for cell in row.cells if "(paper)" in row.title)
    (few,) = add_paper_rows([plain], others=False)
    assert [row.method.label for row in few.rows if row.method.base == "nnpu"] == [
        "nnpu",
        "nnpu (paper)",
    ]
    assert len(few.rows) == len(plain.rows) + 1
    with pytest.raises(UserError) as error:
        add_paper_rows(table(records({"nnpu": 0.7}, dataset="other")))
    assert error.value.code == "missing-data"
