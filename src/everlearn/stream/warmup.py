"""Compile the kernels of an estimator: learn and predict a little made-up data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from everlearn.registry import Entry, imported

_N: Final = 120
"""Records; enough for births and merges to be tried."""


def example_data(entry: Entry) -> tuple[Any, Any]:
    """A few records of the form that an estimator learns, and labels, numbers or None."""
    rng = np.random.default_rng(0)
    group = np.arange(_N) % 3
    X: Any = rng.normal(6.0 * group[:, None], 1.0, (_N, 3))
    if entry.form == "documents":
        words = np.array([f"word{i}" for i in range(60)])
        X = [" ".join(rng.choice(words[20 * g : 20 * g + 30], 30)) for g in group]
    elif entry.form == "points":
        X = [rng.normal(6.0 * rng.integers(3, size=(12, 1)), 1.0, (12, 2)) for _ in group]
    targets = {"class": np.array(["a", "b", "c"])[group], "number": group + rng.normal(size=_N)}
    return X, None if entry.target is None else targets[entry.target]


def warm_up(entry: Entry) -> None:
    """Learn and predict, so that the compiled kernels are kept for later processes.

    Only default settings are tried; others may have to compile more.
    """
    X, y = example_data(entry)
    model = entry.estimator()(random_state=0)
    model.fit(X, y)
    model.partial_fit(X, y)
    if entry.answers is not None:
        answer: Callable[[Any, Any], object] = imported(entry.answers)
        answer(model, X)
