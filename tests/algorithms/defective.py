"""Algorithms with one defect each, which the checks of the contract must find.

``DEFECTS`` has, by promise, classes that break it, with a pattern of the message.
"""

from __future__ import annotations

import inspect
import sys

import torch

from puarena.algorithms import Algorithm, Phase, logistic
from puarena.training import Fleet


def find_fleet(frame):
    """Return the fleet of a frame that called; Python hides none of them."""
    while True:
        found = [value for value in frame.f_locals.values() if isinstance(value, Fleet)]
        if found:
            return found[0]
        frame = frame.f_back


class Sound(Algorithm):
    """The smallest algorithm that keeps every promise: telling P from U."""

    name = "sound"
    title = paper = "Sound"

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1) + logistic(f_u, -1).mean(-1)


class Mistakes(Sound):
    """Confuses the two sides."""

    def objective(self, f_p, f_u):
        return super().objective(-f_p, -f_u)


class SaysYes(Sound):
    """Ranks well and calls everything positive."""

    def outputs(self, x):
        f = self.f(x)
        return f.abs() + 1, f


class Leaks(Sound):
    """Pulls every run towards the mean of all."""

    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) + f_u.mean() ** 2


class UsesGlobalRandomness(Sound):
    """Draws from torch's global generator instead of the run's own stream."""

    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) * torch.rand(1, device=f_u.device)


class SpreadsRuin(Sound):
    """Changes nothing while all runs are finite; zero times NaN is NaN."""

    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) * (1 + 0 * f_u.sum())


class HidesRuin(Sound):
    """Returns zero for outputs that are NaN, which hides that the run diverged."""

    def outputs(self, x):
        f = self.f(x).nan_to_num()
        return f, f


class NeedsPositivesInU(Sound):
    """Weighs by the prior inside U, normalized: 0/0 if U has no positive."""

    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) * (self.shifted_prior / self.shifted_prior)


class NeedsTwoPoints(Sound):
    """Omits one point from the mean: 0/0 if there is only one."""

    def objective(self, f_p, f_u):
        return logistic(f_p, +1).mean(-1) + logistic(f_u[:, 1:], -1).mean(-1)


class Supervised(Sound):
    """Asks for the true labels of U, and is no baseline."""

    supervised = True

    def loss(self, batch):
        f_p, f_u = batch.split(self.f(batch.x))
        right = batch.label_u * logistic(f_u, +1) + (1 - batch.label_u) * logistic(f_u, -1)
        return logistic(f_p, +1).mean(-1) + right.mean(-1)


class KnowsPropensities(Sound):
    """Asks for the true propensities, and is no baseline."""

    knows_propensity = True


class GoesThroughTheSideDoor(Sound):
    """Reaches the hidden labels through the frames that called it, which Python cannot close."""

    def prepare(self):
        self.state("label_u", self.prior.new_zeros(self.setup.runs, self.setup.n_u))

    def on_phase(self, phase, passes):
        fleet = find_fleet(sys._getframe())
        for i, row in enumerate(fleet.rows):
            self.label_u[i] = torch.tensor(row.hidden.u_train)

    def loss(self, batch):
        f_p, f_u = batch.split(self.f(batch.x))
        label = self.label_u.gather(1, batch.i_u)
        return super().objective(f_p, f_u) + (label * logistic(f_u, +1)).mean(-1)


class TrainsOnTestPoints(Sound):
    """Pulls unlabeled points to one side of the mean test point, found through the frames."""

    def prepare(self):
        self.state("center", self.prior.new_zeros(1))

    def on_phase(self, phase, passes):
        fleet = find_fleet(sys._getframe())
        self.center.fill_(float(fleet.features[fleet.held.test].mean()))

    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) + (f_u.tanh() - self.center).square().mean(-1)


class LooksAtTheWholeSet(Sound):
    """Calls the better half of the evaluated points positive."""

    def outputs(self, x):
        f = self.f(x)
        return f - f.median(-1, keepdim=True).values, f


class KnowsWhatIsEvaluatedNext(Sound):
    """Counts its evaluations: the first set of three is P'."""

    def prepare(self):
        self.state("calls", self.prior.new_zeros(1))

    def outputs(self, x):
        f = self.f(x)
        shift = 100 * (self.calls % 3 == 0)
        self.calls += 1
        return f + shift, f + shift


class BeginsToCountAtTheThreshold(KnowsWhatIsEvaluatedNext):
    """Knows P' by the threshold, which is computed before it is evaluated."""

    def threshold(self, passes):
        self.calls.zero_()


class KnowsTheSizeOfAValidationSet(Sound):
    """Recognizes U' by its size."""

    def prepare(self):
        self.state("size", self.prior.new_zeros(1))

    def threshold(self, passes):
        self.size.fill_(passes.val_u(self.f).shape[1])

    def outputs(self, x):
        f = self.f(x)
        shift = 100 * (self.size == x.shape[1])
        return f - shift, f - shift


class Partitions(GoesThroughTheSideDoor):
    """Knows which unlabeled points are of one class, but not which class that is."""

    def loss(self, batch):
        f_p, f_u = batch.split(self.f(batch.x))
        side = 2 * self.label_u.gather(1, batch.i_u) - 1
        return super().objective(f_p, f_u) - (side * f_u.tanh()).mean(-1).square()


class Looks(Sound):
    """Branches on a value, always to the same branch."""

    def objective(self, f_p, f_u):
        value = super().objective(f_p, f_u)
        return -value if value.sum() < 0 else value


class Masks(Sound):
    """Indexes with a boolean mask, though it is always empty."""

    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) + f_u[f_u.isinf()].sum()


class MakesAConstant(Sound):
    """Copies a number to the device in every step."""

    def objective(self, f_p, f_u):
        half = torch.tensor(0.5, device=f_p.device)
        return super().objective(f_p, f_u) * half


class MakesAnIndexOnTheCPU(Sound):
    """Forgets the device of an index, which a CPU forgives."""

    def objective(self, f_p, f_u):
        first = torch.zeros(len(f_p), 1, dtype=torch.int64)
        return super().objective(f_p.gather(1, first), f_u)


class BindsAnew(Sound):
    """Gives a state another tensor instead of other values."""

    def prepare(self):
        self.state("scale", torch.ones_like(self.prior))

    def on_epoch(self, phase, epoch, passes):
        self.scale = self.scale * 0.9

    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) * self.scale


class AsksForThePhase(Sound):
    """Has outputs that depend on the phase, and a record is captured for all phases."""

    phases = (Phase("one", share=0.7), Phase("two"))

    def outputs(self, x):
        f = self.f(x) - float(self.phase.name == "two")
        return f, f


class ReadsAtARecord(Sound):
    """Has a threshold that is computed on the host."""

    def threshold(self, passes):
        return torch.full_like(self.prior, 0 * float(self.prior.sum()))


class Forgets(Sound):
    """Keeps a tensor that is not moved to another device or into a checkpoint."""

    def after_step(self, batch):
        self.total = batch.x.sum()


class ForgetsInAList(Sound):
    """Keeps tensors in a list."""

    def after_step(self, batch):
        self.last = [(batch.x.sum(),)]


class Counts(Sound):
    """Counts epochs in an attribute that is not in checkpoints."""

    def prepare(self):
        self.epochs = 0

    def on_epoch(self, phase, epoch, passes):
        self.epochs += 1

    def schedule(self, phase, step, steps, epoch):
        return {"lr": 1 / (1 + self.epochs)}


class ReturnsNone(Sound):
    """Forgets to return the loss."""

    def objective(self, f_p, f_u):
        super().objective(f_p, f_u)


class ReducesRuns(Sound):
    """Returns one number for all runs."""

    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u).sum()


class KeepsColumns(Sound):
    """Returns a column."""

    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u).unsqueeze(-1)


class LearnsNothing(Sound):
    """Returns numbers without a gradient."""

    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u).detach()


class Overflows(Sound):
    """Has infinite losses."""

    def objective(self, f_p, f_u):
        return super().objective(f_p, f_u) / 0


class Raises(Sound):
    """Raises an error of its own."""

    def objective(self, f_p, f_u):
        raise KeyError("surprise")


def _line(cls, token):
    """Return the number of the line of a class that has a token."""
    lines, first = inspect.getsourcelines(cls)
    return first + next(i for i, line in enumerate(lines) if token in line)


DEFECTS = {
    "learns": {Mistakes: "its best test AUC is", SaysYes: "that of a constant answer"},
    "keeps rows apart": {Leaks: "rows leak"},
    "repeats": {UsesGlobalRandomness: "the same seeds gave other numbers"},
    "isolates ruin": {
        SpreadsRuin: r"these were marked: \[0, 1, 2\]",
        HidesRuin: r"these were marked: \[\]",
    },
    "survives no positives in u": {NeedsPositivesInU: "with no positive in the unlabeled set"},
    "takes any batch size": {
        NeedsTwoPoints: "with batch size 1 its losses or outputs are not finite"
    },
    "ignores hidden labels": {
        Supervised: r"receives the true labels .* \(baseline = True\)",
        KnowsPropensities: r"receives the true propensities .* \(baseline = True\)",
        GoesThroughTheSideDoor: "labels it must not see",
        Partitions: "labels it must not see",
    },
    "ignores test points": {TrainsOnTestPoints: "test points it must not see"},
    "scores points alone": {
        LooksAtTheWholeSet: "outputs of a point depend",
        KnowsWhatIsEvaluatedNext: "outputs of a point depend",
        BeginsToCountAtTheThreshold: "outputs of a point depend",
        KnowsTheSizeOfAValidationSet: "outputs of a point depend",
    },
    "steps without looking": {
        Looks: r"\.item\(\) or a branch on a tensor",
        Masks: "boolean-mask indexing",
    },
    "captured equals eager": {
        MakesAConstant: rf"line {_line(MakesAConstant, 'torch.tensor')} of defective.py",
        MakesAnIndexOnTheCPU: rf"line {_line(MakesAnIndexOnTheCPU, 'gather')} of defective.py",
        BindsAnew: rf"line {_line(BindsAnew, '0.9')} of defective.py .*'scale'.*copy_",
        AsksForThePhase: rf"line {_line(AsksForThePhase, 'phase.name')} of .* self.phase",
        ReadsAtARecord: rf"line {_line(ReadsAtARecord, 'float')} of defective.py .*item",
    },
    "registers its state": {Forgets: "the tensor 'total'", ForgetsInAList: "'last'"},
    "resumes": {Counts: "it goes another way"},
}
# Promises that such a defect necessarily breaks too: if runs mix, a ruined one changes others;
# randomness without a seed differs between any two trainings.
ALSO_BROKEN = {
    Leaks: {"isolates ruin"},
    UsesGlobalRandomness: {
        "keeps rows apart",
        "isolates ruin",
        "ignores hidden labels",
        "ignores test points",
        "captured equals eager",
        "resumes",
    },
    Looks: {"captured equals eager"},  # what looks at a value is not captured
    Masks: {"captured equals eager"},
}
QUICK_DEFECTS = {  # with what the message must name
    ReturnsNone: "None",
    ReducesRuns: "a single number",
    KeepsColumns: "[runs, 1]",
    LearnsNothing: "do not depend on the network",
    Overflows: "not finite",
    Raises: "KeyError: 'surprise' (line",
    Leaks: "rows mix",
}
