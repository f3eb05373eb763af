"""Choose a method and its configuration without negatives.

python examples/choosing_without_negatives.py [steps]
"""

import sys

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import RandomizedSearchCV, train_test_split

from puarena import PUNetClassifier, PUSearch, PUStratifiedKFold, proxy_accuracy

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 2000

# Even digits are positive, 40 % of them are labeled; the test part keeps its true labels for the
# last column.
X, digit = load_digits(return_X_y=True)
X, X_test, even, even_test = train_test_split(X, digit % 2 == 0, test_size=0.3, random_state=0)
labeled = even & (np.random.default_rng(0).random(len(X)) < 0.4)

# All configurations of an algorithm with the same batch size are trained together. They are selected
# by PA, which needs no negatives: it estimates accuracy + prior from held-out positives and unlabeled
# rows.
base = PUNetClassifier("nnpu", prior=0.5, steps=steps, random_state=0)
search = PUSearch(
    base, algorithms=["nnpu", "vpu", "dist-pu"], n_iter=4, criterion="pa", random_state=0
)
search.fit(X, labeled)
print(search.table())
print(
    f"chosen: {search.best_params_['algorithm']}, PA - prior = {search.best_score_ - 0.5:.3f} on held-out rows"
)
print(f"true accuracy on the test part: {search.score(X_test, even_test):.3f}")

# The same with scikit-learn's own search: a scorer that needs no negatives, and folds that keep P
# and U in proportion.
folds = PUStratifiedKFold(3, random_state=0)
theirs = RandomizedSearchCV(
    base, {"lr": [1e-3, 3e-3, 1e-2]}, n_iter=2, scoring=proxy_accuracy, cv=folds, random_state=0
)
theirs.fit(X, labeled)
print(
    f"scikit-learn's search: lr {theirs.best_params_['lr']:g}, PA - prior = {theirs.best_score_ - 0.5:.3f}"
)
