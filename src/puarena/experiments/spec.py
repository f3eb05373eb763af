"""What to run: one short YAML file, a dictionary, or a Python object.

A spec names problems, algorithms, splits and configurations; ``plan`` turns it into runs. Every mistake in one ends in
a :class:`~puarena.errors.UserError` that names the key and the nearest right one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from puarena.errors import UserError, suggest, unknown_name
from puarena.experiments.problems import (
    PROBLEM_LISTS,
    ProblemSpec,
    is_path,
    listed,
    refuse_truth,
    with_datasets,
    with_values,
)
from puarena.experiments.profiles import PROFILES
from puarena.experiments.values import (
    OPTIMIZER,
    TRUE_PRIOR,
    check_hyper,
    source_of_prior,
    wrong_kind,
    wrong_optimizer,
)
from puarena.experiments.words import counted, enumerated
from puarena.pu import labeling as ways
from puarena.utils.identity import canonical, digest
from puarena.utils.yaml_files import read_yaml

ALL = "all"  # the algorithm list of a suite: the paper's rows, and those of the plugin files named in the spec
ALL_KNOWN = "all-known"  # every registered method in the form of its definition, classics included
EVERY = "*"  # in `hyper`: lr, batch_size or momentum of every algorithm
MOST_STEPS = 10**9  # months on any machine
FULL_PRECISION: Final = "float32"
PROTOCOL: Final = "protocol"  # the same optimizer for all


class Spec(BaseModel):
    """An experiment: problems x algorithms x splits x configurations."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(default="experiment", description="a short name")
    title: str = Field(default="", description="a heading for the report")
    description: str = Field(default="", description="what it is, in a sentence")
    problems: tuple[ProblemSpec, ...] = Field(description="what is to be learned", min_length=1)
    algorithms: tuple[str, ...] = Field(
        default=(ALL,), description="names, or all, or all-known", min_length=1
    )
    splits: int = Field(default=3, ge=1, description="data draws (trials) per problem")
    configs: int = Field(
        default=10,
        ge=1,
        description="hyperparameter configurations per run; number 0 is the default",
    )
    draws: Literal["shared", "per-split"] | None = Field(
        default=None,
        description="are configurations shared by all splits? null = as the profile has it",
    )
    steps: int = Field(
        default=20_000,
        ge=1,
        le=MOST_STEPS,
        description="training steps of the algorithm's own objective",
    )
    warmup: int = Field(
        default=2_000,
        ge=0,
        le=MOST_STEPS,
        description="steps of a first stage, on top, for algorithms that have one",
    )
    record_every: int = Field(
        default=100, ge=1, description="steps between two records of the curves"
    )
    seed: int = Field(
        default=0, description="changes every random choice of training, not the data"
    )
    network: str | None = Field(
        default=None, description="network; null = the one that goes with the dataset"
    )
    optimizer: Literal["protocol", "authors"] = Field(
        default=PROTOCOL,
        description="the protocol's SGD for all, or what each method's authors trained it with",
    )
    precision: Literal["float32", "bf16"] = Field(
        default=FULL_PRECISION,
        description="what activations are computed in, where the network has a choice",
    )
    calibration: Literal["weighted", "batch-union"] | None = Field(
        default=None, description="form of the -c algorithms; null = as the profile has it"
    )
    profile: Literal["definition", "released"] = Field(
        default="definition",
        description="whose choices: the definitions', or the published code's as a whole",
    )
    prior_source: tuple[str, ...] = Field(
        default=(TRUE_PRIOR,),
        min_length=1,
        description="the prior the algorithms are told: true, or estimate:METHOD (such as estimate:bbe), or several",
    )
    hyper: dict[str, dict[str, Any]] = Field(
        default={},
        description="fixed values: {algorithm, or * for every one: {hyperparameter: value}}",
    )
    plugins: tuple[str, ...] = Field(
        default=(), description="Python files with algorithms of your own"
    )

    @field_validator("algorithms", "plugins", "problems", "prior_source", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return tuple(
            TRUE_PRIOR if item is True else item for item in listed(value)
        )  # YAML's true without quotes

    @field_validator("splits", "configs", "steps", "warmup", "record_every", "seed", mode="before")
    @classmethod
    def _no_truth_value(cls, value: Any) -> Any:
        return refuse_truth(value)

    @field_validator("plugins")
    @classmethod
    def _paths(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if any("\0" in value for value in values):
            raise ValueError("a path has a NUL character in it")
        return values

    @field_validator("prior_source")
    @classmethod
    def _known_sources(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(source_of_prior, values)))

    @field_validator("hyper")
    @classmethod
    def _sensible(cls, values: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for algorithm, fixed in values.items():
            for name, value in fixed.items():
                wrong = wrong_optimizer(name, value) if name in OPTIMIZER else wrong_kind(value)
                if wrong:
                    raise ValueError(f"{name} of {algorithm} {wrong}, and {value!r} was given")
        return values

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
        if isinstance(source, Mapping):
            return cls(**{str(key): value for key, value in source.items()})
        if not isinstance(source, (str, Path)):
            raise UserError(
                f"an experiment is the name of a suite, a YAML file, a dictionary or a Spec, and {source!r} is none"
            )
        return cls.from_yaml(source)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Spec:
        """Read a YAML file; datasets and plugins given by relative paths are looked for beside it."""
        path = Path(path)
        content = read_yaml(path, "spec file")
        if "file" in content and "problems" not in content:
            raise UserError(f"{path} describes a dataset; try 'puarena run demo --datasets {path}'")
        return cls(**{"name": path.stem, **content})._beside(path.parent)

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
            problems = with_datasets(problems, [str(dataset) for dataset in listed(datasets)])
        for field in PROBLEM_LISTS:
            given = values.pop(field, None)
            if given is not None:
                given = listed(given)
                if field == "settings":
                    given = [ways.get(value).code for value in given]
                problems = with_values(problems, field, tuple(given))
        changes = {key: value for key, value in values.items() if value is not None}
        added = [str(plugin) for plugin in listed(plugins)]
        if algorithms is not None:
            changes["algorithms"] = tuple(listed(algorithms))
        elif added and not {ALL, ALL_KNOWN} & set(self.algorithms):
            changes["algorithms"] = (*self.algorithms, *plugin_names(added))
        if added:
            changes["plugins"] = (*self.plugins, *added)
        changed = Spec(
            **{
                **self.model_dump(),
                "problems": [problem.model_dump(warnings=False) for problem in problems],
                **changes,
            }
        )
        if changed == self or {"title", "description"} & changes.keys():
            return changed
        return changed.model_copy(
            update={"title": "", "description": changed.summary()}
        )  # its words were the suite's

    def summary(self) -> str:
        """What is run, in a sentence."""
        names = dict.fromkeys(Path(problem.dataset).stem for problem in self.problems)
        settings = dict.fromkeys(
            ways.get(code).title for problem in self.problems for code in problem.settings
        )
        methods = "every algorithm" if ALL in self.algorithms else enumerated(self.algorithms)
        rates = sorted(
            {rate for problem in self.problems if problem.labeled is None for rate in problem.rates}
        )
        labeled = [f"{enumerated([f'{100 * rate:g}%' for rate in rates])} labeled"] if rates else []
        labeled += [
            f"{p.labeled:,} labeled beside {p.unlabeled:,} unlabeled"
            for p in self.problems
            if p.labeled
        ]
        return (
            f"{methods[0].upper()}{methods[1:]} on {enumerated(names)}, {enumerated(settings)}, "
            f"{enumerated(dict.fromkeys(labeled))}: "
            f"{counted(self.splits, 'split')}, {counted(self.configs, 'configuration')}, {self.steps:,} steps."
        )

    def resolve(self) -> Spec:
        """The spec with ``all`` and the profile's choices spelled out, plugins loaded and every name looked up."""
        from puarena import catalog, datasets, networks

        profile = PROFILES[self.profile]
        own = plugin_names(self.plugins)
        paper = [name for name in catalog.names("puarena") if catalog.get(name).in_paper]
        known = [name for name, entry in catalog.entries().items() if not entry.variant]
        words = {ALL: [*paper, *own], ALL_KNOWN: known}
        names = [name for word in self.algorithms for name in words.get(word, [word])]
        names = [catalog.form(name, profile.variant) if profile.variant else name for name in names]
        for name in (*names, *self.hyper):
            fixed = self.hyper.get(name, {})
            if name != EVERY:
                check_hyper(catalog.get(name), fixed)
            for value in fixed.keys() - set(OPTIMIZER) if name == EVERY else ():
                raise unknown_name("hyperparameter of every algorithm", value, OPTIMIZER)
        if own:
            from puarena.testing.quick_check import check_quickly

            check_quickly(name for name in own if name in names)
        for problem in self.problems:
            datasets.info(problem.dataset)
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
        from puarena import datasets
        from puarena import plugins as files

        content = self.to_dict() | ({"revisions": dict(revisions)} if revisions else {})
        for words in ("name", "title", "description"):
            del content[words]
        for key, only in (
            ("prior_source", [TRUE_PRIOR]),
            ("precision", FULL_PRECISION),
            ("optimizer", PROTOCOL),
        ):
            if content[key] == only:  # as it was before there was a choice
                del content[key]
        content["algorithms"] = sorted(set(content["algorithms"]))
        content["plugins"] = sorted(files.digest_of(plugin) for plugin in self.plugins)
        for problem in content["problems"]:
            for field in problem.keys() & set(PROBLEM_LISTS):
                problem[field] = sorted(
                    set(problem[field]), key=lambda value: (value is None, value)
                )
            if problem["labeling"] == [ways.SCAR]:  # as it was before there was a choice
                del problem["labeling"]
            if problem["labeled"] is None:
                del problem["labeled"], problem["unlabeled"]
            if is_path(problem["dataset"]):
                own = datasets.load(problem["dataset"])
                problem["dataset"] = f"{own.name}:{own.revision}"
        content["problems"] = sorted({canonical(problem) for problem in content["problems"]})
        return digest(content)


def plugin_names(paths: Iterable[str]) -> list[str]:
    """Load plugin files and name the algorithms they bring."""
    from puarena import plugins

    return [name for path in paths for name in plugins.load(path)]


def _sentence(error: ValidationError) -> str:
    """The first mistake of a spec in words."""
    mistakes = error.errors()
    first = next(
        (mistake for mistake in mistakes if mistake["type"] == "extra_forbidden"), mistakes[0]
    )
    keys = [str(part) for part in first["loc"] if isinstance(part, str)]
    inside = len(keys) > 1 and keys[0] == "problems"
    fields = (ProblemSpec if inside else Spec).model_fields
    key = keys[1] if inside else keys[0]
    where = f"'{key}' of problem {int(first['loc'][1]) + 1}" if inside else f"'{key}'"
    if first["type"] == "extra_forbidden":
        return f"unknown key {where}{suggest(key, fields)}"
    if first["type"] == "missing":
        return f"the key {where} is missing"
    if first["type"] == "literal_error":
        return f"{where} is '{first['input']}'; choose one of: {', '.join(_literals(fields[key].annotation))}"
    if first["type"] == "too_short":
        return f"{where}: it is empty; give at least one value, or leave the key away"
    if first["type"] == "model_type":
        return f"{where}: a problem is keys and values such as {{dataset: digits}}, and {first['input']!r} was given"
    if first["type"] == "value_error":
        return f"{where}: {first['ctx']['error']}"
    return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}, and {first['input']!r} was given"


def _literals(annotation: Any) -> list[str]:
    """The words a Literal inside an annotation allows."""
    parts = get_args(annotation)
    return [
        word for part in parts for word in ([part] if isinstance(part, str) else _literals(part))
    ]
