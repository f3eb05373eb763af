"""What biased labels cost: each method against a naive one, and against itself on SCAR labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError
from puarena.metrics import METRICS
from puarena.pu import labeling
from puarena.report.render import Grid
from puarena.report.select import add_labels, select
from puarena.report.sources import Source, open_curves
from puarena.report.statistics.bootstrap import (
    find_widening,
    percentile_interval,
    widen_interval,
)

if TYPE_CHECKING:
    from pandas import DataFrame

GAIN_DRAWS = 2000  # of the bootstrap
AUC = METRICS["auc"]
PAIR = ["dataset", "case", "setting", "rate", "prior", "split"]


def compute_bias_costs(
    source: Source, metric: str = "accuracy", criterion: str = "pa"
) -> DataFrame:
    """Return one row per mechanism and method, as shown (most metrics in percent).

    ``mean`` of the metric and ``auc``, the mean AUC; ``gain`` over the naive baseline on the same
    data (``naive``: of several the one with the best mean), and ``fall`` from the same method's
    value on SCAR labels, both with 95% intervals (``_low``, ``_high``) of a bootstrap over problems
    and splits; ``n`` pairs.
    """
    import pandas

    curves = open_curves(source)
    record = METRICS[metric]
    frame = add_labels(select(curves, [criterion]))
    frame = frame.assign(
        value=record.factor * frame[record.column],
        way=[labeling.describe_mechanism(text).name for text in frame["labeling"]],
    ).dropna(subset=["value"])
    lower = frame[frame["baseline"] & ~frame["supervised"]]
    if lower.empty or not curves.biased:
        raise UserError(
            "the cost of biased labels needs results with biased labels and a naive baseline "
            f"(pn-quantile or pn-naive); there are {lower['method'].nunique()}",
            "missing-data",
        )
    keys = [*PAIR, "labeling"]
    reference = (record.sign * lower.groupby("method")["value"].mean()).idxmax()
    naive = lower[lower["method"] == reference].set_index(keys)["value"].rename("naive")
    scar = frame[frame["way"] == labeling.SCAR].set_index([*PAIR, "method"])["value"]
    joined = frame.join(naive, on=keys).join(scar.rename("scar"), on=[*PAIR, "method"])
    joined = joined.assign(
        gain=joined["value"] - joined["naive"], fall=joined["value"] - joined["scar"]
    )
    rows = []
    for (way, method), part in joined.groupby(["way", "method"], sort=False):
        row = {"labeling": way, "method": method, "mean": part["value"].mean()}
        auc = part[AUC.column].mean() if AUC.column in part else np.nan
        row |= {"auc": AUC.factor * auc, "naive": reference}
        row["n"] = int(part["gain"].notna().sum())
        for name in ("gain", "fall"):
            values = part[name].dropna()
            low, high = _bootstrap_mean(values.to_numpy(float))
            row |= {name: values.mean(), f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return pandas.DataFrame(rows)


def bias_costs_to_markdown(table: DataFrame, ways: Iterable[str] | None = None) -> str:
    """Return a row per method and a column per mechanism: mean, AUC, gain and its interval."""
    columns = list(ways or dict.fromkeys(table["labeling"]))
    rows = []
    for method, part in table.groupby("method", sort=False):
        texts = {
            cell.labeling: f"{cell.mean:.1f}, AUC {cell.auc:.1f} ({cell.gain:+.1f}: "
            f"{cell.gain_low:+.1f} to {cell.gain_high:+.1f})"
            for cell in part.itertuples()
        }
        rows.append([str(method), *(texts.get(way, "") for way in columns)])
    return Grid(["method", *columns], rows).to_markdown()


def _bootstrap_mean(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return a 95% bootstrap interval of a mean, widened as few values need it."""
    n = len(values)
    if n < 2:
        return np.nan, np.nan
    rng = np.random.default_rng(0)
    means = values[rng.integers(0, n, (GAIN_DRAWS, n))].mean(1)
    factor = float(find_widening(n - 1)) * (n / (n - 1)) ** 0.5
    low, high = widen_interval(values.mean(), percentile_interval(means), factor)
    return float(low), float(high)
