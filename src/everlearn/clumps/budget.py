"""Limits of what a model keeps between calls, and an estimate of the memory of an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from everlearn.clumps.compress import StoragePrices
from everlearn.clumps.model import GroupedModel, topics_bytes
from everlearn.clumps.state import ClumpedState
from everlearn.estimator.params import parse_bytes

AUTO_ITEMS, AUTO_ITEMS_PER_TOPIC = 4000, 2
"""Clumps and single points that `max_clumps="auto"` keeps: the larger of both."""
AUTO_BYTES: Final = 64e6
"""With a budget above this, `max_clumps="auto"` keeps more than `AUTO_ITEMS`, in proportion."""
DEFAULT_MAX_GROUPS = 1000
"""Groups to keep under a budget. The time to merge groups grows with the square of it."""
GROUP_BYTES: Final = 16
"""Bytes of the id and the size of a group."""
DOCUMENT_BYTES: Final = 4
"""Bytes of one entry of `document_groups`."""


@dataclass(frozen=True, slots=True)
class KeepLimits:
    """Limits of what a model keeps between calls.

    Attributes
    ----------
    max_bytes : of all arrays together
    max_items : number of clumps and single points
    max_groups : number of groups of documents
    auto_items : whether budget and number of topics limit the items, instead of `max_items`
    """

    max_bytes: float = np.inf
    max_items: float = np.inf
    max_groups: float = np.inf
    auto_items: bool = False

    @classmethod
    def of(
        cls,
        memory_budget: int | str | None,
        max_clumps: int | str | None,
        max_groups: int | None,
    ) -> KeepLimits:
        """The limits that the parameters of a `ClumpedTopicModel` set."""
        if max_groups is None:
            most_groups = np.inf if memory_budget is None else float(DEFAULT_MAX_GROUPS)
        else:
            most_groups = float(max_groups)
        auto = max_clumps == "auto"
        return cls(
            np.inf if memory_budget is None else float(parse_bytes(memory_budget)),
            np.inf if max_clumps is None or auto else float(max_clumps),
            most_groups,
            auto,
        )

    @property
    def unlimited(self) -> bool:
        """Whether every point may be kept."""
        return self.max_bytes == np.inf == self.max_items and not self.auto_items

    def met_by(self, state: ClumpedState, before: KeepLimits) -> bool:
        """Whether a state that was compressed to the limits `before` meets these, too."""
        k = len(state.topics)
        # With "auto", a state may hold more items than its topics allow: topics were joined after
        # its compression.
        as_before = (
            self.auto_items and before.auto_items and self._min_auto_items >= before._min_auto_items
        )
        return (
            state.nbytes <= self.max_bytes
            and len(state.sizes) <= self.groups_within(k)
            and (as_before or len(state.past) <= self.items_within(k))
        )

    def items_within(self, n_topics: int) -> float:
        """Clumps and single points that may be kept with `n_topics` topics."""
        if self.auto_items:
            return max(self._min_auto_items, float(AUTO_ITEMS_PER_TOPIC * n_topics))
        return self.max_items

    @property
    def _min_auto_items(self) -> float:
        """Items that "auto" allows for any number of topics."""
        share = max(1.0, self.max_bytes / AUTO_BYTES) if self.max_bytes < np.inf else 1.0
        return share * AUTO_ITEMS // 1

    def groups_within(self, n_topics: int) -> float:
        """Groups that may be kept: `max_groups`, and at most a quarter of the bytes."""
        if np.isinf(self.max_bytes):
            return self.max_groups
        each = 8 * n_topics + GROUP_BYTES
        return max(1.0, min(self.max_groups, 0.25 * self.max_bytes // each))

    def item_bytes(
        self, model: GroupedModel, n_topics: int, n_groups: int, n_tracked: int = 0
    ) -> float:
        """Bytes left for clumps and single points."""
        topics = topics_bytes(n_topics, n_groups, model.family.n_stats)
        fixed = model.nbytes + topics + GROUP_BYTES * n_groups + DOCUMENT_BYTES * n_tracked
        return self.max_bytes - fixed - 8  # `starts` has one entry more than there are clumps

    def prices(self, n_stats: int, n_features: int) -> StoragePrices:
        """Bytes of a clump and of a single point."""
        # A single point takes fewer bytes than a clump, but it counts as an item, too. So points
        # are only kept if the number of items has no limit.
        singles = self.max_items == np.inf and not self.auto_items
        return StoragePrices.of(n_stats, n_features, singles=singles)


# The estimate below is 1.1 to 2 times the peak of tracemalloc for epochs above a few megabytes,
# and higher for smaller ones.
_ITEM_BYTES: Final = 300
"""Per item, in addition to its features: assignments, sorting, dividing."""
_LEAF_BYTES, _LEAF_COPIES = 100, 7
"""Per leaf of the compression, and how many copies of its feature sums exist at a time."""
_PAIR_BYTES: Final = 60
"""Per pair of a topic and a group: scores, proposals, and the arrays that they come from."""
_SCRATCH_BYTES: Final = 2_000_000
"""Scores of one block of items."""


def epoch_bytes(state: ClumpedState, limits: KeepLimits, n_points: int, n_documents: int) -> int:
    """Estimated peak memory of an epoch, in addition to the state."""
    n_stats, k = state.model.family.n_stats, len(state.topics)
    items = len(state.past) + n_points
    leaves = 0.0 if limits.unlimited else min(items, limits.items_within(k))
    pairs = k * (len(state.sizes) + n_documents)
    return int(
        items * (8 * n_stats + _ITEM_BYTES)
        + leaves * (8 * _LEAF_COPIES * n_stats + _LEAF_BYTES)
        + pairs * _PAIR_BYTES
        + _SCRATCH_BYTES
    )
