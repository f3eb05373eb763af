"""Runs that are told an estimated class prior instead of the true one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from puarena.datasets import Dataset
from puarena.experiments.values import ESTIMATE, TRUE_PRIOR
from puarena.pu import PUData

if TYPE_CHECKING:
    from puarena.experiments.plan import RunSpec

EDGE = 0.01  # the share of positives inside U is kept this far from 0 and 1


@dataclass
class Estimates:
    """Estimated priors, each made once per problem, split, salt and method."""

    known: dict[tuple[Any, ...], float] = field(default_factory=dict)

    def of(self, run: RunSpec, dataset: Dataset, pu: PUData) -> float | None:
        """The prior a run is told, from all its labeled and unlabeled points; None: the true one."""
        if run.prior_source == TRUE_PRIOR:
            return None
        key = run.problem, run.split, run.salt, run.prior_source
        if key not in self.known:
            self.known[key] = estimate(
                dataset, pu, run.prior_source.removeprefix(ESTIMATE), run.split
            )
        return self.known[key]


def estimate(dataset: Dataset, pu: PUData, method: str, seed: int) -> float:
    """Estimate the prior of one draw, training and validation points together; true labels are not looked at."""
    import warnings

    from puarena.priors import PriorWarning, estimate_prior

    p, u = np.concatenate([pu.p_train, pu.p_val]), np.concatenate([pu.u_train, pu.u_val])
    x = dataset.table(np.concatenate([p, u]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorWarning)
        answer = estimate_prior(
            x, np.repeat([1, 0], [len(p), len(u)]), pu.setting.code, method, seed, n_bootstrap=0
        )
    inside = min(max(answer.details["unlabeled_prior"], EDGE), 1 - EDGE)
    return float(pu.setting.prior_from_u(inside, pu.rate))


def with_prior(pu: PUData, prior: float) -> PUData:
    """The same draw with another prior, and the prior inside U that follows from it."""
    return replace(pu, prior=prior, shifted_prior=pu.setting.prior_in_u(prior, pu.rate))
