"""What to run: a spec is a short YAML file, a dictionary, or a Python object.

A spec names problems, algorithms, splits and configurations; ``plan`` turns it into runs. Every
mistake in a spec is a :class:`~puarena.errors.UserError` that names the key and the nearest
valid one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)
from typing_extensions import TypedDict  # pydantic's; before Python 3.12 it refuses typing's

from puarena import paper
from puarena.errors import UserError, suggest, unknown_name
from puarena.pu import labeling
from puarena.pu.labeling import DEFAULT_SETTING, SCAR
from puarena.pu.problem import MIN_SIZE
from puarena.utils.identity import canonical, digest
from puarena.utils.yaml_files import read_yaml

if TYPE_CHECKING:
    from puarena.catalog import MethodInfo

# In `algorithms`: the paper's methods in plain and calibrated form, and those of the spec's plugin
# files. The released profile has PAPER in its place.
ALL = "all"
PAPER = "paper"  # in `algorithms`: the rows of the paper's tables, and those of the plugin files
ALL_KNOWN = "all-known"  # in `algorithms`: every method in its plain form, classics included
EVERY_ALGORITHM = "*"  # in `hyper`: values for every algorithm
# Sources of the prior that algorithms are given.
TRUE_PRIOR, ESTIMATE_PREFIX, GIVEN_PREFIX = "true", "estimate:", "given:"
FULL_PRECISION: Final = "float32"
PROTOCOL_OPTIMIZER: Final = "protocol"  # the same for all algorithms
MAX_STEPS = 10**9  # months on any machine

DESCRIPTIVE_FIELDS = ("name", "title", "description")  # change nothing about the runs
PROBLEM_LISTS = ("cases", "settings", "rates", "priors", "labeling")
STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True)
class Profile:
    """Choices that belong together: those of the definitions, or those of the published code.

    Views of images and forms of criteria go by the profile's name, in their own rooms.
    """

    name: str
    meaning: str
    variant: str = ""  # the form of an algorithm that is run if it has one
    calibration: str = paper.CALIBRATION
    draws: str = "per-split"
    default_batch: int | None = None  # batch size of configuration 0; None: the network's
    own_data: bool = False  # draw the data of every run anew, instead of once per split


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "definition",
            "the algorithms as their papers define them, under the benchmark paper's protocol",
        ),
        Profile(
            "released",
            "what the published code ran: its variants of the algorithms, batch-union calibration, "
            "its proxy accuracy, the raw second output for AUC and PAUC, draws of configurations "
            "and data per run, mirrored USPS digits",
            variant="released",
            calibration="batch-union",
            default_batch=64,
            own_data=True,
        ),
    )
}


# -- types of fields ---------------------------------------------------------------------


def as_tuple(value: Any) -> tuple[Any, ...]:
    """Return a list's items, or a tuple of the single value: ``rates: 0.3`` is ``rates: [0.3]``."""
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def name_prior_source(text: str) -> str:
    """Return ``true``, ``estimate:METHOD`` or ``given:NUMBER``.

    A method, or ``estimate``, is accepted as well.
    """
    plain = text.strip().lower()
    if plain == TRUE_PRIOR:
        return TRUE_PRIOR
    if plain.startswith(GIVEN_PREFIX):
        return f"{GIVEN_PREFIX}{_read_given_prior(plain):g}"
    from puarena.priors import METHODS, method_named

    method = method_named(plain) if plain else ""
    name = f"{ESTIMATE_PREFIX}{method}" if method in METHODS else plain
    known = [TRUE_PRIOR, *(f"{ESTIMATE_PREFIX}{method}" for method in METHODS)]
    if name not in known:
        raise unknown_name("source of the prior", text, known)
    return name


def _read_given_prior(text: str) -> float:
    try:
        prior = float(text.removeprefix(GIVEN_PREFIX))
    except ValueError:
        prior = math.nan
    if not 0 < prior < 1:
        message = f"'{text}' is not given:NUMBER with a share of positives between 0 and 1"
        raise UserError(message, "invalid-value")
    return prior


def _unquote_true(value: Any) -> Any:
    return TRUE_PRIOR if value is True else value  # YAML reads true without quotes as a bool


Item = TypeVar("Item")
OneOrMore = Annotated[tuple[Item, ...], BeforeValidator(as_tuple), Field(min_length=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
Size = Annotated[int, Field(ge=MIN_SIZE)]
Count = Annotated[int, Field(ge=1)]
Steps = Annotated[int, Field(ge=1, le=MAX_STEPS)]
WarmupSteps = Annotated[int, Field(ge=0, le=MAX_STEPS)]
SettingName = Annotated[str, AfterValidator(lambda name: labeling.get_setting(name).code)]
MechanismName = Annotated[str, AfterValidator(lambda text: labeling.get_mechanism(text).text)]
PriorSource = Annotated[str, BeforeValidator(_unquote_true), AfterValidator(name_prior_source)]


class FixedValues(TypedDict, total=False):
    """Values that `hyper` fixes: the optimizer's, and hyperparameters of the algorithm's own."""

    __pydantic_config__ = ConfigDict(extra="allow", strict=True)  # type: ignore[misc]

    lr: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    batch_size: Count
    momentum: Annotated[float, Field(ge=0, lt=1)]


OPTIMIZER_VALUES = tuple(FixedValues.__annotations__)


# -- the spec ----------------------------------------------------------------------------


class ProblemSpec(BaseModel):
    """One dataset, and the cases, settings, rates, priors and mechanisms to combine on it."""

    model_config = STRICT

    dataset: str  # a built-in one, or the path of a YAML file that describes a user's own table
    cases: OneOrMore[int] = (1,)  # which classes are positive, as the dataset numbers them
    settings: OneOrMore[SettingName] = (DEFAULT_SETTING,)
    rates: OneOrMore[Share] = (paper.RATE,)  # labeled positives / all training points
    priors: OneOrMore[Share | None] = (None,)  # class priors; None: the dataset's own
    labeling: OneOrMore[MechanismName] = (SCAR,)  # which of the positives are labeled
    # Numbers of labeled positives and of unlabeled examples, instead of rates.
    labeled: Size | None = None
    unlabeled: Size | None = None

    @model_validator(mode="after")
    def _check_sizes(self) -> ProblemSpec:
        if (self.labeled is None) != (self.unlabeled is None):
            raise ValueError("`labeled` and `unlabeled` must be given together")
        if self.labeled is not None and "rates" in self.model_fields_set:
            raise ValueError("give either `rates` or `labeled` and `unlabeled`, not both")
        return self

    @model_serializer(mode="wrap")
    def _serialize(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialize(self)
        if self.labeled is not None:
            del content["rates"]  # a spec with both is refused when it is read again
        return content

    def has_path(self) -> bool:
        """Return whether the dataset is a user's own YAML file."""
        return is_path(self.dataset)

    def replace(self, **values: Any) -> ProblemSpec:
        """Return the same problem with other values, which are valid already."""
        return self.model_copy(update=values)


class Spec(BaseModel):
    """An experiment: problems x algorithms x splits x configurations."""

    model_config = STRICT

    name: str = "experiment"
    title: str = ""  # the heading of its report
    description: str = ""  # in a sentence
    problems: OneOrMore[ProblemSpec]
    algorithms: OneOrMore[str] = (ALL,)  # names, ALL, PAPER, or ALL_KNOWN
    # The choices of the definitions, or those of the published code. The next two choices are
    # the profile's if they are None.
    profile: Literal["definition", "released"] = "definition"
    draws: Literal["shared", "per-split"] | None = None  # of configurations, for the splits
    calibration: Literal["weighted", "batch-union"] | None = None  # of calibrated forms
    network: str | None = None  # None: the one that goes with the dataset
    # The same SGD for all, or what the authors of each method trained it with.
    optimizer: Literal["protocol", "authors"] = PROTOCOL_OPTIMIZER
    precision: Literal["float32", "bf16"] = FULL_PRECISION  # of activations, if the network can
    steps: Steps = paper.STEPS  # of the algorithm's own objective
    warmup: WarmupSteps = paper.WARMUP_STEPS  # of a first stage, in addition, if there is one
    record_every: Count = paper.RECORD_STEPS  # steps between two records of the curves
    seed: int = 0  # changes every random choice of training, not the data
    splits: Count = paper.SPLITS  # draws of data per problem
    configs: Count = paper.CONFIGS  # configurations of hyperparameters; number 0 is the default
    prior_source: OneOrMore[PriorSource] = (TRUE_PRIOR,)  # of the prior given to algorithms
    hyper: dict[str, FixedValues] = {}  # by algorithm; EVERY_ALGORITHM for all
    plugins: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()  # Python files

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _explain(error) from None

    @field_validator("problems", mode="after")
    @classmethod
    def _once(cls, problems: tuple[ProblemSpec, ...]) -> tuple[ProblemSpec, ...]:
        return tuple(dict.fromkeys(problems))

    @classmethod
    def load(cls, source: Spec | Mapping[str, Any] | str | Path) -> Spec:
        """Return a spec from a spec, a dictionary, or the path of a YAML file.

        ``suites.load`` accepts the names of suites as well.
        """
        if isinstance(source, Spec):
            return source
        if isinstance(source, Mapping):
            return cls(**{str(key): value for key, value in source.items()})
        if not isinstance(source, (str, Path)):
            raise UserError(
                "an experiment must be the name of a suite, a YAML file, a dictionary or a Spec, "
                f"not {source!r}",
                "invalid-spec",
            )
        return cls.from_yaml(source)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Spec:
        """Read a YAML file; relative paths in it are relative to its folder."""
        path = Path(path)
        content = read_yaml(path, "spec file")
        if "file" in content and "problems" not in content:
            raise UserError(
                f"{path} describes a dataset; try 'puarena run demo --datasets {path}'",
                "invalid-spec",
            )
        return cls(**{"name": path.stem, **content})._resolve_paths(path.parent)

    def _resolve_paths(self, folder: Path) -> Spec:
        problems = tuple(
            problem.replace(dataset=str(folder / problem.dataset))
            if problem.has_path()
            else problem
            for problem in self.problems
        )
        plugins = tuple(str(folder / plugin) for plugin in self.plugins)
        return self.model_copy(update={"plugins": plugins, "problems": problems})

    def override(
        self,
        *,
        datasets: Iterable[str] | None = None,
        algorithms: Iterable[str] | None = None,
        plugins: Iterable[str] = (),
        **values: Any,
    ) -> Spec:
        """Return the spec with the command line's filters applied; ``None`` changes nothing.

        ``cases``, ``settings``, ``rates``, ``priors``, ``labeling`` and ``datasets`` keep what the
        spec has of the given values; if a given value does not occur in the spec, the whole list
        replaces the spec's. Everything else (``splits``, ``steps``, ...) is replaced.
        """
        problems = list(self.problems)
        if datasets is not None:
            problems = _choose_datasets(problems, [str(dataset) for dataset in as_tuple(datasets)])
        for field in PROBLEM_LISTS:
            if (given := values.pop(field, None)) is not None:
                problems = _choose_values(problems, field, as_tuple(given))
        changes = {key: value for key, value in values.items() if value is not None}
        added = tuple(str(plugin) for plugin in as_tuple(plugins))
        if algorithms is not None:
            changes["algorithms"] = as_tuple(algorithms)
            changes.setdefault("hyper", self._hyper_of(changes["algorithms"]))
        elif added and not {ALL, PAPER, ALL_KNOWN} & set(self.algorithms):
            changes["algorithms"] = (*self.algorithms, *load_plugins(added))
        if added:
            changes["plugins"] = (*self.plugins, *added)
        dumped = [problem.model_dump(warnings=False) for problem in problems]
        changed = Spec(**{**self.model_dump(), "problems": dumped, **changes})
        if changed == self or {"title", "description"} & changes.keys():
            return changed
        # Title and description were those of the spec that was changed.
        return changed.model_copy(update={"title": "", "description": changed.summarize()})

    def _hyper_of(self, algorithms: Collection[str]) -> dict[str, FixedValues]:
        """Return the fixed values that concern these algorithms; all of them for a group's name."""
        if {ALL, PAPER, ALL_KNOWN} & set(algorithms):
            return self.hyper
        kept = {EVERY_ALGORITHM, *algorithms}
        return {name: values for name, values in self.hyper.items() if name in kept}

    def summarize(self) -> str:
        """Return what is run, in a sentence."""
        names = dict.fromkeys(Path(problem.dataset).stem for problem in self.problems)
        groups = {ALL: "every algorithm", PAPER: "the paper's algorithms"}
        methods = join_names(groups.get(word, word) for word in self.algorithms)
        sentence = (
            f"{methods} on {join_names(names)}: {format_count(self.splits, 'split')}, "
            f"{format_count(self.configs, 'configuration')}, {self.steps:,} steps."
        )
        return sentence[0].upper() + sentence[1:]

    def resolve(self) -> Spec:
        """Return the spec with ``all``, the profile's choices and paths spelled out.

        Loads the plugins, checks their algorithms quickly, and looks up every name.
        """
        from puarena import catalog, datasets, networks

        own = load_plugins(self.plugins)
        names = self._expand_algorithms(own)
        for name in (*names, *self.hyper):
            check_hyper(name, self.hyper.get(name, {}))
        if used := [name for name in own if name in names and not catalog.get(name).is_classic]:
            from puarena.testing.contract import check_plugins

            check_plugins(used)
        for problem in self.problems:
            datasets.info(problem.dataset)
        if self.network is not None:
            networks.get(self.network)
        resolved = self.with_profile_choices().model_copy(update={"algorithms": names})
        return resolved._resolve_paths(Path.cwd())

    def _expand_algorithms(self, own: list[str]) -> tuple[str, ...]:
        """Return the algorithms by name, in the form that the profile runs."""
        from puarena import catalog

        entries = catalog.get_all()
        variant = PROFILES[self.profile].variant
        of_paper = [n for n, e in entries.items() if e.origin == "puarena" and e.in_paper]
        everything = [n for n, e in entries.items() if e.origin == "puarena" and e.in_all]
        lists = {
            PAPER: [*of_paper, *own],
            # The published code has none of the other forms.
            ALL: [*(of_paper if variant else everything), *own],
            ALL_KNOWN: [name for name, entry in entries.items() if not entry.variant],
        }
        names = [name for word in self.algorithms for name in lists.get(word, [word])]
        if variant:
            names = [catalog.find_form(name, variant) for name in names]
        # A guest has one name, however it is written.
        names = [catalog.get(name).name for name in names]
        return tuple(dict.fromkeys(names))

    def with_profile_choices(self) -> Spec:
        """Return the spec with the choices that it leaves to its profile spelled out."""
        profile = PROFILES[self.profile]
        choices = {
            "draws": self.draws or profile.draws,
            "calibration": self.calibration or profile.calibration,
        }
        return self.model_copy(update=choices)

    def differences(self, other: Spec, ignore: Collection[str] = ()) -> dict[str, tuple[Any, Any]]:
        """Return the fields in which two specs differ, each with both values, own value first.

        Names, titles, descriptions and the fields to ``ignore`` do not count. A choice that is
        left to the profile counts as the profile's choice.
        """
        ours, theirs = self.with_profile_choices(), other.with_profile_choices()
        names = [name for name in Spec.model_fields if name not in {*DESCRIPTIVE_FIELDS, *ignore}]
        both = {name: (getattr(ours, name), getattr(theirs, name)) for name in names}
        return {name: (own, their) for name, (own, their) in both.items() if own != their}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return self.model_dump(mode="json")

    def hash(self, revisions: Mapping[str, str] | None = None) -> str:
        """Return sixteen hexadecimal digits of everything that decides the runs and their numbers.

        ``revisions`` are digests of datasets whose names do not determine their content. With those
        of users' tables (by path, as ``NAME:DIGEST``) no table is read for this.
        """
        from puarena import plugins as plugin_files

        known = dict(revisions or {})
        content = self.to_dict()
        content["revisions"] = {name: known[name] for name in known if not is_path(name)}
        for name in DESCRIPTIVE_FIELDS:
            del content[name]
        content["algorithms"] = sorted(set(self.algorithms))
        content["plugins"] = sorted(plugin_files.digest_of(plugin) for plugin in self.plugins)
        entries = [_identify(problem, known) for problem in self.problems]
        content["problems"] = sorted({problem for entry in entries for problem in entry})
        return digest(content)


def _identify(problem: ProblemSpec, revisions: Mapping[str, str]) -> list[str]:
    """Return the single problems of an entry as canonical JSON, so that their grouping does not
    count.
    """
    from puarena import datasets

    content = problem.model_dump(mode="json")
    if problem.has_path():
        if problem.dataset in revisions:
            content["dataset"] = revisions[problem.dataset]
        else:
            own = datasets.load(problem.dataset)
            content["dataset"] = f"{own.name}:{own.revision}"
    fields = sorted(content.keys() & set(PROBLEM_LISTS))
    combinations = product(*(content[field] for field in fields))
    return [canonical(content | dict(zip(fields, each, strict=True))) for each in combinations]


def is_path(dataset: str) -> bool:
    """Return whether a dataset is a user's own YAML file, and not a built-in name."""
    return dataset.lower().endswith((".yaml", ".yml"))


def load_plugins(paths: Iterable[str]) -> list[str]:
    """Load plugin files and return the names of the algorithms they bring."""
    from puarena import plugins

    return [name for path in paths for name in plugins.load(path)]


def _choose_datasets(problems: list[ProblemSpec], datasets: list[str]) -> list[ProblemSpec]:
    """Keep the problems of the named datasets; a dataset without one takes on those of all."""
    chosen: list[ProblemSpec] = []
    for dataset in datasets:
        known = [problem for problem in problems if problem.dataset == dataset]
        chosen += known or [problem.replace(dataset=dataset) for problem in problems]
    return chosen


def _choose_values(
    problems: list[ProblemSpec], field: str, given: tuple[Any, ...]
) -> list[ProblemSpec]:
    """Keep the given values of a list if the spec has them all; otherwise replace the list."""
    if field == "settings":
        given = tuple(labeling.get_setting(name).code for name in given)
    elif field == "labeling":
        given = tuple(labeling.get_mechanism(text).text for text in given)
    present = {value for problem in problems for value in getattr(problem, field)}
    sizes = {"labeled": None, "unlabeled": None} if field == "rates" else {}  # rates replace sizes
    chosen = []
    for problem in problems:
        values = given
        if present >= set(given):
            values = tuple(value for value in getattr(problem, field) if value in given)
        if values:
            chosen.append(problem.replace(**{field: values}, **sizes))
    return chosen


# -- checks ------------------------------------------------------------------------------


def check_hyper(algorithm: str, fixed: Mapping[str, Any]) -> None:
    """Check values that `hyper` fixes against what the algorithm declares."""
    from puarena import catalog

    own = {name: value for name, value in fixed.items() if name not in OPTIMIZER_VALUES}
    if algorithm != EVERY_ALGORITHM:
        entry = catalog.get(algorithm)
        for name, value in own.items():
            _check_own_value(entry, name, value)
    elif own:
        raise unknown_name("hyperparameter of every algorithm", min(own), OPTIMIZER_VALUES)


def _check_own_value(entry: MethodInfo, name: str, value: Any) -> None:
    """Check a value against the declared choices, or the type and sign of the declared numbers."""
    if name not in entry.hypers:
        known = [*entry.hypers, *OPTIMIZER_VALUES]
        raise unknown_name(f"hyperparameter of {entry.name}", name, known)
    hyper = entry.hypers[name]
    if hyper.choices:
        if value not in hyper.choices:
            raise unknown_name(f"{name} of {entry.name}", str(value), hyper.choices)
        return
    declared = [hyper.default, *getattr(hyper.search, "values", ())]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        wanted = "a finite number"
    elif isinstance(hyper.default, int) and value != round(value):
        wanted = "a whole number"
    elif value < 0 <= min(declared):
        wanted = "at least 0"
    else:
        return
    raise UserError(
        f"{name} of {entry.name} must be {wanted}, and {value!r} was given", "invalid-value"
    )


def _explain(error: ValidationError) -> UserError:
    """Return the first mistake that pydantic found as one sentence."""
    mistakes = error.errors()
    # A misspelled key often makes another one missing: name the misspelled one.
    unknown = [mistake for mistake in mistakes if mistake["type"] == "extra_forbidden"]
    mistake = (unknown or mistakes)[0]
    path = mistake["loc"]
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
    kind, given = mistake["type"], mistake["input"]
    if kind == "extra_forbidden":
        fields = (ProblemSpec if path[0] == "problems" else Spec).model_fields
        return UserError(f"unknown key '{where}'{suggest(str(path[-1]), fields)}", "unknown-name")
    if kind == "missing":
        return UserError(f"the spec has no '{where}'", "invalid-spec")
    if kind == "value_error":
        cause = mistake["ctx"]["error"]
        code = cause.code if isinstance(cause, UserError) else "invalid-spec"
        return UserError(f"'{where}' of the spec: {cause}", code)
    message = mistake["msg"][0].lower() + mistake["msg"][1:]
    return UserError(f"'{where}' of the spec: {message}, and {given!r} was given", "invalid-spec")


# -- text --------------------------------------------------------------------------------


def join_names(names: Iterable[str]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def format_count(number: int, noun: str) -> str:
    """Return ``1 split``, ``3 splits``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
