"""Views of color images: Pillow's pixels, literal crops, the right frequencies, randomness from the
run alone.
"""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import pairwise
from math import exp, log, sqrt

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch.utils._python_dispatch import TorchDispatchMode

from puarena import datasets
from puarena.datasets import Views
from puarena.datasets.views import images, pick, randaugment
from puarena.datasets.views.geometry import CutOut, RandomCrop, ResizedCrop
from puarena.datasets.views.randaugment import CHOICES, NO_CHOICE, OPERATIONS, RandAugment, operate
from puarena.experiments.spec import PROFILES
from puarena.random import Draws
from puarena.training.capture import StepWatch, captured

SEEDS = torch.tensor([4, 5])
KINDS = ("weak", "strong", "evaluation")
VIEWS = {
    f"{dataset}-{kind}": getattr(datasets.views_of(dataset, "definition"), kind)
    for dataset in ("cifar10", "imagenette")
    for kind in KINDS
}
IMAGE_VIEWS = sorted(VIEWS)
RANDOM_VIEWS = [name for name in IMAGE_VIEWS if not name.endswith("evaluation")]
CIFAR10 = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)
IMAGENETTE = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BLENDS = (
    "brightness",
    "color",
    "contrast",
    "sharpness",
)  # single precision: compilers may differ by a level


def _drawn(view, n, seeds=SEEDS, step=0, name="weak", dtype=torch.float32):
    """Return one step's draws."""
    return {
        key: values[0] for key, values in view.draws(Draws(seeds, step, 1, dtype), name, n).items()
    }


def _pictures(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def _normalized(pixels, mean, std):
    """Return bytes ``[…, 3, h, w]`` normalized in double precision."""
    mean, std = (np.array(values)[:, None, None] for values in (mean, std))
    return (np.asarray(pixels) / 255 - mean) / std


# --- operations, against Pillow ---


def _pillow(image, operation, m, sign):
    """Do an operation as FixMatch does."""
    factor, slant, (width, height) = m * 0.9 / 10 + 0.05, sign * (m * 0.3 / 10), image.size

    def affine(*numbers):
        return image.transform(image.size, Image.Transform.AFFINE, numbers)

    return {
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(factor),
        "color": lambda: ImageEnhance.Color(image).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(factor),
        "equalize": lambda: ImageOps.equalize(image),
        "identity": lambda: image,
        "posterize": lambda: ImageOps.posterize(image, int(m * 4 / 10) + 4),
        "rotate": lambda: image.rotate(sign * int(m * 30 / 10)),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(factor),
        "shear x": lambda: affine(1, slant, 0, 0, 1, 0),
        "shear y": lambda: affine(1, 0, 0, slant, 1, 0),
        "solarize": lambda: ImageOps.solarize(image, 256 - int(m * 256 / 10)),
        "translate x": lambda: affine(1, 0, int(slant * width), 0, 1, 0),
        "translate y": lambda: affine(1, 0, 0, 0, 1, int(slant * height)),
    }[operation]()


def _kinds(height, width):
    """Return pictures of all kinds: full range, narrow, bell-shaped, two levels, one level, many at
    both ends.
    """
    rng, shape = np.random.default_rng(height), (height, width, 3)
    kinds = [
        rng.integers(0, 256, shape),
        rng.integers(60, 181, shape),
        rng.normal(100, 10, shape).clip(0, 255),
        rng.integers(0, 2, shape) * 200,
        np.full(shape, 9),
        rng.beta(0.3, 0.3, shape) * 255,
    ]
    return [kind.astype(np.uint8) for kind in kinds]


def _tensor(picture):
    return torch.from_numpy(np.array(picture)).movedim(-1, -3)


@pytest.mark.parametrize("size", [(32, 32), (64, 64), (17, 30), (5, 3)])
def test_every_operation_is_pillows(size):
    for picture in _kinds(*size):
        ours = operate(
            _tensor(picture).expand(len(CHOICES), -1, -1, -1), torch.arange(len(CHOICES))
        )
        for choice, seen in zip(CHOICES, ours, strict=True):
            theirs = _tensor(_pillow(Image.fromarray(picture), *choice))
            gap = (seen.int() - theirs.int()).abs()
            most, share = (1, 0.05) if choice[0] in BLENDS else (0, 0)
            assert gap.max() <= most, choice
            assert (gap > 0).float().mean() <= share, choice


def test_operations_change_a_picture_and_no_choice_does_not():
    x = _pictures(1, 3, 40, 40)
    for place, (operation, m, sign) in enumerate(CHOICES):
        seen = operate(x, torch.tensor([place]))
        same_for_full_range = operation in ("identity", "autocontrast")
        assert torch.equal(seen, x) == same_for_full_range, (operation, m, sign)
    assert torch.equal(operate(x, torch.tensor([NO_CHOICE])), x)


def test_images_of_a_batch_do_not_mix():
    x = _pictures(len(CHOICES) + 1, 3, 9, 11)
    choice = torch.arange(len(CHOICES) + 1).flip(0)
    together = operate(x, choice)
    alone = [operate(x[i : i + 1], choice[i : i + 1]) for i in range(len(x))]
    assert torch.equal(together, torch.cat(alone))


# --- chance ---


def test_pick_is_even_and_in_range():
    u = torch.linspace(0, 1, 90_001)
    counts = pick(u, 9).bincount()
    assert len(counts) == 9, "a draw of exactly 1 belongs to the last"
    assert (counts - 10_000).abs().max() <= 1


def _even(counts, of, cells):
    """Check that ``of`` draws fell evenly into ``cells`` cells (five standard deviations)."""
    assert len(counts) == cells
    spread = sqrt(of / cells * (1 - 1 / cells))
    assert all(abs(count - of / cells) < 5 * spread for count in counts.values()), counts


@pytest.mark.parametrize(
    ("view", "layers", "probability"), [("cifar10-strong", 2, 0.5), ("imagenette-strong", 3, 1.0)]
)
def test_how_often_operations_are_done(view, layers, probability):
    (part,) = (p for p in VIEWS[view].parts if isinstance(p, RandAugment))
    n = 40_000
    chosen = part.choices(_drawn(part, n, SEEDS[:1]))[0]
    assert chosen.shape == (n, layers)
    for layer in chosen.T:
        done = [CHOICES[k] for k in layer.tolist() if k != NO_CHOICE]
        assert abs(len(done) - n * probability) <= 5 * sqrt(n * probability * (1 - probability))
        _even(Counter(operation for operation, _, _ in done), len(done), 14)
        _even(Counter(m for _, m, _ in done), len(done), 9)
        _even(Counter(sign for _, _, sign in done), len(done), 2)
    same = (chosen[:, 0] == chosen[:, 1]).float().mean()
    expected = probability**2 / 252 + (1 - probability) ** 2
    assert abs(same - expected) < 5 * sqrt(expected / n), (
        "layers are drawn independently, with replacement"
    )


def test_there_are_fourteen_operations_at_nine_magnitudes_both_ways():
    assert len(OPERATIONS) == 14
    assert {(m, sign) for _, m, sign in CHOICES} == {
        (m, sign) for m in range(1, 10) for sign in (1, -1)
    }
    assert len(CHOICES) == len(set(CHOICES)) == 14 * 9 * 2


def test_crops_and_flips_are_even():
    n, part = 20_000, RandomCrop(padding=4)
    u = _drawn(part, n, SEEDS[:1])
    x = torch.arange(81, dtype=torch.uint8).view(1, 1, 1, 9, 9).expand(1, n, 1, 9, 9)
    middle = part(x, u)[
        0, :, 0, 4, 4
    ]  # for 9 x 9 pixels the middle of the window shows every pixel once
    _even(Counter(middle.tolist()), n, 81)
    _even(Counter((u["flip"] < 0.5).flatten().tolist()), n, 2)


@pytest.mark.parametrize("name", RANDOM_VIEWS)
def test_a_view_depends_on_the_run_the_step_and_the_image(name):
    view = VIEWS[name]
    x = _pictures(3, 73, 73).expand(2, 6, -1, -1, -1)
    seen = view(x, _drawn(view, 6, step=3))
    assert torch.equal(view(x[1:], _drawn(view, 6, SEEDS[1:], step=3)), seen[1:]), (
        "alone as in a stack"
    )
    block = {key: values[3] for key, values in view.draws(Draws(SEEDS, 0, 5), "weak", 6).items()}
    assert torch.equal(view(x, block), seen), "a step of a block as by itself"
    assert all(not torch.equal(a, b) for a, b in pairwise(seen[0])), "every image its own"
    assert not torch.equal(seen[0], seen[1]), "every run its own"
    assert not torch.equal(view(x, _drawn(view, 6, step=4)), seen), "every step its own"
    weak, strong = (_drawn(view, 6, name=name) for name in ("weak", "strong"))
    numbers = torch.cat([values.flatten() for values in (*weak.values(), *strong.values())])
    assert len(numbers.unique()) == len(numbers), (
        "every draw its own, in the weak view and in the strong one"
    )


# --- geometry, against literal implementations ---


def _literal_crop(image, u, side, padding):
    """Flip, pad by reflection, crop: one image ``[3, h, w]``, numbers in [0, 1)."""
    image = image[:, :, ::-1] if u["flip"] < 0.5 else image
    height, width = (length if side is None else min(side, length) for length in image.shape[1:])
    padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding)), mode="reflect")
    top = int(u["top"] * (padded.shape[1] - height + 1))
    left = int(u["left"] * (padded.shape[2] - width + 1))
    return padded[:, top : top + height, left : left + width]


def _each(u):
    """Yield the draws of every image, run by run."""
    runs, n = u["flip"].shape
    for r in range(runs):
        for i in range(n):
            yield {key: values[r, i].numpy() for key, values in u.items()}


@pytest.mark.parametrize(
    ("name", "size", "side", "padding", "norm"),
    [
        ("cifar10-weak", (32, 32), None, 4, CIFAR10),
        ("cifar10-weak", (5, 9), None, 4, CIFAR10),
        ("imagenette-weak", (73, 73), 64, 0, IMAGENETTE),
        ("imagenette-weak", (70, 81), 64, 0, IMAGENETTE),
        ("imagenette-weak", (21, 66), 64, 0, IMAGENETTE),
    ],
)
def test_weak_views_are_literal_crops(name, size, side, padding, norm):
    view, x = VIEWS[name], _pictures(2, 25, 3, *size)
    u = _drawn(view, 25)
    for values in u.values():
        values[0, 0], values[0, 1] = 1e-7, 1 - 1e-7
    expected = [
        _literal_crop(i.numpy(), v, side, padding)
        for i, v in zip(x.flatten(0, 1), _each(u), strict=True)
    ]
    np.testing.assert_allclose(view(x, u).flatten(0, 1), _normalized(expected, *norm), atol=1e-5)


def _literal_window(u, height, width):
    """Return top, left, height and width as torchvision's RandomResizedCrop finds them, given its
    uniform numbers.
    """
    for area, ratio in zip(u["area"].tolist(), u["ratio"].tolist(), strict=True):
        target = height * width * (0.08 + area * 0.92)
        aspect = exp(log(3 / 4) + ratio * (log(4 / 3) - log(3 / 4)))
        w, h = round(sqrt(target * aspect)), round(sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(u["top"] * (height - h + 1)), int(u["left"] * (width - w + 1)), h, w
    h, w = height, width
    if width / height < 3 / 4:
        h = round(width / (3 / 4))
    elif width / height > 4 / 3:
        w = round(height * (4 / 3))
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize(("height", "width"), [(73, 73), (20, 90), (90, 21)])
def test_windows_are_torchvisions(height, width):
    part, n = ResizedCrop(64), 400
    u = _drawn(part, n, dtype=torch.float64)
    u["area"][:, :20] = 1 - 1e-9  # the whole area never fits into a side that is too short
    windows = torch.stack(part.window(u, height, width), -1).flatten(0, 1)
    expected = [_literal_window(v, height, width) for v in _each(u)]
    assert windows.tolist() == [list(map(float, window)) for window in expected]
    central = (
        (height - min(height, round(width * 4 / 3))) // 2,
        (width - min(width, round(height * 4 / 3))) // 2,
    )
    assert all(window[:2] == central for window in expected[:20]), "the window of last resort"
    assert len(set(expected)) > 300


@pytest.mark.parametrize("mirrored", [False, True])
def test_resized_crops_are_pillows(mirrored):
    rng, part, n = np.random.default_rng(1), ResizedCrop(64), 40
    coarse = [Image.fromarray(rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)) for _ in range(n)]
    pictures = [picture.resize((73, 73), Image.Resampling.BICUBIC) for picture in coarse]
    x = torch.stack([_tensor(picture) for picture in pictures])[None]
    u = _drawn(part, n, SEEDS[:1]) | {"flip": torch.full((1, n), 0.1 if mirrored else 0.9)}
    ours = part(x, u)[0]
    grown = 0
    for seen, picture, v in zip(ours, pictures, _each(u), strict=True):
        top, left, h, w = _literal_window(v, 73, 73)
        theirs = picture.crop((left, top, left + w, top + h)).resize(
            (64, 64), Image.Resampling.BILINEAR
        )
        theirs = _tensor(ImageOps.mirror(theirs) if mirrored else theirs)
        gap = (seen.int() - theirs.int()).abs()
        if max(h, w) <= 64:
            grown += 1
            assert gap.max() <= 1
        assert gap.float().mean() < 1.5
    assert grown > n / 2


def test_cut_out_is_literal():
    for part, height, width in ((CutOut(16), 32, 32), (CutOut(), 33, 47), (CutOut(16), 20, 9)):
        x, n = _pictures(2, 60, 3, height, width), 60
        u = _drawn(part, n) | {"flip": torch.zeros(2, n)}
        for image, seen, v in zip(
            x.flatten(0, 1).numpy(), part(x, u).flatten(0, 1).numpy(), _each(u), strict=True
        ):
            side = part.side or int(v["cut_side"] * (width // 2 + 1))
            x0, y0 = (
                int(max(0, v[k] * np.float32(s) - side / 2))
                for k, s in (("cut_x", width), ("cut_y", height))
            )
            expected = image.copy()
            expected[:, y0 : y0 + side, x0 : x0 + side] = 127
            np.testing.assert_array_equal(seen, expected)


def test_how_large_cut_outs_are():
    x, middle = torch.zeros(1, 2000, 3, 64, 64, dtype=torch.uint8), torch.full((1, 2000), 0.5)
    u = _drawn(CutOut(), 2000, SEEDS[:1]) | {"cut_x": middle, "cut_y": middle}
    area = (CutOut()(x, u)[0, :, 0] == 127).sum((-2, -1))
    _even(Counter(area.tolist()), 2000, 33)
    assert set(area.tolist()) == {side**2 for side in range(33)}, (
        "squares of side 0 to half the width"
    )
    u = _drawn(CutOut(16), 2000, SEEDS[:1])
    area = (CutOut(16)(x[..., :32, :32], u)[0, :, 0] == 127).sum((-2, -1))
    assert area.max() == 256
    assert area.min() >= 64
    assert 0.5 < (area == 256).float().mean() < 0.65, (
        "a square is whole in 3/4 of the positions of each axis"
    )


def test_the_strong_view_of_cifar_is_the_published_pipeline():
    view, n = VIEWS["cifar10-strong"], 60
    x, u = _pictures(2, n, 3, 32, 32), _drawn(VIEWS["cifar10-strong"], 60, name="strong")
    seen = view(x, u).flatten(0, 1)
    exact = 0
    for image, ours, v in zip(x.flatten(0, 1).numpy(), seen, _each(u), strict=True):
        picture = Image.fromarray(
            np.ascontiguousarray(_literal_crop(image, v, None, 4).transpose(1, 2, 0))
        )
        for number in v["augment"].tolist():
            code = int(number * 14 * 9 * 2 * 2)
            if code < len(CHOICES):
                picture = _pillow(picture, *CHOICES[code])
        pixels = np.array(picture)
        x0, y0 = (int(max(0, v[key] * 32 - 8)) for key in ("cut_x", "cut_y"))
        pixels[y0 : y0 + 16, x0 : x0 + 16] = 127
        gap = np.abs(ours.numpy() - _normalized(pixels.transpose(2, 0, 1), *CIFAR10))
        exact += gap.max() < 1e-5
    assert exact >= 2 * n * 0.95, "all, but for blends where Pillow was compiled to round otherwise"


# --- shapes, types, normalization ---


@pytest.mark.parametrize("name", IMAGE_VIEWS)
@pytest.mark.parametrize("size", [(32, 32), (73, 73), (64, 80), (7, 13)])
def test_shapes_and_types(name, size):
    view, x = VIEWS[name], _pictures(2, 3, 3, *size)
    kept = x.clone()
    seen = view(x, _drawn(view, 3))
    assert seen.dtype == torch.float32
    side = 64 if name.startswith("imagenette") else 999
    assert seen.shape[2:] == view.shape((3, *size)) == (3, *(min(side, length) for length in size))
    assert torch.equal(x, kept), "what is stored stays as it is"
    if name in RANDOM_VIEWS:
        assert view(x, _drawn(view, 3, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize(
    ("name", "norm"), [(n, CIFAR10 if n.startswith("cifar10") else IMAGENETTE) for n in IMAGE_VIEWS]
)
def test_normalization(name, norm):
    view = VIEWS[name]
    x = torch.full((1, 1, 3, 64, 64), 200, dtype=torch.uint8)
    u = {key: torch.full_like(values, 0.999) for key, values in _drawn(view, 1, SEEDS[:1]).items()}
    if "augment" in u:
        u["augment"].fill_(5.5 / 14 * (0.5 if name.startswith("cifar10") else 1))  # identity
    corner = view(x, u)[0, 0, :, 0, 0]
    np.testing.assert_allclose(
        corner, _normalized(np.full((3, 1, 1), 200), *norm).ravel(), rtol=1e-5
    )


def test_evaluation_views_are_the_centre_and_nothing_else():
    x = _pictures(2, 3, 3, 73, 70)
    for name, norm, expected in (
        ("cifar10-evaluation", CIFAR10, x),
        ("imagenette-evaluation", IMAGENETTE, x[..., 4:68, 3:67]),
    ):
        view = VIEWS[name]
        assert _drawn(view, 3) == {}
        seen = view(x, {})
        np.testing.assert_allclose(seen, _normalized(expected, *norm), atol=1e-5)
        assert torch.equal(view(x, {}), seen)
    small = x[..., :64, :64]
    np.testing.assert_allclose(
        VIEWS["imagenette-evaluation"](small, {}), _normalized(small, *IMAGENETTE), atol=1e-5
    )


def test_which_views_a_dataset_has_in_a_profile():
    for profile in PROFILES:
        for name in ("cifar10", "imagenette"):
            views = datasets.views_of(name, profile)
            assert [views.weak, views.strong, views.evaluation] == [
                VIEWS[f"{name}-{kind}"] for kind in KINDS
            ]
        for name in ("digits", "letter", "a table of my own"):
            assert datasets.views_of(name, profile) == Views()
    assert datasets.views_of("usps", "definition") == Views()
    mirrored = datasets.views_of("usps", "released")
    assert (mirrored.weak.rotation, mirrored.strong.rotation, mirrored.evaluation) == (10, 30, None)


@pytest.mark.parametrize(
    ("name", "profile"), [("cifar10", ""), ("imagenette", ""), ("usps", "released")]
)
def test_views_are_values(name, profile):
    views = datasets.views_of(name, profile)
    again = pickle.loads(pickle.dumps(views))
    assert again == views
    assert hash(again) == hash(datasets.views_of(name, profile))
    assert " at 0x" not in repr(views), "the state of a fleet is named after it"


# --- what a captured step may do ---


class _FromHost(TorchDispatchMode):
    """Notes tensors made of the host's numbers, which on a GPU are copied there."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in ("lift_fresh", "lift_fresh_copy"):
            self.found.append(func)
        return func(*args, **(kwargs or {}))


def _forget():
    images._constants.cache_clear()
    randaugment.get_settings.cache_clear()


@pytest.mark.parametrize("name", IMAGE_VIEWS)
def test_a_view_can_be_captured(name):
    view, x = VIEWS[name], _pictures(2, 3, 3, 20, 20)
    with StepWatch() as watch:
        view(x, _drawn(view, 3))
    assert watch.offenses == []
    u = _drawn(view, 3)
    _forget()
    with _FromHost() as host:
        view(x, u)
    assert host.found, "constants were forgotten, so this use had to make them"
    _forget()
    u = _drawn(view, 3)
    with _FromHost() as host:
        view(x, u)
    assert host.found == [], "draws make the constants"


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("name", IMAGE_VIEWS)
def test_a_captured_view_on_the_gpu_is_that_of_the_cpu(name):
    view, x = VIEWS[name], _pictures(2, 40, 3, 73, 73)
    u = {key: values.cuda() for key, values in _drawn(view, 40).items()}
    view.draws(Draws(SEEDS.cuda(), 0, 1), "weak", 40)
    pixels, stream = x.cuda(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            view(pixels, u)
        with captured() as graph:
            seen = view(pixels, u)
        later = _drawn(view, 40, step=1)
        for key, values in later.items():
            u[key].copy_(values)
        graph.replay()
        stream.synchronize()
    gap = (seen.cpu() - view(x, later)).abs()
    share = (
        0.02 if name == "imagenette-strong" else 0
    )  # interpolated levels may round the other way
    assert (gap > 1e-5).float().mean() <= share
