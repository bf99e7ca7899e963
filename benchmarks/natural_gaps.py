"""Single runs with missing pixels: scores and errors of `OnlinePPCA` and its competitors."""

from typing import Any

import numpy as np

from benchmarks.natural_runs import EM_TOLERANCE, Digits, Peer, digits, fed, made, order_of
from everlearn import OnlinePPCA

LATE_PIXELS = 16


def at_random(settings: dict[str, Any], seed: int, share: float) -> dict[str, Any]:
    """Learn class after class with pixels missing at random; score complete rows."""
    data, rng = digits("optdigits"), np.random.default_rng(seed)
    parts = []
    for c in order_of(seed):
        rows = data.of_class(c, rng)
        parts.append(np.where(rng.random(rows.shape) < share, np.nan, rows))
    return _learned(data, settings, seed, parts)


def at_first(settings: dict[str, Any], seed: int) -> dict[str, Any]:
    """Learn mixed classes; the last two lines of the image are missing in the first half."""
    data, rng = digits("optdigits"), np.random.default_rng(seed)
    X = rng.permutation(data.X)
    half = len(X) // 2
    X[:half, -LATE_PIXELS:] = np.nan
    return _learned(data, settings, seed, [X[:half], X[half:]])


def _learned(
    data: Digits, settings: dict[str, Any], seed: int, parts: list[np.ndarray]
) -> dict[str, Any]:
    """Scores of complete test rows, and the error of 30 % of their pixels, given the others."""
    settings = dict(settings)
    if settings.pop("at_once", False):
        model: Any = OnlinePPCA(data.q, tol=EM_TOLERANCE, engine="serial", random_state=seed)
        model.fit(np.concatenate(parts))
    else:
        fill = settings.pop("fill", False)
        model = made(data, settings)
        sums, counts = np.zeros(data.X.shape[1]), np.full(data.X.shape[1], 1e-9)
        for task, part in enumerate(parts):
            rows = part
            if fill:  # with the mean of the values so far
                sums, counts = (
                    sums + np.nansum(part, axis=0),
                    counts + (~np.isnan(part)).sum(axis=0),
                )
                rows = np.where(np.isnan(part), sums / counts, part)
            fed(model, rows, data.batch, task)
        model.consolidate()
    found = model.model if isinstance(model, Peer) else model._learned.state.models[0]
    test = data.X_test.copy()
    hidden = np.random.default_rng(seed).random(test.shape) < 0.3
    test[hidden] = np.nan
    guess = found.posterior(test).filled
    error = float(np.sqrt(np.mean((guess - data.X_test)[hidden] ** 2)))
    return {"final": model.score(data.X_test), "imputation": error}
