"""Where a search begins: many small clusters of a sample, merged while that raises the bound.

Two parts that belong together are found by one comparison of their sums, so beginning with too
many is far quicker than splitting one component again and again. The evidence is that of the
sample. Scaled up to all rows, its noise would look like structure, and hardly any pair would
merge.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from everlearn.core.stats import Permute, Stats
from everlearn.engine.rows import Rows
from everlearn.mixture.births import seed_labels
from everlearn.mixture.local import LocalRunner
from everlearn.mixture.merges import merge_greedily
from everlearn.mixture.model import Mixture, by_mass

_FIRST, _MOST = 100, 400
"""Number of micro-clusters at first, and at most."""
_ENOUGH: Final = 3
"""Micro-clusters are enough if a component consists of this many on average."""
_ROWS_EACH: Final = 2
"""Fewest rows of a micro-cluster, on average, when more of them are tried."""


def merged_micro_clusters(
    model: Mixture, rows: Rows, runner: LocalRunner, rng: np.random.Generator, most: int
) -> Stats:
    """Statistics of the components to begin with, at most `most`, the largest first."""
    limit = max(1, min(most, len(rows)))
    size = min(_FIRST, limit)
    while True:
        small = _micro_clusters(model, rows, size, runner, rng)
        found = merge_greedily(model, small, np.zeros((len(small), len(small))), np.empty(0))
        enough = _ENOUGH * len(found) <= size
        size *= 2
        if enough or size > min(_MOST, limit, len(rows) // _ROWS_EACH):
            break
    one = _micro_clusters(model, rows, 1, runner, rng)
    if model.bound(one) > model.bound(found):  # merges of pairs may stop too early
        return one
    return Permute(by_mass(found)).on(found)


def _micro_clusters(
    model: Mixture, rows: Rows, size: int, runner: LocalRunner, rng: np.random.Generator
) -> Stats:
    """Statistics of at most `size` clusters by k-means."""
    labels = seed_labels(model.family.embedding(rows.X), rows.weights, size, rng)
    stats = runner.hard_stats(rows, labels, np.arange(size))
    filled = stats.n > 0.0
    filled[0] |= not filled.any()
    return stats.rows(np.flatnonzero(filled))
