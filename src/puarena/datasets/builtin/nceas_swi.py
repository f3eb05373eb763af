"""Switzerland: 30 species."""

from puarena.datasets.nceas import make_nceas_region

READER = make_nceas_region(
    "SWI",
    "Switzerland",
    species=30,
    features=13,
    presences=35105,
    surveyed=10013,
    order=65,
)
