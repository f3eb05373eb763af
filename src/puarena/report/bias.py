"""Results on labels that are not given at random: what biased labels cost, and observed labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from puarena.errors import UserError
from puarena.metrics import METRICS
from puarena.pu import labeling
from puarena.pu.labeling import OBSERVED
from puarena.pu.problem import PROBLEM_COLUMNS
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


CORRELATION_DRAWS = 500  # of the bootstrap
MIN_METHODS = 4  # for a rank correlation
SCORE, SCORE_OF_UNLABELED = "auc", "auc-unlabeled"
Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]


@dataclass(frozen=True)
class ObservedRow:
    """A method on the observed problems of a dataset; its AUC with a 95% interval."""

    algorithm: str
    problems: int
    auc: float
    interval: Interval
    auc_unlabeled: float  # NaN where it is not known


@dataclass(frozen=True)
class ObservedTable:
    """The methods on the observed problems of one dataset, the best first."""

    dataset: str
    rows: tuple[ObservedRow, ...]
    prior: float  # mean of the true ones, NaN if not known
    prior_used: float  # mean of what methods were given


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's correlation of the order of methods on observed and on simulated labels."""

    value: float
    interval: Interval
    methods: int


def read_observed(source: Source, criterion: str = "pa") -> list[ObservedTable]:
    """Return a table per dataset with observed labels, by the models that a criterion chose."""
    curves = open_curves(source)
    column = METRICS[SCORE].column
    if column not in curves.columns or not curves.observed:
        return []
    chosen = select(curves, [criterion])
    chosen = chosen[(chosen["labeling"] == OBSERVED) & ~chosen["supervised"]]
    priors = curves.frame(
        "SELECT dataset, avg(prior_used) AS used, avg(CASE WHEN isnan(prior) THEN NULL ELSE prior "
        f"END) AS known FROM curves WHERE labeling = '{OBSERVED}' GROUP BY dataset"
    ).set_index("dataset")
    tables = []
    for dataset, part in chosen.groupby("dataset"):
        rows = [_summarize(str(name), own) for name, own in part.groupby("algorithm")]
        rows.sort(key=lambda row: -row.auc)
        used, known = priors.loc[[dataset], ["used", "known"]].to_numpy(float)[0]
        tables.append(ObservedTable(str(dataset), tuple(rows), float(known), float(used)))
    return tables


def _summarize(algorithm: str, frame: DataFrame) -> ObservedRow:
    """Return the mean of a method over problems; each counts once, whatever its splits."""
    column = METRICS[SCORE].column
    means = frame.groupby(list(PROBLEM_COLUMNS), dropna=False)[column].mean().to_numpy(float)
    # One problem has only its splits to tell how far the mean is sure.
    interval = _bootstrap_mean(means if len(means) > 1 else frame[column].to_numpy(float))
    other = METRICS[SCORE_OF_UNLABELED].column
    unlabeled = float(frame[other].mean()) if other in frame else np.nan
    return ObservedRow(algorithm, len(means), float(means.mean()), interval, unlabeled)


def _tabulate(source: Source, criterion: str, observed: bool) -> DataFrame:
    """Return the AUC by problem and split, with a column per method in its form for the setting.

    That is the calibrated form on one sample, if there is one.
    """
    chosen = select(open_curves(source), [criterion])
    chosen = chosen[((chosen["labeling"] == OBSERVED) == observed) & ~chosen["supervised"]]
    chosen = chosen[chosen["variant"] == ""]
    cells = [*PROBLEM_COLUMNS, "split"]
    chosen = chosen.assign(prior=chosen["prior"].fillna(-1.0)).sort_values("calibrated")
    chosen = chosen.drop_duplicates([*cells, "base"], keep="last")
    return chosen.pivot(index=cells, columns="base", values=METRICS[SCORE].column)


def correlate_orders(
    observed: Source, simulated: Source, criterion: str = "pa"
) -> RankCorrelation | None:
    """Compare the order of methods on observed labels with that on simulated ones.

    The interval is that of a bootstrap over problems and splits of both. ``None`` without
    ``MIN_METHODS`` methods that have a value on all of them.
    """
    import pandas

    tables = [_tabulate(observed, criterion, True), _tabulate(simulated, criterion, False)]
    complete = [set(table.columns[table.notna().all()]) for table in tables]
    common = sorted(complete[0] & complete[1])
    sides = [table[common].to_numpy(float) for table in tables]
    if len(common) < MIN_METHODS or not all(map(len, sides)):
        return None

    def correlate(values: list[Floats]) -> float:
        means = pandas.DataFrame({at: side.mean(0) for at, side in enumerate(values)})
        return float(means.corr("spearman").to_numpy(float)[0, 1])

    rng = np.random.default_rng(0)
    drawn = np.array(
        [
            correlate([side[rng.integers(0, len(side), len(side))] for side in sides])
            for _ in range(CORRELATION_DRAWS)
        ]
    )
    low, high = percentile_interval(drawn[np.isfinite(drawn)])
    return RankCorrelation(correlate(sides), (float(low), float(high)), len(common))
