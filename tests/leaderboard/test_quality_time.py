"""The small charts of quality against time: who is on the front, and what can be read."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from puarena.leaderboard.quality_time import BOTTOM, LEFT, LINE, RIGHT, TOP, find_front, make_chart

POINTS = {"slow": (9.0, 80.0), "fast": (1.0, 70.0), "worse": (2.0, 60.0), "best": (3.0, 80.0)}


def test_the_front_is_what_nothing_beats_in_both():
    assert find_front(POINTS) == ["fast", "best"]
    assert find_front({"a": (1.0, 5.0), "b": (1.0, 6.0)}) == ["b"]


def test_too_few_methods_have_no_chart():
    assert make_chart({name: POINTS[name] for name in ("slow", "fast")}) is None
    assert make_chart(POINTS | {"slow": (0.0, 80.0), "best": (0.0, 70.0)}) is None


@given(st.lists(st.tuples(st.floats(1e-3, 1e4), st.floats(0, 100)), min_size=3, max_size=40))
def test_dots_and_ticks_are_inside_and_names_apart(points):
    chart = make_chart({str(i): point for i, point in enumerate(points)})
    assert chart is not None
    for dot in chart.dots:
        assert LEFT <= dot.x <= RIGHT
        assert TOP <= dot.y <= BOTTOM
    assert all(LEFT <= x <= RIGHT for x, _ in chart.ticks_x)
    assert all(TOP <= y <= BOTTOM for y, _ in chart.ticks_y)
    heights = sorted(dot.name_y for dot in chart.front)
    assert all(low + LINE <= high + 1e-6 for low, high in pairwise(heights))
    assert TOP - 1e-6 <= heights[0] <= heights[-1] <= BOTTOM + 1e-6


def test_a_narrow_axis_has_ticks():
    chart = make_chart({"a": (0.055, 94.1), "b": (0.07, 93.0), "c": (0.12, 72.0)})
    assert chart is not None
    assert len(chart.ticks_x) >= 3
    assert len(chart.ticks_y) >= 3
