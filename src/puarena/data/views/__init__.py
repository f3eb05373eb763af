"""Views of a batch: augmentation as tensor code, with each image's randomness from its run's own stream.

A view maps inputs ``[runs, n, …]`` and this step's draws ``{name: [runs, n, …]}`` to what a network is fed.
The draws are made ahead for a block of steps, so that applying a view reads nothing from the host.

The protocol says of ImageNette's strong view "3 RandAugment operations at random magnitude": here each of them is done,
at a magnitude from 1 … 9 of ten as for CIFAR-10.
"""

from __future__ import annotations

from puarena.data.views.base import View
from puarena.data.views.digits import AffineView
from puarena.data.views.geometry import CentreCrop, CutOut, RandomCrop, ResizedCrop
from puarena.data.views.images import ImageView
from puarena.data.views.randaugment import RandAugment
from puarena.errors import unknown

__all__ = ["VIEWS", "AffineView", "ImageView", "View", "get_view"]


def _cifar10(*parts: View) -> ImageView:
    return ImageView((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616), parts)


def _imagenette(*parts: View) -> ImageView:
    return ImageView((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), parts)


_USPS_BLACK, _USPS_WHITE = (0 - 0.1307) / 0.3081, (1 - 0.1307) / 0.3081
VIEWS: dict[str, View] = {
    "usps-weak": AffineView(side=(16, 16), rotation=10, black=_USPS_BLACK, white=_USPS_WHITE),
    "usps-strong": AffineView(side=(16, 16), rotation=30, shift=0.1, jitter=0.2, black=_USPS_BLACK, white=_USPS_WHITE),
    "cifar10-weak": _cifar10(RandomCrop(padding=4)),
    "cifar10-strong": _cifar10(RandomCrop(padding=4), RandAugment(layers=2, probability=0.5), CutOut(side=16)),
    "cifar10-eval": _cifar10(),
    "imagenette-weak": _imagenette(RandomCrop(side=64)),
    "imagenette-strong": _imagenette(ResizedCrop(side=64), RandAugment(layers=3), CutOut()),
    "imagenette-eval": _imagenette(CentreCrop(side=64)),
}


def get_view(name: str) -> View:
    """Return a view by name."""
    if name not in VIEWS:
        raise unknown("view", name, VIEWS)
    return VIEWS[name]
