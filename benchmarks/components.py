"""`OnlinePPCA` against IncrementalPCA: CPU time of a batch; and on a million rows one by one."""

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
    """CPU time of a batch for both, measured in turn."""
    table = Table(
        "`OnlinePPCA` against `IncrementalPCA`, a batch",
        [
            "features", "components", "rows in the batch", "OnlinePPCA, CPU ms",
            "IncrementalPCA, CPU ms", "OnlinePPCA / IncrementalPCA", "online EM, CPU ms",
            "online EM / IncrementalPCA",
        ],
        "Median CPU time of `partial_fit` on one BLAS thread, measured in turn. `OnlinePPCA` keeps "
        "twice as many directions. Online EM is `OnlinePPCA(constraint=None)`. Goal: at most twice "
        "the time of IncrementalPCA.",
    )  # fmt: skip
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
    """CPU time, memory and score along a million steps of one row."""
    table = Table(
        "`OnlinePPCA`, a million rows one by one",
        ["rows", "CPU µs a row", "resident MB of the process", "nats per row below batch learning"],
        f"Every row is a step of its own (`batch_size=1`), {CALL:,} rows a call; {WIDTH} features, "
        f"{RANK} components. CPU time is that since the line above. Time and memory should not "
        "grow.",
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
