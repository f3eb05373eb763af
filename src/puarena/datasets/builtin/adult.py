"""Adult: incomes of the census of 1994."""

from puarena.datasets.openml_tables import make_uci_table

READER = make_uci_table(
    "adult",
    "Adult",
    "2/adult",
    "B. Becker and R. Kohavi, Adult",
    "1996, doi:10.24432/C5XW20",
    openml_id=1590,
    rows=48842,
    features=108,
    content="persons by 6 numbers and 8 categories (one-hot), incomes over 50K positive",
    classes=("<=50K", ">50K"),
    positive=">50K",
    prior=0.239,
    order=16,
)
