"""Connect-4: positions after eight moves, and who wins."""

from puarena.datasets.openml_tables import make_uci_table

READER = make_uci_table(
    "connect-4",
    "Connect-4",
    "26/connect+4",
    "J. Tromp, Connect-4",
    "1995, doi:10.24432/C59P43",
    openml_id=40668,
    rows=67557,
    features=126,
    content="positions of 42 squares (one-hot), won for the first player positive",
    order=18,
    classes=("draw", "loss", "win"),
    positive="win",
    prior=0.658,
    labels={"0": "draw", "1": "loss", "2": "win"},
    categorical=True,
)
