"""One's own results among published ones: their rows join the tables, and what differs in how they were made is said.

A method that both have on a problem is shown as one's own results have it: the rows of two experiments are never
averaged together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puarena.errors import UserError
from puarena.report.problems import PROBLEM, Problem, read_all
from puarena.report.sources import GROUP, Curves, opened
from puarena.results import Results, Summary, ask, open_results
from puarena.results.sql import sql_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

# What specs may differ in although their rows are one experiment.
IGNORED_FIELDS = ("problems", "algorithms", "plugins", "prior_source", "hyper")


class Beside(Results):
    """A store's results, and those of others on the same problems."""

    def __init__(self, own: Results, others: Sequence[Results]) -> None:
        parts = [part for store in (own, *others) for part in _parts(store)]
        super().__init__(own.path, own.info | {"sources": parts})
        self.own, self.others = own, list(others)

    def shards(self) -> list[Path]:
        """The files of all of them."""
        return [file for store in (self.own, *self.others) for file in store.shards()]

    def damaged(self, file: Path) -> UserError:
        """The error of the store that the file belongs to."""
        return next(store for store in (self.own, *self.others) if file in store.shards()).damaged(
            file
        )

    def failures(self) -> list[dict[str, Any]]:
        """Of one's own results."""
        return self.own.failures()

    def relation(self, con: DuckDBPyConnection | None = None) -> DuckDBPyRelation:
        """One's own rows, and those of others for methods that one's own results do not have on the same problem."""
        import duckdb

        con = con or duckdb.connect()
        together = self.own.relation(con)
        same, group = _same(PROBLEM), _same(GROUP)
        for i, store in enumerate(self.others):
            together.create_view(f"beside_{i}")
            self.own.relation(con).create_view(f"beside_own_{i}")
            store.relation(con).create_view(f"beside_other_{i}")
            together = con.sql(
                f"SELECT * FROM beside_{i} UNION ALL BY NAME SELECT * FROM beside_other_{i} AS b WHERE "
                f"EXISTS (SELECT 1 FROM beside_own_{i} AS a WHERE {same}) AND "
                f"NOT EXISTS (SELECT 1 FROM beside_{i} AS a WHERE {group})"
            )
        return together


def beside(source: str | Path | Results, others: Iterable[str | Path | Results]) -> Curves:
    """Results together with those of others on the same problems; ``notes`` of it begin with what differs."""
    own = _opened(source)
    stores = [_opened(other) for other in others]
    problems = _problems(own)
    notes = []
    for store in stores:
        common = [problem for problem in _problems(store) if problem in problems]
        if not common:
            ours, theirs = (
                ", ".join(p.label(True) for p in each) for each in (problems, _problems(store))
            )
            raise UserError(
                f"'{name_of(store)}' has none of the problems of '{name_of(own)}' ({theirs}; {ours})"
            )
        differing = differences(own, store)
        if differing:
            notes.append(
                f"{name_of(store)} was run under another protocol than {name_of(own)}, so the two are not one "
                f"experiment ({'; '.join(differing)})."
            )
        lacking = [problem.label() for problem in problems if problem not in common]
        if lacking:
            notes.append(f"{name_of(store)} has no results on {'; '.join(lacking)}.")
    both = Beside(own, stores)
    curves = opened(both)
    curves.notes = (*notes, _whose(own, stores), *curves.notes)
    return curves


def differences(own: Results, other: Results) -> list[str]:
    """What of the protocols and versions of two stores differs, in words; nothing if they are one experiment."""
    from puarena.experiments.spec import Spec

    both = Spec.load(own.spec), Spec.load(other.spec)
    differing = both[0].differences(both[1], IGNORED_FIELDS)
    words = [
        f"{name}: {_word(ours)} and {_word(theirs)}" for name, (ours, theirs) in differing.items()
    ]
    fixed = [spec.hyper.get("*", {}) for spec in both]
    if fixed[0] != fixed[1]:
        words.append(
            f"fixed for all methods: {_word(fixed[0] or None)} and {_word(fixed[1] or None)}"
        )
    versions = [str(store.info["versions"].get("puarena", "unknown")) for store in (own, other)]
    if versions[0].split(".")[:2] != versions[1].split(".")[:2]:
        words.append(f"puarena {versions[0]} and {versions[1]}, whose numbers may differ")
    return words


def name_of(store: Results) -> str:
    """The name a reader knows the results by."""
    name = store.path.resolve().name
    if not isinstance(store, Summary):
        return name
    return (
        store.path.resolve().parent.name
        if name == "summary.parquet"
        else name.removesuffix(".parquet")
    )


def _whose(own: Results, others: Sequence[Results]) -> str:
    """Which rows are whose, and which of the others' are left out."""
    mine, *theirs = [_methods(store) for store in (own, *others)]
    names = ", ".join(name_of(store) for store in others)
    rows = f"Rows of {name_of(own)}: {', '.join(mine)}; the others are of {names}."
    twice = [name for name in mine if any(name in methods for methods in theirs)]
    return (
        f"{rows} Both have {', '.join(twice)}: shown are those of {name_of(own)}."
        if twice
        else rows
    )


def _opened(source: str | Path | Results) -> Results:
    return source if isinstance(source, Results) else open_results(source)


def _problems(store: Results) -> list[Problem]:
    with store.reading():
        keys = ", ".join(map(sql_name, PROBLEM))
        return read_all(
            Problem, ask(store.relation(), f"SELECT DISTINCT {keys} FROM curves ORDER BY ALL").df()
        )


def _methods(store: Results) -> list[str]:
    with store.reading():
        rows = ask(
            store.relation(), "SELECT DISTINCT algorithm FROM curves ORDER BY ALL"
        ).fetchall()
    return [name for (name,) in rows]


def _parts(store: Results) -> list[dict[str, Any]]:
    """Where the rows come from, as a merged folder says it."""
    runs = len(store.done_runs())
    about = {
        "folder": name_of(store),
        "kind": "summary" if store.summarized else "results folder",
        "runs": runs,
    }
    return [
        {
            **about,
            "spec_hash": store.spec_hash,
            "versions": store.info["versions"],
            "spec": store.spec,
        }
    ]


def _same(columns: Sequence[str]) -> str:
    return " AND ".join(
        f"a.{sql_name(name)} IS NOT DISTINCT FROM b.{sql_name(name)}" for name in columns
    )


def _word(value: Any) -> str:
    return "unset" if value is None else str(value)
