"""HTML for notebooks: what results show of themselves as the last line of a cell. Every word is escaped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, TypeVar

Item = TypeVar("Item")


def in_notebook() -> bool:
    """Is this the kernel of a notebook, whose cells show HTML? A terminal's IPython is not."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


def html_table(
    heads: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    caption: str = "",
    notes: Iterable[str] = (),
    bold: int = -1,
) -> str:
    """A table; the first cell of a row is its head, the row at ``bold`` stands out, and notes come below."""
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in heads)
    lines = []
    for at, (first, *cells) in enumerate(rows):
        words = [
            f"<td>{f'<b>{escape(str(cell))}</b>' if at == bold else escape(str(cell))}</td>"
            for cell in cells
        ]
        lines.append(f"<tr><th>{escape(str(first))}</th>{''.join(words)}</tr>")
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    start = f"<thead><tr>{head}</tr></thead>" if any(map(str, heads)) else ""
    return f"<table>{above}{start}<tbody>{''.join(lines)}</tbody></table>{below}"


class Shown(list[Item]):
    """A list of results whose members show themselves in a notebook one below the other."""

    def _repr_html_(self) -> str:
        """The members in a notebook; one that has no form of its own as plain text."""
        forms = (getattr(item, "_repr_html_", None) for item in self)
        parts = [
            form() if form else f"<pre>{escape(repr(item))}</pre>"
            for form, item in zip(forms, self, strict=True)
        ]
        return "".join(f"<div>{part}</div>" for part in parts) or "<p>nothing</p>"
