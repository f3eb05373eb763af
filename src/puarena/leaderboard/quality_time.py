"""Quality against training time, a small chart per board, as numbers that the front page draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from puarena.report.figures.training_time import place_names

WIDTH, HEIGHT = 380, 230  # of a chart, in the units of its SVG
LEFT, RIGHT, TOP, BOTTOM = 34, 250, 12, 196  # the area of the dots; names stand at its right
LINE = 14  # of a name
MIN_METHODS = 3
MAX_NAMED = (BOTTOM - TOP) // LINE
MAX_TICKS = 5
ROOM = 0.05  # free at both ends of an axis, as a share of its length


@dataclass(frozen=True)
class Dot:
    """A method; only those on the front have a name, at the height ``name_y``."""

    method: str
    seconds: float
    value: float
    x: float
    y: float
    on_front: bool
    name_y: float = 0.0


@dataclass(frozen=True)
class Chart:
    """The dots, the line through the front, and where the axes have which values."""

    dots: tuple[Dot, ...]
    line: str  # the path of an SVG
    ticks_x: tuple[tuple[float, str], ...]
    ticks_y: tuple[tuple[float, str], ...]

    @property
    def front(self) -> tuple[Dot, ...]:
        """The methods that are fastest for what they reach, the fastest first."""
        return tuple(dot for dot in self.dots if dot.on_front)


def find_front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the methods that no other beats in seconds and value, the fastest first."""
    best, front = -math.inf, []
    for name in sorted(points, key=lambda name: (points[name][0], -points[name][1])):
        if points[name][1] > best:
            best = points[name][1]
            front.append(name)
    return front


def make_chart(points: Mapping[str, tuple[float, float]]) -> Chart | None:
    """Return the chart of methods with seconds and a value, higher being better."""
    points = {name: point for name, point in points.items() if point[0] > 0}
    if len(points) < MIN_METHODS:
        return None
    times = [math.log10(seconds) for seconds, _ in points.values()]
    values = [value for _, value in points.values()]
    low_x, high_x = _widen(min(times), max(times))
    low_y, high_y = _widen(min(values), max(values))

    def to_x(seconds: float) -> float:
        share = (math.log10(seconds) - low_x) / (high_x - low_x)
        return round(LEFT + (RIGHT - LEFT) * share, 1)

    def to_y(value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * (value - low_y) / (high_y - low_y), 1)

    # Of a long front, the best have names.
    front = find_front(points)[-MAX_NAMED:]
    heights = [-to_y(points[name][1]) for name in front]
    places = place_names(heights, [-float(BOTTOM), -float(TOP)], LINE)
    name_y = {name: -place for name, place in zip(front, places, strict=True)}
    dots = [
        Dot(name, seconds, value, to_x(seconds), to_y(value), name in name_y, name_y.get(name, 0.0))
        for name, (seconds, value) in sorted(points.items(), key=lambda item: item[1][0])
    ]
    corners = [dot for dot in dots if dot.on_front]
    line = f"M{corners[0].x} {corners[0].y}" + "".join(f"H{d.x}V{d.y}" for d in corners[1:])
    return Chart(
        tuple(dots),
        f"{line}H{RIGHT}",
        tuple((to_x(10**tick), f"{10**tick:g}") for tick in _list_log_ticks(low_x, high_x)),
        tuple((to_y(tick), f"{tick:g}") for tick in _list_ticks(low_y, high_y)),
    )


def _widen(low: float, high: float) -> tuple[float, float]:
    room = ROOM * (high - low) or 0.5
    return low - room, high + room


def _list_ticks(low: float, high: float) -> list[float]:
    """Return up to MAX_TICKS round values of a range."""
    size = 10.0 ** math.floor(math.log10(high - low))
    for step in (0.1 * size, 0.2 * size, 0.5 * size, size, 2 * size, 5 * size, 10 * size):
        first, last = math.ceil(low / step), math.floor(high / step)
        if last - first < MAX_TICKS:
            return [round(step * i, 6) for i in range(first, last + 1)]
    return []


def _list_log_ticks(low: float, high: float) -> list[float]:
    """Return the logarithms of up to MAX_TICKS digits times powers of ten, the more the better."""
    for digits in (range(1, 10), (1, 2, 5), (1, 3), (1,)):
        powers = range(math.floor(low), math.ceil(high) + 1)
        ticks = [power + math.log10(digit) for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= MAX_TICKS:
            return ticks
    return ticks
