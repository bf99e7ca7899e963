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

_MIN_GAIN = 0.02
"""A move must gain this share of the price on top of it, so that no two moves undo each other."""
_FIRST_ITERATIONS, _ITERATIONS_BETWEEN, _LAST_ITERATIONS = 6, 3, 10
"""Iterations before the first round of moves, after each round, and after the last."""
_MAX_STALLED_ROUNDS = 3
"""The search ends after this many rounds in a row that do not raise the objective."""
_CHANGED, _SLIGHTLY_CHANGED = 0.1, 0.01
"""After a split failed, it is tried again once this share of the topic's points has changed. The
second share applies when a round with the first one makes no move."""


@dataclass(slots=True)
class TopicSearch:
    """Topics, items and groups of an epoch. Methods change them in place.

    Attributes
    ----------
    price : nats by which a topic must raise the bound
    topics : statistics of the items under `assignment`
    assignment, assigned_by : the latest assignment of items, and the topics it was computed from
    failed_splits : by id of a topic, its number of points when splitting it failed
    """

    step: ClumpStep
    price: float
    max_topics: int
    sizes: Vec
    items: Items
    topics: Topics
    next_id: int
    assignment: Assignment | None = None
    assigned_by: Topics | None = None
    failed_splits: dict[int, float] = field(default_factory=dict)

    @property
    def bound(self) -> float:
        return self.topics.bound(self.step.model, self.sizes)

    def replace_items(self, items: Items) -> None:
        """Continue with other items of the same points, and drop the assignment."""
        self.items, self.assignment, self.assigned_by = items, None, None

    def compressor(self) -> Compressor:
        """A compressor of the items under the latest assignment."""
        assert self.assignment is not None
        return Compressor.of(self.step.model, self.topics, self.sizes, self.items, self.assignment)

    def last_compressor(self) -> Compressor:
        """As `compressor`, and drop the assignment to save memory."""
        compressor, self.assignment = self.compressor(), None
        return compressor

    def replace_by_clumps(self, items: Items) -> float:
        """Replace the items by clumps of them. Return the bound, with the topics as they are."""
        assert self.assigned_by is not None
        assignment = self.step.assign(self.assigned_by, self.sizes, items)
        topics = self.step.summarize(self.topics, items, assignment)
        self.replace_items(items)
        return topics.bound(self.step.model, self.sizes)

    def iterate(self, most: int, min_gain: float = 0.0) -> None:
        """Up to `most` iterations of coordinate ascent, while each gains more than `min_gain`."""
        before = -np.inf
        for _ in range(most):
            self.assigned_by, self.assignment = self.topics, None  # free memory for the next one
            self.topics, self.assignment = self.step.iterate(self.topics, self.sizes, self.items)
            after = self.bound
            if after - before <= min_gain:
                return
            before = after

    @property
    def _objective(self) -> float:
        return self.bound - self.price * len(self.topics)

    def split_and_join(self) -> None:
        """Rounds of many splits and joins, until no round raises the objective."""
        self.iterate(_FIRST_ITERATIONS, 0.5 * self.price)
        best, best_topics, n_stalled = self._objective, self.topics, 0
        # Rounding and the limit of `WIDTH` topics an item can undo the gain of a round, so the
        # loop might never end if it did not count rounds without progress.
        while n_stalled < _MAX_STALLED_ROUNDS and (
            self.move(self._changed(_CHANGED)) or self.move(self._changed(_SLIGHTLY_CHANGED))
        ):
            self.iterate(_ITERATIONS_BETWEEN, 0.5 * self.price)
            n_stalled += 1
            if self._objective > best:
                best, best_topics, n_stalled = self._objective, self.topics, 0
        self.topics = best_topics
        self.iterate(_LAST_ITERATIONS, 0.5 * self.price)

    def join(self, rounds: int) -> None:
        """Rounds of joins without splits."""
        for _ in range(rounds):
            if not self.move(np.empty(0, np.int64)):
                return
            self.iterate(1)

    def _changed(self, share: float) -> IntVec:
        """Topics that never failed to split, or changed this share of their points since then."""
        n_points = [self.failed_splits.get(i, -np.inf) for i in self.topics.ids.tolist()]
        return np.flatnonzero(np.abs(self.topics.n - np.array(n_points)) > share * self.topics.n)

    def move(self, candidates: IntVec) -> bool:
        """A round of joins, and of splits of the candidates. Return whether any was made."""
        assert self.assignment is not None
        self.assigned_by = None  # refers to the old topics; an iteration must follow
        model, engine = self.step.model, self.step.engine
        given = (self.topics, self.sizes, self.items, self.assignment)
        joins = propose_joins(model, *given)
        pairs = [*zip(joins.first.tolist(), joins.second.tolist(), strict=True)]
        room = self.max_topics - len(self.topics)
        min_gain = max(_MIN_GAIN * self.price, 1e-9 * abs(self.bound))
        tried = candidates if room > 0 else candidates[:0]
        splits = propose_splits(model, engine, *given, tried, self.price + min_gain)
        gains = np.concatenate([joins.gains + self.price, splits.gains - self.price])
        moved_topics = [*pairs, *((k,) for k in splits.chosen.tolist())]
        chosen = choose_disjoint(gains, moved_topics, min_gain)
        joined_pairs = [i for i in chosen if i < len(pairs)]
        divided = [i - len(pairs) for i in chosen if i >= len(pairs)][: max(room, 0)]
        failed = np.setdiff1d(tried, splits.chosen)
        ids, n_points = self.topics.ids[failed].tolist(), self.topics.n[failed].tolist()
        self.failed_splits |= dict(zip(ids, n_points, strict=True))
        if divided:
            self.topics = apply_splits(self.topics, splits, divided, self.next_id)
            self.next_id += len(divided)
        if joined_pairs:
            self.topics = apply_joins(self.topics, joins, joined_pairs)
        return bool(divided or joined_pairs)

    def promising_splits(self, share: float) -> IntVec:
        """Topics whose split gains more than this share of the price."""
        assert self.assignment is not None
        given = (self.topics, self.sizes, self.items, self.assignment, np.arange(len(self.topics)))
        min_gain = share * self.price
        return propose_splits(self.step.model, self.step.engine, *given, min_gain).chosen

    def force_joins(self, count: int) -> int:
        """Join up to `count` pairs of topics, those that lose least. Return how many."""
        assert self.assignment is not None
        joins = propose_joins(self.step.model, self.topics, self.sizes, self.items, self.assignment)
        pairs = [*zip(joins.first.tolist(), joins.second.tolist(), strict=True)]
        # Pairs without a finite gain come last, but they count: the caller needs at least one join.
        gains = np.nan_to_num(joins.gains, nan=-1e300, neginf=-1e300)
        chosen = choose_disjoint(gains, pairs, -np.inf)[:count]
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


def choose_disjoint(
    gains: Vec, moved_topics: Sequence[tuple[int, ...]], min_gain: float
) -> list[int]:
    """Positions of moves that gain more than `min_gain`, best first, no two of the same topic."""
    used: set[int] = set()
    chosen = []
    for i in np.argsort(-gains, kind="stable").tolist():
        if not gains[i] > min_gain:
            break
        if used.isdisjoint(moved_topics[i]):
            used.update(moved_topics[i])
            chosen.append(i)
    return chosen
