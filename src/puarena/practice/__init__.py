"""PU learning for practitioners: estimators, searches, scores and splits with the manners of scikit-learn."""

from puarena.practice.scar import ScarTest, scar_test

__all__ = ["ScarTest", "scar_test"]
