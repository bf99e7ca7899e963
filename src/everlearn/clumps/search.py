"""The search for topics within an epoch: split and join while that raises the objective.

The objective is bound - price * n_topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from everlearn.clumps.compress import Compressor
from everlearn.clumps.items import Items, regrouped
from everlearn.clumps.local import Assignment, ClumpStep
from everlearn.clumps.merges import apply_joins, merge_groups, propose_joins
from everlearn.clumps.model import Topics
from everlearn.clumps.splits import apply_splits, propose_splits
from everlearn.core.arrays import IntVec, Vec

_LEAST_GAIN = 0.02
"""A move must gain this share of the price on top of it, so that no two moves undo each other."""
_FIRST_ITERATIONS, _ITERATIONS_BETWEEN, _LAST_ITERATIONS = 6, 3, 10
"""Iterations before the first round of moves, after each round, and after the last."""
_STALLS = 3
"""The search ends after this many rounds in a row that do not raise the objective."""
_UNCHANGED, _HARDLY_CHANGED = 0.1, 0.01
"""A topic is split again only if its points changed by more than this share since that failed. The
second share holds once the first leaves nothing to do."""


@dataclass(slots=True)
class TopicSearch:
    """Topics, items and groups of an epoch. Methods change them in place.

    Attributes
    ----------
    price : nats that a topic must earn
    topics : statistics of the items under the assignment `found`
    found, assigned_by : the latest assignment of items, and the topics it was computed from
    failed : points of each topic, by id, at the time when splitting it failed
    """

    step: ClumpStep
    price: float
    max_topics: int
    sizes: Vec
    items: Items
    topics: Topics
    next_id: int
    found: Assignment | None = None
    assigned_by: Topics | None = None
    failed: dict[int, float] = field(default_factory=dict)

    @property
    def bound(self) -> float:
        return self.topics.bound(self.step.model, self.sizes)

    def replace_items(self, items: Items) -> None:
        """Continue with other items of the same points. The assignment of the old ones goes."""
        self.items, self.found, self.assigned_by = items, None, None

    def compressor(self) -> Compressor:
        """Compresses the items as they are assigned now."""
        assert self.found is not None
        return Compressor.of(self.step.model, self.topics, self.sizes, self.items, self.found)

    def last_compressor(self) -> Compressor:
        """The same, and the assignment is dropped at once to save memory."""
        compressor, self.found = self.compressor(), None
        return compressor

    def bound_on_clumps(self, items: Items) -> float:
        """Replace the items by clumps of them. Return their bound at the same beliefs."""
        assert self.assigned_by is not None
        found = self.step.assign(self.assigned_by, self.sizes, items)
        tied = self.step.summarize(self.topics, items, found)
        self.replace_items(items)
        return tied.bound(self.step.model, self.sizes)

    def iterate(self, most: int, least_gain: float = 0.0) -> None:
        """Up to `most` iterations of coordinate ascent, while each gains more than `least_gain`."""
        before = -np.inf
        for _ in range(most):
            self.assigned_by, self.found = self.topics, None  # drop one before making the next
            self.topics, self.found = self.step.iterate(self.topics, self.sizes, self.items)
            after = self.bound
            if after - before <= least_gain:
                return
            before = after

    @property
    def _objective(self) -> float:
        return self.bound - self.price * len(self.topics)

    def build(self) -> None:
        """Rounds of splits and joins, many at a time, until no round raises the objective."""
        self.iterate(_FIRST_ITERATIONS, 0.5 * self.price)
        best, kept, stalls = self._objective, self.topics, 0
        # Gains are exact, but rounding and the limit of `WIDTH` topics an item can eat them up:
        # without counting rounds that failed to deliver, the loop might never end.
        while stalls < _STALLS and (
            self.move(self._changed(_UNCHANGED)) or self.move(self._changed(_HARDLY_CHANGED))
        ):
            self.iterate(_ITERATIONS_BETWEEN, 0.5 * self.price)
            stalls += 1
            if self._objective > best:
                best, kept, stalls = self._objective, self.topics, 0
        self.topics = kept
        self.iterate(_LAST_ITERATIONS, 0.5 * self.price)

    def join(self, rounds: int) -> None:
        """Rounds of joins without splits."""
        for _ in range(rounds):
            if not self.move(np.empty(0, np.int64)):
                return
            self.iterate(1)

    def _changed(self, share: float) -> IntVec:
        """Topics whose points changed by more than this share since they failed to split."""
        known = np.array([self.failed.get(i, -np.inf) for i in self.topics.ids.tolist()])
        return np.flatnonzero(np.abs(self.topics.n - known) > share * self.topics.n)

    def move(self, divisible: IntVec) -> bool:
        """A round of joins, and of splits of some topics. Return whether any was made."""
        assert self.found is not None
        self.assigned_by = None  # refers to the old topics; an iteration must follow
        model, engine = self.step.model, self.step.engine
        given = (self.topics, self.sizes, self.items, self.found)
        joins = propose_joins(model, *given)
        pairs = [*zip(joins.first.tolist(), joins.second.tolist(), strict=True)]
        room = self.max_topics - len(self.topics)
        least = max(_LEAST_GAIN * self.price, 1e-9 * abs(self.bound))
        tried = divisible if room > 0 else divisible[:0]
        splits = propose_splits(model, engine, *given, tried, self.price + least)
        net = np.concatenate([joins.gains + self.price, splits.gains - self.price])
        touched = [*pairs, *((k,) for k in splits.chosen.tolist())]
        chosen = disjoint(net, touched, least)
        joined_pairs = [i for i in chosen if i < len(pairs)]
        divided = [i - len(pairs) for i in chosen if i >= len(pairs)][: max(room, 0)]
        self._note_failures(np.setdiff1d(tried, splits.chosen))
        if divided:
            self.topics = apply_splits(self.topics, splits, divided, self.next_id)
            self.next_id += len(divided)
        if joined_pairs:
            self.topics = apply_joins(self.topics, joins, joined_pairs)
        return bool(divided or joined_pairs)

    def promising_splits(self, share: float) -> IntVec:
        """Topics whose split gains more than this share of the price."""
        assert self.found is not None
        given = (self.topics, self.sizes, self.items, self.found, np.arange(len(self.topics)))
        least = share * self.price
        return propose_splits(self.step.model, self.step.engine, *given, least).chosen

    def _note_failures(self, hopeless: IntVec) -> None:
        ids, n = self.topics.ids[hopeless].tolist(), self.topics.n[hopeless].tolist()
        self.failed |= dict(zip(ids, n, strict=True))

    def force_joins(self, count: int) -> int:
        """Join up to `count` pairs of topics, those that lose least. Return how many."""
        assert self.found is not None
        joins = propose_joins(self.step.model, self.topics, self.sizes, self.items, self.found)
        pairs = [*zip(joins.first.tolist(), joins.second.tolist(), strict=True)]
        # A pair of unknown gain is still a pair: the caller needs at least one join.
        gains = np.nan_to_num(joins.gains, nan=-1e300, neginf=-1e300)
        chosen = disjoint(gains, pairs, -np.inf)[:count]
        self.topics = apply_joins(self.topics, joins, chosen)
        self.iterate(1)
        return len(chosen)

    def merge_groups(self, most: int, criterion: str) -> IntVec:
        """Merge groups of documents until `most` are left. Return the new position of each."""
        assert self.assigned_by is not None
        into = merge_groups(self.topics, self.sizes, most, criterion)
        self.topics = self.topics.regrouped(into)
        self.assigned_by = self.assigned_by.regrouped(into)
        self.sizes = np.bincount(into, self.sizes).astype(np.float64)
        self.items = regrouped(self.items, into)
        return into


def disjoint(net: Vec, touched: Sequence[tuple[int, ...]], least: float) -> list[int]:
    """Positions of moves that gain more than `least`, best first, no two of the same topic."""
    used: set[int] = set()
    chosen = []
    for i in np.argsort(-net, kind="stable").tolist():
        if not net[i] > least:
            break
        if used.isdisjoint(touched[i]):
            used.update(touched[i])
            chosen.append(i)
    return chosen
