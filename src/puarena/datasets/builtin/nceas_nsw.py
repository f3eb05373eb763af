"""New South Wales: 54 species."""

from puarena.datasets.nceas import make_nceas_region

READER = make_nceas_region(
    "NSW",
    "New South Wales",
    species=54,
    features=21,
    presences=3323,
    surveyed=8746,
    order=62,
    groups=("ba", "db", "nb", "ot", "ou", "rt", "ru", "sr"),
    checksums={
        "test_env_ba": "74f87872d165b13abf7924649d261408fa9460e75e627297c410a3e8b5917594",
        "test_env_db": "e9da74fa8a249bd68f8888d473270721c9839ffb371f4b0ea7a9ce2b42297e2e",
        "test_env_nb": "bb47eac96ab73483f13d0a64a75f415bbc6ffcc621c36ee04a77f914646cf629",
        "test_env_ot": "aadc1a907581fc6080b4f31f2a868c2b57b6951d73b32dac3ff0708415052b69",
        "test_env_ou": "7ed98fe58f85ceb10b5643756fca2be8a548cb8a0983e3baaaf5696543aadbd8",
        "test_env_rt": "a40c9600ae248fa7ba5e4b9e5c776207d849509bdd85775fa2d51a5d8b29d6b8",
        "test_env_ru": "1f0a2d03e33d665072e87c81a528a58baee801366e4cab168967e171759afd9a",
        "test_env_sr": "91c4f76bbea61cb5a5757b74dc4f3fbfdee711214deb7a5e03f1316d69cbc5a7",
        "test_pa_ba": "41dd9ec3f4563fdfeb89ed2f1b10e5da85e4a164f5659590ea4c82cd8e78c019",
        "test_pa_db": "40a55a3c522bf28889434fc93208ab3b00a36f1c9471c6cb15da23e5f149cf76",
        "test_pa_nb": "7586f1f1d539dd2939722c5947d22da33b6a61318ccf4c90a679149aad877df6",
        "test_pa_ot": "2dd6454a5d18dd7c73e765590e191e83d89fe89e8b4c5b1a30d045cd65b114ba",
        "test_pa_ou": "b34c79639b51dae9fb03d0d1cedbaaa33e899e017b4dbc0593a8873d7aede320",
        "test_pa_rt": "0a9d4c6900b539fbab1eb6c5f19f034ee3e0d46b71f3469dfa8466e6a66a840f",
        "test_pa_ru": "0d3236741aec20aa9e2e176505759d39bc9350b007ff2f1e17dbbe6017a975c5",
        "test_pa_sr": "65a3456ac8c5ca693c2f7f559baadd7a41a94526e32150bccdcf0bae71041663",
        "train_bg": "35757490cfcea6ce28b2f51b103d6f6f2af12ff5aa03ab94f8681992056a8ec5",
        "train_po": "46e49b001d0f6d9dc1a4c52dad088858ebe9f942ae245eb0aad6451445f5867f",
    },
)
