"""Positive-unlabeled problems: settings, labeling mechanisms, sizes, and the draw of one split.

``draw_pu_data`` turns a dataset and a :class:`Problem` into index arrays for one split. It returns the
hidden labels in an object of their own, so that no algorithm can reach them.
"""

from puarena.pu.allocation import check_unseen
from puarena.pu.draw import HiddenLabels, PUData, draw_pu_data
from puarena.pu.problem import Problem
from puarena.pu.sizes import Sizes, sizes

__all__ = ["HiddenLabels", "PUData", "Problem", "Sizes", "check_unseen", "draw_pu_data", "sizes"]
