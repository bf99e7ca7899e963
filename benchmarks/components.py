"""OnlinePPCA against IncrementalPCA batch by batch, and a million rows one by one."""

import time

import numpy as np
from sklearn.decomposition import IncrementalPCA

from benchmarks.stream import resident_mb
from benchmarks.table import Table
from everlearn import OnlinePPCA
from everlearn.engine.opening import open_engine

SHAPES = ((64, 10, 50), (64, 10, 500), (784, 20, 50), (784, 20, 500), (784, 20, 2000))
"""Features, components, rows of a batch."""
REPEATS = 12
MARKS = (1000, 10_000, 100_000, 1_000_000)
WIDTH, RANK, CALL = 20, 3, 1000


def against_sklearn() -> Table:
    """CPU time of a batch, as a ratio to the peer's in the same run."""
    table = Table(
        "`OnlinePPCA` against `IncrementalPCA`, a batch",
        ["features", "components", "rows", "CPU ms", "IncrementalPCA", "ratio", "EM", "ratio"],
        "Median CPU time of `partial_fit` on one BLAS thread, both in turn; asked for: a ratio of "
        "at most 2. `OnlinePPCA` keeps twice the directions. EM: plain online EM.",
    )
    rng = np.random.default_rng(0)
    for d, q, n in SHAPES:
        W = rng.normal(size=(2 * q, d))
        batches = [rng.normal(size=(n, 2 * q)) @ W + rng.normal(size=(n, d)) for _ in range(4)]
        models = (
            OnlinePPCA(q, engine="serial"),
            IncrementalPCA(q),
            OnlinePPCA(q, engine="serial", constraint=None),
        )
        times: list[list[float]] = [[], [], []]
        with open_engine("serial"):  # one BLAS thread for all of them
            for i in range(REPEATS):
                for model, spent in zip(models, times, strict=True):
                    start = time.process_time()
                    model.partial_fit(batches[i % 4])
                    spent.append(time.process_time() - start)
        ours, peer, em = (1e3 * float(np.median(spent[2:])) for spent in times)
        ratios = (f"{ours / peer:.2f}", f"{em:.2f}", f"{em / peer:.2f}")
        table.add(d, q, n, f"{ours:.2f}", f"{peer:.2f}", *ratios)
    return table


def row_by_row() -> Table:
    """One row a step, a million steps: time and memory along the stream."""
    table = Table(
        "`OnlinePPCA`, a million rows one by one",
        ["rows", "CPU µs a row since the last mark", "resident MB", "nats below batch learning"],
        f"{WIDTH} features, {RANK} components, `batch_size=1`, handed over {CALL:,} at a time. "
        "Time and memory should be flat.",
    )
    rng = np.random.default_rng(0)
    W, mean = rng.normal(size=(RANK, WIDTH)), rng.normal(size=WIDTH)

    def drawn(n: int) -> np.ndarray:
        return mean + rng.normal(size=(n, RANK)) @ W + 0.5 * rng.normal(size=(n, WIDTH))

    test = drawn(5000)
    best = OnlinePPCA(RANK).fit(drawn(100_000)).score(test)
    model = OnlinePPCA(RANK, batch_size=1, engine="serial")
    seen = marked = 0
    for mark in MARKS:
        spent = 0.0
        while seen < mark:
            X = drawn(CALL)
            start = time.process_time()
            model.partial_fit(X)
            spent += time.process_time() - start
            seen += CALL
        per_row = 1e6 * spent / (seen - marked)
        below = best - model.score(test)
        table.add(f"{seen:,}", f"{per_row:.1f}", f"{resident_mb():.1f}", f"{below:.3f}")
        marked = seen
    return table
