"""How many bytes a model may keep, and how many the work on an epoch takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from everlearn.clumps.compress import StoragePrices
from everlearn.clumps.model import GroupedModel, topics_bytes
from everlearn.clumps.state import ClumpedState
from everlearn.estimator.params import parse_bytes

LEAST_ITEMS, ITEMS_PER_TOPIC = 4000, 2
"""Clumps and single points that `max_clumps="auto"` keeps: the larger of both."""
USUAL_BYTES: Final = 64e6
"""`max_clumps="auto"` keeps more items in proportion if the budget exceeds this."""
MOST_GROUPS = 1000
"""Default number of groups under a budget; the time to merge groups grows with its square."""
GROUP_BYTES: Final = 16
"""Bytes of the id and the size of a group."""
TRACKED_BYTES: Final = 4
"""Bytes of one entry of `document_groups`."""


@dataclass(frozen=True, slots=True)
class KeepLimits:
    """What may be kept between calls.

    Attributes
    ----------
    max_bytes : in all
    max_items : clumps and single points
    max_groups : groups of documents
    auto_items : whether `max_items` follows from the budget and the number of topics instead
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
        """The limits that parameters of a `ClumpedTopicModel` describe."""
        if max_groups is None:
            most_groups = np.inf if memory_budget is None else float(MOST_GROUPS)
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
        """Whether a state that was compressed within the limits `before` is within these too."""
        k = len(state.topics)
        # "auto" allowed items for the topics of then, and topics have been joined since.
        as_before = (
            self.auto_items and before.auto_items and self._least_items >= before._least_items
        )
        return (
            state.nbytes <= self.max_bytes
            and len(state.sizes) <= self.groups_within(k)
            and (as_before or len(state.past) <= self.items_within(k))
        )

    def items_within(self, n_topics: int) -> float:
        """Clumps and single points that may be kept with `n_topics` topics."""
        if self.auto_items:
            return max(self._least_items, float(ITEMS_PER_TOPIC * n_topics))
        return self.max_items

    @property
    def _least_items(self) -> float:
        """What "auto" allows however few topics there are."""
        share = max(1.0, self.max_bytes / USUAL_BYTES) if self.max_bytes < np.inf else 1.0
        return share * LEAST_ITEMS // 1

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
        beliefs = topics_bytes(n_topics, n_groups, model.family.n_stats)
        fixed = model.nbytes + beliefs + GROUP_BYTES * n_groups + TRACKED_BYTES * n_tracked
        return self.max_bytes - fixed - 8  # `starts` has one entry more than there are clumps

    def prices(self, n_stats: int, n_features: int) -> StoragePrices:
        """Bytes of a clump and of a single point."""
        # Single points save bytes, but where items are counted each would take a clump's place.
        singles = self.max_items == np.inf and not self.auto_items
        return StoragePrices.of(n_stats, n_features, singles=singles)


# The estimate below was 1.1 to 2 times the peak that tracemalloc saw for epochs above a few
# megabytes, and more for smaller ones.
_ITEM_BYTES: Final = 300
"""Per item, beside its features: assignments, sorting, dividing."""
_LEAF_BYTES, _LEAF_COPIES = 100, 7
"""Per leaf of the compression, and how many copies of its feature sums exist at a time."""
_PAIR_BYTES: Final = 60
"""Per pair of a topic and a group: beliefs, proposals, and what these are computed from."""
_SCRATCH_BYTES: Final = 2_000_000
"""Scores of one block of items."""


def epoch_bytes(state: ClumpedState, limits: KeepLimits, n_points: int, n_documents: int) -> int:
    """Estimated peak of the work on an epoch, beside what the state keeps."""
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
