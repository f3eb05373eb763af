"""A headless Chromium, for tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def find_chromium() -> str | None:
    """Where the browser is."""
    return (
        os.environ.get("PUARENA_CHROMIUM")
        or shutil.which("chromium")
        or shutil.which("chromium-browser")
    )


@contextmanager
def open_browser() -> Iterator[Any]:
    """A browser; without one the test is skipped, but not in CI."""
    path = find_chromium()
    if path is None:
        words = "no Chromium on this machine (apt-get install chromium, or set PUARENA_CHROMIUM)"
        if os.environ.get("CI") == "true":
            pytest.fail(f"{words}: CI may not skip the tests of the page")
        pytest.skip(f"{words}: the page was not tested in a browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=OPTIONS)
        yield browser
        browser.close()
