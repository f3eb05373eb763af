"""Views of a batch: augmentation as tensor code, with each image's randomness from its run's own stream.

A view maps inputs ``[runs, n, …]`` and this step's draws ``{name: [runs, n, …]}`` to what a network is fed.
The draws are made ahead for a block of steps, so that applying a view reads nothing from the host.

Datasets build their views of the parts in this folder. Importing this room does not import torch; the parts do.
"""

from puarena.datasets.views.base import View, Views

__all__ = ["View", "Views"]
