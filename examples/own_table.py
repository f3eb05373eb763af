"""Find people who do not know that they have diabetes, in a table with text and missing values.

    python examples/own_table.py [rows]

The table is part of the package (NHANES 2017-2018, public domain): adults by answers and
measurements, of whom some were told by a doctor that they have diabetes. These are the labeled
positives. A laboratory value tells who else has it; it is used in the last lines only.
"""

import sys
import tempfile

import numpy as np
from sklearn.metrics import roc_auc_score

from puarena import PUClassifier, load_model
from puarena.datasets.builtin import nhanes_diabetes

rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2000

table = nhanes_diabetes.read_frame()[:rows]
labeled = table.pop("diagnosed").to_numpy() == 1
diabetes = labeled | (table.pop("hba1c").to_numpy() >= nhanes_diabetes.THRESHOLD_PERCENT)
text = table.select_dtypes(exclude="number").shape[1]
print(
    f"{labeled.sum()} labeled positives, {(~labeled).sum()} unlabeled rows, {table.shape[1]} "
    f"columns, {text} of them text, {table.isna().to_numpy().mean():.0%} of the values missing"
)

# The classifier estimates the share of positives and selects learners on held-out rows.
clf = PUClassifier(random_state=0)
clf.fit(table, labeled)
probability = clf.predict_proba(table)[:, 1]
low, high = clf.prior_interval_
print(f"estimated share of positives {clf.prior_:.2f} ({low:.2f} to {high:.2f})")
for line in clf.report_:
    print(f"  {line['learner']:<14} PA {line['pa']:.3f}  {line['why']}")

# How much depends on the estimated share?
for row in clf.sensitivity(table, labeled):
    print(
        f"  prior {row['prior']:.2f}: {row['positive']:.0%} positive, "
        f"{row['changed']:.1%} of the predictions change"
    )

# Save it and use it elsewhere; no pickle is involved.
with tempfile.TemporaryDirectory() as folder:
    again = load_model(clf.save(f"{folder}/model.skops"))
    assert np.array_equal(again.predict_proba(table)[:, 1], probability)

# Doctors do not find patients at random, so the estimated share can be wrong; the order of the
# unlabeled people is what helps to invite some of them for a test.
hidden = diabetes[~labeled]
found = hidden[np.argsort(-probability[~labeled])][: len(hidden) // 5]
print(f"true share of positives {diabetes.mean():.2f}, of whom {hidden.sum()} do not know")
print(f"AUC on the unlabeled rows: {roc_auc_score(hidden, probability[~labeled]):.3f}")
print(f"the highest fifth of them has {found.sum()} of the {hidden.sum()}")
