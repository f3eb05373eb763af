"""What biased labels cost: every method against the naive one, and against itself where labels are given at random."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError
from puarena.metrics import METRICS
from puarena.pu import labeling
from puarena.report.evidence import with_words
from puarena.report.select import select
from puarena.report.sources import Source, opened

if TYPE_CHECKING:
    from pandas import DataFrame

DRAWS = 2000  # of the bootstrap
PAIR = ["dataset", "case", "setting", "rate", "prior", "split"]


def verdicts(source: Source, metric: str = "accuracy", criterion: str = "pa") -> DataFrame:
    """Return one row per way of labeling and method.

    ``mean`` of the metric; ``gain`` over the naive method on the same data, and ``fall`` from the same method's value
    where labels are given at random, both with 95% intervals (``_low``, ``_high``) of a bootstrap over problems and
    splits; ``n`` pairs. All as shown, most metrics in percent.
    """
    import pandas

    curves = opened(source)
    record = METRICS[metric]
    frame = with_words(select(curves, [criterion]))
    frame = frame.assign(
        value=record.factor * frame[record.column],
        way=[labeling.describe_mechanism(text).name for text in frame["labeling"]],
    ).dropna(subset=["value"])
    lower = frame[
        frame["baseline"] & ~frame["supervised"]
    ]  # the naive baseline, which sees no true label
    if lower["method"].nunique() != 1 or not curves.biased:
        raise UserError(
            "a verdict on biased labels needs results where labels are biased, and one naive method (pn-naive) to "
            f"compare with; there are {lower['method'].nunique()}"
        )
    keys = [*PAIR, "labeling"]
    naive = lower.set_index(keys)["value"].rename("naive")
    fair = frame[frame["way"] == labeling.SCAR].set_index([*PAIR, "method"])["value"].rename("fair")
    joined = frame.join(naive, on=keys).join(fair, on=[*PAIR, "method"])
    rows = []
    for (way, method), part in joined.groupby(["way", "method"], sort=False):
        gain, fall = (
            (part["value"] - part["naive"]).dropna(),
            (part["value"] - part["fair"]).dropna(),
        )
        row = {"labeling": way, "method": method, "mean": part["value"].mean(), "n": len(gain)}
        for name, values in (("gain", gain), ("fall", fall)):
            low, high = _interval(values.to_numpy(float))
            row |= {name: values.mean(), f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return pandas.DataFrame(rows)


def markdown(table: DataFrame, ways: Iterable[str] | None = None) -> str:
    """The verdicts as a table: a row per method, a column per way of labeling with the gain over the naive method."""
    columns = list(ways or dict.fromkeys(table["labeling"]))
    lines = ["| method | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
    for method, part in table.groupby("method", sort=False):
        cells = {row["labeling"]: row for row in part.to_dict("records")}
        texts = [_cell(cells[way]) if way in cells else "" for way in columns]
        lines.append(f"| {method} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def _cell(row: Mapping[Any, Any]) -> str:
    return (
        f"{row['mean']:.1f} ({row['gain']:+.1f}: {row['gain_low']:+.1f} to {row['gain_high']:+.1f})"
    )


def _interval(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """A 95% bootstrap interval of a mean."""
    if not len(values):
        return np.nan, np.nan
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, len(values), (DRAWS, len(values)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
