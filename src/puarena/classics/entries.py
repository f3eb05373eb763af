"""The classics as entries of the catalog: a run is one fit of an estimator, not steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from puarena import classics
from puarena.algorithms.core.entry import Entry


@dataclass(frozen=True)
class ClassicEntry(Entry):
    """A classic: the class of ``puarena.classics`` it is, and the options it is made with."""

    estimator: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    minutes_on_images: int = 0

    fits = True

    def make(self, seed: int, prior: float | None = None) -> Any:
        """An unfitted estimator; ``prior`` is for one that needs it."""
        known = {"prior": prior} if self.needs_prior and prior is not None else {}
        return getattr(classics, self.estimator)(**self.options, **known, random_state=seed % 2**31)


def _classic(
    name: str, title: str, estimator: str, paper: str, objective: str, **more: Any
) -> ClassicEntry:
    facts: dict[str, Any] = {
        "base": name,
        "origin": "classic",
        "setting": "one-sample",
        "needs_prior": False,
    }
    return ClassicEntry(
        name, title, paper, objective=objective, in_paper=False, estimator=estimator, **facts | more
    )


_PUET = (
    "Wilton, Koay, Ko, Xu, Ye: Positive-unlabeled learning using random forests via recursive greedy risk "
    "minimization, NeurIPS 2022"
)
_PUET_DIFFERS = (
    "Cuts are uniform between a node's lowest and highest value, where the authors' keep away from its outermost gaps; "
    "trees rank by their mean posterior, where the authors have votes only; the calibrated form is ours."
)
_ELKAN_NOTO = "Elkan, Noto: Learning classifiers from only positive and unlabeled data, KDD 2008"
CLASSICS: dict[str, ClassicEntry] = {
    entry.name: entry
    for entry in (
        _classic(
            "elkan-noto",
            "Elkan-Noto",
            "ElkanNotoClassifier",
            _ELKAN_NOTO,
            "``p(s=1|x) / c`` with c the mean of p(s=1|x) over held-out positives; logistic regression.",
        ),
        _classic(
            "elkan-noto-weighted",
            "Elkan-Noto weighted",
            "ElkanNotoClassifier",
            _ELKAN_NOTO,
            "Unlabeled rows twice: as positive with weight (1-c)/c g/(1-g), as negative with the rest; "
            "logistic regression.",
            options={"weighted": True},
        ),
        _classic(
            "bagging-pu",
            "Bagging PU",
            "BaggingPUClassifier",
            "Mordelet, Vert: A bagging SVM to learn from positive and unlabeled examples, Pattern Recognition "
            "Letters 2014",
            "The mean of 50 trees, each of all positives against as many random unlabeled rows.",
            minutes_on_images=45,
        ),
        _classic(
            "spies",
            "Spies",
            "SpiesClassifier",
            "Liu, Lee, Yu, Li: Partially supervised classification of text documents, ICML 2002",
            "Unlabeled rows that score below hidden positives are negatives; then logistic regression against these.",
        ),
        _classic(
            "biased-lr",
            "Biased LR",
            "BiasedClassifier",
            "Lee, Liu: Learning with positive and unlabeled examples using weighted logistic regression, ICML 2003",
            "Logistic regression of P against U, both sides with the same total weight.",
        ),
        _classic(
            "sar-em-lr",
            "SAR-EM LR",
            "SarEMClassifier",
            "Bekker, Robberechts, Davis: Beyond the selected completely at random assumption for learning from "
            "positive and unlabeled data, ECML PKDD 2019",
            "EM for ``p(s=1|x) = e(x) h(x)``, e and h logistic regressions; then h by inverse propensities.",
            options={"max_iter": 30},
            minutes_on_images=60,
        ),
        _classic(
            "puet",
            "PUET",
            "PUExtraTreesClassifier",
            _PUET,
            "100 extremely randomized trees whose splits minimize ``sum of 4 W v (1-v)`` over the children, "
            "``v = W_p / W``, ``W_p = prior p/n_P``, ``W = u/n_U``; a node with v > 1 is pure.",
            options={"setting": "two-sample"},
            setting="two-sample",
            needs_prior=True,
            calibrated_form="puet-c",
            differs=_PUET_DIFFERS,
            minutes_on_images=10,
        ),
        _classic(
            "puet-c",
            "PUET-c",
            "PUExtraTreesClassifier",
            _PUET,
            "PUET with ``W = (p+u)/(n_P+n_U)``: the marginal sample is P and U together.",
            options={"setting": "one-sample"},
            base="puet",
            needs_prior=True,
            calibrated=True,
            differs=_PUET_DIFFERS,
            minutes_on_images=10,
        ),
    )
}
