"""Self-PU: self-boosted positive-unlabeled training, here without the self-calibration.

Chen, Chen, Chen, Yuan, Gong, Chen, Wang: Self-PU: Self boosted and calibrated positive-unlabeled
training. ICML 2020.
"""

from dataclasses import replace
from math import exp
from typing import ClassVar

import torch
from torch import Tensor, nn

from puarena.algorithms._base import Algorithm, Batch, Hyper, Passes, Phase, Update
from puarena.algorithms._losses import ascent_step, col, cross_entropy, ema_, frozen_copy, move_
from puarena.algorithms._optimizer import Declared, Optimizer

# What the authors schedule by their epochs happens here after the same share of all steps.
EPOCHS = 200
MARKS = (10, 20, 30, 40)  # epochs after which each student selects clean points
TAUGHT = 50  # the epoch from which students agree with each other and with their teachers
TOP = {"f": 0.4, "g": 0.6}  # the share of U that the two students select at the end
AVERAGES = 2 * EPOCHS  # a teacher moves twice per epoch
MAX_DECAY = 0.999  # of a teacher
ADAM = Optimizer(
    "adam",
    5e-4,
    weight_decay=5e-3,
    schedule="cosine",
    source="the authors' code, one wave; the moments begin anew here",
)


class SelfPU(Algorithm):
    """``noisy + mean H(s) over clean U``, later ``+ [A < mutual noisy] A + weight mean (s - t)^2``.

    ``noisy`` is nnPU's step with the sigmoid loss on P and the members of U that are not clean.
    There are two students; at 5, 10, 15 and 20% of training each takes its highest and lowest
    scoring members of U as clean. From 25% on, ``A = mean (s - s_other)^2`` over P and the rest of
    U, and t are the scores of teachers, the running means of the students. The teachers' mean logit
    predicts; before 25% that of the students does.
    """

    name, title = "self-pu", "Self-PU"
    paper = (
        "Chen et al.: Self-PU: Self boosted and calibrated positive-unlabeled training, ICML 2020"
    )
    setting, calibrates, in_paper = "two-sample", True, False
    networks = ("f", "g")
    phases = (
        Phase("paced", (Update("paced_loss", ("f", "g")),), share=TAUGHT / EPOCHS),
        Phase("taught", (Update("loss", ("f", "g")),)),
    )
    authors_optimizer: ClassVar[Declared] = {
        "paced": replace(ADAM, part=(0.0, TAUGHT / EPOCHS)),
        "taught": replace(ADAM, part=(TAUGHT / EPOCHS, 1.0)),
    }
    cost = 2.6
    differs = (
        "Without self-calibration, whose meta batches are the test inputs. The authors' "
        "consistency term takes a softmax of one logit and is zero; here it is repaired. They make "
        "separate passes over clean and noisy points, train with Adam for 200 epochs and report "
        "the best of four networks on the test set."
    )

    beta = Hyper(0.0, "tolerance: how far below zero the negative part may fall")
    gamma = Hyper(1.0, "scale of the ascent step, 0 to 1")
    mutual = Hyper(0.1, "students agree where their distance is below this part of the noisy loss")
    clean_label = Hyper(
        "soft", "clean points: entropy, or cross entropy with their label", choices=("soft", "hard")
    )

    g: nn.Module
    teacher_f: nn.Module
    teacher_g: nn.Module
    hard: Tensor
    selected_f: Tensor  # [runs, n_u]: -1 clean negative, 0 not selected, +1 clean positive
    selected_g: Tensor

    def prepare(self) -> None:
        """Create the teachers; nothing is selected yet."""
        self.teacher_f, self.teacher_g = frozen_copy(self.f), frozen_copy(self.g)
        self.flags()
        for name in TOP:
            self.state(f"selected_{name}", self.prior.new_zeros(self.setup.runs, self.setup.n_u))

    def flags(self) -> None:
        """Turn the named option into flags."""
        self.state("hard", self.has_option("clean_label", "hard"))

    # -- the parts of a student's loss, from logits f or scores s = sigmoid(f) ---------------------

    def noisy(self, s_p: Tensor, s_u: Tensor, rest: Tensor) -> Tensor:
        """Return the step of nnPU with the sigmoid loss, on P and where ``rest`` is 1 on U."""
        on_p = s_p.mean(-1)
        on_rest = (rest * s_u).sum(-1) / rest.sum(-1).clamp_min(1)
        negative = torch.lerp(on_rest, on_p, self.w) - self.prior * on_p
        return ascent_step(self.prior * (1 - on_p), negative, self.beta, self.gamma)

    def clean(self, f_u: Tensor, s_u: Tensor, selected: Tensor) -> Tensor:
        """Return the mean entropy of the selected members of U, or their cross entropy."""
        some = selected.abs()
        target = torch.where(col(self.hard), (selected + 1) / 2, s_u)
        return (some * cross_entropy(f_u, target)).sum(-1) / some.sum(-1).clamp_min(1)

    @staticmethod
    def distance(
        s_p: Tensor, s_u: Tensor, other_p: Tensor, other_u: Tensor, rest: Tensor
    ) -> Tensor:
        """Return the mean squared difference to the other student, on P and the rest of U."""
        on_p, on_u = (s_p - other_p.detach()).square(), (s_u - other_u.detach()).square()
        return (on_p.sum(-1) + (rest * on_u).sum(-1)) / (s_p.shape[-1] + rest.sum(-1))

    def agreement(self, noisy: Tensor, distance: Tensor) -> Tensor:
        """Return the distance to the other student if it is small compared to the noisy loss."""
        return torch.where(distance < self.mutual * noisy, distance, 0.0)

    def consistency(self, s: Tensor, s_teacher: Tensor) -> Tensor:
        """Return the mean squared difference to the teacher, on P and all of U."""
        return (s - s_teacher.detach()).square().mean(-1)

    def paced(self, f: Tensor, n_p: int, selected: Tensor) -> Tensor:
        """Return a student's loss before it is taught, from logits on P and U."""
        s = f.sigmoid()
        s_p, s_u = s[..., :n_p], s[..., n_p:]
        return self.noisy(s_p, s_u, 1 - selected.abs()) + self.clean(f[..., n_p:], s_u, selected)

    def taught(
        self, f: Tensor, other: Tensor, teacher: Tensor, n_p: int, selected: Tensor, weight: Tensor
    ) -> Tensor:
        """Return a student's loss from its own, the other student's and its teacher's logits."""
        s, s_other, rest = f.sigmoid(), other.detach().sigmoid(), 1 - selected.abs()
        s_p, s_u = s[..., :n_p], s[..., n_p:]
        noisy = self.noisy(s_p, s_u, rest)
        agreed = self.agreement(
            noisy, self.distance(s_p, s_u, s_other[..., :n_p], s_other[..., n_p:], rest)
        )
        learned = noisy + self.clean(f[..., n_p:], s_u, selected)
        return learned + agreed + weight * self.consistency(s, teacher.sigmoid())

    # -- steps: both students at once, [2, runs, batch] --------------------------------------------

    def students(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return both students' logits, and what each has selected of the unlabeled points."""
        selected = torch.stack(
            [self.selected_f.gather(1, batch.i_u), self.selected_g.gather(1, batch.i_u)]
        )
        return torch.stack([self.f(batch.x), self.g(batch.x)]), selected

    def paced_loss(self, batch: Batch) -> Tensor:
        """Return the sum of both students' losses before they are taught."""
        f, selected = self.students(batch)
        return self.paced(f, batch.n_p, selected).sum(0)

    def loss(self, batch: Batch) -> Tensor:
        """Return the sum of both students' losses; neither learns from the other's."""
        f, selected = self.students(batch)
        with torch.no_grad():
            teacher = torch.stack([self.teacher_f(batch.x), self.teacher_g(batch.x)])
        return self.taught(f, f.flip(0), teacher, batch.n_p, selected, batch.at["weight"]).sum(0)

    def after_step(self, batch: Batch) -> None:
        """Keep the teachers at their students until these are taught, then average."""
        for teacher, student in ((self.teacher_f, self.f), (self.teacher_g, self.g)):
            if self.phase.name == "paced":
                ema_(teacher, student, 0.0)
            else:
                move_(teacher, student, batch.at["move"])

    def outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean logit of the teachers."""
        f = (self.teacher_f(x) + self.teacher_g(x)) / 2
        return f, f

    # -- schedules ---------------------------------------------------------------------------------

    @staticmethod
    def consistency_weight(epoch: float) -> float:
        """Return the weight of the teacher in one of the authors' epochs."""
        return 0.3 * exp(-5 * (1 - min(max(epoch - 30, 0), 400) / 400) ** 2)

    @staticmethod
    def stay(k: int) -> float:
        """Return how much of itself a teacher keeps at its k-th average, from 0.

        Up to k = 998 the teacher is the plain mean.
        """
        return min(1 - 1 / (k + 1), MAX_DECAY)

    def schedule(self, phase: Phase, step: int, steps: int, epoch: int) -> dict[str, float]:
        """Give the weight of the consistency, and how far the teachers move after the step."""
        if phase.name == "paced":
            return {}
        total = self.setup.steps
        between = max(1, total // AVERAGES)
        k, late = divmod(step + 1, between)
        weight = self.consistency_weight(EPOCHS * (total - steps + step) // total)
        return {"weight": weight, "move": 0.0 if late else 1 - self.stay(k - 1)}

    # -- selection ---------------------------------------------------------------------------------

    @staticmethod
    def size(n_u: int, share: float, top: float) -> int:
        """Return how many points are selected at each end after a share of training."""
        return int(n_u * 0.5 * min(2 * share, 1) * top + 1e-9)

    @staticmethod
    def selection(scores: Tensor, m: int) -> Tensor:
        """Return -1 for the m lowest scores of every run, +1 for the m highest, else 0."""
        place = torch.arange(scores.shape[-1], device=scores.device)
        mark = (place >= scores.shape[-1] - m).to(scores.dtype) - (place < m).to(scores.dtype)
        return torch.zeros_like(scores).scatter_(
            -1, scores.argsort(dim=-1, stable=True), mark.expand_as(scores)
        )

    def marks_passed(self, steps: int) -> int:
        """Return how many of the four selections are due after so many steps."""
        return sum(steps * EPOCHS >= mark * self.setup.steps for mark in MARKS)

    def select(self, passes: Passes, mark: int) -> None:
        """Let both students select anew."""
        for name, top in TOP.items():
            m = self.size(self.setup.n_u, mark / EPOCHS, top)
            getattr(self, f"selected_{name}").copy_(
                self.selection(passes.u(getattr(self, name)), m)
            )

    def on_epoch(self, phase: Phase, epoch: int, passes: Passes) -> None:
        """Select after the epoch in which a mark was passed."""
        now, before = (self.marks_passed(max(e, 0) * self.setup.epoch) for e in (epoch, epoch - 1))
        if phase.name == "paced" and now > before:
            self.select(passes, MARKS[now - 1])

    def on_phase(self, phase: Phase, passes: Passes) -> None:
        """Make up for the last selection where no epoch ended after its mark."""
        if phase.name == "taught":
            paced = round(TAUGHT / EPOCHS * self.setup.steps)
            begun = (
                max(paced, 1) - 1
            ) // self.setup.epoch  # the epoch in which the first phase ended
            if self.marks_passed(begun * self.setup.epoch) < len(MARKS):
                self.select(passes, MARKS[-1])
