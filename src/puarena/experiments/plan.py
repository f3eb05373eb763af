"""From a spec to runs, and from runs to fleets: runs that are trained together."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from puarena import catalog, datasets, networks, plugins
from puarena.algorithms.core import configurations
from puarena.algorithms.core.entry import Entry
from puarena.datasets import Views
from puarena.datasets.dataset import DatasetInfo
from puarena.errors import UserError
from puarena.experiments.natural_priors import with_natural_priors
from puarena.experiments.problems import PROBLEM_LISTS, check_prior, check_row, is_path
from puarena.experiments.profiles import PROFILES
from puarena.experiments.spec import EVERY, FULL_PRECISION, PROTOCOL, Spec
from puarena.experiments.values import ESTIMATE, OPTIMIZER, TRUE_PRIOR
from puarena.experiments.words import counted, enumerated
from puarena.pu import Problem, labeling
from puarena.results.planned import PlannedRun
from puarena.utils.identity import digest

LARGEST = 250_000  # runs of a plan
ESTIMATING = 10  # minutes of one core on images to estimate a prior


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
    calibration: str | None  # None for an algorithm that is not a calibrated one
    profile: str
    source: str  # digest of the plugin files the algorithm and the network come from; empty for built-in ones
    seed: int
    prior_source: str = TRUE_PRIOR  # where the prior that the algorithm is told comes from
    precision: str = FULL_PRECISION  # of the network's activations
    optimizer: str = PROTOCOL  # whose

    @property
    def views(self) -> Views:
        """The views of the training inputs, as the profile has them."""
        return datasets.views_of(self.problem.dataset, self.profile)

    @property
    def salt(self) -> str:
        """What the draw of the data depends on beside the problem and the split: nothing, or the run itself."""
        return f"{self.algorithm}:{self.config}" if PROFILES[self.profile].own_data else ""

    @cached_property
    def run_id(self) -> str:
        """Sixteen hexadecimal digits over all fields."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content["problem"] = self.problem.identity()
        for name, only in (
            ("prior_source", TRUE_PRIOR),
            ("precision", FULL_PRECISION),
            ("optimizer", PROTOCOL),
        ):
            if content[name] == only:  # as it was before there was a choice
                del content[name]
        # Ten digits: the last bits of a drawn value may differ between two machines' mathematics libraries.
        return digest(
            {
                key: f"{value:.10g}" if isinstance(value, float) else value
                for key, value in content.items()
            }
        )


@dataclass(frozen=True)
class FleetSpec:
    """Runs that are trained together: equal shapes, algorithms of one class."""

    runs: tuple[RunSpec, ...]
    group: str = field(default="", compare=False)  # the fleet it is a part of, as it was planned

    @property
    def claim(self) -> str:
        """The name under which whoever trains it claims it: that of the whole, for all its parts."""
        return self.group or self.fleet_id

    @cached_property
    def fleet_id(self) -> str:
        """Sixteen hexadecimal digits over the runs."""
        return digest(sorted(run.run_id for run in self.runs))

    @property
    def first(self) -> RunSpec:
        """A run that has what all of them share."""
        return self.runs[0]

    @property
    def fills_gpu(self) -> bool:
        """Is it enough for a GPU on its own?"""
        return networks.get(self.first.network).fills_gpu

    @property
    def steps(self) -> int:
        """Run-steps: the steps of all runs together, warm-up included."""
        return sum(run_steps(run) for run in self.runs)

    @property
    def label(self) -> str:
        """A few words for progress and errors."""
        names = " + ".join(dict.fromkeys(run.algorithm for run in self.runs))
        problem = self.first.problem
        return f"{names} on {problem.dataset} ({problem.setting}, {problem.rate:.0%}, batch {self.first.batch_size})"


@dataclass(frozen=True)
class Plan:
    """All runs of a spec, and what to say about those that were left out."""

    spec: Spec
    runs: tuple[RunSpec, ...]
    notes: tuple[str, ...]
    sources: dict[str, str]  # dataset name -> what data.load takes

    @property
    def run_ids(self) -> list[str]:
        """The identities of all planned runs."""
        return [run.run_id for run in self.runs]


def make_plan(spec: Spec, folder: str | Path | None = None) -> Plan:
    """Expand a spec into its runs, senseless ones left out with a note; ``folder`` has the datasets' files."""
    spec = spec.resolve()
    _check_count(spec)
    spec = with_natural_priors(spec, folder)
    runs: dict[str, RunSpec] = {}
    skipped: dict[str, None] = {}
    sources: dict[str, str] = {}
    images: set[str] = set()
    lacking: list[str] = []
    rows: dict[Problem, Problem] = {}  # what a table tells apart
    tables: dict[
        str, str
    ] = {}  # datasets that cannot have the network of the spec, and the one they keep
    for part in spec.problems:
        info = datasets.info(part.dataset)
        if sources.setdefault(info.name, part.dataset) != part.dataset:
            raise UserError(
                f"two datasets of the spec are called '{info.name}'; rename one of them"
            )
        network = spec.network or info.network
        if info.kind == "image":
            images.add(info.name)
        elif networks.get(network).images:
            network = tables[info.name] = info.network
        cases = _cases(info, part.cases, lacking)
        lists = (cases, part.settings, part.rates, part.priors, part.labeling)
        for case, setting, rate, prior, mechanism in product(*lists):
            known = _prior(part.dataset, case) if prior is None else prior
            problem = Problem(
                info.name, case, setting, rate, known, mechanism, part.labeled, part.unlabeled
            )
            check_row(problem, rows)
            if (
                part.labeled is None and prior is not None
            ):  # the protocol's own problems go up to it
                check_prior(problem, rate, known)
            for algorithm in spec.algorithms:
                if catalog.get(algorithm).calibrated and not labeling.get(setting).one_sample:
                    skipped[algorithm] = None
                    continue
                for run in _runs_of(spec, problem, algorithm, network):
                    runs.setdefault(run.run_id, run)
    notes = list(dict.fromkeys(lacking))
    unused = [name for name in spec.hyper if name != EVERY and name not in spec.algorithms]
    if unused:
        notes.append(f"hyper has values for {enumerated(unused)}, which this does not run")
    for kept in dict.fromkeys(tables.values()):
        having = [name for name in tables if tables[name] == kept]
        keep = "keep" if len(having) > 1 else "keeps"
        notes.append(f"{spec.network} needs images: {enumerated(having)} {keep} {kept}")
    if spec.precision != FULL_PRECISION and all(
        run.precision == FULL_PRECISION for run in runs.values()
    ):
        notes.append(
            f"no network here computes in {spec.precision}: everything is {FULL_PRECISION}"
        )
    if skipped:
        notes.append(
            f"calibration exists only for one-sample data: {', '.join(skipped)} skipped in other settings"
        )
    if not runs:
        raise UserError("nothing is left to run: " + "; ".join(notes))
    notes += _slow(run for run in runs.values() if run.problem.dataset in images)
    return Plan(spec, tuple(runs.values()), tuple(notes), sources)


def _check_count(spec: Spec) -> None:
    """Refuse what nobody can have meant, before it fills the memory."""
    problems = sum(
        math.prod(len(getattr(part, field)) for field in PROBLEM_LISTS) for part in spec.problems
    )
    runs = problems * len(spec.algorithms) * len(spec.prior_source) * spec.splits * spec.configs
    if runs > LARGEST:
        raise UserError(
            f"{counted(spec.splits, 'split')} and {counted(spec.configs, 'configuration')} of "
            f"{counted(len(spec.algorithms), 'algorithm')} on {counted(problems, 'problem')} are {runs:,} runs, and "
            f"a plan has at most {LARGEST:,}; lower --splits or --configs"
        )


def _cases(info: DatasetInfo, cases: tuple[int, ...], notes: list[str]) -> list[int]:
    """The cases that a dataset has; a note about the others."""
    kept = [case for case in cases if case in info.cases]
    if not kept:
        has = enumerated(map(str, info.cases))
        word = f"case {cases[0]}" if len(cases) == 1 else f"cases {enumerated(map(str, cases))}"
        raise UserError(f"dataset '{info.name}' has no {word}; it has {has}")
    if len(kept) < len(cases):
        missing = enumerated(str(case) for case in cases if case not in kept)
        notes.append(f"{info.name} has no case {missing}: left out")
    return kept


def _prior(dataset: str, case: int) -> float:
    """The prior a problem has when the spec names none: naming it must not make another run."""
    return (datasets.load(dataset) if is_path(dataset) else datasets.info(dataset)).prior_of(case)


def _runs_of(spec: Spec, problem: Problem, algorithm: str, network: str) -> Iterable[RunSpec]:
    """All splits and configurations of one algorithm on one problem."""
    entry = catalog.get(algorithm)
    hypers = entry.hypers
    fixed = {**spec.hyper.get(EVERY, {}), **spec.hyper.get(algorithm, {})}
    own = {name: fixed[name] for name in fixed if name not in OPTIMIZER}
    stages = entry.extra_stages > 0
    classic = entry.fits  # at once: no steps, no network, and nothing is searched
    network = networks.DEFAULT if classic else network
    kind = networks.get(network)
    configs = 1 if classic else spec.configs
    sources = spec.prior_source[:1] if classic and not entry.needs_prior else spec.prior_source
    for split, config, prior_source in product(range(spec.splits), range(configs), sources):
        trial = split if spec.draws == "per-split" else 0
        drawn = configurations.draw(
            config, trial, kind, hypers, PROFILES[spec.profile].default_batch
        )
        values = {name: fixed.get(name, getattr(drawn, name)) for name in OPTIMIZER}
        yield RunSpec(
            problem=problem,
            algorithm=algorithm,
            split=split,
            config=config,
            lr=float(values["lr"]),
            batch_size=int(values["batch_size"]),
            momentum=float(values["momentum"]),
            hyper=tuple(sorted({**drawn.hyper, **own}.items())),
            steps=1 if classic else spec.steps,
            warmup=spec.warmup if stages else 0,
            record_every=1 if classic else spec.record_every,
            network=network,
            calibration=spec.calibration if entry.calibrated else None,
            profile=spec.profile,
            source=plugin_source(entry, kind),
            # Not from the steps or how often is recorded: looking closer must not change the training.
            seed=int(digest([spec.seed, problem.identity(), algorithm, split, config]), 16) >> 1,
            prior_source=prior_source,
            precision=spec.precision if spec.precision in kind.precisions else FULL_PRECISION,
            optimizer=spec.optimizer if entry.authors_optimizer else PROTOCOL,
        )


def _slow(runs: Iterable[RunSpec]) -> list[str]:
    """What takes long on images and is no training: its time is not in an estimate."""
    draws: set[Any] = set()
    fits: Counter[tuple[str, int]] = Counter()
    for run in runs:
        minutes = catalog.get(run.algorithm).minutes_on_images
        if minutes:
            fits[run.algorithm, minutes] += 1
        if run.prior_source != TRUE_PRIOR:
            draws.add((run.problem, run.split, run.salt, run.prior_source))
    notes = []
    if draws:
        notes.append(
            f"estimating a prior on images takes up to {ESTIMATING} minutes each, and there are {len(draws)}"
        )
    for (name, minutes), count in fits.items():
        notes.append(
            f"{name} takes about {minutes} minutes a run on images, and there are {count} runs"
        )
    return notes


def group(
    runs: Iterable[RunSpec], limit: int | None = None, device: str = "cpu"
) -> list[FleetSpec]:
    """Runs as fleets of at most ``limit`` (None: the network's capacity) and nearly equal sizes, in a fixed order.

    Cases, ways of labeling, splits, configurations and the calibrated form travel together where their shapes agree;
    in a setting where a dataset may lack positives in one case and not in the other, each case has its own fleets.
    """
    alike: dict[tuple[Any, ...], list[RunSpec]] = {}
    for run in runs:
        method, problem = catalog.get(run.algorithm).shares_fleet_with, run.problem
        case = problem.case if labeling.get(problem.setting).may_lack else 0
        network = run.batch_size, run.network, run.precision, run.optimizer
        shape = (*network, run.steps, run.warmup, run.record_every, run.profile)
        sizes = problem.rate, problem.prior, problem.labeled, problem.unlabeled
        key = (method, problem.dataset, problem.setting, *sizes, case, *shape)
        alike.setdefault(key, []).append(run)
    fleets = []
    for members in alike.values():
        parts = -(-len(members) // (limit or networks.get(members[0].network).capacity[device]))
        bounds = [len(members) * part // parts for part in range(parts + 1)]
        fleets += [FleetSpec(tuple(members[a:b])) for a, b in pairwise(bounds)]
    return fleets


def planned_runs(fleets: Iterable[FleetSpec]) -> tuple[PlannedRun, ...]:
    """What a results folder keeps of its runs."""
    return tuple(
        PlannedRun(
            run_id=run.run_id,
            fleet=fleet.fleet_id,
            dataset=run.problem.dataset,
            case=run.problem.case,
            setting=run.problem.setting,
            rate=run.problem.rate,
            prior=run.problem.prior or 0.0,
            labeling=run.problem.labeling,
            algorithm=run.algorithm,
            profile=run.profile,
            prior_source=run.prior_source.removeprefix(ESTIMATE),
            split=run.split,
            config=run.config,
        )
        for fleet in fleets
        for run in fleet.runs
    )


def as_planned(runs: Iterable[RunSpec], planned: Iterable[PlannedRun]) -> list[FleetSpec]:
    """Runs in the fleets that they were planned in, which then may lack some of their runs."""
    left = {run.run_id: run for run in runs}
    members: dict[str, list[RunSpec]] = {}
    for each in planned:
        if each.run_id in left:
            members.setdefault(each.fleet, []).append(left.pop(each.run_id))
    return [FleetSpec(tuple(some), name) for name, some in members.items()]


def run_steps(run: RunSpec) -> int:
    """Steps of one run: those of its objective, and the warm-up its algorithm asks for on top."""
    return run.steps + catalog.get(run.algorithm).extra_stages * run.warmup


def plugin_source(entry: Entry, network: type[networks.RunNetwork]) -> str:
    """A digest of the files that plugins' classes come from and import beside them; empty for built-in classes."""
    foreign = [entry.plugin_file] if entry.plugin_file else []
    if networks.is_plugin(network.name):
        foreign.append(inspect.getfile(network))
    files = list(dict.fromkeys(plugins.digest_of(file) for file in foreign))
    return files[0] if len(files) == 1 else digest(files) if files else ""
