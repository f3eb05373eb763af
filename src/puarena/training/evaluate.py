"""Records: test metrics and validation criteria of all rows, computed on the device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from puarena import metrics
from puarena.algorithms import Algorithm
from puarena.training.passes import Inputs, TrainingPasses, evaluation_mode, over


@dataclass(frozen=True)
class Held:
    """Index sets ``[runs, n]`` and labels held out of training."""

    p_val: Tensor
    u_val: Tensor
    test: Tensor
    label_u_val: Tensor
    label_test: Tensor
    propensity_p: Tensor | None = (
        None  # true chances of a label of the validation positives, where known
    )


def record(
    algorithm: Algorithm, inputs: Inputs, held: Held, passes: TrainingPasses
) -> dict[str, Tensor]:
    """Return every stored value as ``[runs]`` float64, and ``finite``: whether a row's outputs all are.

    Without test points there are no test metrics.
    """
    with evaluation_mode(algorithm):
        threshold = algorithm.threshold(passes)
        cut = torch.zeros_like(algorithm.prior) if threshold is None else threshold

        def outputs(index: Tensor) -> tuple[Tensor, Tensor]:
            decision, score = over(inputs, index, algorithm.outputs)
            return decision - cut.unsqueeze(-1), score

        decision_p, score_p = outputs(held.p_val)
        decision_u, score_u = outputs(held.u_val)
        validation = metrics.Validation(
            decision_p,
            decision_u,
            score_p,
            score_u,
            algorithm.prior,
            algorithm.one_sample,
            held.label_u_val,
            held.propensity_p,
        )
        values = metrics.evaluate(validation)
        decisions = [decision_p, decision_u]
        if held.test.shape[1] > 0:
            decision, score = outputs(held.test)
            values.update(metrics.test_metrics(decision, score, held.label_test))
            decisions.append(decision)
        values.update(
            {f"val_{name}": value.double() for name, value in algorithm.records().items()}
        )
        values["finite"] = torch.isfinite(torch.cat(decisions, -1)).all(-1).double()
    return values
