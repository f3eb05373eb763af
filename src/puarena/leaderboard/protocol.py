"""Which suite a spec is, and the command that runs it."""

from __future__ import annotations

import shlex
from itertools import product
from typing import Any

from puarena import datasets
from puarena.errors import UserError
from puarena.experiments import suites
from puarena.experiments.spec import ALL, PROBLEM_LISTS, PROFILES, Spec, is_path

# Methods are the submitter's; problems and fixed hyperparameters are compared on their own.
IGNORED_FIELDS = ("algorithms", "plugins", "problems", "hyper")
NATURAL = 0.02  # copies of a table with natural class frequencies differ by a few rows, and so in their prior
OPTIONS = (
    "profile",
    "optimizer",
    "splits",
    "configs",
    "steps",
    "seed",
    "network",
    "precision",
)  # of the command line


def suite_of(spec: Spec) -> tuple[str, Spec]:
    """The suite that a spec runs methods of its own in, as it is run here; refuses a spec that is none.

    Methods and plugins are the submitter's; problems, protocol, splits and configurations are the suite's.
    """
    differing = {
        (suite, profile): differences(spec, suites.get(suite).override(profile=profile))
        for suite, profile in product(suites.names(), PROFILES)
    }
    # The suite whose name it bears, else the one that is nearest.
    suite, profile = min(
        differing,
        key=lambda key: (key[0] != spec.name, key[1] != spec.profile, len(differing[key])),
    )
    for key, words in differing.items():
        if not words:
            return key[0], suites.get(key[0]).override(profile=key[1])
    words = differing[suite, profile]
    methods = " ".join(
        [",".join(spec.algorithms), *(f"--plugin {shlex.quote(plugin)}" for plugin in spec.plugins)]
    )
    option = "" if profile == "definition" else f" --profile {profile}"
    raise UserError(
        f"the spec '{spec.name}' is not the suite '{suite}' ({'; '.join(words[:3])}); make the results with "
        f"'puarena run {suite}{option} --algorithms {methods} --out NEW'"
    )


def departures(spec: Spec) -> list[str]:
    """How results of a spec depart from the suite whose name it bears, in words; nothing where they do not."""
    if spec.name not in suites.names():
        return [f"'{spec.name}' is no suite that comes with the package"]
    suite = suites.get(spec.name).override(profile=spec.profile)
    words = differences(spec, suite)
    if spec.configs == 1 < suite.configs:
        words.append("with one configuration, the default, nothing is searched")
    return words


def differences(spec: Spec, suite: Spec) -> list[str]:
    """Where a spec departs from a suite, in words; the choices that a profile makes count as made."""
    words = [
        f"{name} is {theirs}, and {ours} in the suite"
        for name, (theirs, ours) in spec.differences(suite, IGNORED_FIELDS).items()
    ]
    fixed = spec.hyper != suite.hyper
    if fixed:
        words.append(
            "it fixes other hyperparameters than the suite"
            if spec.hyper
            else "it fixes no hyperparameters"
        )
    missing = sorted(problems_of(suite) - problems_of(spec))
    foreign = sorted(problems_of(spec) - problems_of(suite))
    if missing:
        words.append(f"it lacks {_listed(missing)}")
    if foreign:
        words.append(f"the suite has no {_listed(foreign)}")
    return words


def problems_of(spec: Spec) -> set[tuple[Any, ...]]:
    """Every problem of a spec: dataset, case, setting, rate, prior (0: the dataset's own) and labeling."""
    problems = set()
    for part in spec.problems:
        info = None if is_path(part.dataset) else datasets.info(part.dataset)
        own, copies = (
            (info.default_prior, 0.0 if info.balanced else NATURAL) if info else (0.0, 0.0)
        )
        for values in product(*(getattr(part, name) for name in PROBLEM_LISTS)):
            case, setting, rate, prior, mechanism = values
            known = prior is None or abs(prior - own) <= copies
            problems.add((part.dataset, case, setting, rate, own if known else prior, mechanism))
    return problems


def command_of(spec: Spec) -> str | None:
    """The ``puarena run`` that makes these runs and no others, if a suite and its options say it."""
    if any(None in part.priors and len(part.priors) > 1 for part in spec.problems):
        return None  # no option says: the dataset's own prior and another
    for name in suites.names():
        suite = suites.get(name)
        chosen = {
            key: getattr(spec, key) for key in OPTIONS if getattr(spec, key) != getattr(suite, key)
        }
        filters = {}
        for key in ("datasets", *PROBLEM_LISTS[:4]):
            ours, theirs = _values(spec, key), _values(suite, key)
            if set(ours) != set(theirs):
                filters[key] = ours
        usual = suite.override(**chosen).resolve().algorithms
        more = (ALL, *(method for method in spec.algorithms if method not in usual))
        for methods in ({}, {"algorithms": more}, {"algorithms": spec.algorithms}):
            candidate = suite.override(**chosen, **filters, **methods, plugins=spec.plugins)
            if candidate.resolve().hash() == spec.resolve().hash():
                words = [f"--{key} {value}" for key, value in chosen.items()]
                lists = {**filters, **methods}
                words += [
                    f"--{key} {','.join(str(value) for value in values)}"
                    for key, values in lists.items()
                ]
                words += [f"--plugin {shlex.quote(plugin)}" for plugin in spec.plugins]
                return " ".join(["puarena run", name, *words])
    return None


def _values(spec: Spec, key: str) -> tuple[Any, ...]:
    if key == "datasets":
        return tuple(dict.fromkeys(part.dataset for part in spec.problems))
    return tuple(dict.fromkeys(value for part in spec.problems for value in getattr(part, key)))


def _listed(problems: list[tuple[Any, ...]]) -> str:
    words = [
        f"{dataset} case {case} ({setting}, {rate:.0%}, prior {prior:.3g})"
        for dataset, case, setting, rate, prior, _ in problems
    ]
    return ", ".join(words[:4]) + (f" and {len(words) - 4} more" if len(words) > 4 else "")
