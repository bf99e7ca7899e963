"""From a budget in bytes to the limits that keep a learner within it.

A quarter of the budget is for the rows of the window, a quarter for the block at work, half for
statistics: the sums, one copy for each open batch, and what moves measure and try out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from everlearn.errors import MemoryBudgetError

_OPEN_BATCHES = 4
_DELETES = 2
MOST_WORKERS = 2
"""Blocks at work at the same time."""
_BLOCK_COPIES = 6 * MOST_WORKERS
_STATS_COPIES = 40
"""Statistics alive at the busiest moment of a lap, besides those of open batches."""
_PAIR_BYTES = 80
"""For each pair of components: entropies, and what choosing among all pairs takes."""
_FIXED_BYTES = 380_000
"""History, records, and small objects that the interpreter keeps for use again."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What fits: components, open rows, rows of a batch, bytes of a block, deletes at a time."""

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
    """The largest limits, up to those wanted, whose sum is within `budget` bytes."""
    free = budget - _FIXED_BYTES
    need = least_budget(n_stats, row_bytes, _OPEN_BATCHES, 2)
    if budget < need:
        raise MemoryBudgetError(
            "the 'memory_budget' of DPMixture must hold at least two components and "
            f"{_OPEN_BATCHES} rows: with {n_stats} statistics a component that takes "
            f"{need:,} bytes, got {budget:,}"
        )
    rows = free // 4 // _open_row_bytes(row_bytes)
    components = _components_within(free // 2, _component_bytes(n_stats))
    window_rows = int(min(wanted_rows, rows))
    return MemoryLimits(
        max_components=int(min(wanted_components, components)),
        window_rows=window_rows,
        batch_rows=max(1, window_rows // _OPEN_BATCHES),
        block_bytes=free // 4 // _BLOCK_COPIES,
        max_deletes=_DELETES,
    )


def least_budget(n_stats: int, row_bytes: int, rows: int, components: int) -> int:
    """The smallest budget whose limits are not below so many open rows and components."""
    statistics = components * _component_bytes(n_stats) + components**2 * _PAIR_BYTES
    return _FIXED_BYTES + max(2 * statistics, 4 * rows * _open_row_bytes(row_bytes))


def _open_row_bytes(row_bytes: int) -> int:
    """Bytes of an open row and its label, and of a copy of both while rows are put together."""
    return 2 * (row_bytes + 12)


def _component_bytes(n_stats: int) -> int:
    """Bytes of a component in all the statistics that a lap needs."""
    return stats_bytes(n_stats) * (_STATS_COPIES + (_OPEN_BATCHES + 1) * (3 + _DELETES))


def _components_within(free: int, each: int) -> int:
    """The largest K with K components of `each` bytes, and K squared pairs, in `free` bytes."""
    root = math.isqrt(each**2 + 4 * _PAIR_BYTES * free)
    return (root - each) // (2 * _PAIR_BYTES)
