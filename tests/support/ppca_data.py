"""Rows and settings for the tests of `OnlinePPCA`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.ppca.estimator import OnlinePPCA
from everlearn.ppca.settings import PPCAOptions

WIDTH = 5
SETTINGS: dict[str, dict[str, Any]] = {
    "step": {},
    "task": {"constraint": "task"},
    "plain": {"constraint": None},
    "plain, constant step": {"constraint": None, "options": PPCAOptions(step_size=0.1)},
    "weighted": {
        "constraint_weight": 2.0,
        "max_reference_rows": 60,
        "options": PPCAOptions(step_size=0.2),
    },
    "previous": {"constraint": "previous", "constraint_weight": 1.5},
    "mixture": {"n_mixtures": 3},
    "mixture plain": {"n_mixtures": 3, "constraint": None, "options": PPCAOptions(step_size=0.1)},
}
"""One of every form that the state can have."""


def rows_of(n: int, seed: int = 0, gaps: float = 0.0, width: int = WIDTH) -> NDArray[np.float64]:
    """Rows of one of three planes, by the seed."""
    plane = np.random.default_rng([9, seed % 3, width])
    W, mean = plane.normal(size=(width, 2)) * 2, plane.normal(size=width) * 6
    rng = np.random.default_rng([seed, 1])
    X = mean + rng.normal(size=(n, 2)) @ W.T + 0.3 * rng.normal(size=(n, width))
    X[rng.random(X.shape) < gaps] = np.nan
    return X


def model_of(setting: str = "step", **params: Any) -> OnlinePPCA:
    return OnlinePPCA(**{"random_state": 0, "batch_size": 16} | SETTINGS[setting] | params)


def learn(model: OnlinePPCA, step: int) -> OnlinePPCA:
    """One part of a stream that changes its plane every third time, with some gaps."""
    X = rows_of(60, seed=step // 3)
    X = X[np.random.default_rng(step).permutation(60)]
    if step % 2:
        X[::7, step % WIDTH] = np.nan
    return model.partial_fit(X, task=step // 3)


def taught(setting: str = "step", steps: int = 7, **params: Any) -> OnlinePPCA:
    model = model_of(setting, **params)
    for step in range(steps):
        learn(model, step)
    return model
