"""A registered name and its facts: what tables, lists, pages and the store say about a method comes from here."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from puarena.algorithms import Algorithm, Hyper, format_optimizer

CALIBRATED, VARIANT = (
    "-c",
    "@",
)  # how the name of a form is made; nobody reads a fact back out of a name


@dataclass(frozen=True)
class Entry:
    """What is known of a registered method, however it is fitted."""

    name: str
    title: str
    paper: str
    base: str  # the name of the plain method, "nnpu" for "nnpu-c" and for "nnpu-c@released"
    origin: str  # "puarena", "released" (variants of the published code), "classic" or "plugin"
    setting: str  # the setting it assumes: "one-sample", "two-sample" or "either"
    objective: str
    calibrated: bool = False
    variant: str = ""  # "released" for the published code's form
    calibrated_form: str = ""  # the name of its calibrated form
    calibration_is: str = (
        "mean"  # what calibration changes: the "mean" over U, or the "prior" the method is told
    )
    needs_prior: bool = True
    baseline: bool = False  # a reference baseline, not a competing method
    supervised: bool = (
        False  # is handed what nobody has in practice: true labels, or true propensities
    )
    in_paper: bool = True
    differs: str = ""  # from the published code

    authors_optimizer = ""  # what its authors trained it with, in words
    fits = False  # is it fitted at once, instead of trained by steps?
    minutes_on_images = 0  # of one core for one run on images, where that is long
    cost = 0.0  # of a step relative to nnPU's, for estimates of time
    extra_stages = 0  # stretches of training on top of the protocol's steps
    plugin_file = ""
    passes_every_epoch = False  # over all training data
    knows_propensity = False  # is handed the chances of a label

    @property
    def hypers(self) -> Mapping[str, Hyper]:
        """The declared hyperparameters."""
        return {}

    @property
    def phases(self) -> tuple[str, ...]:
        """The names of its stretches of training."""
        return ("fit",)

    @property
    def engine_needs(self) -> list[str]:
        """What it asks of the engine beyond one network and two batches."""
        return []

    @property
    def shares_fleet_with(self) -> object:
        """Equal for methods whose runs can be rows of one fleet."""
        return self.base


@dataclass(frozen=True)
class AlgorithmEntry(Entry):
    """An algorithm that is trained by steps."""

    cls: type[Algorithm] = Algorithm

    @property
    def hypers(self) -> Mapping[str, Hyper]:
        """The declared hyperparameters."""
        return self.cls.hypers()

    @property
    def phases(self) -> tuple[str, ...]:
        """The names of its stretches of training."""
        return tuple(phase.name for phase in self.cls.phases)

    @property
    def knows_propensity(self) -> bool:  # type: ignore[override]
        """Is it handed the chances of a label?"""
        return self.cls.knows_propensity

    @property
    def cost(self) -> float:  # type: ignore[override]
        """Time of a step relative to nnPU's."""
        return self.cls.cost

    @property
    def extra_stages(self) -> int:  # type: ignore[override]
        """Stretches of training on top of the protocol's steps."""
        return sum(phase.extra for phase in self.cls.phases)

    @property
    def passes_every_epoch(self) -> bool:  # type: ignore[override]
        """Does it go over all training data every epoch?"""
        return self.cls.on_epoch is not Algorithm.on_epoch

    @property
    def plugin_file(self) -> str:  # type: ignore[override]
        """The file a plugin's class comes from."""
        return inspect.getfile(self.cls) if self.origin == "plugin" else ""

    @property
    def engine_needs(self) -> list[str]:
        """What a step asks of the engine beyond one network and two batches."""
        cls = self.cls

        def overrides(method: str) -> bool:
            return getattr(cls, method) is not getattr(Algorithm, method)

        needs = {
            "first stage": any(phase.extra for phase in cls.phases),
            f"{len(cls.networks)} networks": len(cls.networks) > 1,
            "passes over the data every epoch": self.passes_every_epoch,
            "a pass at a switch": overrides("on_phase"),
            "own threshold": overrides("threshold"),
            "random draws": overrides("draws"),
            "schedule": overrides("schedule"),
            "state per step": overrides("after_step"),
            "strong view": cls.strong_view,
            "true labels": cls.supervised,
            "true propensities": cls.knows_propensity,
        }
        return [name for name, wanted in needs.items() if wanted]

    @property
    def authors_optimizer(self) -> str:  # type: ignore[override]
        """What its authors trained it with, in words; empty where that is not known."""
        return format_optimizer(self.cls.authors_optimizer)

    @property
    def shares_fleet_with(self) -> object:
        """The class: its plain and calibrated runs are rows of the same tensors, unless the two do not mix."""
        return self.cls if self.cls.forms_mix else (self.cls, self.calibrated)


def entries_of(cls: type[Algorithm], origin: str) -> list[AlgorithmEntry]:
    """The plain form of a class, and its calibrated one where it has one."""
    variant = f"{VARIANT}{cls.variant}" if cls.variant else ""
    plain, calibrated = f"{cls.name}{variant}", f"{cls.name}{CALIBRATED}{variant}"
    facts: dict[str, Any] = {
        "paper": cls.paper,
        "base": cls.name,
        "origin": origin,
        "objective": inspect.cleandoc(cls.__doc__ or ""),
        "variant": cls.variant,
        "needs_prior": cls.needs_prior,
        "baseline": cls.baseline,
        "supervised": cls.supervised or cls.knows_propensity,
        "calibration_is": cls.calibration_is,
        "differs": cls.differs,
        "cls": cls,
    }
    form = calibrated if cls.calibrates else ""
    own: dict[str, Any] = {
        "setting": cls.setting,
        "calibrated_form": form,
        "in_paper": cls.in_paper,
    }
    entries = [AlgorithmEntry(plain, cls.title + variant, **own, **facts)]
    if form:
        title = f"{cls.title}{CALIBRATED}{variant}"
        in_paper = (
            cls.in_paper and cls.calibration_is == "mean"
        )  # the paper has no row told another prior
        entries.append(
            AlgorithmEntry(
                form, title, setting="one-sample", calibrated=True, in_paper=in_paper, **facts
            )
        )
    return entries
