"""Errors that a user can correct: one sentence that says what is wrong and what to do."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable

MAX_LISTED_NAMES = 30
MIN_SIMILARITY = 0.65  # of a suggestion: "nope" is neither "pue" nor "ionosphere"

PACKAGES = {  # what reports work without: modules, and the packages they come with
    "torch": "torch",
    "sklearn": "scikit-learn",
    "pooch": "pooch",
    "tqdm": "tqdm",
    "PIL": "pillow",
    "skops": "skops",
}


class UserError(ValueError):
    """A mistake that a user can correct; the command line prints it and exits with code 2.

    ``code`` is a stable name for the kind of mistake, for programs and tests: ``unknown-name``,
    ``invalid-value``, ``missing-file``, ``damaged-file``, ``wrong-format``, ``conflict``,
    ``missing-data``, ``missing-dependency``, ``not-supported``, ``no-results``, ``cannot-write``,
    ``cannot-read``, ``invalid-plugin``, ``invalid-spec``, ``out-of-resources``. The message is for
    people and may change.
    """

    code = "invalid-value"

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code

    def __reduce__(self) -> tuple[type[UserError], tuple[str, str]]:
        return type(self), (str(self), self.code)


class PUWarning(UserWarning):
    """The base of this package's warnings."""


_warned_lines: set[tuple[str, str, int]] = set()  # text, file and line


def warn_once(text: str, category: type[PUWarning]) -> None:
    """Issue a warning once for each line of a user, for searches and loops that call a method.

    Python's own filter does not: whoever enters ``catch_warnings`` makes it forget.
    """
    frame = sys._getframe(1)
    libraries = ("puarena", "sklearn", "joblib")
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in libraries:
        frame = frame.f_back
    line = text, frame.f_code.co_filename, frame.f_lineno
    if line not in _warned_lines:
        _warned_lines.add(line)
        warnings.warn_explicit(text, category, *line[1:])


def suggest(name: str, choices: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest choice, or a list if none is close."""
    options = sorted(set(choices))
    close = difflib.get_close_matches(str(name).lower(), options, n=1, cutoff=MIN_SIMILARITY)
    if close:
        return f"; did you mean '{close[0]}'?"
    if not options:
        return ""
    remaining = len(options) - MAX_LISTED_NAMES
    more = f" and {remaining} more" if remaining > 0 else ""
    return f"; choose one of: {', '.join(options[:MAX_LISTED_NAMES])}{more}"


def unknown_name(kind: str, name: str, choices: Iterable[str]) -> UserError:
    """Return the error for a name that is not registered."""
    return UserError(f"unknown {kind} '{name}'{suggest(name, choices)}", "unknown-name")


def missing_package(error: ModuleNotFoundError) -> UserError | None:
    """Return the error for a module of a package in ``PACKAGES``; None for other modules."""
    package = PACKAGES.get((error.name or "").split(".")[0])
    if package is None:
        return None
    return UserError(
        f"this needs {package}, which is not installed; install it with 'pip install puarena'",
        "missing-dependency",
    )
