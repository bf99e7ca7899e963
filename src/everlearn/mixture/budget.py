"""Turn a memory budget into limits of components, rows and blocks.

A quarter of the budget is for the rows of the window, and a quarter for blocks of rows that are
processed. Half is for statistics: the sums, one set for each open batch, and what moves measure
and try.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from everlearn.errors import MemoryBudgetError
from everlearn.mixture.settings import MAX_BUDGET_WORKERS

OPEN_BATCHES: Final = 4
"""Batches in the window of a stream, at least: a birth needs rows that came before the new ones."""
_DELETES: Final = 2
_BLOCK_COPIES: Final = 6 * MAX_BUDGET_WORKERS
_STATS_COPIES: Final = 40
"""Sets of statistics in memory at the peak of a lap, besides those of open batches."""
_PAIR_BYTES: Final = 80
"""Bytes for each pair of components: entropies, and the choice among all pairs."""
_FIXED_BYTES: Final = 380_000
"""Bytes of history, records and small objects that Python keeps for later use."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Largest sizes within a budget.

    Attributes
    ----------
    max_components : components
    window_rows : open rows
    batch_rows : rows of a batch
    block_bytes : bytes of a block of rows
    max_deletes : components to track for deletes
    """

    max_components: int
    window_rows: int
    batch_rows: int
    block_bytes: int
    max_deletes: int


def stats_bytes(n_stats: int) -> int:
    """Bytes of one component in one set of statistics: id, mass, entropy and features."""
    return 8 * (n_stats + 3)


def limits_within(
    budget: int, n_stats: int, row_bytes: int, wanted_rows: int, wanted_components: int
) -> MemoryLimits:
    """The largest limits, up to the wanted ones, that take at most `budget` bytes together."""
    free = budget - _FIXED_BYTES
    need = least_budget(n_stats, row_bytes, OPEN_BATCHES, 2)
    if budget < need:
        raise MemoryBudgetError(
            f"the 'memory_budget' of DPMixture must be at least {need:,} bytes, got {budget:,}: "
            f"two components of {n_stats} statistics and {OPEN_BATCHES} rows need that much"
        )
    rows = free // 4 // _open_row_bytes(row_bytes)
    components = _components_within(free // 2, _component_bytes(n_stats))
    window_rows = int(min(wanted_rows, rows))
    return MemoryLimits(
        max_components=int(min(wanted_components, components)),
        window_rows=window_rows,
        batch_rows=max(1, window_rows // OPEN_BATCHES),
        block_bytes=free // 4 // _BLOCK_COPIES,
        max_deletes=_DELETES,
    )


def least_budget(n_stats: int, row_bytes: int, rows: int, components: int) -> int:
    """The smallest budget that allows these numbers of open rows and components."""
    statistics = components * _component_bytes(n_stats) + components**2 * _PAIR_BYTES
    return _FIXED_BYTES + max(2 * statistics, 4 * rows * _open_row_bytes(row_bytes))


def _open_row_bytes(row_bytes: int) -> int:
    """Bytes of an open row with its label, and of a copy while rows are joined."""
    return 2 * (row_bytes + 12)


def _component_bytes(n_stats: int) -> int:
    """Bytes of a component in all statistics that a lap needs."""
    return stats_bytes(n_stats) * (_STATS_COPIES + (OPEN_BATCHES + 1) * (3 + _DELETES))


def _components_within(free: int, each: int) -> int:
    """The largest K with K components of `each` bytes, and K squared pairs, in `free` bytes."""
    root = math.isqrt(each**2 + 4 * _PAIR_BYTES * free)
    return (root - each) // (2 * _PAIR_BYTES)
