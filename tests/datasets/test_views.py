"""Views: the right geometry, randomness from the run alone, and no cost for those who ask for none."""

from dataclasses import replace

import numpy as np
import torch

from puarena import training
from puarena.datasets import views_of
from puarena.datasets.views.geometry import AffineView
from puarena.random import Draws
from puarena.training import Fleet, FleetConfig
from puarena.training.steps import Stepper
from toys import rows, toy

SEEDS = torch.tensor([4, 5])
WEAK, STRONG = views_of("usps", "released").weak, views_of("usps", "released").strong


def _still(n=3, **values):
    """Draws that leave an image as it is (no flip, no rotation), except where a value is given."""
    return {
        k: torch.full((2, n), values.get(k, 0.5))
        for k in ("flip", "rotation", "shift_x", "shift_y")
    }


def test_no_flip_and_no_rotation_is_the_identity():
    x = torch.randn(2, 3, 256)
    torch.testing.assert_close(WEAK(x, _still()), x)


def test_flip_mirrors_left_and_right():
    x = torch.randn(2, 3, 256)
    flipped = WEAK(x, _still(flip=0.1))
    torch.testing.assert_close(flipped.view(2, 3, 16, 16), x.view(2, 3, 16, 16).flip(-1))


def test_rotation_turns_and_fills_with_black():
    view = AffineView((16, 16), rotation=90, black=-0.4)
    x = torch.randn(2, 3, 256)
    turned = view(x, _still(rotation=1.0)).view(2, 3, 16, 16)
    image = x.view(2, 3, 16, 16)
    assert torch.allclose(turned, image.rot90(1, (-2, -1)), atol=1e-5) or torch.allclose(
        turned, image.rot90(-1, (-2, -1)), atol=1e-5
    )
    slanted = replace(view, rotation=45)(x, _still(rotation=1.0)).view(2, 3, 16, 16)
    torch.testing.assert_close(slanted[..., 0, 0], torch.full((2, 3), -0.4))


def test_shift_and_jitter_stay_in_range():
    view = STRONG
    x = torch.rand(2, 50, 256) * (view.white - view.black) + view.black
    u = {name: values[0] for name, values in view.draws(Draws(SEEDS, 0, 1), "strong", 50).items()}
    seen = view(x, u)
    assert seen.shape == x.shape
    assert seen.min() >= view.black - 1e-5
    assert seen.max() <= view.white + 1e-5
    assert not torch.allclose(seen, x)


def test_a_view_depends_on_the_run_and_the_step_alone():
    view = WEAK
    whole = view.draws(Draws(SEEDS, 0, 6), "weak", 5)
    part = view.draws(Draws(SEEDS[1:], 4, 2), "weak", 5)
    for name, values in part.items():
        assert torch.equal(whole[name][4:, 1:], values)


def test_the_engine_trains_on_the_view_and_evaluates_without():
    x, data, hidden = toy(features=256)
    config = FleetConfig(batch_size=16, steps=20, record_every=20)
    some = rows("nnpu", 2, data, hidden)
    plain = training.train(some, config, x)
    weak = training.train(some, replace(config, weak=WEAK), x)
    assert not np.allclose(plain.values["loss"], weak.values["loss"])
    frozen = [replace(row, lr=0.0) for row in some]
    a, b = training.train(frozen, config, x), training.train(frozen, replace(config, weak=WEAK), x)
    np.testing.assert_array_equal(a.values["test_auc"], b.values["test_auc"])
    f = Fleet(some, replace(config, weak=WEAK, strong=STRONG), x)
    stepper = Stepper(f, f.algorithm.phases[0], 0, 20)
    stepper.fill(0, 4)
    assert stepper._take().strong is None, "only algorithms that ask for a strong view get one"
    assert "strong" not in f.views
