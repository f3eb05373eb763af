"""CIFAR-10 from its official pickled batches, which are read without calling anything that a pickle names."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from puarena.datasets.dataset import (
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
PIXELS = 3 * 32 * 32

MEMBERS = (
    ("data_batch_1", "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd", 31035704),
    ("data_batch_2", "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8", 31035320),
    ("data_batch_3", "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9", 31035999),
    ("data_batch_4", "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b", 31035696),
    ("data_batch_5", "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154", 31035623),
    ("test_batch", "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831", 31035526),
    ("batches.meta", "f962466ef690d46b226450fb9aadc74ba4bc64a76aa526b5827fe4bc5c7125cb", 158),
)


def views() -> dict[str, Views]:
    """Crops and mirroring; the strong view is FixMatch's."""
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
    citation="A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, technical report, 2009",
    urls=("https://www.cs.toronto.edu/~kriz/cifar.html",),
    files=tuple(
        DataFile(f"cifar-10-batches-py/{name}", URL, sha, size, ARCHIVE)
        for name, sha, size in MEMBERS
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
    cases={
        1: (0, 1, 2, 8, 9),
        2: (2, 3, 5, 7, 9),
        3: (0, 1, 8, 9),
    },  # 3: vehicles, as most of the literature
    case_priors={3: 0.4},
    size=20000,
    views=views,
    order=4,
)


def read(folder: Path | None) -> Dataset:
    """Read the six batches; the test batch comes last."""
    batches = [
        read_batch(locate(INFO, file, folder)) for file in INFO.files if "_batch" in file.name
    ]
    classes = np.concatenate([labels for _, labels in batches])
    first_test = len(classes) - len(batches[-1][1])
    return from_info(
        INFO,
        np.concatenate([images for images, _ in batches]),
        classes,
        train=np.arange(first_test),
        test=np.arange(first_test, len(classes)),
    )


def read_batch(path: Path) -> tuple[Bytes, Indices]:
    """Return the images ``[n, 3, 32, 32]`` and classes ``[n]`` of one batch file."""
    try:
        with path.open("rb") as stream:
            content = _Unpickler(stream, encoding="bytes").load()
    except _RefusedError as error:
        raise _not_a_batch(path, f"it asks for {error}, which no batch needs") from error
    except Exception as error:  # a damaged pickle can raise anything
        raise _not_a_batch(path, f"it is no pickle, or damaged ({error})") from error
    if not isinstance(content, dict) or not {b"data", b"labels"} <= set(content):
        raise _not_a_batch(path, "it is no dictionary with 'data' and 'labels'")
    array, labels = content[b"data"], content[b"labels"]
    if not isinstance(labels, list) or not all(
        type(label) is int and 0 <= label < 10 for label in labels
    ):
        raise _not_a_batch(path, "'labels' must be a list of whole numbers from 0 to 9")
    if not isinstance(array, _Array):
        raise _not_a_batch(
            path, f"'data' must be an array, and it is of type {type(array).__name__}"
        )
    shape = len(labels), PIXELS
    if (
        array.code not in (b"u1", "u1")
        or array.shape != shape
        or len(array.raw) != shape[0] * shape[1]
    ):
        raise _not_a_batch(
            path,
            f"'data' must be bytes of shape {list(shape)} as there are {shape[0]} labels, and {array}",
        )
    images = np.frombuffer(array.raw, np.uint8).reshape(-1, 3, 32, 32)
    return images, np.array(labels, np.int64)


class _RefusedError(Exception):
    """A pickle names something that is not on the short list."""


class _Dtype:
    """Stands for ``numpy.dtype``: only remembers which."""

    def __init__(self, code: object = None, *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """Stands for an array: its shape, the code of its type and its bytes."""

    code: object = None
    shape: tuple[object, ...] = ()
    raw: bytes = b""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, by_column, raw = state
        if by_column or not isinstance(shape, tuple) or not isinstance(raw, bytes):
            raise ValueError("an array in it is not stored row by row")
        self.shape, self.code, self.raw = shape, dtype.code, raw

    def __str__(self) -> str:
        return f"it is {len(self.raw)} bytes of type {self.code!r} and shape {list(self.shape)}"


def _reconstruct(*_: object) -> _Array:
    return _Array()


class _Unpickler(pickle.Unpickler):
    """Knows the three names that a batch needs, and gives harmless things for them."""

    KNOWN = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,  # its name in numpy 2
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name, or refuse it."""
        if (module, name) not in self.KNOWN:
            raise _RefusedError(f"'{module}.{name}'")
        return self.KNOWN[module, name]


def _not_a_batch(path: Path, what: str) -> UserError:
    return UserError(
        f"'{path}' is not a batch of CIFAR-10: {' '.join(what.split())}; replace it by the file from {URL}"
    )
