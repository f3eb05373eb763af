"""CIFAR-10 from its official pickled batches."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np

from puarena.datasets.base import (
    Archive,
    Bytes,
    DataFile,
    Dataset,
    DatasetInfo,
    Indices,
    from_info,
)
from puarena.datasets.download import locate
from puarena.datasets.views import View, Views
from puarena.errors import UserError

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
ARCHIVE = Archive("cifar-10-python.tar.gz", URL, "md5:c58f30108f718f92721af3b95e74349a")
FOLDER = "cifar-10-batches-py"

CHECKSUMS = {
    "data_batch_1": "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd",
    "data_batch_2": "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8",
    "data_batch_3": "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9",
    "data_batch_4": "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b",
    "data_batch_5": "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154",
    "test_batch": "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831",
}


def views() -> dict[str, Views]:
    """Return crops and mirroring, and FixMatch's strong view."""
    from puarena.datasets.views.geometry import CutOut, RandomCrop
    from puarena.datasets.views.images import ImageView
    from puarena.datasets.views.randaugment import RandAugment

    def view(*parts: View) -> View:
        return ImageView((0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616), parts)

    crop = RandomCrop(padding=4)
    return {
        "": Views(
            view(crop), view(crop, RandAugment(layers=2, probability=0.5), CutOut(side=16)), view()
        )
    }


INFO = DatasetInfo(
    name="cifar10",
    title="CIFAR-10",
    description="60,000 color photographs of 32x32 pixels in 10 classes; 10,000 are the test set",
    license="none stated",
    citation="A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, technical "
    "report, 2009",
    urls=("https://www.cs.toronto.edu/~kriz/cifar.html",),
    files=tuple(
        DataFile(f"{FOLDER}/{name}", URL, checksum, ARCHIVE) for name, checksum in CHECKSUMS.items()
    ),
    examples=60000,
    class_names=(
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
    shape=(3, 32, 32),
    kind="image",
    network="resnet32",
    # Case 3 are vehicles, as in most of the literature.
    cases={1: (0, 1, 2, 8, 9), 2: (2, 3, 5, 7, 9), 3: (0, 1, 8, 9)},
    case_priors={3: 0.4},
    size=20000,
    views=views,
    order=4,
)


def read(folder: Path | None) -> Dataset:
    """Read the six batches; the test batch comes last."""
    batches = [read_batch(file, folder) for file in INFO.files]
    classes = np.concatenate([labels for _, labels in batches])
    first_test = len(classes) - len(batches[-1][1])
    index = np.arange(len(classes))
    images = np.concatenate([images for images, _ in batches])
    return from_info(INFO, images, classes, train=index[:first_test], test=index[first_test:])


def read_batch(file: DataFile, folder: Path | None) -> tuple[Bytes, Indices]:
    """Return the images ``[n, 3, 32, 32]`` and classes ``[n]`` of one batch."""
    path = locate(INFO, file, folder)
    content = path.read_bytes()
    # A pickle can run any code, so nothing but the published bytes is loaded.
    if hashlib.sha256(content).hexdigest() != file.sha256:
        message = f"{path} has the wrong checksum; replace it by the file from {file.url}"
        raise UserError(message, "damaged-file")
    batch = pickle.loads(content, encoding="bytes")
    images = batch[b"data"].reshape(-1, 3, 32, 32)
    return images, np.array(batch[b"labels"], np.int64)
