"""South America: 30 species."""

from puarena.datasets.nceas import make_nceas_region

READER = make_nceas_region(
    "SA",
    "South America",
    species=30,
    features=11,
    presences=2220,
    surveyed=152,
    order=64,
)
