"""Evaluation of all runs on the device: passes over whole index sets, test metrics and criteria."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from puarena import metrics
from puarena.algorithms import Algorithm
from puarena.datasets import View
from puarena.errors import UserError

_ELEMENTS = {
    "cpu": 1 << 24,
    "cuda": 1 << 22,
}  # activations of the widest layer that a chunk may have
_WIDE_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 27}  # and in a convolutional network
_WIDE = 4096  # activations per example from which a network counts as one


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Switch a module to evaluation mode without gradients, and every part back afterwards."""
    was = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in was:
            part.training = training


def take_rows(features: Tensor, index: Tensor) -> Tensor:
    """Return ``features[index]`` for an index of any shape, in one copy of rows."""
    return features.index_select(0, index.flatten()).view(*index.shape, *features.shape[1:])


@dataclass(frozen=True)
class Inputs:
    """The inputs that evaluation sees: stored features, in the evaluation view where there is one.

    ``width`` is the largest number of activations of one example in the network.
    """

    features: Tensor
    view: View | None = None
    width: int = 512
    dtype: torch.dtype = torch.float32

    def __call__(self, index: Tensor) -> Tensor:
        """Return the inputs at ``[runs, k]`` indices, ``[runs, k, …]``."""
        stored = take_rows(self.features, index)
        return (stored if self.view is None else self.view(stored, {})).to(self.dtype)

    @property
    def wide(self) -> bool:
        """Is the network a convolutional one, whose steps are long?"""
        return self.width > _WIDE

    def chunk(self, runs: int) -> int:
        """Return how many examples of every run go through the network at once."""
        budget = _WIDE_ELEMENTS if self.wide else _ELEMENTS
        return max(
            1,
            budget[self.features.device.type] // (runs * max(self.width, self.features[0].numel())),
        )


def map_chunks(
    inputs: Inputs, index: Tensor, function: Callable[[Tensor], tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """Apply ``function`` to the inputs of ``index`` (``[runs, n]``) chunk by chunk and join along
    the last axis.
    """
    runs, n = index.shape
    chunk = inputs.chunk(runs)
    parts = [function(inputs(index[:, i : i + chunk])) for i in range(0, n, chunk)]
    return tuple(torch.cat(p, -1) for p in zip(*parts, strict=True))


@dataclass(frozen=True, slots=True)
class TrainingPasses:
    """Logits of whole training and validation sets, for hooks between steps.

    It has the functions of ``Passes`` and nothing else: inputs and positions are known to these
    functions only, so that a hook cannot take test points, or points by their position.
    """

    p: Callable[[nn.Module], Tensor]
    u: Callable[[nn.Module], Tensor]
    val_p: Callable[[nn.Module], Tensor]
    val_u: Callable[[nn.Module], Tensor]
    x_p: Callable[[Tensor], Tensor]


def make_passes(
    inputs: Inputs,
    p_train: Tensor,
    u_train: Tensor,
    p_val: Tensor,
    u_val: Tensor,
    gather_partners: Callable[[Tensor], Tensor],
) -> TrainingPasses:
    """Return what hooks receive of these index sets, ``[runs, n]`` each."""

    def pass_over(index: Tensor) -> Callable[[nn.Module], Tensor]:
        def evaluate(network: nn.Module) -> Tensor:
            with evaluation_mode(network):
                return map_chunks(inputs, index, lambda x: (network(x),))[0]

        return evaluate

    return TrainingPasses(
        p=pass_over(p_train),
        u=pass_over(u_train),
        val_p=pass_over(p_val),
        val_u=pass_over(u_val),
        x_p=lambda position: gather_partners(p_train.gather(1, position)),
    )


@dataclass(frozen=True)
class HeldOut:
    """Index sets ``[runs, n]`` and labels held out of training, and what criteria know of runs.

    ``prior`` and ``one_sample`` are the engine's own: an algorithm may change its copies.
    """

    p_val: Tensor
    u_val: Tensor
    test: Tensor
    label_u_val: Tensor | None  # None: not known
    label_test: Tensor | None
    prior: Tensor  # [runs]
    one_sample: Tensor
    labeled_test: Tensor | None = None  # test points with an observed label
    propensity_p: Tensor | None = (
        None  # true chances of a label of the validation positives, where known
    )


# Stored columns ``val_<name>`` that are not an algorithm's own: criteria, the counts that criteria
# are computed from again when results are read, and the strength of biased labels.
RESERVED_RECORDS = frozenset(
    {c.column.removeprefix("val_") for c in metrics.CRITERIA.values()}
    | {f"{count}_{side}" for count in ("positive", "size") for side in ("p", "u")}
    | {"label_strength", "posterior_auc"}
)


def name_records(records: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the values that an algorithm stores of its own, by column."""
    if reserved := sorted(RESERVED_RECORDS & records.keys()):
        raise UserError(
            f"records() of an algorithm returns '{reserved[0]}', and the column "
            f"'val_{reserved[0]}' is the benchmark's; choose another name",
            "invalid-plugin",
        )
    return {f"val_{name}": value.double() for name, value in records.items()}


def evaluate_runs(
    algorithm: Algorithm, inputs: Inputs, held: HeldOut, passes: TrainingPasses
) -> dict[str, Tensor]:
    """Return every stored value as ``[runs]`` float64, and ``finite``: whether a row's outputs all
    are.

    Without test points, or without their true labels, there are no test metrics.
    """
    with evaluation_mode(algorithm):
        threshold = algorithm.threshold(passes)
        cut = torch.zeros_like(held.prior) if threshold is None else threshold

        def outputs(index: Tensor) -> tuple[Tensor, Tensor]:
            decision, score = map_chunks(inputs, index, algorithm.outputs)
            return decision - cut.unsqueeze(-1), score

        decision_p, score_p = outputs(held.p_val)
        decision_u, score_u = outputs(held.u_val)
        validation = metrics.Validation(
            decision_p,
            decision_u,
            score_p,
            score_u,
            held.prior,
            held.one_sample,
            held.label_u_val,
            held.propensity_p,
        )
        values = metrics.compute_criteria(validation)
        decisions = [decision_p, decision_u]
        if held.test.shape[1] > 0 and held.label_test is not None:
            decision, score = outputs(held.test)
            labels = held.label_test, held.labeled_test
            values.update(metrics.compute_metrics(decision, score, *labels))
            decisions.append(decision)
        values.update(name_records(algorithm.records()))
        values["finite"] = torch.isfinite(torch.cat(decisions, -1)).all(-1).double()
    return values
