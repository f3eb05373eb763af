"""All methods by name: algorithms, which are trained by steps, and classics, which are fitted at
once, as are guests, which are classifiers of other libraries.

``MethodInfo`` is the one record of a method, made once from its class. ``run`` writes the records
of its methods into the results folder, so a report needs neither torch nor the code of a plugin.
This module imports torch when a name is looked up, not when it is imported.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from puarena import paper
from puarena.errors import UserError, unknown_name
from puarena.utils.discovery import discover

if TYPE_CHECKING:
    from puarena.algorithms import Algorithm, Hyper
    from puarena.classics import ClassicForm, PUWrapper

ENTRY_POINT = "puarena.algorithms"  # the group of installed packages with algorithms
ORIGINS = ("puarena", "released", "classic", "plugin", "guest")
SETTINGS = ("one-sample", "two-sample", "either")
FITTED = ("fit",)  # the phases of a method that is fitted at once
GUEST_PREFIX = "sklearn:"  # of the names of guests that are no plugins
# These mean something else where algorithms are named.
RESERVED = ("all", "paper", "true", "none", "null")
STORED_FACTS = ("base", "calibrated", "variant", "baseline", "supervised")  # of stored results
NOT_WRITTEN = ("cls",)  # fields that JSON does not have


@dataclass(frozen=True)
class MethodInfo:
    """What is known about a registered method.

    Attributes:
        name: the registered name, such as "nnpu", "nnpu-c" or "nnpu@released".
        base: the name of the plain method. Facts are never read out of a name.
        origin: one of ``ORIGINS``; "released" is the form of the published code.
        description: the class docstring, with formulas in double backquotes.
        variant: "released" for the form of the published code.
        setting: the setting it assumes: "one-sample", "two-sample" or "either".
        calibrated: whether this is a calibrated form.
        calibrated_form: the name of its calibrated form.
        calibration_is: what calibration changes: the "mean" over U, or the "prior" it uses.
        baseline: a reference baseline, which does not compete.
        supervised: receives true labels or true propensities.
        knows_propensity: receives true propensities.
        in_paper: has a row in the paper's tables.
        in_all: belongs to ``all``.
        differs: how it differs from the published code.
        notes: what a reader must know about its results on a dataset, by dataset.
        authors_optimizer: the optimizer of its authors as text, if it is known.
        hyperparameters: default, search, choices and meaning of each, by name.
        phases: names of its stages of training.
        engine_needs: what it needs from the engine besides one network and two batches.
        extra_stages: number of stages in addition to the protocol's steps.
        passes_every_epoch: whether it evaluates all training data every epoch.
        cost: time of a step relative to nnPU's, for estimates of time.
        minutes_on_images: minutes of one core for one run on images, if they are many.
        parameters: what a classic's estimator is made with.
        cls: the class; None if the record was read from results.
    """

    name: str
    base: str
    title: str = ""
    paper: str = ""
    origin: str = "puarena"
    description: str = ""
    variant: str = ""
    setting: str = "either"
    calibrated: bool = False
    calibrated_form: str = ""
    calibration_is: str = "mean"
    needs_prior: bool = True
    baseline: bool = False
    supervised: bool = False
    knows_propensity: bool = False
    in_paper: bool = True
    in_all: bool = True
    differs: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    authors_optimizer: str = ""
    hyperparameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    phases: tuple[str, ...] = ()
    engine_needs: tuple[str, ...] = ()
    extra_stages: int = 0
    passes_every_epoch: bool = False
    cost: float = 0.0
    minutes_on_images: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cls: Any = field(default=None, repr=False, compare=False)

    @property
    def is_classic(self) -> bool:
        """Whether it is fitted at once instead of trained by steps."""
        return tuple(self.phases) == FITTED

    @property
    def is_guest(self) -> bool:
        """Whether it is a classifier of another library."""
        return self.is_classic and self.origin != "classic"

    @property
    def hypers(self) -> Mapping[str, Hyper]:
        """The hyperparameters as its class declares them, with their search distributions."""
        declared: Mapping[str, Hyper] = {} if self.is_classic else self.cls.hypers()
        return declared

    @property
    def plugin_file(self) -> str:
        """The file of a plugin's class; empty for other methods."""
        return inspect.getfile(self.cls) if self.origin == "plugin" and self.cls else ""

    @property
    def fleet_key(self) -> object:
        """Equal for methods whose runs can be rows of one fleet.

        Plain and calibrated runs of a class are, unless its forms do not mix.
        """
        if self.is_classic:
            return self.base
        return self.cls if self.cls.forms_mix else (self.cls, self.calibrated)

    def make_estimator(
        self,
        seed: int,
        prior: float | None = None,
        unlabeled_prior: float | None = None,
        setting: str = "one-sample",
    ) -> Any:
        """Return an unfitted estimator of a classic or a guest.

        ``prior`` is for one that needs it, ``unlabeled_prior``, the share of positives in the
        unlabeled set, and ``setting`` are for guests.
        """
        known: dict[str, float | str | None] = {"setting": setting} if self.is_guest else {}
        if self.needs_prior and prior is not None:
            known["prior"] = prior
            if self.is_guest:
                known["unlabeled_prior"] = unlabeled_prior
        return self.cls(**self.parameters, **known, random_state=seed % 2**31)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in NOT_WRITTEN}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> MethodInfo:
        """Return the record that ``to_json`` wrote; unknown fields are ignored."""
        known = {f.name for f in fields(cls)} - set(NOT_WRITTEN)
        return cls(**{name: value for name, value in facts.items() if name in known})


# -- lookup ----------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def get_all() -> dict[str, MethodInfo]:
    """Return all methods by name: in the paper's order, released forms, classics, plugins."""
    from puarena.algorithms import Algorithm
    from puarena.classics import PUWrapper

    found = [cls for cls in discover("puarena.algorithms", Algorithm) if cls.name]
    algorithms = sorted(found, key=lambda cls: paper.find_place(cls.name))
    infos: list[MethodInfo] = []
    for origin in ("puarena", "released"):
        for algorithm in algorithms:
            if (origin == "released") == bool(algorithm.variant):
                infos += describe_algorithm(algorithm, origin)
    for classic in discover("puarena.classics", PUWrapper):
        infos += describe_classic(classic)
    known = {info.name: info for info in infos}
    for point in entry_points(group=ENTRY_POINT):
        known.update({info.name: info for info in describe_algorithm(point.load(), "plugin")})
    return known


def names(origin: str | None = None) -> list[str]:
    """Return the registered names, calibrated forms after their plain form."""
    return [info.name for info in get_all().values() if origin in (None, info.origin)]


def get(name: str) -> MethodInfo:
    """Return the record of a registered name, or of a guest that is named by how it is made."""
    if name.startswith(GUEST_PREFIX):
        from puarena.classics import guests

        full_name, prototype = guests.read_guest(name)
        return describe_guest(full_name, prototype)
    known = get_all()
    if name not in known:
        raise unknown_name("algorithm", name, known)
    return known[name]


def find_form(name: str, variant: str) -> str:
    """Return the name of a method's form in another variant, or its own name without one."""
    info = get(name)
    for other in get_all().values():
        wanted = (info.base, info.calibrated, variant)
        if (other.base, other.calibrated, other.variant) == wanted:
            return other.name
    return name


def collect(names: Iterable[str]) -> list[MethodInfo]:
    """Return the records of these methods and of the plain methods they are forms of."""
    wanted: dict[str, MethodInfo] = {}
    for name in names:
        info = get(name)
        wanted[info.name] = info
        if info.base in get_all():
            wanted[info.base] = get(info.base)
    return list(wanted.values())


def register(cls: type[Algorithm]) -> list[str]:
    """Register an algorithm that is not part of the package, and its calibrated form.

    Returns the registered names. The name of an earlier plugin can be used again.
    """
    _check_name(cls.name)
    if cls.setting not in SETTINGS:
        raise UserError(
            f"the setting of algorithm '{cls.name}' is '{cls.setting}'; choose one of: "
            f"{', '.join(SETTINGS)}",
            "invalid-plugin",
        )
    try:
        infos = describe_algorithm(cls, "plugin")
        _check_facts(infos)
    except (TypeError, AttributeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"an attribute of algorithm '{cls.name}' has a wrong type ({reason})", "invalid-plugin"
        ) from error
    return _add(infos)


def _check_facts(infos: Iterable[MethodInfo]) -> None:
    """Raise ValueError for records that could not be read again."""
    from pydantic import TypeAdapter, ValidationError

    for info in infos:
        try:
            TypeAdapter(MethodInfo).validate_python(info.to_json())
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def register_guest(name: str, prototype: Any, module: str) -> list[str]:
    """Register a classifier of another library that a plugin's module has made."""
    _check_name(name)
    return _add([replace(describe_guest(name, prototype, module), origin="plugin")])


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise UserError(
            f"an algorithm is called '{name}'; a name has small letters, digits, '-', '_' and "
            "'.' only",
            "invalid-plugin",
        )
    if name in RESERVED or name.endswith((".yaml", ".yml", ".py")):
        raise UserError(
            f"an algorithm is called '{name}', which has another meaning where algorithms are "
            "selected; choose another name",
            "invalid-plugin",
        )


def _add(infos: Iterable[MethodInfo]) -> list[str]:
    """Add the records of a plugin; return their names."""
    known, added = get_all(), {info.name: info for info in infos}
    for name in added:
        if name in known and known[name].origin != "plugin":
            raise UserError(
                f"an algorithm is called '{name}', which is built in; choose another name",
                "conflict",
            )
    known.update(added)
    return list(added)


# -- records from classes --------------------------------------------------------------------------


def describe_algorithm(cls: type[Algorithm], origin: str) -> list[MethodInfo]:
    """Return the records of an algorithm's plain form and, if it has one, its calibrated form."""
    from puarena.algorithms import format_optimizer

    suffix = f"@{cls.variant}" if cls.variant else ""
    calibrated_form = f"{cls.name}-c{suffix}" if cls.calibrates else ""
    shared: dict[str, Any] = {
        "base": cls.name,
        "paper": cls.paper,
        "origin": origin,
        "description": inspect.cleandoc(cls.__doc__ or ""),
        "variant": cls.variant,
        "calibration_is": cls.calibration_is,
        "needs_prior": cls.needs_prior,
        "baseline": cls.baseline,
        "supervised": cls.supervised or cls.knows_propensity,
        "knows_propensity": cls.knows_propensity,
        "differs": cls.differs,
        "notes": dict(cls.notes),
        "authors_optimizer": format_optimizer(cls.authors_optimizer),
        "hyperparameters": {name: hyper.to_json() for name, hyper in cls.hypers().items()},
        "phases": tuple(phase.name for phase in cls.phases),
        "engine_needs": _list_engine_needs(cls),
        "extra_stages": sum(phase.extra for phase in cls.phases),
        "passes_every_epoch": cls.overrides("on_epoch"),
        "cost": cls.cost,
        "cls": cls,
    }
    infos = [
        MethodInfo(
            name=f"{cls.name}{suffix}",
            title=f"{cls.title}{suffix}",
            setting=cls.setting,
            in_paper=cls.in_paper,
            in_all=cls.in_paper or cls.in_all,
            calibrated_form=calibrated_form,
            **shared,
        )
    ]
    if calibrated_form:
        infos.append(
            MethodInfo(
                name=calibrated_form,
                title=f"{cls.title}-c{suffix}",
                setting="one-sample",
                in_paper=cls.in_paper and cls.name in paper.CALIBRATED,
                in_all=cls.in_paper or cls.in_all,
                calibrated=True,
                **shared,
            )
        )
    return infos


def _list_engine_needs(cls: type[Algorithm]) -> tuple[str, ...]:
    """Return what a step needs from the engine besides one network and two batches."""
    needs = {
        "first stage": any(phase.extra for phase in cls.phases),
        f"{len(cls.networks)} networks": len(cls.networks) > 1,
        "passes over the data every epoch": cls.overrides("on_epoch"),
        "a pass at a switch": cls.overrides("on_phase"),
        "own threshold": cls.overrides("threshold"),
        "random draws": cls.overrides("draws"),
        "schedule": cls.overrides("schedule"),
        "state per step": cls.overrides("after_step"),
        "strong view": cls.strong_view,
        "true labels": cls.supervised,
        "true propensities": cls.knows_propensity,
    }
    return tuple(name for name, is_needed in needs.items() if is_needed)


def describe_classic(cls: type[PUWrapper]) -> list[MethodInfo]:
    """Return the records of the forms of a classic that experiments can run."""
    return [_describe_form(cls, form) for form in cls.forms]


def _describe_form(cls: type[PUWrapper], form: ClassicForm) -> MethodInfo:
    calibrated = [other.name for other in cls.forms if other.calibrates == form.name]
    return MethodInfo(
        name=form.name,
        base=form.calibrates or form.name,
        title=form.title,
        paper=cls.paper,
        origin="classic",
        description=form.description,
        setting=form.setting,
        calibrated=bool(form.calibrates),
        calibrated_form=calibrated[0] if calibrated else "",
        needs_prior=form.needs_prior,
        in_paper=False,
        in_all=False,
        differs=cls.differs,
        phases=FITTED,
        minutes_on_images=cls.minutes_on_images,
        parameters=form.parameters,
        cls=cls,
    )


def describe_guest(name: str, prototype: Any, module: str | None = None) -> MethodInfo:
    """Return the record of a classifier of another library."""
    from puarena.classics import guests

    library = guests.name_library(prototype)
    return MethodInfo(
        name=name,
        base=name,
        title=name.removeprefix(GUEST_PREFIX),
        paper=library,
        origin="guest",
        description=f"``{guests.print_guest(prototype)}`` of {library}, fitted to the observed "
        "labels: 1 for labeled positives, 0 for unlabeled rows.",
        needs_prior=bool(guests.list_priors(prototype)),
        in_paper=False,
        in_all=False,
        phases=FITTED,
        cls=guests.make_class(prototype, module or guests.__name__),
    )


# -- text ------------------------------------------------------------------------------------------


def explain(info: MethodInfo) -> str:
    """Return a method's formula, hyperparameters and differences from the published code."""
    lines = [f"{info.title} ({info.name})", info.paper, ""]
    lines += [info.description.replace("``", ""), ""]
    if info.calibrated and not info.is_classic:
        lines += [explain_calibration(info).replace("``", ""), ""]
    lines.append(explain_assumptions(info))
    if info.calibrated_form:
        lines.append(f"Calibrated form for one-sample data: {info.calibrated_form}")
    lines.append(f"Phases: {', then '.join(info.phases)}")
    if not info.is_classic:
        unknown = "not known; the protocol's SGD"
        lines.append(f"Authors' optimizer: {info.authors_optimizer or unknown}")
    if info.engine_needs:
        lines.append(f"Engine: {', '.join(info.engine_needs)}")
    lines.append("")
    if not info.hyperparameters:
        lines.append("Hyperparameters: none besides learning rate and batch size")
    else:
        lines.append("Hyperparameters")
        lines += [_explain_hyper(name, facts) for name, facts in info.hyperparameters.items()]
    lines.append("")
    if info.plugin_file:
        lines.append(f"Defined in the plugin {info.plugin_file}")
    elif info.is_guest:
        lines.append(f"Its code and its defaults are those of {info.paper}")
    else:
        lines.append(f"Differs from the published code: {info.differs or 'in nothing'}")
    return "\n".join(lines)


def _explain_hyper(name: str, facts: Mapping[str, Any]) -> str:
    line = f"  {name} = {facts['default']}: {facts['meaning']}"
    if facts["search"]:
        line += f"; search {facts['search']}"
    if facts["choices"]:
        line += f"; one of {', '.join(facts['choices'])}"
    return line


def explain_assumptions(info: MethodInfo) -> str:
    """Return what a method assumes, in one sentence."""
    needs = "needs" if info.needs_prior else "does not need"
    setting = "either setting" if info.setting == "either" else f"{info.setting} data"
    return f"Assumes {setting}; {needs} the class prior."


def explain_calibration(info: MethodInfo) -> str:
    """Return what a method's calibrated form changes, formulas in backquotes.

    The text is empty if there is no such form, and for classics, whose description has it.
    """
    if info.is_classic or not (info.calibrated or info.calibrated_form):
        return ""
    if info.calibration_is == "prior":
        return (
            "Calibrated for one-sample data: it uses the share of positives inside the unlabeled "
            "set,\n``(prior - r) / (1 - r)`` with ``r = n_P / (n_P + n_U)``, where the plain form "
            "uses the prior."
        )
    return (
        "Calibrated for one-sample data: ``mean_U`` becomes ``(1-r) mean_U + r mean_P``, "
        "``r = n_P / (n_P + n_U)`` of the data set, or of the batch with calibration = batch-union."
    )
