"""PU learning for practitioners: estimators, searches, scores and splits with the manners of scikit-learn."""
