"""Tables and their four forms: terminal, Markdown, LaTeX, CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from puarena import catalog
from puarena.errors import UserError
from puarena.report import ResultTable, table, to_csv, to_latex, to_markdown, to_terminal
from puarena.report.render import escape_markdown
from puarena.report.sources import open_curves
from puarena.report.tables import format_number, keep
from sample_results import ALL, HOSTILE, records


def only(source: pd.DataFrame, **options: Any) -> ResultTable:
    (found,) = table(source, **options)
    return found


def test_layout() -> None:
    found = only(records(ALL))
    assert [row.method.label for row in found.rows] == [
        "pn-oracle",
        "upu",
        "nnpu",
        "nnpu-c",
        "p3mix-c",
        "mine",
        "pn-naive",
    ]
    assert [(c.metric, c.criterion) for c in found.columns] == [
        (metric, criterion)
        for metric in ("accuracy", "auc", "f1")
        for criterion in ("pa", "pauc", "oa")
    ]
    assert [row.method.label for row in found.rows if row.method.kind == "baseline"] == [
        "pn-oracle",
        "pn-naive",
    ]
    assert [row.method.label for row in found.rows if row.method.calibrated] == ["nnpu-c"]
    assert found.title == "d, case 1, one-sample (OS), 30% positive rate, class prior 0.5"


def test_best_in_bold_without_the_oracle() -> None:
    found = only(records(ALL))
    assert [row.method.label for row in found.rows if row.cells[0].best] == [
        "nnpu-c",
        "mine",
    ]  # a tie, as printed
    assert "(pn-oracle, trained with true labels or propensities, not competing)" in found.caption()
    alone = only(records({"pn-oracle": 0.9}))
    assert not alone.rows[0].cells[0].best
    assert "competing" not in only(records({"upu": 0.9})).caption()


def test_the_error_is_named() -> None:
    cell = only(records({"upu": 0.7})).rows[0].cells[0]
    assert cell.mean == pytest.approx(70)
    assert cell.std_sample == pytest.approx(1)
    assert cell.std_population == pytest.approx(math.sqrt(2 / 3))
    assert cell.error == pytest.approx(math.sqrt(2 / 3) / math.sqrt(3))
    assert cell.text() == "70.00 ± 0.47"
    caption = only(records({"upu": 0.7})).caption()
    assert "± standard error over splits (population standard deviation" in caption
    assert "n = 3" in caption
    assert "1.22 times" in caption
    other = only(records({"upu": 0.7}), error="std")
    assert other.rows[0].cells[0].text() == "70.00 ± 1.00"
    assert "± sample standard deviation over splits, n = 3" in other.caption()
    sample = only(records({"upu": 0.7}), error="stderr-sample")
    assert sample.rows[0].cells[0].text() == "70.00 ± 0.58"
    assert sample.rows[0].cells[0].error == cell.stderr_sample == pytest.approx(1 / math.sqrt(3))
    assert "sample standard deviation / sqrt(n)), n = 3" in sample.caption()


def test_one_number_is_one_text() -> None:
    """74.425 is above and below the half in binary, depending on who adds it up: one text
    everywhere.
    """
    found = only(records({"upu": 0.74425, "nnpu": 0.74125}))
    frame = found.to_frame()
    rows = list(csv.DictReader(io.StringIO(to_csv([found]))))
    for i, row in enumerate(found.rows):
        text = row.cells[0].text()
        first = frame[frame["algorithm"] == row.method.algorithm].iloc[0]
        assert first["text"] == text
        assert (
            next(line["text"] for line in rows if line["algorithm"] == row.method.algorithm) == text
        )
        for form in (
            to_markdown([found]),
            printed([found], 200),
            printed([found], 118),
            found._repr_html_(),
        ):
            assert text.split(" ± ")[0] in form, (i, form)
    assert format_number(-0.0001) == "0.00"
    assert format_number(-0.0001, sign=True) == "+0.00"
    assert format_number(math.nan) == "--"


def test_what_is_equal_but_for_the_order_of_a_sum_is_a_tie() -> None:
    a, b = [0.7, 0.1, 0.4], [0.4, 0.7, 0.1]
    assert sum(a) != sum(b)
    rows = [
        records({name: 0.5}, splits=3).assign(test_accuracy=v)
        for name, v in (("upu", a), ("nnpu", b))
    ]
    found = only(pd.concat(rows, ignore_index=True), metrics="accuracy", criteria="pa")
    assert found.rows[0].cells[0].mean == found.rows[1].cells[0].mean
    assert all(row.cells[0].best for row in found.rows)


def test_methods_at_chance_level_are_named() -> None:
    found = only(records({"upu": 0.5, "nnpu": 0.8, "vpu": 0.3}), metrics="accuracy", criteria="pa")
    assert [cell.chance for row in found.rows for cell in row.cells] == [True, False, True]
    assert "At chance level, no better than always the same answer: upu, vpu." in found.caption()
    assert "chance" not in only(records({"upu": 0.8}, prior=0.7)).caption()
    assert "chance" in only(records({"upu": 0.69}, prior=0.7), metrics="accuracy").caption()
    assert (
        "chance" not in only(records({"upu": 0.3}), metrics="f1").caption()
    )  # it has no such level


def test_a_table_as_a_frame_and_in_a_notebook() -> None:
    found = only(records({"upu": 0.7, HOSTILE: 0.8}))
    frame = found.to_frame()
    assert len(frame) == 2 * len(found.columns)
    assert set(frame["algorithm"]) == {"upu", HOSTILE}
    assert frame["mean"].iloc[0] == found.rows[0].cells[0].mean
    html = found._repr_html_()
    assert "<script>" not in html
    assert "<b>80.00 ± 0.47</b>" in html
    assert html.count("<tr>") == 3


def test_one_split_has_no_error() -> None:
    found = only(records({"upu": 0.7}, splits=1))
    assert found.rows[0].cells[0].text() == "70.00"
    assert "n = 1 split, so no error can be given" in found.caption()


def test_uneven_results_have_notes() -> None:
    nan = math.nan
    parts = [records({"upu": 0.7, "vpu": 0.7, "pan": 0.8}), records({"nnpu": 0.8}, splits=2)]
    parts += [records({"pan": 0.1}, config=1), records({"lbe": 0.5}, val_pa=nan)]
    found = only(pd.concat(parts))
    assert "n = 2 to 3" in found.caption()
    assert "Splits differ: 3, but nnpu 2." in found.notes
    assert "Configurations to choose from differ: 1, but pan 2." in found.notes
    assert "Not a number (NaN), and so left out: lbe by PA (3 of 3 splits)." in found.notes
    lbe = next(row for row in found.rows if row.method.label == "lbe")
    assert lbe.cells[0].text() == "--"
    assert lbe.cells[1].text() == "50.00 ± 0.47"


def test_one_table_per_problem() -> None:
    parts = [
        records({"upu": 0.7}, **other)
        for other in ({}, {"setting": "ts"}, {"prior": math.nan}, {"rate": 0.1})
    ]
    found = table(pd.concat(parts))
    assert len(found) == 4
    assert len({item.title for item in found}) == 4
    released = only(pd.concat([records({"upu": 0.7}), records({"upu": 0.8}, profile="released")]))
    assert [row.method.label for row in released.rows] == ["upu", "upu (released)"]


def test_choosing_columns_and_rows() -> None:
    found = only(records(ALL), metrics=["Recall", "auc", "auc"], criteria=["oa", "pa-released"])
    assert [(c.metric, c.criterion) for c in found.columns] == [
        (m, c) for m in ("recall", "auc") for c in ("oa", "pa-released")
    ]
    assert [row.method.label for row in only(records(ALL), algorithms=["upu", "nnpu-c"]).rows] == [
        "upu",
        "nnpu-c",
    ]
    assert only(records(ALL), metrics="auc").columns[0].metric == "auc"
    for wrong in (
        {"metrics": ["acuracy"]},
        {"criteria": ["pua"]},
        {"error": "sdt"},
        {"algorithms": ["nnpuc"]},
    ):
        with pytest.raises(UserError) as error:
            table(records(ALL), **wrong)
        (token,) = wrong.values()
        assert str(token).strip("[]") in str(error.value)


def test_choosing_problems() -> None:
    others: list[dict[str, Any]] = [
        {"dataset": d, "case": c, "rate": r} for d in "ab" for c in (1, 2) for r in (0.1, 0.3)
    ]
    tables = table(pd.concat([records({"upu": 0.7}, **other) for other in others]))
    assert keep(tables) == tables
    assert keep(tables, settings=["one-sample"]) == keep(tables, settings=["os"]) == tables
    kept = keep(tables, datasets=["b", "a"], cases=[2], rates=[0.3, 0.1])
    assert [(p.dataset, p.case, p.rate) for p in (item.problem for item in kept)] == [
        (d, 2, r) for d in "ba" for r in (0.3, 0.1)
    ]
    for wrong, token in (
        ({"datasets": ["c"]}, "'c'"),
        ({"cases": [3]}, "'3'"),
        ({"settings": ["ts"]}, "'ts'"),
        ({"settings": ["two-sample"]}, "'ts'"),
    ):
        with pytest.raises(UserError, match=token) as error:
            keep(tables, **wrong)
        assert error.value.code == "unknown-name"


def printed(tables: list[ResultTable], width: int, terminal: bool = False) -> str:
    text = io.StringIO()
    colors = "standard" if terminal else None
    to_terminal(
        tables, Console(file=text, width=width, force_terminal=terminal, color_system=colors)
    )
    return text.getvalue()


@pytest.mark.parametrize(
    "width, cell",
    [
        (60, "*90.00 ± 0.47"),
        (90, "*90.00 ± 0.47"),
        (105, "*90.00 ± 0.47"),
        (122, "*90.00 ± 0.47"),
        (160, "*90.00 ± 0.47"),
    ],
)
def test_terminal_fits_its_width(width: int, cell: str) -> None:
    text = printed([only(records(ALL))], width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for word in ("pn-oracle", "Accuracy", "AUC", "F1", "PAUC", "nnpu-c"):
        assert word in text
    assert cell in text
    assert "marked *" in text


def test_the_criteria_of_a_metric_stay_together() -> None:
    lines = printed([only(records(ALL))], 122).splitlines()
    heads = [line.split() for line in lines if "PAUC" in line]
    assert heads == [["algorithm", *["PA", "PAUC", "OA"] * 2], ["algorithm", "PA", "PAUC", "OA"]]


def test_terminal_marks_the_best_in_bold() -> None:
    text = printed([only(records({"upu": 0.7, "nnpu": 0.8}))], 160, terminal=True)
    assert "\x1b[1m80.00 ± 0.47\x1b[0m" in text
    assert "\x1b[1m70.00" not in text
    assert "*" not in text
    assert "no results yet" in printed([], 80)


def test_hostile_names_on_the_terminal() -> None:
    text = printed([only(records({HOSTILE: 0.7}, dataset="[red]d[/red]"))], 300)
    assert HOSTILE in text
    assert "[red]d[/red]" in text


def test_markdown(tmp_path: Path) -> None:
    tables = [only(records({**ALL, HOSTILE: 0.4}))]
    text = to_markdown(tables, tmp_path / "r.md")
    assert (tmp_path / "r.md").read_text(encoding="utf-8") == text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[0].startswith("| algorithm | Accuracy (PA) | Accuracy (PAUC) |")
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {
        11
    }  # a name's pipe does not open a cell
    assert any(line.startswith("| nnpu-c | **90.00 ± 0.47** |") for line in lines)
    assert any(line.startswith("| upu | 70.00 ± 0.47 |") for line in lines)
    assert "<script>" not in text
    assert escape_markdown(tables[0].caption()) in text


def test_latex(tmp_path: Path) -> None:
    text = to_latex(
        table(pd.concat([records({**ALL, HOSTILE: 0.4}), records(ALL, setting="ts")])),
        tmp_path / "r.tex",
    )
    assert (tmp_path / "r.tex").read_text(encoding="utf-8") == text
    assert "\\usepackage{booktabs}" in text
    assert (
        text.count("\\begin{table*}") == text.count("\\end{table*}") == 2
    )  # not that of the hostile name
    assert "\\cmidrule(lr){2-4} \\cmidrule(lr){5-7} \\cmidrule(lr){8-10}" in text
    assert "nnpu-c & \\textbf{90.00}{\\tiny\\,$\\pm$\\,0.47} &" in text
    assert r"\textbackslash{}end\{table\}" in text
    assert r"a\textbar{}b\_c \& 50\% \{x\}" in text
    body = [
        line for line in text.splitlines() if line.endswith("\\\\") and "multicolumn" not in line
    ]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {9}
    for line in text.splitlines()[4:]:
        if line.startswith("\\resizebox") or line == "}":
            continue  # a pair of braces around the tabular
        plain = re.sub(r"\\[\\{}]", "", line)
        assert plain.count("{") == plain.count("}"), line
        assert plain.count("$") % 2 == plain.count(r"\$") % 2, line
        assert not re.search(r"(?<!\\)[%#]", line), line
    assert text.isascii()
    labels = re.findall(r"\\label\{(.*?)\}", text)
    assert labels == ["tab:d-1-os-0-3-0-5", "tab:d-1-ts-0-3-0-5"]


def test_csv(tmp_path: Path) -> None:
    text = to_csv([only(records({"upu": 0.7, 'a,"b"': 0.8}, prior=math.nan))], tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text(encoding="utf-8") == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 2 * 9
    first = next(row for row in rows if row["algorithm"] == "upu")
    assert (first["metric"], first["criterion"]) == ("accuracy", "pa")
    assert float(first["mean"]) == pytest.approx(70)
    assert float(first["error"]) == pytest.approx(math.sqrt(2) / 3)
    assert float(first["std_population"]) == pytest.approx(math.sqrt(2 / 3))
    assert float(first["std_sample"]) == pytest.approx(1)
    assert (first["n"], first["error_kind"], first["prior"], first["best"]) == (
        "3",
        "stderr",
        "",
        "0",
    )
    assert {row["algorithm"] for row in rows} == {"upu", 'a,"b"'}
    assert len(pd.read_csv(tmp_path / "r.csv")) == 18


@pytest.mark.parametrize("write", [to_markdown, to_latex, to_csv])
def test_an_unwritable_file(tmp_path: Path, write: Any) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    for target in (tmp_path / "file" / "r", tmp_path / "nowhere" / "r", tmp_path / "folder"):
        with pytest.raises(UserError) as error:
            write([only(records(ALL))], target)
        assert error.value.code == "cannot-write"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert write([]) is not None


def test_a_row_of_the_suite_carries_its_note() -> None:
    source = pd.concat(
        [records({"p3mix-e": 0.6, "upu": 0.7}, dataset=name) for name in ("letter", "usps")]
    )
    curves = open_curves(source)
    curves.methods = {"p3mix-e": catalog.get("p3mix-e")}
    letter, usps = table(curves)
    assert any(note.startswith("p3mix-e: its early-learning weight of 5") for note in letter.notes)
    assert not any("early-learning" in note for note in usps.notes)
    assert "collapse to one side" in to_markdown([letter])
