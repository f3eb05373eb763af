"""The test of labeling at random."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from typer.testing import CliRunner

from puarena.cli import app
from puarena.estimators import scar_test
from puarena.estimators.scar import compute_divergence, describe_bias


def table(slope, n=1500, seed=0):
    """The class lies along ``size``; labels follow ``age``."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.4
    x = rng.normal(size=(n, 3))
    x[:, 0] += 4 * y
    labeled = y & (rng.random(n) < expit(slope * x[:, 1] - 0.4))
    return pd.DataFrame(x, columns=["size", "age", "noise"]), labeled


def test_labels_at_random_are_not_rejected_and_biased_ones_are():
    fair = [
        scar_test(*table(0.0, seed=seed), label_frequency=0.4, n_draws=60).rejected
        for seed in range(6)
    ]
    assert sum(fair) <= 1
    answer = scar_test(*table(2.5), label_frequency=0.45, n_draws=60)
    assert answer.rejected
    assert answer.p_value < 0.05
    assert "age" in answer.features
    assert "noise" not in answer.features
    assert "age" in answer.describe()


def test_the_answer_repeats_and_estimates_the_frequency_itself():
    X, labeled = table(0.0, 800)
    one, two = (scar_test(X.to_numpy(), labeled.astype(int), n_draws=20) for _ in range(2))
    assert one == two
    assert 0.1 < one.label_frequency <= 1
    assert one.hidden >= 10
    assert f"{one.p_value:.3g}" in one.describe()


def test_divergence_is_the_gaussian_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    x = np.column_stack([x, np.ones(50)])
    flags = np.arange(50) < 20
    u1, a, u2, b = (part[:2] for part in (x[flags].mean(0), x[flags].var(0), x.mean(0), x.var(0)))
    expected = 0.5 * ((u2 - u1) ** 2 / b + a / b - np.log(a / b) - 1)
    one, everything = compute_divergence(x, np.array([flags, np.ones(50, bool)]))
    assert one == pytest.approx([*expected, 0])
    assert everything == pytest.approx([0, 0, 0])


@pytest.mark.parametrize(
    ("labels", "options", "words"),
    [
        (np.zeros(20), {}, "0 of 20 rows"),
        (np.ones(20), {}, "20 of 20 rows"),
        (np.arange(20) < 8, {"label_frequency": 1.5}, "label_frequency is 1.5"),
    ],
)
def test_wrong_input(labels, options, words):
    with pytest.raises(ValueError, match=words):
        scar_test(np.random.default_rng(0).normal(size=(20, 2)), labels, **options)


@pytest.mark.parametrize(("slope", "warned"), [(0.0, False), (3.0, True)])
def test_fit_warns_where_labels_are_biased(slope, warned, tmp_path):
    X, labeled = table(slope, seed=1)
    X.assign(label=labeled.astype(int)).to_csv(tmp_path / "table.csv", index=False)
    options = ["--label", "label", "--out", str(tmp_path / "model"), "--prior", "0.4"]
    options += ["--algorithm", "biased-lr"]
    result = CliRunner().invoke(app, ["fit", str(tmp_path / "table.csv"), *options])
    assert result.exit_code == 0
    assert ("given at random" in result.stderr) == warned
    two = CliRunner().invoke(
        app, ["fit", str(tmp_path / "table.csv"), *options, "--setting", "two-sample"]
    )
    assert "given at random" not in two.stderr


def test_tables_with_text_and_gaps_are_tested_too(tmp_path):
    X, labeled = table(2.5)
    X["town"] = np.where(np.arange(len(X)) % 2, "A", "B")
    X.loc[::7, "noise"] = np.nan
    answer = scar_test(X, labeled, label_frequency=0.45, n_draws=60)
    assert answer.rejected
    assert "age" in answer.features
    town = X.assign(town=np.where(labeled, "A", "B"))  # a column that says who was labeled
    assert any(name.startswith("town = ") for name in scar_test(town, labeled, 0.45, 60).features)
    X.assign(s=labeled.astype(int)).head(300).to_csv(tmp_path / "t.csv", index=False)
    options = ["--label", "s", "--out", str(tmp_path / "model"), "--algorithm", "biased-lr"]
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "t.csv"), *options])
    assert done.exit_code == 0, done.output


def test_overlapping_classes_are_less_often_a_false_alarm():
    alarms, everything = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = rng.random(20_000) < 0.3
        x = rng.normal(size=(20_000, 4)) + 0.8 * y[:, None]
        labeled = y & (rng.random(20_000) < 0.3)
        alarms.append(describe_bias(x, labeled, "one-sample", 0.3))
        everything.append(scar_test(x, labeled, 0.3, n_draws=60).rejected)
    assert sum(map(bool, alarms)) < sum(everything)
    assert all("overlap" in text for text in alarms if text)
