"""Several learners on one table: cross-fitted, calibrated with the prior, and chosen by PA on rows they did not see."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from puarena.estimators.learners import Learner, PUTable
from puarena.estimators.members import Ensemble, Member, Part
from puarena.estimators.probability import Posterior, fit_posterior
from puarena.estimators.scoring import PRACTICAL, criterion_value
from puarena.estimators.splits import PUStratifiedKFold

Floats = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

FOLDS = 5
BLEND = "all together"
MARGIN = 1.0  # standard errors of PA by which one learner must beat all of them together


@dataclass
class Tried:
    """A learner that was tried: its held-out scores, and what they are worth."""

    name: str
    parts: list[Part]
    score: Floats  # of every row, by fits that did not see it, in the ensemble's units
    posterior: Posterior
    criteria: dict[str, float]
    seconds: float
    note: str = ""

    @property
    def ensemble(self) -> Ensemble:
        """The model."""
        return Ensemble(self.parts)


@dataclass
class Choice:
    """The learner that was chosen, and all that were tried."""

    best: Tried
    tried: list[Tried]
    refused: dict[str, str] = field(default_factory=dict)

    def report(self) -> list[dict[str, Any]]:
        """A line for every learner: ``learner``, the criteria, ``seconds``, ``chosen`` and ``why``."""
        alone = "the only one" if len(self.tried) == 1 else ""
        lines = [
            {
                "learner": t.name,
                **t.criteria,
                "seconds": round(t.seconds, 3),
                "chosen": t is self.best,
                "why": t.note or alone,
            }
            for t in self.tried
        ]
        return lines + [
            {"learner": n, "chosen": False, "why": why} for n, why in self.refused.items()
        ]


def folds_of(table: PUTable) -> Index:
    """Which fold each row is held out in; labeled and unlabeled rows in proportion."""
    n_p, n_u = int(table.target.sum()), int((1 - table.target).sum())
    fold = np.zeros(len(table.target), np.int64)
    parts = min(FOLDS, n_p, n_u)
    if parts < 2:
        return fold
    for k, (_, held) in enumerate(
        PUStratifiedKFold(parts, random_state=table.seed % 2**31).split(fold, table.target)
    ):
        fold[held] = k
    return fold


def choose(
    table: PUTable,
    learners: Sequence[Learner],
    criterion: str,
    say: Callable[[str], None] = lambda text: None,
) -> Choice:
    """Cross-fit every learner and choose.

    All together are chosen, unless one alone is better by more than the standard error of PA: averages are safer than
    winners of a noisy race.
    """
    fold = folds_of(table)
    refused = {each.name: why for each in learners if (why := each.refusal(table))}
    able = [each for each in learners if each.name not in refused]
    if not able:
        raise ValueError("; ".join(refused.values()) + ".")
    tried: list[Tried] = []
    for learner in able:
        began = time.perf_counter()
        score, members = learner.cross_fit(table, fold)
        tried.append(_alone(learner.name, members, score, table, began))
        say(f"{learner.name}: " + _words(tried[-1], criterion))
    if len(tried) == 1:
        return Choice(tried[0], tried, refused)
    began = time.perf_counter()
    together = np.mean([t.score for t in tried], axis=0)
    blend = _tried(BLEND, [t.parts[0] for t in tried], together, table, began)
    say(f"{BLEND}: " + _words(blend, criterion))
    sign = PRACTICAL[criterion].sign
    best = max(tried, key=lambda t: sign * t.criteria[criterion])
    hit = float((blend.posterior(blend.score[table.labels.positive]) >= 0).mean())
    error = 2 * table.prior * np.sqrt(max(hit * (1 - hit), 0.01) / table.target.sum())
    tried.append(blend)
    if sign * (best.criteria[criterion] - blend.criteria[criterion]) > MARGIN * error:
        best.note = f"better than {BLEND} by more than the standard error {error:.3f}"
        return Choice(best, tried, refused)
    blend.note = f"no learner alone is better by more than the standard error {error:.3f}"
    return Choice(blend, tried, refused)


def only(name: str, member: Member, score: Floats, table: PUTable) -> Choice:
    """A model that was fitted elsewhere, judged by its scores of rows it has not seen."""
    tried = _alone(name, [member], score, table, time.perf_counter())
    return Choice(tried, [tried])


def _alone(name: str, members: list[Member], score: Floats, table: PUTable, began: float) -> Tried:
    part = Part(name, members, float(score.mean()), float(score.std()) or 1.0)
    return _tried(name, [part], (score - part.center) / part.scale, table, began)


def _words(tried: Tried, criterion: str) -> str:
    return f"{PRACTICAL[criterion].title} {tried.criteria[criterion]:.4f}, {tried.seconds:.1f} s"


def _tried(name: str, parts: list[Part], score: Floats, table: PUTable, began: float) -> Tried:
    p, u = score[table.labels.positive], score[~table.labels.positive]
    posterior = fit_posterior(p, u, table.prior, table.setting, table.rate)
    decided, one = (posterior(p), posterior(u)), table.setting.one_sample
    criteria = {n: criterion_value(n, *decided, table.prior, one, table.rate) for n in PRACTICAL}
    return Tried(name, parts, score, posterior, criteria, time.perf_counter() - began)


def summary(report: Sequence[dict[str, Any]]) -> str:
    """``report_`` as text."""
    lines = []
    for line in report:
        values = ", ".join(
            f"{c.title} {line[n]:.4f}" for n, c in PRACTICAL.items() if c.default and n in line
        )
        mark = "*" if line["chosen"] else " "
        lines.append(f"{mark} {line['learner']:<14} {values:<28} {line['why']}".rstrip())
    return "\n".join(lines)
