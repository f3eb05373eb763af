"""Spambase: e-mails by frequencies of words and characters."""

from puarena.datasets.openml_tables import make_uci_table

READER = make_uci_table(
    "spambase",
    "Spambase",
    "94/spambase",
    "M. Hopkins, E. Reeber, G. Forman and J. Suermondt, Spambase",
    "1999, doi:10.24432/C53G6X",
    openml_id=44,
    order=10,
    rows=4601,
    features=57,
    content="e-mails by 57 frequencies, spam positive",
    classes=("mail", "spam"),
    positive="spam",
    prior=0.394,
    labels={"0": "mail", "1": "spam"},
)
