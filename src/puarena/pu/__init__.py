"""Positive-unlabeled problems: settings, labeling mechanisms, sizes, and the draw of one split.

``draw_pu_data`` turns a dataset and a :class:`Problem` into index arrays for one split. The true
labels are returned in an object of their own, so that no algorithm can reach them.
"""

from puarena.pu.draw import HiddenLabels, PUData, draw_pu_data
from puarena.pu.problem import Problem
from puarena.pu.sizes import Sizes, check_unseen, compute_sizes

__all__ = [
    "HiddenLabels",
    "PUData",
    "Problem",
    "Sizes",
    "check_unseen",
    "compute_sizes",
    "draw_pu_data",
]
