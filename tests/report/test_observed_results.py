"""Results on observed labels: the table per dataset, and the order against simulated labels."""

import math

import numpy as np
import pandas as pd
import pytest

from puarena import report
from puarena.report.bias import correlate_orders, read_observed
from sample_results import curves, frame

METHODS = ["nnpu", "vpu", "upu", "dist-pu", "pusb"]


def results(labeling, order, prior=math.nan):
    """Return records of methods whose AUC falls in an order, three problems with two splits."""
    rng = np.random.default_rng(0)
    rows = []
    for place, name in enumerate(order):
        for case in (1, 2, 3):
            for split in (0, 1):
                auc = 0.9 - 0.05 * place + 0.001 * rng.normal()
                rows.append(
                    {
                        "algorithm": name,
                        "case": case,
                        "split": split,
                        "step": 100,
                        "test_auc": auc,
                        "labeling": labeling,
                        "prior": prior,
                        "prior_used": 0.3,
                        "run": f"{labeling}-{name}-{case}-{split}",
                    }
                )
    return frame(rows)


def test_methods_are_ranked_on_observed_problems_only():
    both = pd.concat([results("observed", METHODS), results("scar", METHODS[::-1], prior=0.5)])
    (table,) = read_observed(both)
    assert [row.algorithm for row in table.rows] == METHODS
    assert {row.problems for row in table.rows} == {3}
    first = table.rows[0]
    assert first.auc == pytest.approx(0.9, abs=0.005)
    assert first.interval[0] < first.auc < first.interval[1]
    assert np.isnan(table.prior)
    assert table.prior_used == pytest.approx(0.3)
    assert read_observed(results("scar", METHODS, prior=0.5)) == []


@pytest.mark.parametrize(("order", "sign"), [(METHODS, 1), (METHODS[::-1], -1)])
def test_the_orders_are_compared(order, sign):
    found = correlate_orders(results("observed", METHODS), results("scar", order, prior=0.5))
    assert found.value == pytest.approx(sign)
    assert found.methods == len(METHODS)
    assert found.interval[0] <= found.value <= found.interval[1]
    few = results("scar", METHODS[:3], prior=0.5)
    assert correlate_orders(results("observed", METHODS), few) is None


def test_methods_are_compared_in_their_form_for_the_setting():
    # On one sample the plain forms are worst, and say nothing of an order in two samples.
    observed = results("observed", ["nnpu", "vpu", "upu", "dist-pu"]).assign(setting="ts")
    both = ["nnpu-c", "vpu-c", "upu-c", "dist-pu-c", "dist-pu", "upu", "vpu", "nnpu"]
    found = correlate_orders(observed, results("scar", both, prior=0.5))
    assert found.methods == 4
    assert found.value == pytest.approx(1)


def test_a_method_without_a_value_is_left_out():
    lacking = results("observed", METHODS)
    lacking.loc[(lacking["algorithm"] == "nnpu") & (lacking["case"] == 1), "val_pa"] = np.nan
    found = correlate_orders(lacking, results("scar", METHODS, prior=0.5))
    assert found.methods == len(METHODS) - 1


def test_the_page_has_a_section(tmp_path):
    parts = {"observed": [], "scar": []}
    for labeling, own in parts.items():
        for place, name in enumerate(METHODS):
            given = {"dataset": "d", "case": 1, "split": 0, "setting": "os", "labeling": labeling}
            auc = 0.9 - 0.05 * place
            fleet = f"{labeling}-{name}"
            own.append(curves(fleet, 1, 2, algorithm=name, test_auc=auc, **given))
    page = tmp_path / "page.html"
    report.write_page(pd.concat(parts["observed"] + parts["scar"]), page, ["auc"], ["pa"])
    text = page.read_text()
    assert 'id="observed"' in text
    assert "rank correlation of their AUC 1.00" in text
    report.write_page(pd.concat(parts["scar"]), page, ["auc"], ["pa"])
    assert 'id="observed"' not in page.read_text()
