"""Ontario, Canada: 20 species."""

from puarena.datasets.nceas import make_nceas_region

READER = make_nceas_region(
    "CAN",
    "Ontario, Canada",
    species=20,
    features=11,
    presences=5063,
    surveyed=14571,
    order=61,
)
