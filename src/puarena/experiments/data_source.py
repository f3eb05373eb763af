"""The data of a plan: its datasets, the PU data drawn from them, and the priors of its runs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from puarena import datasets
from puarena.errors import UserError
from puarena.experiments.plan import Plan, RunSpec
from puarena.experiments.spec import ESTIMATE_PREFIX, GIVEN_PREFIX, TRUE_PRIOR, is_path
from puarena.pu import check_unseen, draw_pu_data

if TYPE_CHECKING:
    from puarena.datasets import Dataset
    from puarena.pu import HiddenLabels, Problem, PUData

PRIOR_MARGIN = 0.01  # an estimated share of positives in U is kept this far from 0 and 1


class DataSource:
    """The datasets of a plan and their PU draws, each loaded, drawn and estimated once.

    Pickling keeps the estimated priors and drops the data, which the other process loads itself.
    """

    def __init__(
        self,
        plan: Plan,
        folder: str | Path | None = None,
        estimates: dict[tuple[Any, ...], float] | None = None,
    ) -> None:
        self.plan, self.folder = plan, folder
        self.estimates = {} if estimates is None else estimates  # by draw and method
        self.draw = lru_cache(maxsize=None)(self._draw)
        self.features = lru_cache(maxsize=None)(self._features)

    def __reduce__(self) -> tuple[Any, ...]:
        return DataSource, (self.plan, self.folder, self.estimates)

    @cached_property
    def datasets(self) -> dict[str, Dataset]:
        """The datasets by name."""
        return {
            name: datasets.load(source, self.folder) for name, source in self.plan.sources.items()
        }

    def _draw(self, problem: Problem, split: int, salt: str) -> tuple[PUData, HiddenLabels]:
        return draw_pu_data(self.datasets[problem.dataset], problem, split, salt)

    def _features(self, dataset: str, device: str) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return a dataset's features on a device, and those of evaluation if they differ."""
        source = self.datasets[dataset]
        features = torch.as_tensor(source.features).to(device)
        evaluation = None
        if source.evaluation is not None:
            evaluation = torch.as_tensor(source.evaluation).to(device)
        if device == "cuda":
            # Fleets read the features in streams of their own, which do not wait for this copy.
            torch.cuda.synchronize()
        return features, evaluation

    def draw_for(self, run: RunSpec) -> tuple[PUData, HiddenLabels]:
        """Return a run's data with the prior that its algorithm is given, true or estimated."""
        pu, hidden = self.draw(run.problem, run.split, run.salt)
        if run.prior_source == TRUE_PRIOR:
            return pu, hidden
        if run.prior_source.startswith(GIVEN_PREFIX):
            return replace_prior(pu, read_given_prior(run, pu)), hidden
        key = run.problem, run.split, run.salt, run.prior_source
        if key not in self.estimates:
            method = run.prior_source.removeprefix(ESTIMATE_PREFIX)
            dataset = self.datasets[run.problem.dataset]
            self.estimates[key] = estimate_prior_of_draw(dataset, pu, method, run.split)
        return replace_prior(pu, self.estimates[key]), hidden

    def check(self) -> None:
        """Draw the data of all runs, so that errors are found before anything is trained."""
        for run in self.plan.runs:
            pu, _ = self.draw(run.problem, run.split, run.salt)
            if run.prior_source.startswith(GIVEN_PREFIX):
                read_given_prior(run, pu)

    def revisions(self) -> dict[str, str]:
        """Return digests of datasets whose names do not fix their content (``Spec.hash``)."""
        revisions = {}
        for name, source in self.plan.sources.items():
            revision = self.datasets[name].revision
            if is_path(source):
                revisions[source] = f"{name}:{revision}"
            elif not datasets.is_pinned(source):
                revisions[name] = revision
        return revisions


def check_problems(plan: Plan, folder: str | Path | None = None) -> None:
    """Refuse problems that cannot be drawn; without a dataset's files, judge by its record."""
    source = DataSource(plan, folder)
    for problem in dict.fromkeys(run.problem for run in plan.runs):
        name = plan.sources[problem.dataset]
        if problem.observed or datasets.is_here(name, folder):
            source.draw(problem, 0, "")
        else:
            check_unseen(datasets.info(name), problem)


def estimate_prior_of_draw(dataset: Dataset, pu: PUData, method: str, seed: int) -> float:
    """Estimate the prior of a draw from its training and validation points, without true labels."""
    from puarena.priors import PriorWarning, estimate_prior

    p, u = np.concatenate([pu.p_train, pu.p_val]), np.concatenate([pu.u_train, pu.u_val])
    x = dataset.table(np.concatenate([p, u]))
    s = np.repeat([1, 0], [len(p), len(u)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorWarning)
        answer = estimate_prior(x, s, pu.setting.code, method, seed, n_bootstrap=0)
    inside = min(max(answer.details["unlabeled_prior"], PRIOR_MARGIN), 1 - PRIOR_MARGIN)
    return float(pu.setting.prior_from_u(inside, pu.rate))


def read_given_prior(run: RunSpec, pu: PUData) -> float:
    """Return the prior that a run's spec gives, if it is possible."""
    prior = float(run.prior_source.removeprefix(GIVEN_PREFIX))
    lowest = pu.setting.lowest_prior(pu.rate)
    if prior <= lowest:
        raise UserError(
            f"{run.problem.label()}: the prior {prior:g} is given, but {lowest:.3g} of the rows "
            "are labeled positives already; give a greater one",
            "conflict",
        )
    return prior


def replace_prior(pu: PUData, prior: float) -> PUData:
    """Return the same draw with another prior, and the prior inside U that follows from it."""
    return replace(pu, prior=prior, shifted_prior=pu.setting.prior_in_u(prior, pu.rate))
