"""The priors of tables with natural class frequencies, which only their rows tell."""

from __future__ import annotations

from pathlib import Path

from puarena import datasets
from puarena.experiments.spec import ProblemSpec, Spec, is_path


def with_natural_priors(spec: Spec, folder: str | Path | None) -> Spec:
    """The spec with the priors of tables, which are those of their rows, spelled out: later nobody needs the rows."""
    parts: list[ProblemSpec] = []
    for part in spec.problems:
        if None not in part.priors or is_path(part.dataset) or datasets.info(part.dataset).balanced:
            parts.append(part)
            continue
        table = datasets.load(part.dataset, folder)
        for case in part.cases:
            priors = tuple(
                table.prior_of(case) if prior is None else prior for prior in part.priors
            )
            parts.append(part.model_copy(update={"cases": (case,), "priors": priors}))
    return spec.model_copy(update={"problems": tuple(parts)})
