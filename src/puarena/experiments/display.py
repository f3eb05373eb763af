"""Where the progress of a run is shown: in the terminal, or as one bar below the cell of a notebook."""

from __future__ import annotations

import time
from html import escape
from typing import Any

from puarena.experiments.progress import Progress, for_terminal
from puarena.utils.notebook import in_notebook

EVERY = 0.2  # seconds between two drawings


class Cell(Progress):
    """A bar that the browser draws; notebooks have all it takes, no widgets are needed."""

    def __init__(self) -> None:
        super().__init__()
        self.label = ""
        self.messages: list[str] = []
        self._handle: Any = None
        self._last = 0.0

    def __exit__(self, *error: object) -> None:
        self.safely(self._draw)

    def show(self, label: str | None = None) -> None:
        """Redraw the bar if the last drawing is old enough, and at the end."""
        self.label = label or ""
        if time.perf_counter() - self._last >= EVERY or self.fleets_done == self.fleets:
            self._draw()

    def say(self, text: str) -> None:
        """Keep a sentence below the bar."""
        self.messages.append(text)
        self._draw()

    def _draw(self) -> None:
        from IPython.display import display

        self._last = time.perf_counter()
        if self._handle is None:
            self._handle = display(self, display_id=True)
        else:
            self._handle.update(self)

    def __repr__(self) -> str:
        return "\n".join([self.line, *self.messages])

    def _repr_html_(self) -> str:
        """The bar and the counts, with the messages below."""
        total = max(self.steps, 1)
        share = self.steps_done / total if self.steps else 1.0
        bar = f'<progress max="1" value="{share:.4f}" style="width:16em"></progress>'
        words = "  ".join(filter(None, (f"{share:.0%}", self.line, self.label)))
        messages = "".join(f"<div>{escape(text)}</div>" for text in self.messages)
        return f"<div>{bar} {escape(words)}</div>{messages}"


def progress_of(wanted: Progress | bool | None) -> Progress:
    """What ``run`` tells its progress to: the one it was given, one for who watches, or one that shows nothing."""
    if isinstance(wanted, Progress):
        return wanted
    return (Cell() if in_notebook() else for_terminal()) if wanted else Progress()
