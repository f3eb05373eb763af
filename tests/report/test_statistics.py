"""Statistics against textbook examples, and sentences instead of numbers where results are too few."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from puarena.cli import app
from puarena.errors import UserError
from puarena.report import statistics as st
from puarena.results import Folder
from sample_results import curves, records

# Table 6 of Demšar 2006: AUC of four decision trees on 14 data sets. In "voting" the paper ranks 2 and 3 what it
# prints as equal, so the unprinted digit is made up here.
DEMSAR = pd.DataFrame(
    [
        (0.763, 0.768, 0.771, 0.798),
        (0.599, 0.591, 0.590, 0.569),
        (0.954, 0.971, 0.968, 0.967),
        (0.628, 0.661, 0.654, 0.657),
        (0.882, 0.888, 0.886, 0.898),
        (0.936, 0.931, 0.916, 0.931),
        (0.661, 0.668, 0.609, 0.685),
        (0.583, 0.583, 0.563, 0.625),
        (0.775, 0.838, 0.866, 0.875),
        (1.000, 1.000, 1.000, 1.000),
        (0.940, 0.962, 0.965, 0.962),
        (0.619, 0.666, 0.614, 0.669),
        (0.972, 0.981, 0.9751, 0.975),
        (0.957, 0.978, 0.946, 0.970),
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)


def test_demsar_ranks_and_friedman() -> None:
    means = st.ranks(DEMSAR).mean()
    assert means.round(3).to_dict() == {
        "C4.5": 3.143,
        "C4.5+m": 2.0,
        "C4.5+cf": 2.893,
        "C4.5+m+cf": 1.964,
    }
    test = st.friedman(DEMSAR)
    assert (test.k, test.n, test.note) == (4, 14, "")
    assert test.chi2_without_ties == pytest.approx(9.28, abs=0.005)
    plain = test.chi2_without_ties
    assert 13 * plain / (14 * 3 - plain) == pytest.approx(
        3.69, abs=0.005
    )  # the paper's F, before ties
    from scipy.stats import friedmanchisquare

    expected = friedmanchisquare(*(DEMSAR[name] for name in DEMSAR))
    assert test.chi2 == pytest.approx(expected.statistic)
    assert test.p == pytest.approx(expected.pvalue)
    assert 0.01 < test.f_p < 0.05


def test_the_f_form_is_the_analysis_of_variance_of_the_ranks() -> None:
    table = st.ranks(DEMSAR).to_numpy()
    n, k = table.shape
    treatment = n * ((table.mean(0) - table.mean()) ** 2).sum() / (k - 1)
    residual = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    assert st.friedman(DEMSAR).f == pytest.approx(
        treatment / ((residual**2).sum() / ((n - 1) * (k - 1)))
    )


def test_demsar_nemenyi() -> None:
    test = st.nemenyi(DEMSAR)
    assert test.q == pytest.approx(2.569, abs=0.0005)
    assert test.critical_difference == pytest.approx(1.25, abs=0.005)
    assert st.nemenyi(DEMSAR, alpha=0.1).critical_difference == pytest.approx(1.12, abs=0.005)
    assert st.nemenyi(DEMSAR.iloc[:, :3]).q == pytest.approx(2.343, abs=0.001)
    # 3.143 - 1.964 = 1.18 < 1.25: at 0.05 nothing can be told apart
    assert test.groups == (("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"),)
    # at 0.1 C4.5 is worse than both with m: 1.143 and 1.179 > 1.12
    assert st.nemenyi(DEMSAR, alpha=0.1).groups == (
        ("C4.5+m+cf", "C4.5+m", "C4.5+cf"),
        ("C4.5+cf", "C4.5"),
    )


def test_demsar_wilcoxon() -> None:
    test = st.wilcoxon(DEMSAR[["C4.5", "C4.5+m"]])
    (pair,) = test.pairs
    assert pair.statistic == 12  # R+ = 93, R- = 12; the critical value for 14 data sets is 21
    assert pair.n == test.n == 14
    assert pair.p == pair.p_holm
    assert pair.p < 0.05
    assert test.significant == (pair,)
    assert pair.difference < 0


def test_holm() -> None:
    assert st.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert st.holm([0.9, 0.8]) == [1.0, 1.0]
    assert st.holm([]) == []


def test_pairs_with_a_reference() -> None:
    everything, some = st.wilcoxon(DEMSAR), st.wilcoxon(DEMSAR, "C4.5+m+cf")
    assert (len(everything.pairs), len(some.pairs)) == (6, 3)
    assert {pair.a for pair in some.pairs} == {"C4.5+m+cf"}
    same = {frozenset((pair.a, pair.b)): pair.p for pair in everything.pairs}
    assert all(same[frozenset((pair.a, pair.b))] == pytest.approx(pair.p) for pair in some.pairs)
    assert all(a.p_holm <= b.p_holm for a, b in zip(some.pairs, some.pairs[1:], strict=False))


def test_ties_and_perfect_agreement() -> None:
    tied = pd.DataFrame(np.ones((6, 3)), columns=list("abc"))
    assert "all algorithms are tied in all 6 blocks" in st.friedman(tied).note
    assert [pair.p_holm for pair in st.wilcoxon(tied).pairs] == [1, 1, 1]
    ordered = pd.DataFrame([[3.0, 2.0, 1.0]] * 6, columns=list("abc"))
    test = st.friedman(ordered)
    assert (test.chi2, test.f, test.f_p) == (pytest.approx(12), math.inf, 0)
    assert [(item.value, item.low, item.high) for item in st.mean_ranks(ordered).items] == [
        (i, pytest.approx(i), pytest.approx(i)) for i in (1, 2, 3)
    ]


def test_bootstrap_is_seeded_and_covers() -> None:
    assert st.mean_ranks(DEMSAR) == st.mean_ranks(DEMSAR)
    assert st.mean_ranks(DEMSAR, seed=1) != st.mean_ranks(DEMSAR)
    for item in st.mean_ranks(DEMSAR).items:
        assert item.low < item.value < item.high
        assert item.n == 14
    random = np.random.default_rng(0)
    index = pd.MultiIndex.from_product([["p", "q"], range(50)])
    frame = pd.DataFrame(
        random.normal([80, 79, 70], 1, size=(100, 3)), index=index, columns=["a", "b", "c"]
    )
    found = st.differences(frame, "a")
    assert [item.algorithm for item in found.items] == ["b", "c"]
    b = found.items[0]
    gaps = frame["b"] - frame["a"]
    assert b.value == pytest.approx(gaps.mean())
    half = 1.96 * gaps.std() / 10  # the interval of the normal distribution
    assert (b.value - b.low, b.high - b.value) == (
        pytest.approx(half, rel=0.15),
        pytest.approx(half, rel=0.15),
    )


@pytest.mark.parametrize("n, k", [(14, 2), (4, 4), (0, 4)])
def test_too_few_results_are_a_sentence(n: int, k: int) -> None:
    few = DEMSAR.iloc[:n, :k]
    for test in (st.friedman(few), st.nemenyi(few)):
        assert "No number for" in test.note
        assert f"there are {k if k < 3 else n}" in test.note
        assert (test.n, test.k) == (n, k)
    assert math.isnan(st.friedman(few).chi2)
    assert math.isnan(st.nemenyi(few).critical_difference)
    if n < 6:
        assert f"needs 6 blocks, and there are {n}" in st.wilcoxon(few).note
        assert st.wilcoxon(few).pairs == ()
    assert "needs 2 algorithms, and there are 1" in st.wilcoxon(DEMSAR.iloc[:, :1]).note


def many(problems: int = 6, **fixed: Any) -> pd.DataFrame:
    """Four algorithms and the oracle on several problems, three splits each."""
    means = {"upu": 0.7, "nnpu": 0.8, "vpu": 0.75, "pan": 0.6, "pn-oracle": 0.95}
    return pd.concat(
        records({a: m + i / 100 for a, m in means.items()}, dataset=f"d{i}", **fixed)
        for i in range(problems)
    )


def test_from_records() -> None:
    (found,) = st.statistics(many(), criteria="pa")
    assert found.algorithms == ("nnpu", "vpu", "upu", "pan")  # the oracle does not compete
    assert (found.n, found.friedman.n, found.friedman.k, found.wilcoxon.n, found.differences.n) == (
        6,
        6,
        4,
        6,
        18,
    )
    assert [item.value for item in found.ranks.items] == [1, 2, 3, 4]
    assert found.friedman.chi2 == pytest.approx(18)
    assert found.differences.reference == "nnpu"
    assert [item.value for item in found.differences.items] == pytest.approx([-5, -10, -20])
    assert found.blocks[0] == "d0, case 1, OS 30%"
    assert [s.criterion for s in st.statistics(many(), metrics="auc")] == ["pa", "pauc", "oa"]
    (split,) = st.statistics(
        many(2), criteria="pa", over="splits", algorithms=["upu", "nnpu", "pn-oracle"]
    )
    assert split.n == 6
    assert split.algorithms == ("nnpu", "upu")  # what sees the true labels never competes
    assert "share data" in split.notes[0]
    json.dumps(found.to_dict(), allow_nan=False)


def test_who_won_and_how_sure_that_is() -> None:
    (found,) = st.statistics(many(), criteria="pa")
    placed = found.standings
    assert (placed.n, placed.datasets, placed.unit, placed.splits) == (6, 6, "datasets", (3, 3))
    assert [
        (item.algorithm, item.rank, item.rank_low, item.rank_high) for item in placed.items
    ] == [
        ("nnpu", 1, 1, 1),
        ("vpu", 2, 2, 2),
        ("upu", 3, 3, 3),
        ("pan", 4, 4, 4),
    ]
    assert placed.tied == ("nnpu",)
    assert "all 3 other methods are behind by more than chance (n = 6 problems" in st.verdict(
        placed, "accuracy"
    )
    few = replace(placed, unit="splits")
    assert "are behind by more than chance on these problems (n" in st.verdict(few, "accuracy")
    assert [round(item.value) for item in found.elo.items if item.algorithm == "nnpu"] == [1000]
    assert [item.algorithm for item in found.elo.items] == ["nnpu", "vpu", "upu", "pan"]
    assert "won or lost every battle" in found.elo.note
    assert "needs a naive method" in found.gap_closed.note
    assert (found.improvability.n, found.iqm.n, found.profile.n) == (6, 18, 18)
    duel = next(duel for duel in found.duels if {duel.a, duel.b} == {"nnpu", "pan"})
    assert sorted([duel.wins, duel.losses]) == [0, 6]
    assert (duel.n, duel.ties) == (6, 0)
    assert abs(duel.difference) == pytest.approx(20)
    assert found.signed_rank.unit == "datasets"
    assert all(item.worse > 0.9 and item.n == 6 for item in found.signed_rank.items)
    (wide,) = st.statistics(many(), criteria="pa", rope=30)
    assert all(item.same == 1 for item in wide.signed_rank.items)
    with pytest.raises(UserError, match="region of practical equivalence"):
        st.statistics(many(), rope=-1)


def test_no_number_is_cut_where_there_is_little_room() -> None:
    out = StringIO()
    means = {
        name: 0.5 + i / 20 for i, name in enumerate(("pn-naive", "upu", "nnpu", "vpu", "pn-oracle"))
    }
    source = pd.concat([records(means, case=case) for case in (1, 2)])
    st.show_statistics(st.statistics(source, criteria=["oa"]), Console(width=80, file=out))
    text = out.getvalue()
    assert "…" not in text
    assert "won-tied-lost" in text
    assert "better, same, worse" not in text.split("Mean ranks")[0]  # a column that would be empty


def test_datasets_are_drawn_and_not_their_cases() -> None:
    cases = pd.concat([many(2, case=case) for case in (1, 2, 3)])
    (found,) = st.statistics(cases, criteria="pa")
    assert (found.standings.n, found.standings.datasets, found.standings.unit) == (6, 2, "splits")
    assert "2 datasets are too few to draw again (5 needed)" in found.standings.note
    assert "With 3 splits they are too narrow" in found.standings.note
    assert "needs 5 datasets" in found.signed_rank.note
    (few,) = st.statistics(cases[cases["split"] < 2], criteria="pa")
    assert few.standings.unit == ""
    assert "too few to say who can be told apart" in st.verdict(few.standings, "accuracy")
    assert few.standings.tied == ("nnpu",)
    assert all(math.isnan(item.rank_low) for item in few.standings.items)


def test_frames_make_the_gap_and_have_no_place() -> None:
    means = {"upu": 0.75, "nnpu": 0.8, "pn-naive": 0.7, "pn-oracle": 0.9}
    (found,) = st.statistics(records(means), criteria="pa", algorithms=["upu", "nnpu"])
    assert found.algorithms == ("nnpu", "upu")
    assert {item.algorithm: item.value for item in found.gap_closed.items} == {
        "nnpu": pytest.approx(0.5),
        "upu": pytest.approx(0.25),
    }
    (found,) = st.statistics(records(means), criteria="pa")
    assert [item.algorithm for item in found.standings.items] == ["nnpu", "upu"]


def test_exact_ties_are_ties() -> None:
    frame = pd.DataFrame({"a": [0.1 + 0.2, 1], "b": [0.3, 1.0], "c": [0.2, 0.5]}) * 100
    assert st.ranks(frame)[["a", "b"]].to_numpy().tolist() == [[1.5, 1.5], [1.5, 1.5]]
    test = st.wilcoxon(pd.concat([frame] * 3))
    assert next(pair for pair in test.pairs if pair.a == "a" and pair.b == "b").p == 1


def test_few_problems_and_missing_results() -> None:
    (found,) = st.statistics(many(2), criteria="pa")
    assert [item.value for item in found.ranks.items] == [
        1,
        2,
        3,
        4,
    ]  # a mean rank is a description, no claim
    assert "needs 5 blocks, and there are 2" in found.friedman.note
    assert "needs 6 blocks, and there are 2" in found.wilcoxon.note
    assert found.to_dict()["nemenyi"]["critical_difference"] is None
    source = many()
    source = source[(source["algorithm"] != "pan") | (source["dataset"] != "d0")]
    (found,) = st.statistics(source, criteria="pa")
    assert found.n == 5
    assert "1 of 6 blocks left out because an algorithm has no result there (pan)" in found.notes[0]
    nothing = source[(source["algorithm"] == "pan") == (source["dataset"] == "d1")]
    (found,) = st.statistics(nothing, criteria="pa")
    assert "no block in which every algorithm has a result" in found.ranks.note
    with pytest.raises(UserError, match="cannot be compared"):
        st.statistics(nothing, criteria="pa", reference="upu")


def test_problems_may_have_different_numbers_of_splits() -> None:
    source = many(2)
    source = source[(source["dataset"] != "d1") | (source["split"] < 2)]
    (found,) = st.statistics(source, criteria="pa", over="splits")
    assert found.n == 5
    assert len(found.notes) == 1  # nothing was left out
    assert "there are 2 and 5" in found.differences.note
    assert st.scores(source, over="splits").shape == (5, 4)
    assert st.scores(source, algorithms=["upu"]).loc["d0, case 1, OS 30%", "upu"] == pytest.approx(
        70
    )


def test_mistakes() -> None:
    for wrong in (
        {"metrics": "acuracy"},
        {"criteria": "pu"},
        {"over": "problem"},
        {"algorithms": ["upx"]},
        {"reference": "nnpx"},
    ):
        with pytest.raises(UserError, match="did you mean"):
            st.statistics(many(), **wrong)  # type: ignore[arg-type]


def test_command(tmp_path: Any) -> None:
    store = Folder.create(tmp_path, {"name": "x"}, "abc")
    names = [(i, a) for i in range(6) for a in ("upu", "nnpu", "vpu")]
    parts = [
        curves("f", algorithm=a, dataset=f"d{i}").assign(run=f"{a}{i}-" + curves("f")["run"])
        for i, a in names
    ]
    parts = [part.assign(test_accuracy=len(part["algorithm"].iloc[0]) / 10) for part in parts]
    store.write_shard("f", pd.concat(parts))
    done = CliRunner().invoke(app, ["stats", str(tmp_path), "--json", "--criterion", "pa"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)
    assert found["n"] == 6
    assert found["friedman"]["chi2"] > 0
    text = (
        CliRunner()
        .invoke(app, ["stats", str(tmp_path), "--criterion", "pa", "--metric", "accuracy,auc"])
        .stdout
    )
    for words in (
        "Accuracy, models chosen by PA",
        "AUC, models chosen by PA",
        "Friedman",
        "n = 6",
        "critical difference",
        "Holm",
        "has the highest mean accuracy",
        "cases of one dataset stay together",
        "Elo from battles on n = 6 problems",
        "interquartile mean of n = ",
        "Bayesian signed-rank test",
    ):
        assert words in " ".join(text.split())
    wrong = CliRunner().invoke(app, ["stats", str(tmp_path), "--metric", "acuracy"])
    assert (wrong.exit_code, "did you mean 'accuracy'" in wrong.stderr) == (2, True)
