"""An algorithm in words, from its class alone: what ``puarena explain``, the lists and the page show."""

from __future__ import annotations

import inspect
from typing import Any

from puarena.algorithms.core.base import Algorithm
from puarena.algorithms.core.registry import Entry, get


def engine_needs(cls: type[Algorithm]) -> list[str]:
    """Return what a step of this algorithm asks of the engine beyond one network and two batches."""

    def overrides(method: str) -> bool:
        return getattr(cls, method) is not getattr(Algorithm, method)

    needs = {
        "first stage": any(phase.extra for phase in cls.phases),
        f"{len(cls.networks)} networks": len(cls.networks) > 1,
        "passes over the data every epoch": overrides("on_epoch"),
        "a pass at a switch": overrides("on_phase"),
        "own threshold": overrides("threshold"),
        "random draws": overrides("draws"),
        "schedule": overrides("schedule"),
        "state per step": overrides("after_step"),
        "strong view": cls.strong_view,
        "true labels": cls.supervised,
    }
    return [name for name, wanted in needs.items() if wanted]


def describe(entry: Entry) -> dict[str, Any]:
    """Return everything a reader may ask about a registered algorithm, as plain data."""
    cls = entry.cls
    return {
        "name": entry.name,
        "title": entry.title,
        "paper": cls.paper,
        "setting": "one-sample" if entry.calibrated else cls.setting,
        "needs_prior": cls.needs_prior,
        "calibrated_form": _calibrated_form(entry),
        "phases": [phase.name for phase in cls.phases],
        "engine_needs": engine_needs(cls),
        "objective": inspect.cleandoc(cls.__doc__ or ""),
        "hyperparameters": {
            key: {
                "default": hyper.default,
                "search": str(hyper.search or ""),
                "choices": list(hyper.choices),
                "meaning": hyper.doc,
            }
            for key, hyper in cls.hypers().items()
        },
        "differs": cls.differs,
        "origin": entry.origin,
    }


def explain(name: str) -> str:
    """Return an algorithm's objective, hyperparameters and differences from the published code as text."""
    about = describe(get(name))
    lines = [f"{about['title']} ({about['name']})", about["paper"], "", about["objective"].replace("``", ""), ""]
    if get(name).calibrated:
        weights = "n_P / (n_P + n_U) of the data set, or of the batch with calibration = batch-union"
        lines += [f"Calibrated for one-sample data: mean_U becomes (1-r) mean_U + r mean_P, r = {weights}.", ""]
    needs = "needs" if about["needs_prior"] else "does not need"
    lines.append(f"Assumes {_setting(about['setting'])}; {needs} the class prior.")
    if about["calibrated_form"]:
        lines.append(f"Calibrated form for one-sample data: {about['calibrated_form']}")
    lines.append(f"Phases: {', then '.join(about['phases'])}")
    if about["engine_needs"]:
        lines.append(f"Engine: {', '.join(about['engine_needs'])}")
    lines += [
        "",
        "Hyperparameters" + ("" if about["hyperparameters"] else ": none beside learning rate and batch size"),
    ]
    for key, hyper in about["hyperparameters"].items():
        search = f"; search {hyper['search']}" if hyper["search"] else ""
        choices = f"; one of {', '.join(hyper['choices'])}" if hyper["choices"] else ""
        lines.append(f"  {key} = {hyper['default']}: {hyper['meaning']}{search}{choices}")
    lines += ["", f"Differs from the published code: {about['differs'] or 'in nothing'}"]
    return "\n".join(lines)


def _calibrated_form(entry: Entry) -> str:
    if entry.calibrated or not entry.cls.calibrates:
        return ""
    base, variant, rest = entry.name.partition("@")
    return f"{base}-c{variant}{rest}"


def _setting(name: str) -> str:
    return {"either": "either setting"}.get(name, f"{name} data")
