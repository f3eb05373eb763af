"""HTML that results show as the last line of a notebook cell. All text is escaped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, TypeVar

Item = TypeVar("Item")


class Bold(str):
    """The text of a table cell in bold."""


def in_notebook() -> bool:
    """Return whether this is a notebook kernel, which shows HTML; a terminal's IPython is not."""
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
    """Return a table with notes below it.

    The first cell of a row is its head. The row at ``bold`` and cells of type ``Bold`` stand out.
    """
    parts = ["<table>"]
    if caption:
        parts.append(f"<caption>{escape(caption)}</caption>")
    if any(map(str, heads)):
        cells = "".join(f"<th>{_escape_lines(head)}</th>" for head in heads)
        parts.append(f"<thead><tr>{cells}</tr></thead>")
    parts.append("<tbody>")
    for at, (first, *others) in enumerate(rows):
        cells = ""
        for cell in others:
            text = escape(str(cell))
            if at == bold or isinstance(cell, Bold):
                text = f"<b>{text}</b>"
            cells += f"<td>{text}</td>"
        parts.append(f"<tr><th>{escape(str(first))}</th>{cells}</tr>")
    parts.append("</tbody></table>")
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    return "".join(parts)


def _escape_lines(text: Any) -> str:
    return escape(str(text)).replace("\n", "<br>")


class HtmlList(list[Item]):
    """A list of results that a notebook shows one below the other."""

    def _repr_html_(self) -> str:
        """Return the HTML of every item; an item without HTML of its own as plain text."""
        parts = []
        for item in self:
            show = getattr(item, "_repr_html_", None)
            parts.append(show() if show else f"<pre>{escape(repr(item))}</pre>")
        return "".join(f"<div>{part}</div>" for part in parts) or "<p>nothing</p>"
