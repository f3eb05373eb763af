"""MAGIC: showers seen by a gamma-ray telescope."""

from puarena.datasets.openml_tables import make_uci_table

READER = make_uci_table(
    "magic",
    "MAGIC Gamma Telescope",
    "159/magic+gamma+telescope",
    "R. Bock, MAGIC Gamma Telescope",
    "2004, doi:10.24432/C52C8B",
    openml_id=1120,
    order=14,
    rows=19020,
    features=10,
    content="simulated showers by 10 measurements, gamma positive",
    classes=("hadron", "gamma"),
    positive="gamma",
    prior=0.648,
    labels={"h": "hadron", "g": "gamma"},
)
