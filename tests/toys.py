"""Made-up PU problems: two Gaussian classes, any prior, one-sample or two-sample."""

from __future__ import annotations

import numpy as np

from puarena.pu import HiddenLabels, PUData
from puarena.training import Row


def toy(
    prior: float = 0.4,
    setting: str = "os",
    rate: float = 0.2,
    n: int = 600,
    seed: int = 0,
    gap: float = 3.0,
    features: int = 4,
    positives_in_u: bool = True,
) -> tuple[np.ndarray, PUData, HiddenLabels]:
    """Return features and a split of a separable toy problem; ``gap`` is the distance of the class
    means.
    """
    rng = np.random.default_rng(seed)
    n_p = round(rate * n)
    n_u = n - n_p
    shifted = (prior - rate) / (1 - rate) if setting == "os" else prior
    pos_u = round(shifted * n_u) if positives_in_u else 0
    label = np.r_[
        np.ones(n_p), np.ones(pos_u), np.zeros(n_u - pos_u), rng.random(400) < prior
    ].astype(bool)
    x = rng.normal(size=(len(label), features)) + gap / 2 * (2 * label[:, None] - 1) / np.sqrt(
        features
    )
    p, u = rng.permutation(n_p), n_p + rng.permutation(n_u)
    test = np.arange(n, n + 400)
    v_p, v_u = n_p // 5, n_u // 5
    data = PUData(
        p_train=p[v_p:],
        u_train=u[v_u:],
        p_val=p[:v_p],
        u_val=u[:v_u],
        test=test,
        prior=prior,
        rate=rate,
        shifted_prior=shifted,
        setting=setting,
    )
    hidden = HiddenLabels(
        u_train=label[u[v_u:]],
        u_val=label[u[:v_u]],
        test=label[test],
        propensity_train=np.full(n_p - v_p, rate / prior),
        propensity_val=np.full(v_p, rate / prior),
    )
    return x.astype(np.float32), data, hidden


def rows(
    algorithm: str, count: int, data: PUData, hidden: HiddenLabels, first_seed: int = 100, **kwargs
) -> list[Row]:
    """Return ``count`` runs of an algorithm that differ in their seed and learning rate."""
    lrs = np.geomspace(3e-3, 3e-2, count) if count > 1 else [1e-2]
    return [
        Row(algorithm, data, hidden, first_seed + i, lr=float(lrs[i]), **kwargs)
        for i in range(count)
    ]
