"""What work on an epoch takes for a while, reckoned before it is begun.

The constants are on the safe side of what was measured with tracemalloc: the estimate was 1.1 to 2
times the peak for epochs above a few megabytes, more for smaller ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from everlearn.clumps.state import ClumpedState, KeepLimits

_ITEM_BYTES = 300
"""Of an item, beside its features: assignments, and how items are sorted and divided."""
_LEAF_BYTES, _LEAF_COPIES = 100, 7
"""Of a leaf in compression, and how often feature sums are held: its own, of halves, of trials."""
_PAIR_BYTES = 60
"""Of a topic in a group: counts of beliefs, of proposals, and of what they are made from."""
_SCRATCH = 2_000_000
"""Scores of the items that are worked on at a time."""


@dataclass(frozen=True, slots=True)
class EpochWork:
    """Work on an epoch beside what a state keeps, which is then compressed within limits."""

    state: ClumpedState
    limits: KeepLimits

    def bytes(self, n_points: int, n_documents: int) -> int:
        """About the most that is held at a time to learn from so many points and documents."""
        state, n_stats = self.state, self.state.model.family.n_stats
        items, k = len(state.past) + n_points, len(state.topics)
        leaves = 0.0 if self.limits.unlimited else min(items, self.limits.items_within(k))
        pairs = k * (len(state.sizes) + n_documents)
        return int(
            items * (8 * n_stats + _ITEM_BYTES)
            + leaves * (8 * _LEAF_COPIES * n_stats + _LEAF_BYTES)
            + pairs * _PAIR_BYTES
            + _SCRATCH
        )
