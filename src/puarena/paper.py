"""The benchmark paper: its protocol and the order of the rows of its tables."""

# The protocol, which specs and the training engine have as defaults.
RATE = 0.3  # labeled positives / all training points
SPLITS = 3
CONFIGS = 10
STEPS = 20_000
WARMUP_STEPS = 2_000  # of a first stage, in addition, for algorithms that have one
RECORD_STEPS = 100  # between two records
CALIBRATION = "weighted"

ORDER = (
    "pn-oracle",
    "pn-naive",
    "pn-quantile",
    "upu",
    "nnpu",
    "nnpu-ga",
    "nnpu-ss",
    "pusb",
    "pubn",
    "vpu",
    "pan",
    "cvir",
    "dist-pu",
    "p3mix-e",
    "p3mix-c",
    "lbe",
    "count-loss",
    "robust-pu",
    "holistic-pu",
    "pue",
    "glws",
    "tedn",
    "pulda",
    "self-pu",
    "imb-pu",
    "pu-auc",  # not in them
)
CALIBRATED = ("upu", "nnpu", "nnpu-ga", "pusb", "vpu", "dist-pu")  # with a calibrated row

DATASET_TITLES = {
    "letter": "Letter",
    "usps": "USPS",
    "cifar10": "CIFAR-10",
    "imagenette": "ImageNette",
}


def find_place(base: str) -> int:
    """Return the place of a plain method; methods the paper does not list come last."""
    return ORDER.index(base) if base in ORDER else len(ORDER)
