"""Australian Wet Tropics: 40 species."""

from puarena.datasets.nceas import make_nceas_region

READER = make_nceas_region(
    "AWT",
    "Australian Wet Tropics",
    species=40,
    features=13,
    presences=3806,
    surveyed=442,
    order=60,
    groups=("bird", "plant"),
    checksums={
        "test_env_bird": "3d20606dfd54f1c0092c96993b7d16d452ae7f0e62e50c7c3f1ba5490d2d31b7",
        "test_env_plant": "60ffc85f4b7569a6e9430b68b2cff3479b8892886cd00158e1843c92b690a6c2",
        "test_pa_bird": "60198f6f5d07c9a288b4a76c32744bd121b5f09828a90b12b3f9024b3af64179",
        "test_pa_plant": "39df9bf775b76b6736ed600cdbbb835263cbaaf53c3412e3beb96046f196c261",
        "train_bg": "d118e2861ab060e1cfb569f21c23348fb760b1b2aa3b92b56b08ee29dd5a00b4",
        "train_po": "ac28f21d848749ff7511bfa505d7e9935e714a40af23f7949de2e12311e67421",
    },
)
