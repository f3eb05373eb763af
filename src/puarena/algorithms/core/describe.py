"""A method in words, from its entry alone: what ``puarena explain``, the lists and the page show."""

from __future__ import annotations

from typing import Any

from puarena.algorithms.core.entry import Entry

FACTS = (
    "name",
    "title",
    "paper",
    "base",
    "variant",
    "setting",
    "needs_prior",
    "calibrated",
    "calibrated_form",
    "calibration_is",
    "baseline",
    "supervised",
    "in_paper",
    "engine_needs",
    "authors_optimizer",
    "objective",
    "differs",
    "origin",
)


def describe(entry: Entry) -> dict[str, Any]:
    """Return everything a reader may ask about a method, as plain data."""
    return {name: getattr(entry, name) for name in FACTS} | {
        "phases": list(entry.phases),
        "hyperparameters": {
            key: {
                "default": hyper.default,
                "search": str(hyper.search or ""),
                "choices": list(hyper.choices),
                "meaning": hyper.doc,
            }
            for key, hyper in entry.hypers.items()
        },
    }


def calibration(entry: Entry) -> str:
    """Return what a method's calibrated form does otherwise, formulas in backquotes; nothing where it has none.

    The objective of one that is fitted at once says so itself.
    """
    if entry.fits or not (entry.calibrated or entry.calibrated_form):
        return ""
    if entry.calibration_is == "prior":
        return (
            "Calibrated for one-sample data: it is told the share of positives inside the unlabeled set,\n"
            "``(prior - r) / (1 - r)`` with ``r = n_P / (n_P + n_U)``, where the plain form is told the prior."
        )
    return (
        "Calibrated for one-sample data: ``mean_U`` becomes ``(1-r) mean_U + r mean_P``, ``r = n_P / (n_P + n_U)`` "
        "of the data set, or of the batch with calibration = batch-union."
    )


def assumptions(entry: Entry) -> str:
    """Return what a method assumes, in one sentence."""
    needs = "needs" if entry.needs_prior else "does not need"
    setting = "either setting" if entry.setting == "either" else f"{entry.setting} data"
    return f"Assumes {setting}; {needs} the class prior."


def explain(entry: Entry) -> str:
    """Return a method's objective, hyperparameters and differences from the published code as text."""
    lines = [
        f"{entry.title} ({entry.name})",
        entry.paper,
        "",
        entry.objective.replace("``", ""),
        "",
    ]
    if entry.calibrated and not entry.fits:
        lines += [calibration(entry).replace("``", ""), ""]
    lines.append(assumptions(entry))
    if entry.calibrated_form:
        lines.append(f"Calibrated form for one-sample data: {entry.calibrated_form}")
    lines.append(f"Phases: {', then '.join(entry.phases)}")
    if not entry.fits:
        lines.append(
            f"Authors' optimizer: {entry.authors_optimizer or 'not known; the protocol trains it as all'}"
        )
    if entry.engine_needs:
        lines.append(f"Engine: {', '.join(entry.engine_needs)}")
    lines += [
        "",
        "Hyperparameters" + ("" if entry.hypers else ": none beside learning rate and batch size"),
    ]
    for key, hyper in entry.hypers.items():
        search = f"; search {hyper.search}" if hyper.search else ""
        choices = f"; one of {', '.join(hyper.choices)}" if hyper.choices else ""
        lines.append(f"  {key} = {hyper.default}: {hyper.doc}{search}{choices}")
    origin = f"Comes from the plugin {entry.plugin_file}" if entry.plugin_file else ""
    lines += ["", origin or f"Differs from the published code: {entry.differs or 'in nothing'}"]
    return "\n".join(lines)
