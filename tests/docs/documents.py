"""What README and docs show to run, taken out of their Markdown.

Shell lines (indented, or in a block marked sh, bash, shell or console) that begin with ``puarena``
or ``make``, and blocks marked python. An HTML comment before a block, which no reader of the page
sees, tells the tests what they need:

- ``<!-- test: given NAME, NAME -->``: the reader has these already (``givens.py`` makes them);
- ``<!-- test: file NAME -->``: the block is the contents of this file, for the lines after it;
- ``<!-- test: replace THIS with THAT -->``: something smaller in place of what would take long;
- ``<!-- test: skip REASON -->``: it cannot run in a test;
- ``<!-- test: fails until REASON -->``: a known defect; the test says so as soon as it is mended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELL = ("", "sh", "bash", "shell", "console")
MARKER = re.compile(r"<!-- test: (given|file|replace|skip|fails until) (.+?) -->")


@dataclass(frozen=True)
class Block:
    """A block of code: its language, its text, the line it begins at, and what its markers say."""

    document: str
    line: int
    language: str
    text: str
    markers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def given(self) -> list[str]:
        """What the reader has already."""
        return [name.strip() for name in self.markers.get("given", "").split(",") if name]

    @property
    def code(self) -> str:
        """The text as a test runs it."""
        if "replace" not in self.markers:
            return self.text
        this, _, that = self.markers["replace"].partition(" with ")
        assert this in self.text, f"{self}: {this} is to be replaced and is not there"
        return self.text.replace(this, that)

    def commands(self) -> Iterator[Block]:
        """The shell lines, a command each: comments left out, ``a; b`` and the choice ``a|b`` as
        two.
        """
        for number, line in enumerate(self.code.splitlines()):
            bare = re.sub(r"(^|\s)#.*", "", line.removeprefix("$ ")).strip()
            for command in filter(None, map(str.strip, bare.split(";"))):
                for words in product(*(word.split("|") for word in command.split())):
                    yield replace(self, line=self.line + number, text=" ".join(words))


def blocks(path: Path) -> list[Block]:
    """The blocks of code of a document in their order, indented ones and those between fences."""
    found: list[Block] = []
    markers: dict[str, str] = {}
    language, start, body, blank = None, 0, [], True
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], start=1):
        inside = language is not None
        if inside and (
            line.startswith("```")
            or (language == "" and line.strip() and not line.startswith("    "))
        ):
            found.append(
                Block(path.name, start, language or "", "\n".join(body).strip("\n"), markers)
            )
            language, markers = None, {}
            if line.startswith("```") and found[-1].language:
                continue
        elif inside:
            body.append(line[4:] if language == "" else line)
            continue
        if line.startswith("```"):
            language, start, body = line.strip("` ") or "text", number + 1, []
        elif (
            line.startswith("    ") and blank and re.match(r"(\$ )?(puarena|make)\b", line.strip())
        ):
            language, start, body = "", number, [line[4:]]
        else:
            markers = markers | dict(MARKER.findall(line))
        blank = not line.strip()
    if language is not None:
        found.append(Block(path.name, start, language, "\n".join(body).strip("\n"), markers))
    return found
