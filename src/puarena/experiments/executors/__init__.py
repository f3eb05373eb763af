"""Who trains the fleets of a run. One file each, found here: a new one needs no line elsewhere."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from puarena.errors import UserError, unknown_name
from puarena.experiments.executors.base import Executor, How

if TYPE_CHECKING:
    from puarena.experiments.plan import FleetSpec


def kinds() -> dict[str, type[Executor]]:
    """Every executor by its name."""
    modules = [
        import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)
    ]
    classes = [
        value for module in modules for value in vars(module).values() if inspect.isclass(value)
    ]
    return {
        kind.name: kind
        for kind in classes
        if issubclass(kind, Executor) and not inspect.isabstract(kind)
    }


def train_elsewhere(name: str | None, how: How) -> bool:
    """Are fleets trained on other machines, which may have a device that this one has not?"""
    kind = kinds().get(name or "")
    return kind is not None and kind.trains_elsewhere(how)


def choose(
    device: str,
    workers: int | None,
    fleets: Sequence[FleetSpec],
    name: str | None = None,
    how: How | None = None,
) -> Executor:
    """The executor of this name, or the one that pays most for these fleets on this device.

    ``workers`` is the number of fleets side by side; None: what pays.
    """
    how = replace(how or How(), workers=workers)
    for what, count in (("workers", workers), ("threads", how.threads)):
        if count is not None and (type(count) is not int or count < 1):
            raise UserError(f"the number of {what} is {count!r}; give 1 or more")
    fit = {each: kind for each, kind in kinds().items() if device in kind.devices}
    if name is not None and name not in fit:
        raise unknown_name(f"executor for the device {device}", name, fit)
    kind = fit[name] if name else max(fit.values(), key=lambda kind: kind.preference(how, fleets))
    if name or fleets:
        _check_options(kind, how)
    return kind(workers, how)


def _check_options(kind: type[Executor], how: How) -> None:
    """Refuse what the executor would not listen to."""
    for option, facts in How.options().items():
        if (
            getattr(how, option) not in (None, ())
            and option not in kind.takes
            and not facts["everybody"]
        ):
            able = [each.name for each in kinds().values() if option in each.takes]
            raise UserError(
                f"--{option.replace('_', '-')} is for the engines {', '.join(able)}, and here '{kind.name}' trains on "
                f"the device '{', '.join(kind.devices)}'; leave it away, or choose another --engine or --device"
            )
