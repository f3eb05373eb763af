"""What to run: one short YAML file, a dictionary, or a Python object.

A spec names problems, algorithms, splits and configurations; ``plan`` turns it into runs. Every mistake in one ends in
a :class:`~puarena.errors.UserError` that names the key and the nearest right one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from puarena.bench.profiles import PROFILES
from puarena.data import labelling as ways
from puarena.data.problem import sizes_given
from puarena.errors import UserError, nearest
from puarena.files import read_yaml
from puarena.store.identity import canonical, digest

ALL = "all"  # the algorithm list of a suite: the paper's rows, and those of the plugin files named in the spec
ALL_KNOWN = "all-known"  # every registered method in the form of its definition, classics included
EVERY = "*"  # in `hyper`: lr, batch_size or momentum of every algorithm
TRUE_PRIOR, ESTIMATE = "true", "estimate:"  # sources of the prior that algorithms are told
FULL_PRECISION: Final = "float32"
PROTOCOL: Final = "protocol"  # the same optimiser for all
PROBLEM_SIZES = ("labeled", "unlabeled")
PROBLEM_LISTS = ("cases", "settings", "rates", "priors", "labelling")


class ProblemSpec(BaseModel):
    """One dataset with the cases, settings, rates, priors and ways of labelling to run it at (all combinations)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str = Field(description="a built-in dataset, or the path of a YAML file that describes your own table")
    cases: tuple[int, ...] = Field(default=(1,), description="which positive classes, as the dataset numbers them")
    settings: tuple[str, ...] = Field(
        default=(ways.DEFAULT,), description=", ".join(f"{s.code} = {s.title}" for s in ways.settings())
    )
    rates: tuple[float, ...] = Field(default=(0.3,), description="share of labeled positives among all training points")
    priors: tuple[float | None, ...] = Field(default=(None,), description="class priors; null = the dataset's own")
    labelling: tuple[str, ...] = Field(default=(ways.SCAR,), description="who among the positives is labeled")

    labeled: int | None = Field(default=None, description="labeled positives, with `unlabeled` in place of rates")
    unlabeled: int | None = Field(default=None, description="unlabeled examples, with `labeled` in place of rates")

    @model_validator(mode="after")
    def _sizes_or_rates(self) -> ProblemSpec:
        if self.labeled is not None or self.unlabeled is not None:
            sizes_given(self.labeled, self.unlabeled)
            if self.rates != (0.3,):
                raise ValueError("give either rates or the sizes `labeled` and `unlabeled`, and not both")
        return self

    @field_validator(*PROBLEM_LISTS, mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return _listed(value)

    @field_validator("dataset")
    @classmethod
    def _path(cls, value: str) -> str:
        if "\0" in value:
            raise ValueError("a path has a NUL character in it")
        return value

    @field_validator("settings", "labelling")
    @classmethod
    def _known(cls, values: tuple[str, ...], info: Any) -> tuple[str, ...]:
        try:
            if info.field_name == "settings":
                return tuple(ways.get(value).code for value in values)
            return tuple(ways.mechanism(value).text for value in values)
        except UserError as error:
            raise ValueError(str(error)) from None

    @field_validator("rates", "priors")
    @classmethod
    def _inside_unit(cls, values: tuple[float | None, ...], info: Any) -> tuple[float | None, ...]:
        for value in values:
            if value is not None and not 0 < value < 1:
                name = {"rates": "positive rate", "priors": "class prior"}[info.field_name]
                raise ValueError(f"a {name} lies strictly between 0 and 1, and {value:g} does not")
        return values


class Spec(BaseModel):
    """An experiment: problems x algorithms x splits x configurations."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(default="experiment", description="a short name")
    title: str = Field(default="", description="a heading for the report")
    description: str = Field(default="", description="what it is, in a sentence")
    problems: tuple[ProblemSpec, ...] = Field(description="what is to be learned", min_length=1)
    algorithms: tuple[str, ...] = Field(default=(ALL,), description="names, or all, or all-known", min_length=1)
    splits: int = Field(default=3, ge=1, description="data draws (trials) per problem")
    configs: int = Field(default=10, ge=1, description="hyperparameter configurations per run; number 0 is the default")
    draws: Literal["shared", "per-split"] | None = Field(
        default=None, description="are configurations shared by all splits? null = as the profile has it"
    )
    steps: int = Field(default=20_000, ge=1, description="training steps of the algorithm's own objective")
    warmup: int = Field(default=2_000, ge=0, description="steps of a first stage, on top, for algorithms that have one")
    record_every: int = Field(default=100, ge=1, description="steps between two records of the curves")
    seed: int = Field(default=0, description="changes every random choice of training, not the data")
    network: str | None = Field(default=None, description="network; null = the one that goes with the dataset")
    optimiser: Literal["protocol", "authors"] = Field(
        default=PROTOCOL, description="the protocol's SGD for all, or what each method's authors trained it with"
    )
    precision: Literal["float32", "bf16"] = Field(
        default=FULL_PRECISION, description="what activations are computed in, where the network has a choice"
    )
    calibration: Literal["weighted", "batch-union"] | None = Field(
        default=None, description="form of the -c algorithms; null = as the profile has it"
    )
    profile: Literal["definition", "released"] = Field(
        default="definition", description="whose choices: the definitions', or the published code's as a whole"
    )
    prior_source: tuple[str, ...] = Field(
        default=(TRUE_PRIOR,),
        min_length=1,
        description="the prior the algorithms are told: true, or estimate:METHOD (such as estimate:bbe), or several",
    )
    hyper: dict[str, dict[str, Any]] = Field(
        default={}, description="fixed values: {algorithm, or * for every one: {hyperparameter: value}}"
    )
    plugins: tuple[str, ...] = Field(default=(), description="Python files with algorithms of your own")

    @field_validator("algorithms", "plugins", "problems", "prior_source", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return _listed(value)

    @field_validator("plugins")
    @classmethod
    def _paths(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if any("\0" in value for value in values):
            raise ValueError("a path has a NUL character in it")
        return values

    @field_validator("prior_source")
    @classmethod
    def _known_sources(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        from puarena.priors import METHODS

        known = [TRUE_PRIOR, *(f"{ESTIMATE}{method}" for method in METHODS)]
        for value in values:
            if value not in known:
                raise ValueError(f"'{value}' is no source of the prior{nearest(value, known)}")
        return tuple(dict.fromkeys(values))

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise UserError(f"the spec is wrong: {_sentence(error)}") from None

    @classmethod
    def load(cls, source: Spec | Mapping[str, Any] | str | Path) -> Spec:
        """A spec from a spec, a dictionary, or the path of a YAML file; ``suites.load`` knows suites by name, too."""
        if isinstance(source, Spec):
            return source
        return cls(**source) if isinstance(source, Mapping) else cls.from_yaml(source)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Spec:
        """Read a YAML file; datasets and plugins given by relative paths are looked for beside it."""
        path = Path(path)
        try:
            content = read_yaml(path)
        except FileNotFoundError:
            raise UserError(f"there is no spec file {path}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"the spec file {path} cannot be read: {error}") from None
        except yaml.YAMLError as error:
            raise UserError(f"the spec file {path} is not YAML: {' '.join(str(error).split())}") from None
        if not isinstance(content, dict):
            raise UserError(f"the spec file {path} must hold keys and values such as 'problems:' and 'algorithms:'")
        content = {"name": path.stem, **{str(key): value for key, value in content.items()}}
        return cls(**content)._beside(path.parent)

    def _beside(self, folder: Path) -> Spec:
        """The same spec with its relative paths taken from ``folder``."""
        return self.model_copy(
            update={
                "plugins": tuple(str(folder / plugin) for plugin in self.plugins),
                "problems": tuple(
                    problem.model_copy(update={"dataset": str(folder / problem.dataset)})
                    if is_path(problem.dataset)
                    else problem
                    for problem in self.problems
                ),
            }
        )

    def override(
        self,
        *,
        datasets: Iterable[str] | None = None,
        algorithms: Iterable[str] | None = None,
        plugins: Iterable[str] = (),
        **values: Any,
    ) -> Spec:
        """The spec with the command line's filters applied; ``None`` leaves a value as it is.

        ``cases``, ``settings``, ``rates``, ``priors`` and ``datasets`` keep what the spec has of the given values; if
        a given value does not occur in the spec, the whole list takes the place of the spec's. Everything else
        (``splits``, ``steps``, ...) is replaced.
        """
        problems = list(self.problems)
        if datasets is not None:
            problems = _with_datasets(problems, list(datasets))
        for field in PROBLEM_LISTS:
            given = values.pop(field, None)
            if given is not None:
                problems = _with_values(problems, field, tuple(given))
        changes = {key: value for key, value in values.items() if value is not None}
        added = [str(plugin) for plugin in plugins]
        if algorithms is not None:
            changes["algorithms"] = tuple(algorithms)
        elif added and not {ALL, ALL_KNOWN} & set(self.algorithms):
            changes["algorithms"] = (*self.algorithms, *plugin_names(added))
        if added:
            changes["plugins"] = (*self.plugins, *added)
        return Spec(**{**self.model_dump(), "problems": [problem.model_dump() for problem in problems], **changes})

    def resolve(self) -> Spec:
        """The spec with ``all`` and the profile's choices spelled out, plugins loaded and every name looked up."""
        from puarena import catalogue, data, networks

        profile = PROFILES[self.profile]
        own = plugin_names(self.plugins)
        paper = [name for name in catalogue.names("puarena") if catalogue.get(name).in_paper]
        known = [name for name, entry in catalogue.entries().items() if not entry.variant]
        words = {ALL: [*paper, *own], ALL_KNOWN: known}
        names = [name for word in self.algorithms for name in words.get(word, [word])]
        names = [catalogue.form(name, profile.variant) if profile.variant else name for name in names]
        for name in {*names, *self.hyper} - {EVERY}:
            catalogue.get(name)
        for problem in self.problems:
            data.info(problem.dataset)
        if self.network is not None:
            networks.get(self.network)
        changes = {
            "algorithms": tuple(dict.fromkeys(names)),
            "draws": self.draws or profile.draws,
            "calibration": self.calibration or profile.calibration,
        }
        return self.model_copy(update=changes)._beside(Path.cwd())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return self.model_dump(mode="json")

    def hash(self, revisions: Mapping[str, str] | None = None) -> str:
        """Sixteen hexadecimal digits over everything that decides which runs there are and what they compute.

        ``revisions`` are digests of datasets whose names do not say what they hold.
        """
        from puarena import data
        from puarena import plugins as files

        content = self.to_dict() | ({"revisions": dict(revisions)} if revisions else {})
        for words in ("name", "title", "description"):
            del content[words]
        for key, only in (("prior_source", [TRUE_PRIOR]), ("precision", FULL_PRECISION), ("optimiser", PROTOCOL)):
            if content[key] == only:  # as it was before there was a choice
                del content[key]
        content["algorithms"] = sorted(set(content["algorithms"]))
        content["plugins"] = sorted(files.digest_of(plugin) for plugin in self.plugins)
        for problem in content["problems"]:
            for field in PROBLEM_LISTS:
                problem[field] = sorted(set(problem[field]), key=lambda value: (value is None, value))
            if problem["labelling"] == [ways.SCAR]:  # as it was before there was a choice
                del problem["labelling"]
            if problem["labeled"] is None:
                del problem["labeled"], problem["unlabeled"]
            if is_path(problem["dataset"]):
                own = data.load(problem["dataset"])
                problem["dataset"] = f"{own.name}:{own.revision}"
        content["problems"] = sorted({canonical(problem) for problem in content["problems"]})
        return digest(content)


def is_path(dataset: str) -> bool:
    """Is this dataset a user's own YAML file (and not a built-in name)?"""
    return dataset.lower().endswith((".yaml", ".yml"))


def plugin_names(paths: Iterable[str]) -> list[str]:
    """Load plugin files and name the algorithms they bring."""
    from puarena import plugins

    return [name for path in paths for name in plugins.load(path)]


def _listed(value: Any) -> Any:
    """``rates: 0.3`` means ``rates: [0.3]``; ``priors:`` left empty means the default prior."""
    return value if isinstance(value, (list, tuple)) else (value,)


def _with_datasets(problems: list[ProblemSpec], datasets: list[str]) -> list[ProblemSpec]:
    """Keep the problems of the named datasets; a dataset the spec does not have takes on all of its problems."""
    chosen: list[ProblemSpec] = []
    for dataset in datasets:
        known = [problem for problem in problems if problem.dataset == dataset]
        chosen += known or [problem.model_copy(update={"dataset": dataset}) for problem in problems]
    return list(dict.fromkeys(chosen))


def _with_values(problems: list[ProblemSpec], field: str, given: tuple[Any, ...]) -> list[ProblemSpec]:
    """Keep the given values of a list where the spec has them all; otherwise put the given list in its place."""
    if field == "labelling":  # as a spec has them
        given = tuple(ways.mechanism(way).text for way in given)
    present = {value for problem in problems for value in getattr(problem, field)}
    changed = []
    for problem in problems:
        values = tuple(v for v in getattr(problem, field) if v in given) if present >= set(given) else given
        if values:
            sizes = dict.fromkeys(PROBLEM_SIZES if field == "rates" else ())  # a rate takes their place
            changed.append(problem.model_copy(update={field: values, **sizes}))
    return list(dict.fromkeys(changed))


def _sentence(error: ValidationError) -> str:
    """The first mistake of a spec in words."""
    first = error.errors()[0]
    keys = [str(part) for part in first["loc"] if isinstance(part, str)]
    inside = len(keys) > 1 and keys[0] == "problems"
    fields = (ProblemSpec if inside else Spec).model_fields
    key = keys[1] if inside else keys[0]
    where = f"'{key}' of problem {int(first['loc'][1]) + 1}" if inside else f"'{key}'"
    if first["type"] == "extra_forbidden":
        return f"unknown key {where}{nearest(key, fields)}"
    if first["type"] == "missing":
        return f"the key {where} is missing"
    if first["type"] == "literal_error":
        return f"{where} is '{first['input']}'; choose one of: {', '.join(_literals(fields[key].annotation))}"
    if first["type"] == "value_error":
        return f"{where}: {first['ctx']['error']}"
    return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}, and {first['input']!r} was given"


def _literals(annotation: Any) -> list[str]:
    """The words a Literal inside an annotation allows."""
    parts = get_args(annotation)
    return [word for part in parts for word in ([part] if isinstance(part, str) else _literals(part))]
