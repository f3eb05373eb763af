"""TEDn, PULDA, Self-PU, ImbPU and PU-AUC, trained on toy problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import puarena
from puarena import algorithms, catalog, training
from puarena.algorithms._losses import col
from puarena.algorithms.imb_pu import ImbPU
from puarena.algorithms.pulda import PULDA
from puarena.algorithms.self_pu import SelfPU
from puarena.algorithms.tedn import TEDn, best_bin
from puarena.experiments.spec import Spec
from puarena.paper import ORDER
from puarena.priors.methods import bbe
from puarena.priors.sample import Sample
from puarena.training import Fleet, FleetConfig
from puarena.training.steps import Stepper
from toys import rows, toy

NAMES = ["tedn", "pulda", "self-pu", "imb-pu", "pu-auc"]
CONFIG = FleetConfig(batch_size=32, steps=200, warmup=60, record_every=20)


def small(name, count=2, setting="ts", steps=200, **row):
    x, data, hidden = toy(prior=0.4, setting=setting, rate=0.25, n=1200)
    return Fleet(rows(name, count, data, hidden, **row), replace(CONFIG, steps=steps), x), data


def setup(runs=3, n_p=6, n_u=9, **more):
    prior = torch.tensor([0.3, 0.5, 0.7], dtype=torch.float64)[:runs]
    return algorithms.Setup(
        prior, prior, prior / 2, torch.ones(runs, dtype=torch.bool), n_p, n_u, n_p, n_u, **more
    )


def test_they_are_registered_after_the_papers_but_are_not_in_them():
    assert list(ORDER[-5:]) == NAMES
    mine = [catalog.get(name) for name in NAMES]
    assert not any(entry.in_paper for entry in mine)
    assert [entry.calibrated_form for entry in mine] == ["", "pulda-c", "self-pu-c", "imb-pu-c", ""]
    assert all(entry.differs and entry.description and entry.cost > 0 for entry in mine)


# -- TEDn ----------------------------------------------------------------------


@pytest.mark.parametrize("setting, told", [("os", "pi-bar"), ("ts", "pi")])
def test_tedn_with_the_true_share_is_cvir_step_by_step(setting, told, monkeypatch):
    x, data, hidden = toy(prior=0.4, setting=setting, rate=0.25, n=1200)
    config = replace(CONFIG, warmup=0, steps=90, record_every=1)
    cvir = training.train(rows("cvir", 3, data, hidden, hyper={"unlabeled_prior": told}), config, x)
    estimated = training.train(rows("tedn", 3, data, hidden), config, x)
    monkeypatch.setattr(TEDn, "estimate", lambda self, passes: self.setup.shifted_prior)
    told_the_truth = training.train(rows("tedn", 3, data, hidden), config, x)
    for name, values in cvir.values.items():
        np.testing.assert_array_equal(values, told_the_truth.values[name], err_msg=name)
    assert not np.array_equal(cvir.values["loss"], estimated.values["loss"])


@pytest.mark.parametrize("setting", ["os", "ts"])
def test_tedn_finds_and_stores_the_share(setting):
    x, data, hidden = toy(prior=0.4, setting=setting, rate=0.25, n=6000, gap=10)
    curves = training.train(rows("tedn", 3, data, hidden), CONFIG, x)
    inside = 0.2 if setting == "os" else 0.4
    warm = np.array(curves.phase) == "warm-up"
    assert warm.sum() == 3
    assert np.isnan(curves.values["val_estimated_share"][warm]).all()
    np.testing.assert_allclose(curves.values["val_true_share"], inside)
    assert np.abs(curves.values["val_estimated_share"][-1] - hidden.u_val.mean()).max() < 0.02
    assert (curves.values["test_accuracy"][-1] > 0.97).all()


def test_tedn_estimates_with_held_out_points_every_epoch():
    some, _ = small("tedn", steps=100)
    seen = []
    val_p, val_u = some.passes.val_p, some.passes.val_u
    some.passes = replace(
        some.passes,
        val_p=lambda network: seen.append("p") or val_p(network),
        val_u=lambda network: seen.append("u") or val_u(network),
    )
    some.train()
    epochs = -(-100 // some.algorithm.setup.epoch)
    assert seen == ["p", "u"] * epochs
    found = best_bin(val_p(some.algorithm.f), val_u(some.algorithm.f)).share
    assert ((found >= 0) & (found <= 1)).all()


def test_the_estimate_is_in_the_store_beside_the_true_share(tmp_path):
    problems = [{"dataset": "digits", "settings": ["os", "ts"], "rates": [0.2]}]
    spec = Spec(
        problems=problems,
        algorithms=["tedn", "nnpu"],
        splits=1,
        configs=1,
        steps=40,
        warmup=20,
        record_every=20,
    )
    assert not puarena.run(spec, out=tmp_path, device="cpu", workers=1).failures
    frame = puarena.load(tmp_path).df()
    mine, other = (frame[frame["algorithm"] == name] for name in ("tedn", "nnpu"))
    found = mine[mine["phase"] == "main"]
    assert found["val_estimated_share"].between(0, 1).all()
    inside = {"os": (0.5 - 0.2) / (1 - 0.2), "ts": 0.5}
    np.testing.assert_allclose(mine["val_true_share"], mine["setting"].map(inside))
    assert other["val_estimated_share"].isna().all()


def test_passes_over_validation_sets():
    some, data = small("tedn")
    f = some.algorithm.f.eval()
    index = torch.tensor(data.p_val).expand(2, -1)
    torch.testing.assert_close(some.passes.val_p(f), f(some.features[index]))
    assert some.passes.val_u(f).shape == (2, len(data.u_val))


def test_best_bin_against_the_estimator_of_priors():
    """Equal where U holds every score of P: then both may cut at the best place."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        z_p = rng.normal(1.5, 1, 40)
        z_u = np.concatenate([rng.normal(1.5, 1, 30), rng.normal(-1, 1, 60), z_p])
        share = bbe.prepare(_Scores(z_p, z_u))(None, None)
        mine = best_bin(torch.tensor(z_p)[None], torch.tensor(z_u)[None], gamma=0.0)
        assert mine.share.item() == pytest.approx(min(1, share), abs=1e-12)


class _Scores(Sample):
    """A sample whose scores are given."""

    def __init__(self, z_p, z_u):
        self._given = z_p, z_u

    @property
    def scores(self):
        return self._given


# -- PULDA ----------------------------------------------------------------------


def test_pulda_without_means_and_margin_is_dist_pu():
    """As the distance becomes sharp, the label term of a first step is 2 prior times Dist-PU's."""
    f_p, f_u = torch.randn(3, 6, dtype=torch.float64), torch.randn(3, 9, dtype=torch.float64)
    sharp = PULDA(setup(hyper={"tau": [1e6] * 3, "two_way": [0.0] * 3}))
    sharp.prepare()
    torch.testing.assert_close(
        sharp.warm_up(f_p, f_u), 2 * sharp.prior * sharp.distribution(f_p, f_u), rtol=0, atol=1e-5
    )


def test_pulda_starts_its_means_anew_at_the_switch():
    some, _ = small("pulda", steps=60)
    started = []
    on_phase = some.algorithm.on_phase

    def watch(phase, passes):
        started.append((phase.name, some.step, some.algorithm.started.tolist()))
        on_phase(phase, passes)
        started.append(some.algorithm.started.tolist())

    some.algorithm.on_phase = watch
    some.train()
    assert started == [("warm-up", 0, [0.0, 0.0]), [0.0, 0.0], ("main", 30, [1.0, 1.0]), [0.0, 0.0]]
    assert (some.algorithm.mean_s > 0).all()
    assert (some.algorithm.mean_two_p != some.algorithm.mean_two_u).all()


# -- Self-PU -------------------------------------------------------------------------


def test_self_pu_selects_at_the_four_marks():
    some, _ = small("self-pu", steps=1000)  # epochs of 22 steps
    n_u, seen = some.algorithm.setup.n_u, {}
    for step, _ in some.segments():
        if step <= 260:
            seen[step] = [
                int((getattr(some.algorithm, f"selected_{s}")[0] == 1).sum()) for s in "fg"
            ]
    sizes = {
        mark: [SelfPU.size(n_u, mark / 200, top) for top in (0.4, 0.6)] for mark in (10, 20, 30, 40)
    }
    assert seen[40] == [0, 0]
    assert [seen[step] for step in (80, 120, 180, 240)] == list(sizes.values())
    for name in "fg":
        chosen = getattr(some.algorithm, f"selected_{name}")
        assert ((chosen == 1).sum(-1) == (chosen == -1).sum(-1)).all()
        assert (
            col((chosen == 1).sum(-1)) == sizes[40]["fg".index(name)]
        ).all()  # the last selection stays


def test_self_pu_selects_though_epochs_are_long():
    some, _ = small("self-pu", steps=40)  # a quarter is 10 steps, an epoch has 22
    some.train()
    assert (some.algorithm.selected_f != 0).any()
    assert (some.algorithm.selected_g != 0).sum() > (some.algorithm.selected_f != 0).sum()


def test_self_pu_gate_is_per_run():
    algorithm = SelfPU(setup())
    noisy, distance = torch.tensor([1.0, 1.0, 0.25]), torch.tensor([0.0625, 0.25, 0.0625])
    assert algorithm.agreement(noisy, distance).tolist() == [0.0625, 0.0, 0.0]


def test_self_pu_teachers_are_the_students_first_and_their_mean_later():
    some, _ = small("self-pu", steps=80)
    algorithm, students = some.algorithm, []
    for stretch in training.schedule_phases(algorithm, some.config):
        algorithm.phase = stretch.phase
        algorithm.on_phase(stretch.phase, some.passes)
        stepper = Stepper(some, stretch.phase, stretch.start, stretch.steps)
        for done in range(stretch.steps):
            if done % algorithm.setup.epoch == 0:
                algorithm.on_epoch(stretch.phase, done // algorithm.setup.epoch, some.passes)
            stepper.advance(done, 1)
            now = torch.cat([p.detach().flatten() for p in algorithm.g.parameters()])
            teacher = torch.cat([p.flatten() for p in algorithm.teacher_g.parameters()])
            if stretch.phase.name == "paced":
                torch.testing.assert_close(teacher, now, rtol=0, atol=0)
            else:
                students.append(now.clone())
                torch.testing.assert_close(
                    teacher, torch.stack(students).mean(0), rtol=1e-4, atol=1e-6
                )
    assert len(students) == 60
    x = some.features[:5].expand(2, -1, -1)
    mean = (algorithm.teacher_f(x) + algorithm.teacher_g(x)) / 2
    torch.testing.assert_close(algorithm.outputs(x)[0], mean)


def test_self_pu_students_differ_and_do_not_teach_each_other_by_gradient():
    some, _ = small("self-pu")
    f, g = (
        torch.cat([p.flatten() for p in n.parameters()])
        for n in (some.algorithm.f, some.algorithm.g)
    )
    assert not torch.equal(f, g)
    assert catalog.get("self-pu@released").cls.consistency is not SelfPU.consistency


# -- ImbPU and PU-AUC ----------------------------------------------------------------


def test_imb_pu_with_the_prior_as_target_is_nnpu():
    x, data, hidden = toy(prior=0.3, setting="ts", rate=0.25, n=1200)
    config = replace(CONFIG, steps=60)
    for other, form in (("nnpu", "clamp"), ("nnpu-ga", "ga")):
        mine = training.train(
            rows("imb-pu", 2, data, hidden, hyper={"target": 0.3, "form": form}), config, x
        )
        theirs = training.train(rows(other, 2, data, hidden), config, x)
        np.testing.assert_allclose(mine.values["loss"], theirs.values["loss"], rtol=1e-4, atol=1e-5)


def test_imb_pu_finds_more_of_few_positives():
    x, data, hidden = toy(prior=0.1, setting="ts", rate=0.2, n=4000, gap=2.0)
    mine, plain = (
        training.train(rows(name, 2, data, hidden), CONFIG, x) for name in ("imb-pu", "nnpu")
    )
    assert (mine.values["test_recall"][-1] > plain.values["test_recall"][-1] + 0.1).all()
    label = hidden.test

    def balanced(curves):
        recall, accuracy = curves.values["test_recall"][-1], curves.values["test_accuracy"][-1]
        specificity = (accuracy * len(label) - recall * label.sum()) / (~label).sum()
        return (recall + specificity) / 2

    assert (balanced(mine) > balanced(plain)).all()


def test_options_may_differ_between_the_rows_of_a_fleet():
    f_p, f_u = torch.randn(3, 6, dtype=torch.float64), torch.randn(3, 9, dtype=torch.float64)
    kinds = ["logistic", "sigmoid", "logistic"]
    for cls in (ImbPU, catalog.get("pu-auc").cls):
        mixed = cls(setup(hyper={"surrogate_loss": kinds}))
        mixed.prepare()
        values = (
            mixed.surrogate(*mixed.risk_parts(f_p, f_u))
            if cls is ImbPU
            else mixed.objective(f_p, f_u)
        )
        for kind in set(kinds):
            pure = cls(setup(hyper={"surrogate_loss": [kind] * 3}))
            pure.prepare()
            alone = (
                pure.surrogate(*pure.risk_parts(f_p, f_u))
                if cls is ImbPU
                else pure.objective(f_p, f_u)
            )
            some = [i for i, k in enumerate(kinds) if k == kind]
            torch.testing.assert_close(values[some], alone[some])


@pytest.mark.parametrize("setting", ["os", "ts"])
def test_pu_auc_ranks_and_cuts_at_the_quantile(setting):
    x, data, hidden = toy(prior=0.4, setting=setting, rate=0.25, n=2000)
    for loss in ("sigmoid", "logistic"):
        curves = training.train(
            rows("pu-auc", 2, data, hidden, hyper={"surrogate_loss": loss}), CONFIG, x
        )
        assert (curves.values["test_auc"][-1] > 0.95).all()
        assert (curves.values["test_accuracy"][-1] > 0.85).all()


def test_pu_auc_takes_a_single_positive():
    algorithm = catalog.get("pu-auc").cls(setup(n_p=1, hyper={"surrogate_loss": ["logistic"] * 3}))
    algorithm.prepare()
    assert torch.isfinite(
        algorithm.objective(torch.randn(3, 1).double(), torch.randn(3, 9).double())
    ).all()
