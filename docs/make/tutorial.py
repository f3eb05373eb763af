"""The tutorial notebook: its cells are run here as a notebook would run them, and its page is made
from its file.

    python docs/make/tutorial.py            runs examples/tutorial.ipynb and keeps what its cells
    show

A notebook is JSON (nbformat 4), so reading, running and showing one takes no more than this file;
mkdocs-jupyter would need a kernel and nbconvert for it.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

FILE = Path(__file__).parents[2] / "examples" / "tutorial.ipynb"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
Cell = dict[str, Any]
Output = dict[str, Any]


def read(file: Path = FILE) -> list[Cell]:
    """The cells of a notebook, the source of each as one text."""
    cells: list[Cell] = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return [cell | {"source": "".join(cell["source"])} for cell in cells]


def write(cells: list[Cell], file: Path = FILE) -> None:
    """A notebook of these cells, with what they show."""
    lines = [cell | {"source": cell["source"].splitlines(keepends=True)} for cell in cells]
    about = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    book = {"cells": lines, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


# -- running
# ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def kernel() -> Iterator[list[Output]]:
    """What code finds in a notebook: a shell with a kernel, and a display whose outputs are
    collected.
    """
    outputs: list[Output] = []

    def display(item: Any, display_id: bool = False) -> Any:
        outputs.append(shown(item) | {"output_type": "display_data"})
        here = outputs[-1]
        return SimpleNamespace(update=lambda again: here.update(shown(again)))

    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=True)  # type: ignore[attr-defined]
    displays.display = display  # type: ignore[attr-defined]
    before = {name: sys.modules.get(name) for name in ("IPython", "IPython.display")}
    sys.modules |= {"IPython": ipython, "IPython.display": displays}
    try:
        yield outputs
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def shown(item: Any) -> Output:
    """What a notebook shows of an object."""
    html = getattr(item, "_repr_html_", lambda: None)()
    forms = {"text/html": html} if html else {}
    return {"data": forms | {"text/plain": repr(item)}, "metadata": {}}


def run(cells: list[Cell]) -> list[Cell]:
    """The cells with what they show when run one after the other; an error is raised where it
    happens.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    done, count = [], 0
    for cell in cells:
        if cell["cell_type"] != "code":
            done.append(cell)
            continue
        count += 1
        body = ast.parse(cell["source"])
        last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
        text = io.StringIO()
        with kernel() as outputs, contextlib.redirect_stdout(text):
            exec(compile(body, f"cell {count}", "exec"), names)
            value = (
                eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
                if last
                else None
            )
        if value is not None:
            outputs.append(
                shown(value) | {"output_type": "execute_result", "execution_count": count}
            )
        if text.getvalue():
            outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": text.getvalue()})
        done.append(cell | {"execution_count": count, "outputs": outputs})
    return done


# -- showing
# ---------------------------------------------------------------------------------------------------------


def page(cells: list[Cell]) -> str:
    """The notebook as Markdown."""
    parts = []
    for cell in cells:
        if cell["cell_type"] == "markdown":
            parts.append(cell["source"].replace("](../docs/", "]("))
            continue
        parts.append(f"```python\n{cell['source']}\n```")
        parts += [f'<div class="output">{_html(output)}</div>' for output in cell["outputs"]]
    return "\n\n".join(parts) + "\n"


def _html(output: Output) -> str:
    """What a cell shows, as one block of HTML without empty lines, which Markdown would read as its
    end.
    """
    if output["output_type"] == "stream":
        return f"<pre>{escape(''.join(output['text']))}</pre>"
    html = (
        "".join(output["data"].get("text/html", ""))
        or f"<pre>{escape(''.join(output['data']['text/plain']))}</pre>"
    )
    html = re.sub(
        r"<style scoped>.*?</style>|border=\"1\" class=\"dataframe\"", "", html, flags=re.S
    )  # the page has its own
    return re.sub(r"\n\s*\n", "\n", html)


if __name__ == "__main__":
    cells = read()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # what the cells write is not kept
        cells = run(cells)
        os.chdir(FILE.parent)
    write(cells)
    print(f"ran {FILE}")
