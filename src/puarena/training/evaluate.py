"""Evaluation of all runs on the device: passes over whole index sets, test metrics and criteria."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from puarena import metrics
from puarena.algorithms import Algorithm
from puarena.datasets import View

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


class TrainingPasses:
    """Logits of whole training and validation sets, for hooks between steps."""

    def __init__(
        self,
        inputs: Inputs,
        p_train: Tensor,
        u_train: Tensor,
        p_val: Tensor,
        u_val: Tensor,
        partners: Callable[[Tensor], Tensor],
    ) -> None:
        self.inputs, self.partners = inputs, partners
        self.p_train, self.u_train, self.p_val, self.u_val = p_train, u_train, p_val, u_val

    def _all(self, network: nn.Module, index: Tensor) -> Tensor:
        with evaluation_mode(network):
            return map_chunks(self.inputs, index, lambda x: (network(x),))[0]

    def p(self, network: nn.Module) -> Tensor:
        """Return a network's logits on all training positives, ``[runs, n_p]``."""
        return self._all(network, self.p_train)

    def u(self, network: nn.Module) -> Tensor:
        """Return a network's logits on all unlabeled training points, ``[runs, n_u]``."""
        return self._all(network, self.u_train)

    def val_p(self, network: nn.Module) -> Tensor:
        """Return a network's logits on all validation positives, ``[runs, n]``."""
        return self._all(network, self.p_val)

    def val_u(self, network: nn.Module) -> Tensor:
        """Return a network's logits on all unlabeled validation points, ``[runs, n]``."""
        return self._all(network, self.u_val)

    def x_p(self, position: Tensor) -> Tensor:
        """Return the training inputs of positives at ``[runs, k]`` positions, in the weak view,
        ``[runs, k, …]``.
        """
        return self.partners(self.p_train.gather(1, position))


@dataclass(frozen=True)
class HeldOut:
    """Index sets ``[runs, n]`` and labels held out of training."""

    p_val: Tensor
    u_val: Tensor
    test: Tensor
    label_u_val: Tensor | None  # None: not known
    label_test: Tensor | None
    labeled_test: Tensor | None = None  # test points with an observed label
    propensity_p: Tensor | None = (
        None  # true chances of a label of the validation positives, where known
    )


def evaluate_runs(
    algorithm: Algorithm, inputs: Inputs, held: HeldOut, passes: TrainingPasses
) -> dict[str, Tensor]:
    """Return every stored value as ``[runs]`` float64, and ``finite``: whether a row's outputs all
    are.

    Without test points, or without their true labels, there are no test metrics.
    """
    with evaluation_mode(algorithm):
        threshold = algorithm.threshold(passes)
        cut = torch.zeros_like(algorithm.prior) if threshold is None else threshold

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
            algorithm.prior,
            algorithm.one_sample,
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
        values.update(
            {f"val_{name}": value.double() for name, value in algorithm.records().items()}
        )
        values["finite"] = torch.isfinite(torch.cat(decisions, -1)).all(-1).double()
    return values
