"""The order in which the paper's tables list their rows, methods beyond the paper after them; and notes on rows."""

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
