"""PUSB to PUe: hooks, thresholds and state; the goldens check the losses, the contract the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from puarena import catalog, training
from puarena.training import Fleet, FleetConfig, Row
from puarena.training.steps import Stepper
from toys import toy

CONFIG = FleetConfig(batch_size=32, steps=300, warmup=150, record_every=150)
SHORT = replace(CONFIG, steps=60, warmup=30, record_every=30)
HERE = ["pusb", "pubn", "vpu", "cvir", "dist-pu", "lbe", "robust-pu", "pue", "pan"]
RELEASED = [f"{name}@released" for name in ("upu", "nnpu", "nnpu-ga", *HERE)]


def some(name, data, hidden, count=3, **kwargs):
    return [Row(name, data, hidden, 100 + i, lr=1e-3, **kwargs) for i in range(count)]


def trained(name, config=SHORT, prior=0.4, setting="ts", **kwargs):
    """Return a trained fleet and its curves."""
    x, data, hidden = toy(prior, setting)
    f = Fleet(some(name, data, hidden, **kwargs), config, x)
    return f, f.train()


def main_phase(f):
    return f.algorithm.phases[-1]


def parameters(network):
    return torch.cat([p.detach().flatten(1) for p in network.parameters()], 1)


def test_warm_up_checkpoints_are_candidates_of_the_published_code_only():
    for name in ("pubn", "lbe", "robust-pu", "pue"):
        _, curves = trained(name)
        assert curves.selectable.tolist() == [False, True, True], name
    for name in catalog.names("released"):
        assert all(phase.selectable for phase in catalog.get(name).cls.phases), name


def test_pan_moves_its_classifier_little_and_as_the_discriminator_says():
    x, data, hidden = toy(0.3, "ts")
    f = Fleet(some("pan", data, hidden), CONFIG, x)
    before, start = f.passes.u(f.algorithm.f), parameters(f.algorithm.f)
    f.train()
    after, d = f.passes.u(f.algorithm.f), f.passes.u(f.algorithm.d)
    assert (parameters(f.algorithm.f) - start).norm(dim=1).max() < 0.1 * start.norm(dim=1).min()
    assert (
        after - before
    ).mean() < 0  # most of U is recognized as unlabeled, and so is called negative
    for moved, said in zip(after - before, d, strict=True):
        assert np.corrcoef(moved, said)[0, 1] > 0.5


def test_pusb_calls_a_share_prior_of_a_marginal_sample_positive():
    x, data, hidden = toy(0.7, n=500)  # 0.7 of 320: the product is below 224 in single precision
    two_sample = replace(data, setting="ts", shifted_prior=0.7)
    f = Fleet([*some("pusb", data, hidden, 1), *some("pusb-c", two_sample, hidden, 1)], SHORT, x)
    f.train()
    t = f.algorithm.threshold(f.passes)
    f_p, f_u = f.passes.p(f.algorithm.f), f.passes.u(f.algorithm.f)
    positive = torch.cat([f_p, f_u], 1) >= t.unsqueeze(1)
    m, n_u = positive.shape[1], f_u.shape[1]
    assert n_u == 320
    assert positive[0].sum() == m - int(m * 0.3 + 1e-9)
    assert positive[1, -n_u:].sum() == 224


def test_pusb_ranks_by_the_logit_and_its_published_variant_by_nothing():
    _, curves = trained("pusb@released")
    _, _, hidden = toy(0.4, "ts")
    positives = hidden.test.mean()
    for k in range(3):
        accuracy, recall, auc = (
            curves.values[f"test_{n}"][-1, k] for n in ("accuracy", "recall", "auc")
        )
        specificity = (accuracy - positives * recall) / (1 - positives)
        assert auc == pytest.approx((recall + specificity) / 2)
    _, curves = trained("pusb")
    assert (curves.values["test_auc"][-1] > curves.values["test_accuracy"][-1]).all()


def test_pusb_published_hard_outputs_do_not_hide_a_ruined_run():
    x, data, hidden = toy()
    rows = some("pusb@released", data, hidden, 2)
    curves = training.train([rows[0], replace(rows[1], lr=1e30)], SHORT, x)
    assert curves.diverged.tolist() == [-1, 30]


def test_vpu_threshold_is_half_of_the_largest_and_follows_the_network():
    x, data, hidden = toy()
    f = Fleet(some("vpu", data, hidden), SHORT, x)
    before = f.algorithm.threshold(f.passes)
    f.train()
    after = f.algorithm.threshold(f.passes)
    assert (before != after).all()
    largest = (
        torch.cat([f.passes.p(f.algorithm.f), f.passes.u(f.algorithm.f)], 1).sigmoid().max(1).values
    )
    torch.testing.assert_close(2 * after.sigmoid(), largest)


def test_vpu_mixes_as_many_pairs_as_the_smaller_batch_has():
    x, data, hidden = toy(rate=0.05, n=400)
    f = Fleet(some("vpu", data, hidden), SHORT, x)
    stepper = Stepper(f, main_phase(f), 0, 10)
    stepper.fill(0, 10)
    batch = stepper._take()
    assert batch.x_p.shape[1] == 16
    mixed, lam, partner = f.algorithm.mixed(batch), batch.draw["lam"], batch.draw["partner"]
    assert mixed.shape == batch.x_p.shape
    want = lam[0] * batch.x_u[0, 3] + (1 - lam[0]) * batch.x_p[0, partner[0, 3]]
    torch.testing.assert_close(mixed[0, 3], want)


def test_pubn_freezes_its_first_network_and_cuts_at_the_quantile():
    x, data, hidden = toy(0.4, "ts")
    rows = [
        replace(r, hyper={"tau": tau})
        for r, tau in zip(some("pubn", data, hidden), (0.5, 0.7, 0.9), strict=True)
    ]
    f = Fleet(rows, SHORT, x)
    f.train()
    torch.testing.assert_close(f.algorithm.sigma_p, f.passes.p(f.algorithm.g).sigmoid())
    torch.testing.assert_close(f.algorithm.sigma_u, f.passes.u(f.algorithm.g).sigmoid())
    for k, tau in enumerate((0.5, 0.7, 0.9)):
        want = np.quantile(f.algorithm.sigma_u[k].double().numpy(), tau * 0.6)
        assert f.algorithm.eta[k].item() == pytest.approx(want, rel=1e-4)


def test_pubn_keeps_the_first_network_with_the_least_held_out_error():
    x, data, hidden = toy(0.3, "ts", n=400)
    lrs = (1e-3, 3e-1, 1.0)  # the later ones overshoot, so that the last network is not the best
    rows = [replace(row, lr=lr) for row, lr in zip(some("pubn", data, hidden), lrs, strict=True)]
    f = Fleet(rows, replace(SHORT, warmup=50), x)
    seen, keep = [], f.algorithm.keep_better
    networks = []

    def watched(passes):
        s_p, s_u = passes.val_p(f.algorithm.g).sigmoid(), passes.val_u(f.algorithm.g).sigmoid()
        assert (s_p.shape[1], s_u.shape[1]) == (len(data.p_val), len(data.u_val))
        seen.append((s_u**2).mean(1) - 2 * 0.3 * s_p.mean(1))
        networks.append(parameters(f.algorithm.g))
        keep(passes)

    f.algorithm.keep_better = watched
    f.train()
    errors = torch.stack(seen)
    assert len(errors) == 50 // f.algorithm.setup.epoch + 1  # after every epoch, and at the end
    best = errors.argmin(0)
    assert (best < len(errors) - 1).any()
    torch.testing.assert_close(f.algorithm.least, errors.min(0).values)
    for run, epoch in enumerate(best):
        assert torch.equal(parameters(f.algorithm.g)[run], networks[epoch][run])
    torch.testing.assert_close(f.algorithm.sigma_p, f.passes.p(f.algorithm.g).sigmoid())


def test_pubn_a_point_at_the_cut_off_counts_as_a_negative():
    x, data, hidden = toy(0.4)
    algorithm = Fleet(some("pubn", data, hidden, 1), SHORT, x).algorithm
    zero, half = torch.zeros(1, 2), torch.full((1, 2), 0.5)
    risk = algorithm.weighted_risk(zero, zero, half, half, torch.tensor([0.5]))
    assert risk.item() == pytest.approx(
        np.log(2) * (0.4 + 0.5)
    )  # no correction on P, weight 1 - sigma on U


def test_pubn_published_level_of_the_cut_off():
    level = trained("pubn@released", prior=0.4)[0].algorithm.level()
    assert (level == 1).all()  # 0.5 (1 - 0.4 - 0.2) 384/32 is above 1
    assert (trained("pubn@released", prior=0.8)[0].algorithm.level() < 1e-6).all()


def test_cvir_drops_the_highest_scores():
    x, data, hidden = toy(0.7, n=500)
    rows = [
        *some("cvir", data, hidden, 2),
        *some("cvir", data, hidden, 1, hyper={"unlabeled_prior": "pi-bar"}),
    ]
    f = Fleet(rows, SHORT, x)
    f.train()
    n_dropped = [224, 224, 200]  # 0.7 and (0.7 - 0.2) / 0.8 of 320
    assert (f.algorithm.keep == 0).sum(1).tolist() == n_dropped
    f.algorithm.on_epoch(main_phase(f), 0, f.passes)
    for scores, keep, n in zip(f.passes.u(f.algorithm.f), f.algorithm.keep, n_dropped, strict=True):
        assert set(np.flatnonzero(keep == 0)) == set(np.argsort(-scores.numpy())[:n])


def test_cvir_with_nothing_kept_stays_where_it_is_and_its_published_variant_does_not():
    x, data, hidden = toy()
    all_dropped = replace(data, prior=1 - 1e-12)
    for name, moves in (("cvir", False), ("cvir@released", True)):
        f = Fleet([*some(name, all_dropped, hidden, 1), *some(name, data, hidden, 1)], SHORT, x)
        before = parameters(f.algorithm.f)
        f.train()
        assert (parameters(f.algorithm.f) != before).any(1).tolist() == [moves, True]
        assert f.optimizers["f"].buffers[0][0].any() == moves


def test_dist_pu_stores_scores_as_labels():
    f, curves = trained("dist-pu", replace(SHORT, steps=100, record_every=50))
    assert curves.phase == ["warm-up", "main"]  # seven epochs of twelve steps
    algorithm = f.algorithm
    algorithm.on_phase(main_phase(f), f.passes)
    before = algorithm.label_u.clone()
    torch.testing.assert_close(before, f.passes.u(algorithm.f).sigmoid())
    algorithm.label_u.fill_(0.25)
    stepper = Stepper(f, main_phase(f), 84, 16)
    stepper.fill(0, 16)
    batch = stepper._take()
    target = algorithm.targets(batch, algorithm.f(batch.x)[:, 32:])
    lam, partner = batch.draw["lam"].unsqueeze(1), batch.draw["partner"]
    y = torch.cat([torch.ones(3, 32), torch.full((3, 32), 0.25)], 1)
    torch.testing.assert_close(target, lam * y + (1 - lam) * y.gather(1, partner))
    seen = torch.zeros_like(before).scatter_(1, batch.i_u, 1.0)
    torch.testing.assert_close(
        algorithm.label_u, torch.where(seen > 0, before, torch.full_like(before, 0.25))
    )


def test_dist_pu_entropy_grows_from_nothing():
    f, _ = trained("dist-pu", replace(SHORT, steps=240))
    grown = [f.algorithm.schedule(main_phase(f), 0, 156, epoch)["growth"] for epoch in range(14)]
    assert f.algorithm.setup.epoch == 12
    assert grown[0] == 0
    assert grown[13] == pytest.approx(1)  # 240 steps are 20 epochs, 13 of them after the warm-up
    assert all(np.diff(grown) > 0)
    assert f.algorithm.schedule(f.algorithm.phases[0], 0, 84, 0) == {}


def test_lbe_leaves_the_labeling_model_alone_in_the_warm_up_and_knows_the_posterior():
    x, data, hidden = toy()
    f = Fleet(some("lbe", data, hidden), replace(SHORT, steps=0), x)
    e, h = parameters(f.algorithm.e), parameters(f.algorithm.f)
    f.train()
    assert torch.equal(e, parameters(f.algorithm.e))
    assert not torch.equal(h, parameters(f.algorithm.f))
    assert (f.algorithm.q == 0).all()
    f.algorithm.on_epoch(main_phase(f), 0, f.passes)
    h, eta = f.passes.u(f.algorithm.f).sigmoid(), f.passes.u(f.algorithm.e).sigmoid()
    torch.testing.assert_close(f.algorithm.q, h * (1 - eta) / (h * (1 - eta) + 1 - h))


def test_lbe_trains_both_networks_afterwards():
    x, data, hidden = toy()
    f = Fleet(some("lbe", data, hidden), SHORT, x)
    e = parameters(f.algorithm.e)
    f.train()
    assert (parameters(f.algorithm.e) != e).any(1).all()


def test_robust_pu_weights_change_with_the_episode():
    f, _ = trained("robust-pu", hyper={"grow": 5, "thr_max": 1.0})
    algorithm, main = f.algorithm, main_phase(f)
    sets = []
    for epoch in (0, 4, 5, 25, 50):
        algorithm.on_epoch(main, epoch, f.passes)
        sets.append(torch.cat([algorithm.w_p, algorithm.w_u], 1))
    assert torch.equal(sets[0], sets[1])  # inside an episode
    assert (sets[2] > sets[1]).all()  # the threshold grows
    assert torch.equal(sets[3], sets[4])  # and has grown
    torch.testing.assert_close(
        algorithm.w_u, torch.exp(-torch.nn.functional.softplus(f.passes.u(algorithm.f)))
    )
    ranks = f.passes.u(algorithm.f).argsort(1)
    assert (
        algorithm.w_u.gather(1, ranks).diff(dim=1) <= 0
    ).all()  # what looks positive counts less as a negative


def test_robust_pu_published_weights_are_the_other_way_round():
    f, _ = trained("robust-pu@released")
    f.algorithm.on_epoch(main_phase(f), 0, f.passes)
    z1 = f.algorithm.score(f.passes)[1]
    assert (f.algorithm.w_u.gather(1, z1.argsort(1)).diff(dim=1) >= 0).all()


def test_pue_freezes_the_propensities():
    x, data, hidden = toy()
    first = Fleet(some("pue", data, hidden), replace(SHORT, steps=0), x)
    first.train()
    whole = Fleet(some("pue", data, hidden), SHORT, x)
    untrained = parameters(whole.algorithm.f)
    whole.train()
    assert torch.equal(parameters(first.algorithm.e), parameters(whole.algorithm.e))
    assert torch.equal(parameters(first.algorithm.f), untrained)
    assert not torch.equal(parameters(whole.algorithm.f), untrained)
    assert not whole.algorithm.e.training  # also after records were taken
    assert whole.algorithm.f.training


def mixed_rows(name, data, hidden):
    """Return runs with different priors, settings, learning rates and hyperparameters."""
    branches = zip(
        (0.25, 0.4, 0.6, 0.95), ("os", "ts", "os", "ts"), (1e-3, 1e-2, 3e-2, 1e-3), strict=True
    )
    rows = [
        replace(row, data=replace(data, prior=prior, setting=setting), lr=lr)
        for row, (prior, setting, lr) in zip(some(name, data, hidden, 4), branches, strict=True)
    ]
    searched = {n: h.search.values for n, h in catalog.get(name).cls.hypers().items() if h.search}
    return [
        replace(row, hyper={n: v[k % len(v)] for n, v in searched.items()})
        for k, row in enumerate(rows)
    ]


@pytest.mark.parametrize("name", [*HERE, *RELEASED])
def test_a_row_does_not_depend_on_its_company(name):
    x, data, hidden = toy()
    rows = mixed_rows(name, data, hidden)
    if catalog.get(name).cls.calibrates:
        rows[1] = replace(
            rows[1], algorithm=name.replace("@", "-c@") if "@" in name else f"{name}-c"
        )
    config = replace(SHORT, steps=100, warmup=20, record_every=40, dtype="float64")
    together = training.train(rows, config, x)
    for k in (1, 3):
        alone = training.train([rows[k]], config, x)
        for column, values in alone.values.items():
            shared = together.values[column][:, k]
            np.testing.assert_allclose(values[:, 0], shared, rtol=1e-5, atol=1e-8, err_msg=column)
