"""LaTeX tables go through TeX where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from puarena import catalog
from puarena.report import table, to_latex
from puarena.report.sources import open_curves
from sample_results import ALL, HOSTILE, records

TEX = next(
    (found for found in map(shutil.which, ("pdflatex", "lualatex", "xelatex")) if found), None
)


def test_calibrated_rows_are_shaded() -> None:
    text = to_latex(table(records(ALL)))
    shaded = [line for line in text.splitlines() if line.startswith("\\rowcolor[gray]{0.93} ")]
    assert len(shaded) == 1
    assert shaded[0].startswith("\\rowcolor[gray]{0.93} nnpu-c & ")
    assert "Calibrated forms shaded." in text
    assert "forms shaded." not in to_latex(table(records({"upu": 0.7, "p3mix-c": 0.8})))
    # compiles without colortbl
    assert text.splitlines()[2] == "\\providecommand{\\rowcolor}[2][]{}"


def test_titles_and_blocks_as_in_a_paper() -> None:
    """Methods and datasets have titles, and more than nine columns stand in two blocks."""
    values = {"nnpu": 0.7, "nnpu-c@released": 0.8, "pn-oracle": 0.9}
    curves = open_curves(records(values, dataset="letter"))
    curves.methods = {name: catalog.get(name) for name in values}
    metrics = ["accuracy", "auc", "f1", "precision", "recall"]
    text = to_latex(table(curves, metrics=metrics))
    assert "\\caption{Letter, case 1" in text
    assert "\nnnPU & " in text
    assert "nnPU-c (released) & " in text
    caption = next(line for line in text.splitlines() if line.startswith("\\caption"))
    assert "PN (oracle), trained with" in caption
    assert "pn-oracle" not in caption
    assert [text.count(f"\\begin{{tabular}}{{l{'r' * n}}}") for n in (9, 6)] == [1, 1]
    assert text.count("\\resizebox") == 1 + 2  # the definition for readers without graphicx
    assert text.count("\\label") == 1


@pytest.mark.skipif(TEX is None, reason="needs a TeX (pdflatex, lualatex or xelatex)")
@pytest.mark.parametrize(
    "packages", ["booktabs", "booktabs,colortbl", "booktabs,graphicx,xcolor,colortbl"]
)
def test_tables_compile(tmp_path: Path, packages: str) -> None:
    assert TEX is not None
    to_latex(
        table(pd.concat([records({**ALL, HOSTILE: 0.4}), records(ALL, setting="ts")])),
        tmp_path / "tables.tex",
    )
    (tmp_path / "main.tex").write_text(
        f"\\documentclass{{article}}\\usepackage{{{packages}}}\\begin{{document}}\\input{{tables}}\\end{{document}}\n"
    )
    command = [TEX, "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "main.pdf").stat().st_size > 1000
