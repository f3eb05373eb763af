"""From a spec to runs, and from runs to fleets: runs that are trained together."""

from __future__ import annotations

import inspect
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from puarena import catalog, datasets, networks, plugins, priors
from puarena.algorithms import draw_configuration
from puarena.catalog import MethodInfo
from puarena.datasets import Dataset, Views
from puarena.datasets.base import DatasetInfo
from puarena.errors import UserError
from puarena.experiments.spec import (
    ESTIMATE_PREFIX,
    EVERY_ALGORITHM,
    FULL_PRECISION,
    OPTIMIZER_VALUES,
    PROBLEM_LISTS,
    PROFILES,
    PROTOCOL_OPTIMIZER,
    TRUE_PRIOR,
    ProblemSpec,
    Spec,
    format_count,
    join_names,
)
from puarena.pu import Problem, labeling
from puarena.utils.identity import digest

MAX_PLAN_RUNS = 250_000
PRIOR_MINUTES = 10  # of one core to estimate a prior on images
UNCALIBRATED = "none"
RUN_COLUMNS = (  # fields of a run that results store under the same name
    "algorithm",
    "profile",
    "split",
    "config",
    "lr",
    "batch_size",
    "network",
    "precision",
    "optimizer",
    "seed",
)


@dataclass(frozen=True)
class RunSpec:
    """One training run: everything that changes its numbers, and nothing else."""

    problem: Problem
    algorithm: str
    split: int
    config: int
    lr: float
    batch_size: int
    momentum: float
    hyper: tuple[tuple[str, Any], ...]
    steps: int
    warmup: int  # 0 for an algorithm without a first stage
    record_every: int
    network: str
    calibration: str  # UNCALIBRATED for an algorithm that is not a calibrated form
    profile: str
    source: str  # digest of the plugin files of algorithm and network; empty for built-in ones
    seed: int
    prior_source: str = TRUE_PRIOR  # of the prior that the algorithm is given
    precision: str = FULL_PRECISION  # of the network's activations
    optimizer: str = PROTOCOL_OPTIMIZER

    @property
    def views(self) -> Views:
        """The views of the training inputs, as the profile has them."""
        return datasets.views_of(self.problem.dataset, self.profile)

    @property
    def salt(self) -> str:
        """What the draw of the data depends on in addition to the problem and the split."""
        return f"{self.algorithm}:{self.config}" if PROFILES[self.profile].own_data else ""

    @property
    def all_steps(self) -> int:
        """The steps of its objective, and the warm-up that its algorithm has on top."""
        return self.steps + catalog.get(self.algorithm).extra_stages * self.warmup

    @cached_property
    def run_id(self) -> str:
        """Sixteen hexadecimal digits of all fields."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content["problem"] = self.problem.identity()
        for name, value in content.items():
            if isinstance(value, float):
                # The mathematics libraries of two machines may differ in the last bits of a draw.
                content[name] = f"{value:.10g}"
        return digest(content)

    def to_columns(self) -> dict[str, Any]:
        """Return the store's columns that are known before the run is trained."""
        hyper = dict(self.hyper) | {"momentum": self.momentum}
        return {
            "run": self.run_id,
            **self.problem.to_columns(),
            **{name: getattr(self, name) for name in RUN_COLUMNS},
            "prior_source": self.prior_source.removeprefix(ESTIMATE_PREFIX),
            "hyper": json.dumps(hyper, sort_keys=True),
        }


@dataclass(frozen=True)
class FleetSpec:
    """Runs that are trained together: equal shapes, algorithms of one class."""

    runs: tuple[RunSpec, ...]
    group: str = field(default="", compare=False)  # the planned fleet that this is a part of

    @property
    def claim(self) -> str:
        """The planned fleet that it is or belongs to, under whose name it is claimed."""
        return self.group or self.fleet_id

    @property
    def part(self) -> tuple[str, tuple[str, ...]]:
        """The name and the runs of a part of a planned fleet, which is claimed by itself."""
        if self.claim == self.fleet_id:
            return "", ()
        return self.fleet_id, tuple(run.run_id for run in self.runs)

    @cached_property
    def fleet_id(self) -> str:
        """Sixteen hexadecimal digits of the runs."""
        return digest(sorted(run.run_id for run in self.runs))

    @property
    def first(self) -> RunSpec:
        """A run, for what all runs share."""
        return self.runs[0]

    @property
    def fills_gpu(self) -> bool:
        """Is the fleet enough for a GPU on its own?"""
        return networks.get(self.first.network).fills_gpu

    @property
    def steps(self) -> int:
        """The steps of all runs together, warm-up included."""
        return sum(run.all_steps for run in self.runs)

    @property
    def label(self) -> str:
        """A short title for progress and errors."""
        names = " + ".join(dict.fromkeys(run.algorithm for run in self.runs))
        problem = self.first.problem  # cases and mechanisms may differ between the runs
        where = f"{problem.dataset} ({problem.short} {problem.rate:.0%}"
        return f"{names} on {where}, batch {self.first.batch_size})"


@dataclass(frozen=True)
class Plan:
    """All runs of a spec."""

    spec: Spec
    runs: tuple[RunSpec, ...]
    notes: tuple[str, ...]  # what was left out, and what takes long
    sources: dict[str, str]  # dataset -> its name or path, as ``datasets.load`` takes it

    @property
    def run_ids(self) -> list[str]:
        """The ids of all runs."""
        return [run.run_id for run in self.runs]


# -- from a spec to runs -----------------------------------------------------------------


def make_plan(spec: Spec, folder: str | Path | None = None) -> Plan:
    """Expand a spec into its runs; ``folder`` has the datasets' files.

    Combinations that make no sense are left out, with a note.
    """
    spec = spec.resolve()
    _check_number_of_runs(spec)
    spec = _name_natural_priors(spec, folder)
    infos = {part.dataset: datasets.info(part.dataset) for part in spec.problems}
    sources = _name_sources(infos)
    facts = {info.name: info for info in infos.values()}
    problems: dict[Problem, str] = {}  # and its network
    for part in spec.problems:
        network = _choose_network(spec, infos[part.dataset])
        problems.update(dict.fromkeys(expand_problems(part, infos[part.dataset]), network))
    _check_sizes_differ_in_rate(problems)
    runs: dict[str, RunSpec] = {}
    for (problem, network), algorithm in product(problems.items(), spec.algorithms):
        if _is_possible(algorithm, problem, facts[problem.dataset]):
            runs.update((run.run_id, run) for run in expand_runs(spec, problem, algorithm, network))
    notes = _note_omissions(spec, infos, problems, runs.values())
    if not runs:
        raise UserError(f"nothing is left to run: {'; '.join(notes)}", "invalid-spec")
    images = [info.name for info in infos.values() if info.kind == "image"]
    notes += _note_slow_work([run for run in runs.values() if run.problem.dataset in images])
    return Plan(spec, tuple(runs.values()), tuple(notes), sources)


def _check_number_of_runs(spec: Spec) -> None:
    """Refuse a spec whose plan would fill the memory."""
    problems = sum(
        math.prod(len(getattr(part, name)) for name in PROBLEM_LISTS) for part in spec.problems
    )
    runs = problems * len(spec.algorithms) * len(spec.prior_source) * spec.splits * spec.configs
    if runs > MAX_PLAN_RUNS:
        raise UserError(
            f"{format_count(spec.splits, 'split')} and "
            f"{format_count(spec.configs, 'configuration')} of "
            f"{format_count(len(spec.algorithms), 'algorithm')} on "
            f"{format_count(problems, 'problem')} are {runs:,} runs, and a plan has at most "
            f"{MAX_PLAN_RUNS:,}; lower --splits or --configs",
            "invalid-value",
        )


def _name_natural_priors(spec: Spec, folder: str | Path | None) -> Spec:
    """Return the spec with the priors of tables with natural class frequencies as numbers.

    Only the rows of such a table determine its prior; later steps do not need the rows.
    """
    parts: list[ProblemSpec] = []
    for part in spec.problems:
        if datasets.info(part.dataset).observed_setting:
            parts += _name_observed_labels(part, datasets.load(part.dataset, folder))
            continue
        if None not in part.priors or part.has_path() or datasets.info(part.dataset).balanced:
            parts.append(part)
            continue
        table = datasets.load(part.dataset, folder)
        for case in part.cases:
            own = table.prior_of(case)
            priors = tuple(own if prior is None else prior for prior in part.priors)
            parts.append(part.replace(cases=(case,), priors=priors))
    return spec.model_copy(update={"problems": tuple(parts)})


def _name_observed_labels(part: ProblemSpec, data: Dataset) -> Iterator[ProblemSpec]:
    """Yield the cases of a dataset with observed labels, which have a rate of their own."""
    known = [case for case in part.cases if case in data.cases or case in data.unusable]
    if not known:
        yield part  # to be refused
    for case in known:
        data.positive(case)
        prior = data.prior_of(case)
        yield part.replace(
            cases=(case,),
            settings=(data.observed_setting,),
            rates=(data.observed[case].rate,),
            priors=(None if math.isnan(prior) else prior,),
            labeling=(labeling.OBSERVED,),
        )


def _name_sources(infos: Mapping[str, DatasetInfo]) -> dict[str, str]:
    """Return what ``datasets.load`` takes for each dataset, by the dataset's name."""
    sources = {info.name: source for source, info in infos.items()}
    for source, info in infos.items():
        if sources[info.name] != source:
            raise UserError(
                f"two datasets of the spec are called '{info.name}'; rename one of them", "conflict"
            )
    return sources


def _choose_network(spec: Spec, info: DatasetInfo) -> str:
    """Return the spec's network; the dataset's own if there is none, or it needs images."""
    if spec.network is None or (info.kind != "image" and networks.get(spec.network).images):
        return info.network
    return spec.network


def expand_problems(part: ProblemSpec, info: DatasetInfo) -> Iterator[Problem]:
    """Yield the combinations of a part of a spec, with the dataset's own priors as numbers."""
    cases = [case for case in part.cases if case in info.cases]
    if not cases:
        raise UserError(
            f"dataset '{info.name}' has the cases {join_names(map(str, info.cases))}, and "
            f"{join_names(map(str, part.cases))} was asked for",
            "invalid-value",
        )
    source = datasets.load(part.dataset) if part.has_path() else info
    if info.observed_setting:
        (setting,), (rate,), (prior,) = part.settings, part.rates, part.priors
        known = math.nan if prior is None else prior
        for case in cases:
            yield Problem(info.name, case, setting, rate, known, labeling.OBSERVED)
        return
    lists = (cases, part.settings, part.rates, part.priors, part.labeling)
    for case, setting, rate, prior, mechanism in product(*lists):
        # A number, so that naming the dataset's own prior does not make another run.
        known = source.prior_of(case) if prior is None else prior
        problem = Problem(
            info.name, case, setting, rate, known, mechanism, part.labeled, part.unlabeled
        )
        if prior is not None:  # the protocol's own problems may leave no positive in U
            _check_unlabeled_positives(problem)
        yield problem


def _check_unlabeled_positives(problem: Problem) -> None:
    """Refuse a problem that leaves no positive in U."""
    setting = labeling.get_setting(problem.setting)
    if problem.labeled is not None or problem.prior is None or not setting.one_sample:
        return
    rate, prior = problem.rate, problem.prior
    if math.isclose(prior, setting.lowest_prior(rate)):
        raise UserError(
            f"at class prior {prior:g} and positive rate {rate:g} all positives of "
            f"'{problem.dataset}' are labeled and none is left among the unlabeled; use a rate "
            f"below {prior:g}, or a prior above {rate:g}",
            "invalid-value",
        )


def _check_sizes_differ_in_rate(problems: Iterable[Problem]) -> None:
    """Refuse two problems that are one row of a table, as they differ in their sizes only."""
    rows: set[tuple[Any, ...]] = set()
    for problem in problems:
        row = tuple(problem.to_columns().values())
        if row in rows:
            raise UserError(
                f"two problems on '{problem.dataset}' have the positive rate {problem.rate:g} and "
                "differ in their sizes only, which would be one row of a table; run them into two "
                "folders",
                "conflict",
            )
        rows.add(row)


def _is_possible(algorithm: str, problem: Problem, info: DatasetInfo) -> bool:
    """Return whether an algorithm exists in the problem's setting, and has what it needs."""
    entry = catalog.get(algorithm)
    if entry.calibrated and not problem.one_sample:
        return False
    return not (problem.observed and _needs_unknown(entry, info))


def _needs_unknown(entry: MethodInfo, info: DatasetInfo) -> bool:
    """Return whether a method needs the truth about observed labels, which is not known."""
    return entry.knows_propensity or (entry.supervised and info.truth != "all")


def expand_runs(spec: Spec, problem: Problem, algorithm: str, network: str) -> Iterator[RunSpec]:
    """Yield the splits, configurations and prior sources of one algorithm on one problem."""
    entry = catalog.get(algorithm)
    fixed: dict[str, Any] = {
        **spec.hyper.get(EVERY_ALGORITHM, {}),
        **spec.hyper.get(algorithm, {}),
    }
    own = {name: value for name, value in fixed.items() if name not in OPTIMIZER_VALUES}
    form = spec.calibration if entry.calibrated else None
    steps, record_every, configs = spec.steps, spec.record_every, spec.configs
    sources = _list_prior_sources(spec, problem)
    if entry.is_classic:  # fitted at once: without steps, network and search
        steps, record_every, configs, network = 1, 1, 1, networks.DEFAULT
        sources = sources if entry.needs_prior else sources[:1]
    kind = networks.get(network)
    for split, config, source in product(range(spec.splits), range(configs), sources):
        trial = split if spec.draws == "per-split" else 0
        default_batch = PROFILES[spec.profile].default_batch
        drawn = draw_configuration(config, trial, kind, entry.hypers, default_batch)
        # The seed does not depend on the steps or records: looking closer changes no training.
        seed = int(digest([spec.seed, problem.identity(), algorithm, split, config]), 16) >> 1
        yield RunSpec(
            problem=problem,
            algorithm=algorithm,
            split=split,
            config=config,
            lr=float(fixed.get("lr", drawn.lr)),
            batch_size=int(fixed.get("batch_size", drawn.batch_size)),
            momentum=float(fixed.get("momentum", drawn.momentum)),
            hyper=tuple(sorted({**drawn.hyper, **own}.items())),
            steps=steps,
            warmup=spec.warmup if entry.extra_stages else 0,
            record_every=record_every,
            network=network,
            calibration=form or UNCALIBRATED,
            profile=spec.profile,
            source=digest_plugins(entry, kind),
            seed=seed,
            prior_source=source,
            precision=spec.precision if spec.precision in kind.precisions else FULL_PRECISION,
            optimizer=spec.optimizer if entry.authors_optimizer else PROTOCOL_OPTIMIZER,
        )


def _list_prior_sources(spec: Spec, problem: Problem) -> tuple[str, ...]:
    """Return where the prior comes from; where the true one is unknown, it is estimated."""
    if problem.prior is None or not math.isnan(problem.prior):
        return spec.prior_source
    guess = f"{ESTIMATE_PREFIX}{priors.DEFAULT}"
    sources = (guess if source == TRUE_PRIOR else source for source in spec.prior_source)
    return tuple(dict.fromkeys(sources))


def digest_plugins(entry: MethodInfo, network: type[networks.RunNetwork]) -> str:
    """Return a digest of what is not part of the package in an algorithm and a network.

    These are plugin files, and a guest's library with its version; empty if there are none.
    """
    foreign = [entry.plugin_file] if entry.plugin_file else []
    if networks.is_plugin(network.name):
        foreign.append(inspect.getfile(network))
    files = list(dict.fromkeys(plugins.digest_of(file) for file in foreign))
    if entry.is_guest:
        files.append(digest([entry.paper]))
    if len(files) > 1:
        return digest(files)
    return files[0] if files else ""


# -- notes -------------------------------------------------------------------------------


def _note_omissions(
    spec: Spec,
    infos: Mapping[str, DatasetInfo],
    problems: Iterable[Problem],
    runs: Iterable[RunSpec],
) -> list[str]:
    """Return what the plan does not do of the spec."""
    notes = []
    for part in spec.problems:
        info = infos[part.dataset]
        if missing := [str(case) for case in part.cases if case not in info.cases]:
            notes.append(f"{info.name} has no case {join_names(missing)}: left out")
    if unused := set(spec.hyper) - {EVERY_ALGORITHM, *spec.algorithms}:
        names = join_names(sorted(unused))
        notes.append(f"`hyper` sets values for {names}, which is not in `algorithms`")
    for info in infos.values():
        network = _choose_network(spec, info)
        if spec.network not in (None, network):
            notes.append(f"{spec.network} needs images: {info.name} keeps {network}")
    if spec.precision not in {FULL_PRECISION, *(run.precision for run in runs)}:
        notes.append(f"no network here computes in {spec.precision}: all use {FULL_PRECISION}")
    notes += _note_observed_labels(spec, infos)
    calibrated = [name for name in spec.algorithms if catalog.get(name).calibrated]
    if calibrated and not all(problem.one_sample for problem in problems):
        names = ", ".join(calibrated)
        notes.append(
            f"calibration exists only for one-sample data: {names} skipped in other settings"
        )
    return list(dict.fromkeys(notes))


def _note_observed_labels(spec: Spec, infos: Mapping[str, DatasetInfo]) -> list[str]:
    """Return what the labels of datasets decide, and what is not known about them."""
    notes = []
    for info in infos.values():
        if not info.observed_setting:
            continue
        notes.append(f"{info.name} has observed labels: its setting and rate are its own")
        if info.truth != "all" and TRUE_PRIOR in spec.prior_source:
            notes.append(
                f"the class prior of {info.name} is not known: estimated by {priors.DEFAULT}"
            )
        entries = map(catalog.get, spec.algorithms)
        if names := [entry.name for entry in entries if _needs_unknown(entry, info)]:
            notes.append(f"{join_names(names)} needs what is not known of {info.name}: left out")
        if info.truth == "none":
            notes.append(f"nothing of {info.name} has a known truth: no test metrics, no OA")
    return notes


def _note_slow_work(runs: Sequence[RunSpec]) -> list[str]:
    """Return what takes long of runs on images, and is not part of an estimate of the time."""
    minutes = {run.algorithm: catalog.get(run.algorithm).minutes_on_images for run in runs}
    counts = Counter(run.algorithm for run in runs)
    notes = [
        f"{name} takes about {minutes[name]} minutes a run on images: {counts[name]} runs"
        for name in counts
        if minutes[name]
    ]
    estimated = [run for run in runs if run.prior_source != TRUE_PRIOR]
    if draws := {(run.problem, run.split, run.salt, run.prior_source) for run in estimated}:
        notes.append(
            f"estimating a prior on images takes up to {PRIOR_MINUTES} minutes: {len(draws)} priors"
        )
    return notes


# -- from runs to fleets -----------------------------------------------------------------


def group(
    runs: Iterable[RunSpec], limit: int | None = None, device: str = "cpu"
) -> list[FleetSpec]:
    """Group runs into fleets of at most ``limit`` runs (None: the network's capacity).

    The order is fixed, and the sizes of parts nearly equal.
    """
    alike: dict[tuple[Any, ...], list[RunSpec]] = {}
    for run in runs:
        alike.setdefault(_key_of_fleet(run), []).append(run)
    fleets = []
    for members in alike.values():
        capacity = limit or networks.get(members[0].network).capacity[device]
        parts = math.ceil(len(members) / capacity)
        bounds = [len(members) * part // parts for part in range(parts + 1)]
        fleets += [FleetSpec(tuple(members[a:b])) for a, b in pairwise(bounds)]
    return fleets


def _key_of_fleet(run: RunSpec) -> tuple[Any, ...]:
    """Return what the runs of a fleet share: the method's class, and all that shapes depend on.

    Cases, mechanisms, splits, configurations and calibrated forms may differ.
    """
    problem = run.problem
    # Where a dataset may lack positives in one case and not in another, shapes differ by case.
    case = problem.case if labeling.get_setting(problem.setting).may_lack else 0
    return (
        catalog.get(run.algorithm).fleet_key,
        problem.dataset,
        problem.setting,
        problem.rate,
        problem.prior,
        problem.labeled,
        problem.unlabeled,
        case,
        run.batch_size,
        run.network,
        run.precision,
        run.optimizer,
        run.steps,
        run.warmup,
        run.record_every,
        run.profile,
    )


def to_planned(fleets: Iterable[FleetSpec]) -> dict[str, dict[str, Any]]:
    """Return what a results folder keeps of its planned runs: by run id, its columns and fleet."""
    return {
        run.run_id: run.to_columns() | {"fleet": fleet.fleet_id}
        for fleet in fleets
        for run in fleet.runs
    }


def restore_fleets(
    runs: Iterable[RunSpec], planned: Mapping[str, Mapping[str, Any]]
) -> list[FleetSpec]:
    """Return runs in the fleets that they were planned in, which may lack some of their runs."""
    left = {run.run_id: run for run in runs}
    members: dict[str, list[RunSpec]] = {}
    for run_id, row in planned.items():
        if run_id in left:
            members.setdefault(row["fleet"], []).append(left[run_id])
    return [FleetSpec(tuple(some), name) for name, some in members.items()]
