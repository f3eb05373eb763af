"""Predict from a table with text columns and missing values, with some labeled positives and an
unknown prior.

python examples/own_table.py [rows] [penguins.csv]

The table is palmerpenguins (Horst, Hill, Gorman 2020; public domain, CC0). It is downloaded from
OpenML if no file is given.
"""

import sys
import tempfile

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_openml

from puarena import PUClassifier, load_model

rows = int(sys.argv[1]) if len(sys.argv) > 1 else None

# The table has two text columns and missing values. A third of the females are labeled. The true
# classes are used in the last line only.
table = pd.read_csv(sys.argv[2]) if len(sys.argv) > 2 else fetch_openml(data_id=42585).frame
table = table.dropna(subset=["sex"])[:rows]
female = (table.pop("sex") == "FEMALE").to_numpy()
labeled = female & (np.random.default_rng(0).random(len(table)) < 1 / 3)
print(
    f"{labeled.sum()} labeled positives, {(~labeled).sum()} unlabeled rows, columns: {', '.join(table)}"
)

# The classifier estimates the share of positives and selects learners on held-out rows.
clf = PUClassifier(random_state=0)
clf.fit(table, labeled)
probability = clf.predict_proba(table)[:, 1]
low, high = clf.prior_interval_
print(
    f"estimated share of positives {clf.prior_:.2f} ({low:.2f} to {high:.2f}); true {female.mean():.2f}"
)
for line in clf.report_:
    print(f"  {line['learner']:<14} PA {line['pa']:.3f}  {line['why']}")

# How much hangs on the estimated share?
for row in clf.sensitivity(table, labeled):
    print(
        f"  prior {row['prior']:.2f}: {row['positive']:.0%} positive, {row['changed']:.1%} of the rows change sides"
    )

# Keep it and use it elsewhere; no pickle is involved.
with tempfile.TemporaryDirectory() as folder:
    again = load_model(clf.save(f"{folder}/model.skops"))
    assert np.array_equal(again.predict_proba(table)[:, 1], probability)

print(f"accuracy on the unlabeled rows: {clf.score(table[~labeled], female[~labeled]):.3f}")
