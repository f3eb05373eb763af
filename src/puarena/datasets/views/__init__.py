"""Views of a batch: augmentation as tensor code, with randomness from each run's own stream.

A view maps inputs ``[runs, n, …]`` and this step's draws ``{name: [runs, n, …]}`` to the input of a
network. The draws are made in advance for a block of steps, so that a view reads nothing from the
host.

Datasets build their views of the parts in this folder. Importing this package does not import
torch; the parts do.
"""

from puarena.datasets.views.base import View, Views

__all__ = ["View", "Views"]
