"""Scores of the competing algorithms, their standings, and all other statistics of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError, unknown_name
from puarena.metrics import CRITERIA, METRICS
from puarena.report.select import add_labels, keep_algorithms, select
from puarena.report.sources import Source, open_curves
from puarena.report.statistics import bootstrap as boot
from puarena.report.statistics import ranking
from puarena.report.statistics.ranking import compute_elo

if TYPE_CHECKING:
    from pandas import DataFrame

BLOCKS = ("problems", "splits")  # what counts as one result in a test
ELO_REFERENCE = "nnpu"  # has 1000 points if it takes part
ROPE = 0.01  # of the metric's range: differences up to this are practically none


@dataclass(frozen=True)
class Scores:
    """Test results, as shown, of one metric of the models that one criterion chose."""

    splits: DataFrame  # one line per problem and split, one column per competing algorithm
    baselines: DataFrame  # one line per problem, the columns ``naive`` (the best) and ``oracle``
    means: DataFrame  # one line per problem, one column per method, also of the baselines
    datasets: dict[str, str]  # the dataset of every problem
    naive: tuple[str, ...] = ()  # the baselines without true labels

    def over(self, blocks: str) -> DataFrame:
        """Return one line per problem, or per problem and split."""
        return boot.average_splits(self.splits) if blocks == "problems" else self.splits


def collect_scores(selection: DataFrame, metric: str, criterion: str) -> Scores:
    """Return the scores of a selection (with labels); reference baselines do not compete."""
    record = METRICS[metric]
    frame = selection[selection["criterion"] == criterion]
    frame = frame.assign(score=record.factor * frame[record.column].astype(float))
    apart = frame["baseline"] | frame["supervised"]
    splits = frame[~apart].groupby(["problem", "split", "method"])["score"].mean()
    means = frame.groupby(["problem", "method"])["score"].mean()
    kind = frame["supervised"].map({True: "oracle", False: "naive"})
    references = frame[apart].assign(kind=kind, score=record.sign * frame["score"])
    by_method = references.groupby(["problem", "kind", "method"])["score"].mean()
    kinds = record.sign * by_method.groupby(["problem", "kind"]).max()
    table: Any = splits.unstack("method")
    baselines = kinds.unstack("kind").reindex(
        index=table.index.unique(0), columns=["naive", "oracle"]
    )
    datasets = dict(zip(frame["problem"], frame["dataset"], strict=True))
    naive = tuple(dict.fromkeys(references.loc[references["kind"] == "naive", "method"]))
    return Scores(table, baselines, means.unstack("method"), datasets, naive)


def _keep_competing(selection: DataFrame, algorithms: Sequence[str] | None) -> DataFrame:
    """Return the rows of these algorithms and of the reference baselines."""
    if algorithms is None:
        return selection
    wanted = keep_algorithms(selection, algorithms).index
    return selection[selection.index.isin(wanted) | selection["baseline"] | selection["supervised"]]


# standings


@dataclass(frozen=True)
class Standings:
    """Algorithms by their mean over problems, the best first.

    ``table`` has a row per algorithm with a result on every problem: ``mean``; ``place``, the rank
    of the mean, with ``place_low`` and ``place_high``; ``difference``, the paired difference from
    the best, with ``low`` and ``high``; and ``tied``: that interval contains zero.
    """

    table: DataFrame
    problems: int
    datasets: int
    splits: tuple[int, int]  # of a problem: the fewest and the most
    unit: str = ""  # what was drawn for intervals: "datasets", "splits", or nothing
    note: str = ""

    @property
    def units(self) -> int:
        """How many datasets were drawn, otherwise how many splits of a problem."""
        return self.datasets if self.unit == "datasets" else self.splits[0]

    @property
    def is_small(self) -> bool:
        """Whether there are so few units that the sentence about the best must say less."""
        enough = boot.RELIABLE_DATASETS if self.unit == "datasets" else boot.RELIABLE_SPLITS
        return self.units < enough

    @property
    def tied(self) -> tuple[str, ...]:
        """The best, and every algorithm that cannot be told apart from it."""
        return tuple(self.table.index[self.table["tied"]])

    def to_rows(self) -> DataFrame:
        """Return the tidy frame of means, places, and differences from the best."""
        import pandas

        table, n = self.table, self.problems
        rest = table.iloc[1:]
        parts = [
            boot.make_rows("mean", n, table.index, table["mean"].array),
            boot.make_rows(
                "place",
                n,
                table.index,
                table["place"].array,
                table["place_low"].array,
                table["place_high"].array,
            ),
            boot.make_rows(
                "difference-from-best",
                n,
                rest.index,
                rest["difference"].array,
                rest["low"].array,
                rest["high"].array,
                other=next(iter(table.index), ""),
            ),
        ]
        return pandas.concat(parts, ignore_index=True)


def compute_standings(
    splits: DataFrame,
    datasets: Mapping[str, str],
    higher: bool = True,
    seed: int = 0,
    count: int = boot.BOOTSTRAP_DRAWS,
) -> Standings:
    """Rank algorithms by their mean over problems.

    ``splits``: one line per problem and split, one column per algorithm. An algorithm without a
    result on every problem has no place. ``count`` is the number of bootstrap draws.
    """
    import numpy as np
    import pandas

    means = boot.average_splits(splits)
    incomplete = list(means.columns[means.isna().any()])
    means = means.drop(columns=incomplete)
    n, k = means.shape
    sizes = sorted(Counter(splits.index.get_level_values(0)).values()) or [0]
    counts = n, len({datasets[str(name)] for name in means.index}), (sizes[0], sizes[-1])
    columns = ["mean", "place", "place_low", "place_high", "difference", "low", "high", "tied"]
    if not n or not k:
        note = "No algorithm has a result on every problem."
        empty = pandas.DataFrame(columns=columns).astype({"tied": bool})
        return Standings(empty, *counts, note=note)
    values = means.mean().to_numpy().round(boot.TIE_DIGITS)
    places = ranking.compute_ranks(values, higher)
    best = int(np.argmin(places))
    complete = splits[means.columns] if incomplete else splits
    draws = boot.draw_bootstrap(complete, datasets, seed, count, means)
    place_low = place_high = low = high = np.full(k, math.nan)
    if draws.unit:
        drawn, middle = draws.compute_means(), values
        spread = (middle + draws.factor * (drawn - middle)).round(boot.TIE_DIGITS)
        place_low, place_high = boot.percentile_interval(ranking.compute_ranks(spread, higher))
        gaps = (drawn - drawn[:, [best]]).round(boot.TIE_DIGITS)
        factors = draws.find_factors(draws.lines - draws.lines[:, [best]])
        interval = boot.percentile_interval(gaps)
        low, high = boot.widen_interval(values - values[best], interval, factors)
        low, high = low.round(boot.TIE_DIGITS), high.round(boot.TIE_DIGITS)
    tied = (values == values[best]) | ((low <= 0) & (high >= 0))
    content = (values, places, place_low, place_high, values - values[best], low, high, tied)
    table = pandas.DataFrame(
        dict(zip(columns, content, strict=True)), index=[str(name) for name in means.columns]
    )
    table = table.iloc[np.argsort(places, kind="stable")]
    return Standings(table, *counts, draws.unit, draws.note)


def describe_winner(standings: Standings, metric: str) -> str:
    """Return one line: the best mean, which algorithms are tied with it, and n.

    Few splits or datasets say less: then nobody is called the only best one.
    """
    record, table = METRICS[metric], standings.table
    if table.empty:
        return standings.note
    best = table["mean"].iloc[0]
    first = list(table.index[table["mean"] == best])
    tied = [name for name in standings.tied if name not in first]
    verb = "has" if len(first) == 1 else "have"
    word = "highest" if record.higher else "lowest"
    value = f"{best:.{record.decimals}f}"
    text = f"{_join_names(first)} {verb} the {word} mean {record.inline} ({value})"
    if len(table) == len(first):
        text += "; there is no other method"
    elif not standings.unit:
        text += "; too few results to tell other methods apart"
    elif standings.is_small:
        few = _count(standings.units, standings.unit.removesuffix("s"))
        text += f" here, a first impression from {few}"
        text += f"; not told apart from it: {_join_names(tied)}" if tied else ""
    else:
        text += f"; tied: {_join_names(tied)}" if tied else "; no other method is tied"
    low, high = standings.splits
    counts = (
        _count(standings.problems, "problem"),
        _count(standings.datasets, "dataset"),
        _count(low, "split") if low == high else f"{low} to {high} splits",
    )
    return "{} (n = {}, {}, {} each).".format(text, *counts)


def describe_naive(scores: Scores, metric: str, problems: Sequence[str] | None = None) -> str:
    """Return one line: which methods have a better mean than the best naive baseline.

    ``problems`` are all of them if they are not given. The line is empty without such a baseline.
    """
    record = METRICS[metric]
    means = scores.means if problems is None else scores.means.reindex(list(problems))
    values = record.sign * means.dropna(axis=1, how="any").mean()
    naive = values[[name for name in scores.naive if name in values]]
    competing = values[[name for name in scores.splits.columns if name in values]]
    if naive.empty or competing.empty:
        return ""
    best = str(naive.idxmax())
    above = competing[competing > naive[best]].sort_values(ascending=False)
    below = competing[competing <= naive[best]].sort_values(ascending=False)
    value = f"{record.sign * naive[best]:.{record.decimals}f}"
    text = (
        f"{len(above)} of {_count(len(competing), 'method')} "
        f"{'has' if len(above) == 1 else 'have'} a better mean than the best naive baseline, "
        f"{best} ({value})"
    )
    if 0 < len(above) <= len(below):
        return f"{text}: {', '.join(map(str, above.index))}."
    return f"{text}; the others: {', '.join(map(str, below.index))}." if len(below) else f"{text}."


def _join_names(names: Sequence[str], shown: int = 4) -> str:
    """Return names with commas; of more than ``shown`` names the last ones are counted."""
    rest = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {rest} more" if rest > 0 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


# everything


@dataclass(frozen=True)
class Statistics:
    """Everything about one metric of the models that one criterion chose."""

    metric: str
    criterion: str
    over: str
    reference: str  # of differences and pairs: the given algorithm, otherwise the best
    standings: Standings
    frame: DataFrame  # tidy, see ``bootstrap.STATISTIC_COLUMNS``
    notes: tuple[str, ...]  # about all statistics; the frame has those of each
    naive: str = ""  # which methods are above the best naive baseline, in a sentence

    @property
    def title(self) -> str:
        """The metric and the criterion."""
        return f"{METRICS[self.metric].title}, models chosen by {CRITERIA[self.criterion].title}"

    @property
    def verdict(self) -> str:
        """The best algorithm and those tied with it."""
        return describe_winner(self.standings, self.metric)

    def of(self, statistic: str) -> DataFrame:
        """Return the rows of one statistic."""
        return self.frame[self.frame["statistic"] == statistic]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without NaN and infinity."""
        finite = self.frame.replace([math.inf, -math.inf], math.nan).astype(object)
        return {
            "metric": self.metric,
            "criterion": self.criterion,
            "over": self.over,
            "reference": self.reference,
            "verdict": self.verdict,
            "naive": self.naive,
            "tied": list(self.standings.tied),
            "unit": self.standings.unit,
            "notes": list(self.notes),
            "statistics": finite.where(finite.notna(), None).to_dict("records"),
        }


def summarize(
    source: Source,
    metrics: Iterable[str] | str | None = None,
    criteria: Iterable[str] | str | None = None,
    over: str = "problems",
    algorithms: Sequence[str] | None = None,
    reference: str | None = None,
    seed: int = 0,
    rope: float | None = None,
) -> list[Statistics]:
    """Compute all statistics per metric (default: the first) and criterion.

    Parameters
    ----------
    over
        The blocks of tests: ``problems``, or the ``splits`` of all problems.
    reference
        Test pairs with this algorithm only, and take differences from it (default: from the best).
    rope
        Difference, as shown, up to which two algorithms are practically the same (default: one
        point).
    """
    curves = open_curves(source)
    chosen = curves.metrics(metrics)[: None if metrics else 1]
    by = curves.criteria(criteria)
    if over not in BLOCKS:
        raise unknown_name("kind of block", over, BLOCKS)
    if rope is not None and not 0 <= rope < math.inf:
        raise UserError(f"rope must be a number from 0 on, but is '{rope}'", code="invalid-value")
    selection = add_labels(_keep_competing(select(curves, by), algorithms))
    return [
        _summarize_scores(collect_scores(selection, m, c), m, c, over, reference, seed, rope)
        for m in chosen
        for c in by
    ]


def _summarize_scores(
    scores: Scores,
    metric: str,
    criterion: str,
    over: str,
    reference: str | None,
    seed: int,
    rope: float | None,
) -> Statistics:
    import pandas

    record = METRICS[metric]
    higher = record.higher
    blocks, notes = _drop_incomplete(scores.over(over))
    splits, _ = _drop_incomplete(scores.splits)
    if over == "splits":
        notes.append("Splits of one problem share data: tests over splits find differences easily.")
    _check_reference(reference, blocks)
    standings = compute_standings(scores.splits, scores.datasets, higher, seed)
    best = next(iter(standings.table.index), "")
    against = reference or (best if best in blocks.columns and len(blocks) else "")
    draws = boot.draw_bootstrap(splits, scores.datasets, seed)
    means = boot.average_splits(splits)
    distance = record.factor * ROPE if rope is None else rope
    wide, unit = blocks, "splits"
    if over == "problems":
        wide = means.groupby([scores.datasets[str(name)] for name in means.index]).mean()
        unit = "datasets"
    parts = [
        standings.to_rows(),
        ranking.average_ranks(blocks, seed, higher),
        boot.compute_differences(splits, against, seed, higher),
        compute_elo(splits, draws, reference or ELO_REFERENCE, higher),
        *_compute_amounts(scores, means, draws, metric),
        boot.average_quartiles(splits, seed),
        boot.compare_with_rope(wide, against, distance, unit, higher, seed),
        ranking.run_friedman_test(blocks, higher),
        ranking.compute_critical_difference(blocks, higher=higher),
        ranking.run_pair_tests(blocks, reference),
        ranking.compare_pairs(scores.splits, against, higher),
    ]
    frame = pandas.concat(parts, ignore_index=True)
    if standings.note:
        notes.insert(0, standings.note)
    naive = describe_naive(scores, metric)
    return Statistics(metric, criterion, over, against, standings, frame, tuple(notes), naive)


def _compute_amounts(
    scores: Scores, means: DataFrame, draws: boot.Bootstrap, metric: str
) -> list[DataFrame]:
    """Return the gap closed, and the improvability if the metric has a best possible value."""
    import pandas

    record = METRICS[metric]
    baselines = record.sign * scores.baselines.reindex(means.index)
    closed = boot.average_gap_closed(
        record.sign * means, baselines["naive"], baselines["oracle"], draws
    )
    if not record.higher:
        errors = means
    elif record.high is not None:
        errors = (record.factor * record.high - means).clip(lower=0)
    else:
        note = f"No improvability: {record.inline} has no best possible value."
        return [closed, boot.make_rows("improvability", 0, note=note)]
    if len(errors):
        shares = boot.compute_improvability(errors)
        errors = pandas.DataFrame(shares, errors.index, errors.columns)
    return [closed, boot.average_problems("improvability", errors, draws)]


def _drop_incomplete(scores: DataFrame) -> tuple[DataFrame, list[str]]:
    """Return the blocks in which every algorithm has a result, and a note about the others."""
    complete = scores.dropna(axis=0, how="any")
    left_out = len(scores) - len(complete)
    if not left_out:
        return complete, []
    lacking = list(map(str, scores.columns[scores.isna().any()]))
    note = (
        f"{left_out} of {len(scores)} blocks left out, because an algorithm has no result there "
        f"({_join_names(lacking)}); --algorithms chooses others."
    )
    return complete, [note]


def _check_reference(reference: str | None, blocks: DataFrame) -> None:
    """Raise an error if the reference does not take part."""
    if reference is None:
        return
    if not len(blocks):
        raise UserError(
            f"'{reference}' cannot be compared: no block has a result of every algorithm",
            code="missing-data",
        )
    if reference not in blocks.columns:
        raise unknown_name("algorithm", reference, blocks.columns)
