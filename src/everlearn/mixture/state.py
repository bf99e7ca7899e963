"""What a mixture learner needs next: statistics of the past, open batches, and the ledger.

Rows are *open* while they can still be visited again, each batch with its own statistics; they
are *sealed* when only their sum is left. Batch learning keeps everything open, a stream seals
all but a window: the arithmetic is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.core.stats import Delete, Edit, Grow, Merge, Permute, Split, Stats, total
from everlearn.engine.chunks import Chunk, ChunkedRows, KeptLabels, Labelled
from everlearn.engine.protocol import Handle
from everlearn.mixture.model import Mixture, MixturePosterior, by_mass

_NOTHING = 1e-8
"""Rows' worth of mass below which a component is as good as empty."""


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """Rows that can be visited again, what they said at the last visit, and their labels (ids).

    Rows are `Rows` and labels an array, or `ChunkedRows` and `KeptLabels` during a fit of rows
    that are elsewhere.
    """

    rows: Any
    stats: Stats
    labels: Any
    name: int | str | None = None
    """What the caller calls the rows, if they may have to be forgotten."""

    def after(self, edit: Edit) -> OpenBatch:
        """The batch after a structural edit."""
        labels = self.labels
        if isinstance(edit, Merge) and isinstance(labels, KeptLabels):
            labels = labels.merged(edit.keep, edit.drop)
        elif isinstance(edit, Merge):
            labels = np.where(labels == edit.drop, np.int32(edit.keep), labels)
        return replace(self, stats=edit.on(self.stats), labels=labels)

    def split(self, target: int, born: Labels) -> OpenBatch:
        """The batch whose rows of the target have the labels of its parts."""
        if isinstance(self.labels, KeptLabels):
            return replace(self, labels=self.labels.split(target))
        return replace(self, labels=np.where(self.labels == target, born, self.labels))


@dataclass(frozen=True, slots=True)
class Sealed:
    """The sum of all rows that are gone, and what merging any two components would cost them.

    `pair_loss` (K, K) is symmetric: the entropy that the sealed rows lose if the pair is merged;
    exact until the first merge, an upper bound for the pairs of merged components after that,
    so that no gain is ever overstated.
    """

    stats: Stats
    pair_loss: Mat

    @classmethod
    def nothing(cls, ids: IntVec, n_stats: int) -> Sealed:
        """No rows yet."""
        return cls(Stats.zeros(ids, n_stats), np.zeros((len(ids), len(ids))))

    def losses(self, pairs: NDArray[np.int64]) -> Vec:
        """Entropy the sealed rows lose for each pair of ids."""
        where = {int(i): p for p, i in enumerate(self.stats.ids)}
        return np.array([self.pair_loss[where[a], where[b]] for a, b in pairs.tolist()], float)

    def after(self, edit: Edit) -> Sealed:
        """The sealed past after a structural edit; births leave it where it was."""
        ids, loss = self.stats.ids, self.pair_loss
        if isinstance(edit, Merge):
            j, k = self.stats.position(edit.keep), self.stats.position(edit.drop)
            edit = replace(edit, entropy_loss=float(loss[j, k]))
            loss = pooled_losses(loss, j, k)
        elif isinstance(edit, Split):
            edit = Grow(edit.parts * 0.0)
        stats = edit.on(self.stats)
        return Sealed(stats, _reindex(loss, ids, stats.ids))


@dataclass(frozen=True, slots=True)
class Memo:
    """What sealed rows with a name said, as part of all that is sealed, and how many they are."""

    part: Sealed
    n_rows: int


@dataclass(frozen=True, slots=True)
class Trial:
    """How often a component resisted a move, and how much mass it had when it last did."""

    failures: int
    mass: float

    def stale(self, mass: float, tolerance: float) -> bool:
        """Whether the component has changed enough since to be tried again."""
        return abs(mass - self.mass) > tolerance * max(self.mass, 1e-300)


@dataclass(frozen=True, slots=True)
class State:
    """Everything the next step depends on. Steps return a new state and change nothing.

    Attributes
    ----------
    model : the mixture
    sealed : the past whose rows are gone
    batches : the rows that can be visited again
    total : sum of both
    next_id : the id the next component will get; ids are never used twice
    seed, clock : name the random streams; the clock counts laps
    fresh : open rows that have come since the last lap
    birth_trials, delete_trials : moves that failed, by component id
    memos : shares of what is sealed, by the names of the rows they came from
    """

    model: Mixture
    sealed: Sealed
    batches: tuple[OpenBatch, ...]
    total: Stats
    next_id: int
    seed: int
    clock: int = 0
    fresh: int = 0
    birth_trials: Mapping[int, Trial] = field(default_factory=dict)
    delete_trials: Mapping[int, Trial] = field(default_factory=dict)
    memos: Mapping[int | str, Memo] = field(default_factory=dict)

    @classmethod
    def empty(cls, model: Mixture, seed: int, n_components: int = 1, next_id: int = 0) -> State:
        """A state without data whose components have only their prior."""
        ids = np.arange(next_id, next_id + n_components, dtype=np.int64)
        sealed = Sealed.nothing(ids, model.family.n_stats)
        return cls(model, sealed, (), sealed.stats, next_id + n_components, seed)

    def posterior(self) -> MixturePosterior:
        """Global step."""
        return self.model.posterior(self.total)

    def bound(self) -> float:
        """Lower bound of the log evidence of all rows, sealed and open."""
        return self.model.bound(self.total)

    def resummed(self) -> State:
        """The same state with its total summed anew, so that rounding cannot accumulate."""
        parts = [self.sealed.stats, *(b.stats for b in self.batches)]
        return replace(self, total=total(parts))

    def edited(self, edit: Edit, per_batch: Sequence[Edit] | None = None) -> State:
        """After an edit; `per_batch` gives each open batch its own share of it."""
        edits = [edit] * len(self.batches) if per_batch is None else per_batch
        batches = tuple(b.after(e) for b, e in zip(self.batches, edits, strict=True))
        memos = {k: replace(m, part=m.part.after(edit)) for k, m in self.memos.items()}
        sealed = self.sealed.after(edit)
        return replace(self, sealed=sealed, batches=batches, memos=memos).resummed()

    def reordered(self) -> State:
        """Components by decreasing mass, which never lowers the bound."""
        order = by_mass(self.total)
        return self if np.array_equal(order, self.total.ids) else self.edited(Permute(order))

    def pruned(self) -> State:
        """Without the components that hold next to nothing and add nothing to the bound."""
        state = self
        for component in self.total.ids[self.total.n <= _NOTHING].tolist():
            if len(state.total) > 1:
                state = state.edited(Delete(component))
        return state

    @property
    def n_open(self) -> int:
        """Number of rows that can be visited again."""
        return sum(len(b.rows) for b in self.batches)


def labelled(batches: Sequence[OpenBatch]) -> Labelled:
    """The chunks of all batches with their labels."""
    chunks: list[Chunk] = []
    handles: list[Handle] = []
    changes: list[tuple[tuple[int, int], ...]] = []
    for batch in batches:
        assert isinstance(batch.rows, ChunkedRows)
        assert isinstance(batch.labels, KeptLabels)
        chunks += batch.rows.chunks
        handles += batch.labels.handles
        changes += [batch.labels.changes] * len(batch.rows.chunks)
    return Labelled(tuple(chunks), tuple(handles), tuple(changes))


def pooled_losses(pair_loss: Mat, keep: int, drop: int) -> Mat:
    """Losses of pairs after position `drop` has joined `keep`: what the two lose adds up.

    An upper bound for the merged component; the row and column of `drop` are left in place.
    """
    out = pair_loss.copy()
    out[keep] += out[drop]
    out[:, keep] = out[keep]
    out[keep, keep] = 0.0
    return out


def _reindex(matrix: Mat, old: IntVec, new: IntVec) -> Mat:
    """Rows and columns of `old` ids put where `new` has them; zeros for ids that are new."""
    out = np.zeros((len(new), len(new)))
    where = {int(i): p for p, i in enumerate(old)}
    kept = [(p, where[int(i)]) for p, i in enumerate(new) if int(i) in where]
    if kept:
        to, frm = (np.array(side) for side in zip(*kept, strict=True))
        out[np.ix_(to, to)] = matrix[np.ix_(frm, frm)]
    return out
