"""Algorithms: one file each, reading like its paper. They know the logits they are handed and nothing else.

Shapes everywhere: ``[runs, batch]`` logits, ``[runs]`` losses, hyperparameters and priors.
"""

from puarena.without_torch import torch_or_names

with torch_or_names():
    from puarena.algorithms.core.base import Algorithm, Batch, Hyper, Now, Phase, Setup, Update, col
    from puarena.algorithms.core.entry import Entry
    from puarena.algorithms.core.hyper import Choice, LogUniform
    from puarena.algorithms.core.losses import logistic
    from puarena.algorithms.core.registry import get, names

__all__ = [
    "Algorithm",
    "Batch",
    "Choice",
    "Entry",
    "Hyper",
    "LogUniform",
    "Now",
    "Phase",
    "Setup",
    "Update",
    "col",
    "get",
    "logistic",
    "names",
]
