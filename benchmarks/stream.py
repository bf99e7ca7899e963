"""`DPMixture.partial_fit` on ten million rows: CPU time a row and memory along the stream."""

import os
import time

import numpy as np

from benchmarks.table import Table
from everlearn import DPMixture

N_FEATURES, N_CLUSTERS, BATCH = 10, 20, 1000
MARKS = (10_000, 100_000, 1_000_000, 10_000_000)
BUDGET = "16MB"


def run() -> Table:
    """One row for each decade of the stream."""
    table = Table(
        "A stream of ten million rows",
        [
            "rows",
            "CPU µs a row",
            "resident MB of the process",
            "size of the model",
            "components",
        ],
        "Time a row and memory do not grow with the stream. "
        f"{N_FEATURES} features, {N_CLUSTERS} planted clusters, batches of {BATCH:,}, "
        f"`memory_budget={BUDGET!r}`. CPU time is that since the line above.",
    )
    rng = np.random.default_rng(0)
    means = rng.normal(0, 6, (N_CLUSTERS, N_FEATURES))
    model = DPMixture(memory_budget=BUDGET, engine="serial", random_state=0)
    seen, marked, learning = 0, 0, 0.0
    for mark in MARKS:
        while seen < mark:
            labels = rng.integers(N_CLUSTERS, size=BATCH)
            X = means[labels] + rng.normal(size=(BATCH, N_FEATURES))
            start = time.process_time()
            model.partial_fit(X)
            learning += time.process_time() - start
            seen += BATCH
        per_row = 1e6 * learning / (seen - marked)
        held = model.memory_report()["total"]
        table.add(
            f"{seen:,}",
            f"{per_row:.1f}",
            f"{resident_mb():.0f}",
            f"{held:,} B",
            model.n_components_,
        )
        marked, learning = seen, 0.0
    return table


def resident_mb() -> float:
    """Resident memory of this process."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
