"""What the file of a fleet's state says of itself, read without what trains."""

from __future__ import annotations

from collections.abc import Mapping

from puarena.utils.files import parse_json


def content_of(marks: Mapping[str, str]) -> tuple[list[str], int]:
    """The runs of a state and the run-steps behind them; a ValueError if these are not the marks of one."""
    runs, done, parts = parse_json(marks["runs"]), int(marks["done"]), parse_json(marks["parts"])
    if not (
        isinstance(runs, list)
        and runs
        and all(isinstance(run, str) for run in runs)
        and len(set(runs)) == len(runs)
    ):
        raise ValueError("its runs are not a list of names")
    if done < 0 or not (isinstance(parts, list) and parts):
        raise ValueError("its counts are wrong")
    for part in parts:
        step, log = part["step"], part["log"]["step"]
        if type(step) is not int or not log or step != log[-1]:
            raise ValueError("its steps are wrong")
    return runs, done
