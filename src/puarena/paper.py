"""The benchmark paper: its protocol, the order of the rows of its tables, and notes on rows."""

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

ROW_NOTES = {  # by method and dataset: what a reader of the row must know
    (
        "p3mix-e",
        "letter",
    ): "its early-learning weight of 5 works against an untrained teacher, and on Letter all "
    "outputs collapse to one side",
}


def place(base: str) -> int:
    """The place of a plain method."""
    return ORDER.index(base) if base in ORDER else len(ORDER)
