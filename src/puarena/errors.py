"""Errors a user can cause: one clear sentence that says what was wrong, what was found and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN = 30  # names in one sentence


class UserError(ValueError):
    """Something the user can put right, in one sentence. The command line prints it and exits with code 2."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest of ``choices``, or a list of them when none is close."""
    options = sorted(set(choices))
    close = difflib.get_close_matches(str(name).lower(), options, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    others = f" and {len(options) - SHOWN} more" if len(options) > SHOWN else ""
    return f"; choose one of: {', '.join(options[:SHOWN])}{others}" if options else ""


def unknown(kind: str, name: str, choices: Iterable[str]) -> UserError:
    """Build the error for a name that is not registered."""
    return UserError(f"unknown {kind} '{name}'{nearest(name, choices)}")
