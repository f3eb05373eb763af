"""A look at a plugin's algorithms before anything is trained: under a second, where ``puarena check`` takes minutes.

Shapes, finite losses, rows that do not mix. What a user's class does wrong becomes one sentence.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from puarena import catalog
from puarena.errors import UserError
from puarena.testing.contract import toy_problem
from puarena.training import Fleet, FleetConfig, Row

CONFIG = FleetConfig(batch_size=16, steps=3, warmup=3, record_every=1)
RUNS = 3
_passed: set[type] = set()


def check_quickly(names: Iterable[str]) -> None:
    """Train three runs of each for three steps and one of them alone; each class once in a process."""
    for name in names:
        entry = catalog.get(name)
        if entry.cls not in _passed:
            try:
                _check(name)
            except UserError as error:
                raise UserError(
                    f"algorithm '{name}' of plugin '{entry.plugin_file}': {error}"
                ) from None
            except (Exception, SystemExit) as error:  # a plugin may raise anything
                words = (
                    f"{type(error).__name__}: {' '.join(str(error).split())[:300]}".removesuffix(
                        ": "
                    )
                )
                place = _place(error, entry.plugin_file)
                raise UserError(
                    f"algorithm '{name}' of plugin '{entry.plugin_file}' fails: {words}{place}"
                ) from error
            _passed.add(entry.cls)


def _check(name: str) -> None:
    x, data, hidden = toy_problem(0.4, n=200)
    rows = [Row(name, data, hidden, seed=11 + i, lr=1e-3) for i in range(RUNS)]
    together, alone = _losses(rows, x), _losses(rows[1:2], x)
    if not np.isfinite(together).all():
        raise UserError("its losses are not finite in the first steps")
    if not np.allclose(together[:, 1], alone[:, 0], rtol=1e-3, atol=2e-3):
        raise UserError(
            "a run alone and in a fleet of 3 disagree: rows mix (an average over runs, perhaps?)"
        )


def _losses(rows: list[Row], x: np.ndarray) -> np.ndarray:
    fleet = Fleet(rows, CONFIG, x)
    own = fleet.algorithm
    for loss in dict.fromkeys(
        ("objective", *(update.loss for phase in own.phases for update in phase.updates))
    ):
        setattr(own, loss, _watched(getattr(own, loss), loss, len(rows)))
    return np.asarray(fleet.train().values["loss"])


def _watched(method: Callable[..., Any], name: str, runs: int) -> Callable[..., Any]:
    """The method, with a look at what it returns."""

    def watched(*arguments: Any) -> Any:
        value = method(*arguments)
        loss = value[0] if isinstance(value, tuple) and name != "objective" else value
        words = f"{name} must return a tensor of [runs]; it returned"
        if not isinstance(loss, Tensor):
            raise UserError(f"{words} {'None' if loss is None else type(loss).__name__}")
        if loss.shape != (runs,):
            meant = {"[]": "a single number", f"[{runs}, 1]": "[runs, 1]"}.get(
                str(list(loss.shape))
            )
            raise UserError(f"{words} {meant or f'shape {list(loss.shape)} for {runs} runs'}")
        if not loss.is_floating_point() or (torch.is_grad_enabled() and not loss.requires_grad):
            raise UserError(
                f"{name} returned numbers that do not depend on the network, so nothing can be learned"
            )
        return value

    return watched


def _place(error: BaseException, file: str) -> str:
    """The line of the plugin that failed, if it is known."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == Path(file or "").name]
    return f" (line {lines[-1]})" if lines else ""
