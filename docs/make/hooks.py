"""What mkdocs does here beside Markdown: pages and pictures out of the package, the leaderboard,
typeset formulas.

Generated pages exist in the built site only; hand-written ones do not link to them, so that a forge
has no lost link. mkdocs itself takes generated files (``File.generated``), which is all that the
plugin mkdocs-gen-files would do.
"""

from __future__ import annotations

import re
import sys
import tempfile
from functools import lru_cache
from html import escape, unescape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "src")]

import figures  # noqa: E402
import method_pages  # noqa: E402
import reference  # noqa: E402
import tutorial  # noqa: E402
from evidence import published, standings_table  # noqa: E402
from formula import mathml  # noqa: E402

from puarena import catalog  # noqa: E402
from puarena.leaderboard import site  # noqa: E402

BOARDS = "leaderboard"
# Files that a forge looks for in the root of a repository, and the pages that they are here
FROM_ROOT = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "SECURITY.md": "security.md",
}
PICTURE = re.compile(r'<img alt="([^"]*)" src="[^"]*images/([\w-]+)\.svg"\s*/?>')
NOTATION = re.compile(r"<td><code>(.+?)</code></td>")
METHOD = re.compile(r"<td><code>([\w.@-]+)</code></td>")
ROLE = re.compile(r":(?:class|func|mod|meth|attr):<code>~?([\w.]+)</code>")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the generated pages where the navigation has their folder, and teach Markdown the fence
    ``formula``.
    """
    folders = {
        f"{method_pages.FOLDER}/": _method_nav(),
        f"{reference.FOLDER}/": list(reference.pages()),
    }
    config.nav = _filled(config.nav, folders)
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault(
        "custom_fences", []
    )
    if not any(fence["name"] == "formula" for fence in fences):
        fences.append({"name": "formula", "class": "formula", "format": _formula})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made from the package."""
    pages = method_pages.pages() | reference.pages()
    pages["tutorial.md"] = tutorial.page(tutorial.read())
    pages |= {page: _of_the_root(file) for file, page in FROM_ROOT.items()}
    pages["leaderboard.md"] = _leaderboard()
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    written = {file.src_uri: file.content_string for file in files.documentation_pages()}
    files.append(File.generated(config, "llms.txt", content=_list_pages(config, written)))
    boards = _boards()
    for file in sorted(path for path in boards.rglob("*") if path.is_file()):
        files.append(
            File.generated(
                config, f"{BOARDS}/{file.relative_to(boards).as_posix()}", abs_src_path=str(file)
            )
        )
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Pictures become part of the page, so that their ink is the page's; methods in tables lead to
    their pages; the notation of the glossary is typeset; cross-references of docstrings become
    code.
    """
    html = PICTURE.sub(_picture, html)
    if page.file.src_uri == "glossary.md":
        html = NOTATION.sub(lambda found: f"<td>{mathml(unescape(found[1]))}</td>", html)
    elif not page.url.startswith(method_pages.FOLDER):
        html = METHOD.sub(lambda found: _linked(found, page), html)
    return ROLE.sub(lambda found: f"<code>{found[1].rpartition('.')[2]}</code>", html)


# -- parts
# -----------------------------------------------------------------------------------------------------------


def _filled(nav: Any, folders: dict[str, list[Any]]) -> Any:
    """The navigation, folders of generated pages replaced by what is in them."""
    if isinstance(nav, list):
        return [_filled(item, folders) for item in nav]
    if isinstance(nav, dict):
        return {title: _filled(item, folders) for title, item in nav.items()}
    return folders.get(nav, nav)


def _method_nav() -> list[Any]:
    folder = method_pages.FOLDER
    entries = {
        group: [{entry.title: f"{folder}/{entry.name}.md"} for entry in members]
        for group, members in method_pages.groups().items()
    }
    return [f"{folder}/index.md", *({group: members} for group, members in entries.items())]


def _formula(source: str, language: str, css_class: str, options: Any, md: Any, **more: Any) -> str:
    """The formulas of a fence, one a line."""
    lines = (mathml(line.strip(), block=True) for line in source.splitlines() if line.strip())
    return "".join(f'<div class="{css_class}">{line}</div>' for line in lines)


def _picture(found: re.Match[str]) -> str:
    alt, name = found[1], found[2]
    if name not in figures.PICTURES:
        return found[0]
    return f'<span class="picture" role="img" aria-label="{escape(alt, quote=True)}">{figures.svg(name)}</span>'


def _linked(found: re.Match[str], page: Page) -> str:
    """A method's name in a table, as a link to its page."""
    known = catalog.get_all()
    if found[1] not in known:
        return found[0]
    up = "../" * page.url.count("/")
    return f'<td><a href="{up}{method_pages.FOLDER}/{known[found[1]].base}.html"><code>{found[1]}</code></a></td>'


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where the boards lie until they are copied; it goes with the process."""
    return tempfile.TemporaryDirectory()


@lru_cache(maxsize=1)
def _boards() -> Path:
    """The leaderboards of ``results/``, built once."""
    place = Path(_folder().name)
    site.build(ROOT / "results", place)
    return place


def _of_the_root(name: str) -> str:
    """A file of the root as a page: its links lead to pages."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for file, page in FROM_ROOT.items():
        text = text.replace(f"]({file}", f"]({page}")
    return text.replace("](docs/", "](")


def _list_pages(config: MkDocsConfig, pages: dict[str, str]) -> str:
    """Return ``llms.txt``: every page with its title and first sentence, for language models."""
    lines = [
        f"# {config.site_name}",
        "",
        f"> {config.site_description}: methods, a benchmark and a scikit-learn classifier for data "
        "of which only some positives are labeled.",
        "",
        "assistants.html says which command answers which question; every command takes --json.",
        "",
        "## Pages",
        "",
    ]
    for path, text in sorted(pages.items()):
        title = re.search(r"^# (.+)$", text, re.M)
        paragraph = re.search(r"^(?![#<|`>!:\s-])(.+(?:\n.+)*)", text, re.M)
        words = " ".join(paragraph[1].split()) if paragraph else ""
        sentence = re.sub(r"\[([^\]]+)\]\([^)]*\)|[*`]", r"\1", words.partition(". ")[0])
        place = path.removesuffix(".md") + ".html"
        lines.append(f"- [{title[1] if title else path}]({place}): {sentence.rstrip('.')}.")
    return "\n".join(lines) + "\n"


def _leaderboard() -> str:
    """The page that leads to the boards."""
    parts = [
        "# The leaderboard",
        f"[All boards on one page]({BOARDS}/index.html){{ .md-button .md-button--primary }}",
        "All numbers published in `results/`, on pages that can be sorted and filtered. "
        "[Which method should I use?](choosing.md) summarizes them; [Replication](replication.md) "
        "compares them with the numbers of the paper.",
    ]
    for found in published():
        card, words = found.card, found.verdict()
        parts += [
            f"## {found.card.question or found.name}",
            f"`{found.name}`",
            f"[Open the board]({BOARDS}/{found.name}.html){{ .md-button }} "
            f"[CSV]({BOARDS}/{found.name}.csv) · [summary (Parquet)]({BOARDS}/{found.name}.parquet) · "
            f"[card (JSON)]({BOARDS}/{found.name}.json)",
            f"{card.runs['done']:,} runs, {card.runs['diverged']} of them diverged. {found.made_by}",
            *([f"Differences from the suite: {'; '.join(card.departs)}."] if card.departs else []),
            words,
            standings_table(found.standings(), first=10),
            "The best ten by mean accuracy over problems, in percent; models selected by PA as defined in "
            "the profile.",
        ]
    parts += [
        "## Your method",
        "[Your own algorithm](own-algorithm.md) describes how to add a method; `puarena submit` checks "
        "its results and packs them for a pull request.",
    ]
    return "\n\n".join(parts) + "\n"
