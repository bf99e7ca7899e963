"""State of a mixture learner: statistics of sealed rows, open batches, and failed moves.

Rows are *open* while they are in memory and can be visited again, each batch with its own
statistics. They are *sealed* when only the sum of their statistics is left. `fit` keeps all rows
open, a stream seals all but a window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.core.families.base import Family
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.stats import Delete, Edit, Grow, Merge, Permute, Renumber, Split, Stats, total
from everlearn.engine.chunks import Chunk, ChunkedRows, KeptLabels, LabelledChunks
from everlearn.engine.protocol import Handle
from everlearn.engine.rows import Rows, concatenate
from everlearn.mixture.fitness import Fitness
from everlearn.mixture.model import Mixture, MixturePosterior, by_mass
from everlearn.mixture.strangers import NO_STRANGERS, Strangers

_EMPTY_MASS: Final = 1e-8
"""A component with less mass, in rows, is empty."""


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """Rows that can be visited again, with results of the last visit.

    Rows are `Rows` and labels an array, or `ChunkedRows` and `KeptLabels` while `fit` learns rows
    that workers hold.

    Attributes
    ----------
    rows : the rows
    stats : statistics of the rows at the last visit
    labels : id of the likeliest component of each row at the last visit
    name : name under which the rows can be forgotten, or None
    """

    rows: Rows | ChunkedRows
    stats: Stats
    labels: Labels | KeptLabels
    name: int | str | None = None

    def in_process(self) -> tuple[Rows, Labels]:
        """Rows and labels of a batch in this process."""
        assert isinstance(self.rows, Rows)
        assert isinstance(self.labels, np.ndarray)
        return self.rows, self.labels

    def in_chunks(self) -> tuple[ChunkedRows, KeptLabels]:
        """Rows and labels of a batch that workers hold."""
        assert isinstance(self.rows, ChunkedRows)
        assert isinstance(self.labels, KeptLabels)
        return self.rows, self.labels

    def joined(self, other: OpenBatch) -> OpenBatch:
        """The batch with the rows of another one after its own, both in this process."""
        (rows, labels), (more_rows, more_labels) = self.in_process(), other.in_process()
        return OpenBatch(
            concatenate([rows, more_rows]),
            self.stats + other.stats,
            np.concatenate([labels, more_labels]),
            self.name,
        )

    def after(self, edit: Edit) -> OpenBatch:
        """The batch after a structural edit."""
        labels = self.labels
        if isinstance(edit, Merge):
            if isinstance(labels, KeptLabels):
                labels = labels.merged(edit.keep, edit.drop)
            else:
                labels = np.where(labels == edit.drop, np.int32(edit.keep), labels)
        elif isinstance(edit, Renumber):
            assert isinstance(labels, np.ndarray)
            labels = edit.ids[labels].astype(np.int32)
        return replace(self, stats=edit.on(self.stats), labels=labels)

    def split(self, target: int, born: Labels) -> OpenBatch:
        """The batch after a birth: rows of the target have their labels in `born`."""
        if isinstance(self.labels, KeptLabels):
            return replace(self, labels=self.labels.split(target))
        return replace(self, labels=np.where(self.labels == target, born, self.labels))


@dataclass(frozen=True, slots=True)
class Sealed:
    """Statistics of all sealed rows, and the entropy that they lose if two components merge.

    `pair_loss` (K, K) is symmetric. It is exact until the first merge. For pairs of merged
    components it is an upper bound then, so that no gain of a merge is overstated.
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
        """The sums after a structural edit. A birth moves no sealed rows."""
        ids, loss = self.stats.ids, self.pair_loss
        if isinstance(edit, Merge):
            j, k = self.stats.position(edit.keep), self.stats.position(edit.drop)
            edit = replace(edit, entropy_loss=float(loss[j, k]))
            loss = pooled_losses(loss, j, k)
        elif isinstance(edit, Renumber):
            return Sealed(edit.on(self.stats), loss)
        elif isinstance(edit, Split):
            edit = Grow(edit.parts * 0.0)
        stats = edit.on(self.stats)
        return Sealed(stats, _reindex(loss, ids, stats.ids))


@dataclass(frozen=True, slots=True)
class NamedPart:
    """The part of the sealed statistics that rows of one name have added, and their number."""

    sealed: Sealed
    n_rows: int

    def __add__(self, other: NamedPart) -> NamedPart:
        stats = self.sealed.stats + other.sealed.stats
        loss = self.sealed.pair_loss + other.sealed.pair_loss
        return NamedPart(Sealed(stats, loss), self.n_rows + other.n_rows)


@dataclass(frozen=True, slots=True)
class Trial:
    """How often a move of a component failed, and the component's mass at the last failure."""

    failures: int
    mass: float

    def is_stale(self, mass: float, tolerance: float) -> bool:
        """Whether the component has changed enough since then to be tried again."""
        return abs(mass - self.mass) > tolerance * max(self.mass, 1e-300)


@dataclass(frozen=True, slots=True)
class State:
    """Everything that the next step depends on. Steps return a new state and change none.

    Attributes
    ----------
    model : family and prior
    sealed : statistics of sealed rows
    batches : open rows
    total : sum of the statistics of sealed and open rows
    next_id : id of the next new component; ids are never used twice
    seed, clock : seed of all draws, and number of laps so far
    n_new : open rows that have come since the last lap
    birth_trials, delete_trials : failed moves, by component id
    named_parts : parts of `sealed`, by the names of the rows that added them
    strangers : strangers that came since the last search for components
    reference : statistics of the components that strangers are judged by; None: those of now
    fitness : log densities of the latest rows when they came, to detect misfits
    """

    model: Mixture
    sealed: Sealed
    batches: tuple[OpenBatch, ...]
    total: Stats
    next_id: int
    seed: int
    clock: int = 0
    n_new: int = 0
    birth_trials: Mapping[int, Trial] = field(default_factory=dict)
    delete_trials: Mapping[int, Trial] = field(default_factory=dict)
    named_parts: Mapping[int | str, NamedPart] = field(default_factory=dict)
    strangers: Strangers = NO_STRANGERS
    reference: Stats | None = None
    fitness: Fitness = field(default_factory=Fitness)

    @classmethod
    def empty(cls, model: Mixture, seed: int, n_components: int = 1, next_id: int = 0) -> State:
        """A state without rows, whose components have only their prior."""
        ids = np.arange(next_id, next_id + n_components, dtype=np.int64)
        sealed = Sealed.nothing(ids, model.family.n_stats)
        return cls(model, sealed, (), sealed.stats, next_id + n_components, seed)

    def posterior(self) -> MixturePosterior:
        """The optimal posterior (global step)."""
        return self.model.posterior(self.total)

    def bound(self) -> float:
        """Lower bound of the log evidence of all rows, sealed and open."""
        return self.model.bound(self.total)

    def resummed(self) -> State:
        """The same state with its total summed anew, so that rounding cannot accumulate."""
        parts = [self.sealed.stats, *(b.stats for b in self.batches)]
        return replace(self, total=total(parts))

    def edited(self, edit: Edit, per_batch: Sequence[Edit] | None = None) -> State:
        """After a structural edit. `per_batch` gives each open batch an edit of its own.

        Strangers are compared with what is there now, from then on.
        """
        edits = [edit] * len(self.batches) if per_batch is None else per_batch
        batches = tuple(b.after(e) for b, e in zip(self.batches, edits, strict=True))
        named = {k: replace(p, sealed=p.sealed.after(edit)) for k, p in self.named_parts.items()}
        sealed = self.sealed.after(edit)
        edited = replace(self, sealed=sealed, batches=batches, named_parts=named, reference=None)
        return edited.resummed()

    def reordered(self) -> State:
        """Components by decreasing mass, which never lowers the bound."""
        order = by_mass(self.total)
        return self if np.array_equal(order, self.total.ids) else self.edited(Permute(order))

    def order_of_birth(self) -> IntVec:
        """Positions of the components by ascending id."""
        return np.argsort(self.total.ids)

    def renumbered(self, ids: IntVec) -> State:
        """The state in which component i has the id `ids[i]`, a permutation of all ids so far."""
        births = {int(ids[i]): trial for i, trial in self.birth_trials.items()}
        deletes = {int(ids[i]): trial for i, trial in self.delete_trials.items()}
        mass = {int(ids[i]): own for i, own in self.strangers.mass.items()}
        state = replace(
            self,
            birth_trials=births,
            delete_trials=deletes,
            strangers=replace(self.strangers, mass=mass),
        )
        return state.edited(Renumber(ids)).reordered()

    def pruned(self) -> State:
        """The state without empty components, which add nothing to the bound."""
        state = self
        for component in self.total.ids[is_empty(self.total.n)].tolist():
            if len(state.total) > 1:
                state = state.edited(Delete(component))
        return state

    @property
    def n_open(self) -> int:
        """Number of rows that can be visited again."""
        return sum(len(b.rows) for b in self.batches)


def is_empty(mass: Vec) -> NDArray[np.bool_]:
    """Whether components of this mass are empty."""
    return np.asarray(mass <= _EMPTY_MASS)


def allow_missing(state: State) -> State:
    """The same state with a count for each feature, so that later rows may have NaNs."""
    family = state.model.family
    if not isinstance(family, DiagGaussian) or family.missing:
        return state

    def widened(stats: Stats) -> Stats:
        counts = np.repeat(stats.n[:, None], family.n_features, axis=1)
        return replace(stats, t=np.hstack([stats.t, counts]))

    return with_statistics(state, replace(family, missing=True), widened)


def with_statistics(state: State, family: Family[Any], change: Callable[[Stats], Stats]) -> State:
    """The same state with a family that has other statistics of the same rows."""

    def changed_part(part: NamedPart) -> NamedPart:
        return replace(part, sealed=replace(part.sealed, stats=change(part.sealed.stats)))

    return replace(
        state,
        model=Mixture(family, state.model.prior),
        sealed=replace(state.sealed, stats=change(state.sealed.stats)),
        batches=tuple(replace(b, stats=change(b.stats)) for b in state.batches),
        named_parts={name: changed_part(part) for name, part in state.named_parts.items()},
        total=change(state.total),
        reference=None,
    )


def labelled(batches: Sequence[OpenBatch]) -> LabelledChunks:
    """The chunks of all batches, with their labels."""
    chunks: list[Chunk] = []
    handles: list[Handle] = []
    changes: list[tuple[tuple[int, int], ...]] = []
    for batch in batches:
        rows, labels = batch.in_chunks()
        chunks += rows.chunks
        handles += labels.handles
        changes += [labels.changes] * len(rows.chunks)
    return LabelledChunks(tuple(chunks), tuple(handles), tuple(changes))


def pooled_losses(pair_loss: Mat, keep: int, drop: int) -> Mat:
    """Losses of pairs after position `drop` has joined `keep`.

    The losses of the two are added, which is an upper bound. Row and column `drop` stay.
    """
    out = pair_loss.copy()
    out[keep] += out[drop]
    out[:, keep] = out[keep]
    out[keep, keep] = 0.0
    return out


def _reindex(matrix: Mat, old: IntVec, new: IntVec) -> Mat:
    """Move rows and columns from the order of `old` ids to that of `new` ids, zero for others."""
    out = np.zeros((len(new), len(new)))
    _, source, target = np.intersect1d(old, new, return_indices=True)
    out[np.ix_(target, target)] = matrix[np.ix_(source, source)]
    return out
