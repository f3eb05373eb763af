"""CIFAR-10: the registry's entry. Images are not read yet."""

from __future__ import annotations

from pathlib import Path

from puarena.data.dataset import Archive, DataFile, Dataset, DatasetInfo
from puarena.errors import UserError

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
ARCHIVE = Archive("cifar-10-python.tar.gz", URL, "md5:c58f30108f718f92721af3b95e74349a")

MEMBERS = (
    ("data_batch_1", "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd", 31035704),
    ("data_batch_2", "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8", 31035320),
    ("data_batch_3", "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9", 31035999),
    ("data_batch_4", "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b", 31035696),
    ("data_batch_5", "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154", 31035623),
    ("test_batch", "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831", 31035526),
    ("batches.meta", "f962466ef690d46b226450fb9aadc74ba4bc64a76aa526b5827fe4bc5c7125cb", 158),
)

INFO = DatasetInfo(
    name="cifar10",
    title="CIFAR-10",
    description="60,000 colour photographs of 32x32 pixels in 10 classes; 10,000 are the test set",
    licence="none stated",
    citation="A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, technical report, 2009",
    urls=("https://www.cs.toronto.edu/~kriz/cifar.html",),
    files=tuple(DataFile(f"cifar-10-batches-py/{name}", URL, sha, size, ARCHIVE) for name, sha, size in MEMBERS),
    examples=60000,
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    shape=(3, 32, 32),
    kind="image",
    network="resnet32",
    cases={1: (0, 1, 2, 8, 9), 2: (2, 3, 5, 7, 9)},
    size=20000,
)


def read(folder: Path | None) -> Dataset:
    """Refuse: image datasets are not readable in this version."""
    raise UserError("dataset 'cifar10' is an image dataset, and those cannot be read yet in this version of puarena")
