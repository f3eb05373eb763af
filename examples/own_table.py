"""From a table of one's own to predictions: labeled positives, everything else unlabeled, no prior known.

python examples/own_table.py [steps]
"""

import sys
import tempfile

import numpy as np
from sklearn.datasets import load_breast_cancer

from puarena import PUClassifier, load_model

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2000

# The table: a third of the benign cases are known, nothing is known about the rest. (The truth is for the last line.)
X, truth = load_breast_cancer(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
labeled = (truth == 1) & (rng.random(len(X)) < 1 / 3)
print(f"{labeled.sum()} labeled positives, {(~labeled).sum()} unlabeled rows, {X.shape[1]} features")

# Five lines: the prior is estimated, rows are held out, and the best checkpoint is kept by proxy accuracy.
clf = PUClassifier("nnpu", prior="estimate", setting="one-sample", steps=steps, random_state=0)
clf.fit(X, labeled)
unlabeled = X[~labeled]
probability = clf.predict_proba(unlabeled)[:, 1]
print(f"estimated prior {clf.prior_:.2f} (true {truth.mean():.2f}), checkpoint of step {clf.best_step_}")

# How much hangs on the estimated prior?
for row in clf.sensitivity(X, labeled):
    print(f"  prior {row['prior']:.2f}: {row['positive']:.0%} positive, {row['changed']:.1%} of the rows change sides")

# Keep it and use it elsewhere; no pickle is involved.
with tempfile.TemporaryDirectory() as folder:
    again = load_model(clf.save(folder))
    assert np.array_equal(again.predict_proba(unlabeled)[:, 1], probability)

print(f"accuracy on the unlabeled rows: {clf.score(unlabeled, truth[~labeled] == 1):.3f}")
