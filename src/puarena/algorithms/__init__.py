"""Algorithms: one file each, written like its paper. They only know the logits they receive.

Shapes are the same everywhere: ``[runs, batch]`` logits; ``[runs]`` losses, hyperparameters and
priors. ``Algorithm`` documents what an algorithm declares and overrides.
"""

from puarena.algorithms._base import (
    DEFAULT_LR,
    Algorithm,
    Batch,
    Choice,
    Configuration,
    Hyper,
    LogUniform,
    Passes,
    Phase,
    Setup,
    Update,
    draw_configuration,
)
from puarena.algorithms._losses import col, logistic
from puarena.algorithms._optimizer import Optimizer, find_optimizer, format_optimizer

__all__ = [
    "DEFAULT_LR",
    "Algorithm",
    "Batch",
    "Choice",
    "Configuration",
    "Hyper",
    "LogUniform",
    "Optimizer",
    "Passes",
    "Phase",
    "Setup",
    "Update",
    "col",
    "draw_configuration",
    "find_optimizer",
    "format_optimizer",
    "logistic",
]
