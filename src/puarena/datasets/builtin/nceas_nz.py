"""New Zealand: 52 species."""

from puarena.datasets.nceas import make_nceas_region

READER = make_nceas_region(
    "NZ",
    "New Zealand",
    species=52,
    features=18,
    presences=3088,
    surveyed=19120,
    order=63,
    checksums={
        "test_env": "de56108accc34e1f8a04cd6f6ff346253d6c0274b06e4e1ec6c9471f30514047",
        "test_pa": "165b24ba67c9f39105037570bf6af9a3778e65082766dba352f5b3823505d6bd",
        "train_bg": "455f4c15d295f2908f0b7361065f39402c8d62dd5ca6f5b2c4fbd382d710bc72",
        "train_po": "aabdd50a712ff177c5c012059977f797acf167120e401b7c81b5c797a32a4778",
    },
)
