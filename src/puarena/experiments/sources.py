"""The datasets of a plan, the PU data drawn from them, and the class priors that runs are given."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from puarena import datasets
from puarena.experiments.estimated_prior import Estimates, with_prior
from puarena.experiments.plan import Plan, RunSpec
from puarena.pu import check_unseen, draw_pu_data

if TYPE_CHECKING:
    from puarena.datasets import Dataset
    from puarena.pu import HiddenLabels, Problem, PUData


class DataSource:
    """The datasets of a plan and their PU draws, each loaded and drawn once.

    Sent to another process it takes the estimated priors along and loads the datasets there.
    """

    def __init__(
        self, plan: Plan, folder: str | Path | None = None, estimates: Estimates | None = None
    ) -> None:
        self.plan, self.folder = plan, folder
        self.estimates = Estimates() if estimates is None else estimates
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
        """A dataset's features on a device, and as evaluation sees them where that differs by more than a view."""
        source = self.datasets[dataset]
        features = torch.as_tensor(source.features).to(device)
        evaluation = (
            None if source.evaluation is None else torch.as_tensor(source.evaluation).to(device)
        )
        if device == "cuda":
            torch.cuda.synchronize()  # fleets read them from streams of their own
        return features, evaluation

    def of(self, run: RunSpec) -> tuple[PUData, HiddenLabels]:
        """A run's data with the prior it is given: the true one, or an estimate that is made once per draw."""
        pu, hidden = self.draw(run.problem, run.split, run.salt)
        prior = self.estimates.of(run, self.datasets[run.problem.dataset], pu)
        return (pu if prior is None else with_prior(pu, prior)), hidden

    def check(self) -> None:
        """Draw everything before anything is trained, so that data that cannot be supplied is known at once."""
        for run in self.plan.runs:
            self.draw(run.problem, run.split, run.salt)

    def revisions(self) -> dict[str, str]:
        """What the built-in datasets hold whose files have no checksum that is known ahead."""
        open_ended = [
            name for name, source in self.plan.sources.items() if not datasets.is_pinned(source)
        ]
        return {name: self.datasets[name].revision for name in open_ended}

    def estimate_priors(self, runs: Iterable[RunSpec]) -> None:
        """Estimate the priors of these runs here, once, for all that train them."""
        for run in runs:
            self.of(run)


def check(plan: Plan, folder: str | Path | None = None) -> None:
    """Refuse, in the words of a run, what cannot be drawn; of datasets that are not here yet, as far as is known."""
    source = DataSource(plan, folder)
    for problem in dict.fromkeys(run.problem for run in plan.runs):
        name = plan.sources[problem.dataset]
        if datasets.is_here(name, folder):
            source.draw(problem, 0, "")
        else:
            check_unseen(datasets.info(name), problem)
