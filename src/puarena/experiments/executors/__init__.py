"""Executors train the fleets of a run. A class in a file of this package is found by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from puarena.errors import UserError, unknown_name
from puarena.experiments.executors.base import Executor, ExecutorOptions
from puarena.utils.discovery import discover

if TYPE_CHECKING:
    from puarena.experiments.plan import FleetSpec
    from puarena.experiments.worker import FleetUpdate, Job


def executor_types() -> dict[str, type[Executor]]:
    """Return every executor by its name."""
    kinds = discover(__name__, Executor)  # type: ignore[type-abstract]
    return {kind.name: kind for kind in kinds}


def uses_other_machines(name: str | None, options: ExecutorOptions) -> bool:
    """Return whether other machines train with this executor."""
    kind = executor_types().get(name or "")
    return kind is not None and kind.uses_other_machines(options)


def choose(
    device: str,
    fleets: Sequence[FleetSpec],
    name: str | None = None,
    options: ExecutorOptions | None = None,
) -> Executor:
    """Return the executor of this name, or the one that suits these fleets on this device."""
    options = options or ExecutorOptions()
    for what in ("workers", "threads"):
        count = getattr(options, what)
        if count is not None and (type(count) is not int or count < 1):
            raise UserError(f"the number of {what} is {count!r}; give 1 or more", "invalid-value")
    able = {key: kind for key, kind in executor_types().items() if device in kind.devices}
    if name is not None and name not in able:
        raise unknown_name(f"executor for the device {device}", name, able)
    if name is None:
        kind = max(able.values(), key=lambda kind: kind.preference(options, fleets))
    else:
        kind = able[name]
    _check_options(kind, options)
    return kind(options)


def _check_options(kind: type[Executor], options: ExecutorOptions) -> None:
    """Refuse options that the executor would ignore."""
    for name in ExecutorOptions.names():
        known = name in ("workers", "threads", *kind.takes)
        if known or getattr(options, name) in (None, ()):
            continue
        takers = ", ".join(each.name for each in executor_types().values() if name in each.takes)
        raise UserError(
            f"{name} is an option of the engines {takers}, but '{kind.name}' trains here on "
            f"{' or '.join(kind.devices)}; leave it out, or choose another engine or device",
            "conflict",
        )


def train_here(
    job: Job,
    fleets: Sequence[FleetSpec],
    options: ExecutorOptions,
    is_stopping: Callable[[], bool],
) -> list[FleetUpdate]:
    """Train fleets on this machine, as a part of what a cluster trains; return their endings.

    It stops at a record once ``is_stopping()`` is true.
    """
    job.prepare()
    name = "streams" if job.device == "cuda" else "inline"
    # Only a worker process can be ended from outside.
    if options.fleet_timeout is not None:
        name = "gpus" if job.device == "cuda" else "processes"
    own = ExecutorOptions(threads=options.threads, fleet_timeout=options.fleet_timeout)
    executor = choose(job.device, fleets, name, replace(own, workers=options.workers))
    endings = []
    with closing(executor.train(fleets, job)) as updates:
        for update in updates:
            if update is not None and update.ending:
                endings.append(update)
            if is_stopping():
                break
    return endings
