"""Mushroom: descriptions of mushrooms in 22 categories."""

from puarena.datasets.openml_tables import make_uci_table

READER = make_uci_table(
    "mushroom",
    "Mushroom",
    "73/mushroom",
    "J. Schlimmer, Mushroom",
    "1981, doi:10.24432/C5959T",
    openml_id=24,
    rows=8124,
    features=117,
    content="mushrooms by 22 categories (one-hot), poisonous positive",
    classes=("edible", "poisonous"),
    positive="poisonous",
    prior=0.482,
    order=12,
    labels={"e": "edible", "p": "poisonous"},
    categorical=True,
)
