"""Text for a terminal: whatever is printed goes through here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# Control characters but tab and line feed, marks that turn the direction of writing, and the lone
# surrogates that Python has for bytes of file names that are not UTF-8, which cannot be printed.
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def strip_controls(text: str) -> str:
    """Return a text that does nothing to a terminal: names in results may be anyone's."""
    return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def open_console(stderr: bool = False, **options: Any) -> Console:
    """Return a console that prints tables and styled text without foreign control characters."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        """A console whose own codes pass, and those in texts do not."""

        def render(self, *given: Any, **named: Any) -> Any:
            for segment in super().render(*given, **named):
                if segment.control:
                    yield segment
                else:
                    yield Segment(strip_controls(segment.text), segment.style)

    plain = {"highlight": False, "markup": False, "emoji": False}
    return SafeConsole(stderr=stderr, **(plain | options))
