"""The classics as rows of the benchmark: registered names whose run is one fit of an estimator, not steps."""

from __future__ import annotations

from typing import Any, ClassVar

from puarena.algorithms.core.base import Algorithm
from puarena.errors import UserError


class Classic(Algorithm):
    """A registered classic. It is not trained by steps; the benchmark fits its estimator (``bench.classic_rows``)."""

    setting = "one-sample"
    needs_prior = False
    networks = ()
    cost = 0.0
    estimator: ClassVar[str] = ""  # of puarena.classics
    options: ClassVar[dict[str, Any]] = {}

    @classmethod
    def make(cls, seed: int) -> Any:
        """An unfitted estimator."""
        from puarena import classics

        return getattr(classics, cls.estimator)(**cls.options, random_state=seed % 2**31)

    def prepare(self) -> None:
        """Refuse: there is nothing to train by steps."""
        raise UserError(f"{self.name} is not trained by steps; use puarena.classics.{self.estimator}")


class ElkanNoto(Classic):
    """``p(s=1|x) / c`` with c the mean of p(s=1|x) over held-out positives; logistic regression."""

    name, title, estimator = "elkan-noto", "Elkan-Noto", "ElkanNotoClassifier"
    paper = "Elkan, Noto: Learning classifiers from only positive and unlabeled data, KDD 2008"


class ElkanNotoWeighted(Classic):
    """Unlabeled rows twice: as positive with weight (1-c)/c g/(1-g), as negative with the rest; logistic regression."""

    name, title, estimator = "elkan-noto-weighted", "Elkan-Noto weighted", "ElkanNotoClassifier"
    options: ClassVar[dict[str, Any]] = {"weighted": True}
    paper = ElkanNoto.paper


class BaggingPU(Classic):
    """The mean of 50 trees, each of all positives against as many random unlabeled rows."""

    name, title, estimator = "bagging-pu", "Bagging PU", "BaggingPUClassifier"
    paper = (
        "Mordelet, Vert: A bagging SVM to learn from positive and unlabeled examples, Pattern Recognition Letters 2014"
    )


class Spies(Classic):
    """Unlabeled rows that score below hidden positives are negatives; then logistic regression against these."""

    name, title, estimator = "spies", "Spies", "SpiesClassifier"
    paper = "Liu, Lee, Yu, Li: Partially supervised classification of text documents, ICML 2002"


class BiasedLR(Classic):
    """Logistic regression of P against U, both sides with the same total weight."""

    name, title, estimator = "biased-lr", "Biased LR", "BiasedClassifier"
    paper = "Lee, Liu: Learning with positive and unlabeled examples using weighted logistic regression, ICML 2003"


CLASSICS: tuple[type[Classic], ...] = (ElkanNoto, ElkanNotoWeighted, BaggingPU, Spies, BiasedLR)
