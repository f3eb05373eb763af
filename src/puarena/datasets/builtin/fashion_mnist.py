"""Fashion-MNIST: gray images of clothes, used as 784 features."""

from __future__ import annotations

from puarena.datasets.base import DatasetInfo
from puarena.datasets.openml_tables import OpenMLTable, make_openml_file

CLASS_NAMES = (
    "T-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)

READER = OpenMLTable(
    DatasetInfo(
        name="fashion-mnist",
        title="Fashion-MNIST",
        description="70,000 clothes as 28x28 gray pixels in [0, 1]; case 1: tops, case 2: "
        "trousers, coats and sneakers; the last 10,000 are the test set",
        license="MIT",
        citation="H. Xiao, K. Rasul and R. Vollgraf, Fashion-MNIST: a Novel Image Dataset for "
        "Benchmarking Machine Learning Algorithms, arXiv:1708.07747, 2017",
        urls=("https://github.com/zalandoresearch/fashion-mnist",),
        files=(make_openml_file("fashion-mnist", 40996),),
        examples=70000,
        class_names=CLASS_NAMES,
        shape=(784,),
        cases={1: (0, 2, 4, 6), 2: (1, 4, 7)},
        size=60000,
        default_prior=0.4,
        case_priors={2: 0.3},
        order=20,
        standardized_form=True,
    ),
    labels={str(number): name for number, name in enumerate(CLASS_NAMES)},
    scale=255.0,
    test_rows=10_000,
)
