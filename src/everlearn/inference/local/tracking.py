"""What a visit measures for the moves, with the very responsibilities that it stores.

A merge needs the entropy its pair would lose, a birth the statistics of the target's rows shared
out among the parts, a delete those of the removed component's rows given to the others. All of
them add up over blocks and batches like the statistics themselves, so that every gain judged
at the end of a lap is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Labels, Table, Vec
from everlearn.core.mixture import MixturePosterior
from everlearn.core.stats import Delete, Stats
from everlearn.inference.chunks import Marks
from everlearn.inference.kernels.responsibilities import pair_entropy_loss
from everlearn.inference.local.mixture import Assignment, MixtureStep, weighted
from everlearn.inference.rows import Rows

_MIN_SPLIT, _MIN_REMOVE = 1e-14, 1e-10
_NO_PAIRS: NDArray[np.int64] = np.empty((0, 2), np.int64)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A component, by id, and the parts that might replace it."""

    target: int
    parts: MixturePosterior


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure: pairs of ids (P, 2), proposed births, and ids that might be deleted."""

    pairs: NDArray[np.int64] = field(default_factory=lambda: _NO_PAIRS)
    births: tuple[Proposal, ...] = ()
    deletes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of rows and everything the plan asked about them; summaries add.

    `born` are the labels (ids) the rows would have if every proposed birth were accepted.
    """

    stats: Stats
    pair_loss: Vec
    births: tuple[Stats, ...]
    deletes: tuple[Stats, ...]
    born: Labels = field(default_factory=lambda: np.empty(0, np.int32))

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.stats + other.stats,
            self.pair_loss + other.pair_loss,
            tuple(a + b for a, b in zip(self.births, other.births, strict=True)),
            tuple(a + b for a, b in zip(self.deletes, other.deletes, strict=True)),
            np.concatenate([self.born, other.born]),
        )


@dataclass(frozen=True, slots=True)
class TrackedStep:
    """The local step as a task for an engine: ((posterior, plan), rows) -> (summary, labels).

    Labels are permanent ids, so they outlive any reordering.
    """

    step: MixtureStep

    def __call__(self, shared: tuple[MixturePosterior, Plan], rows: Rows) -> tuple[Summary, Labels]:
        posterior, plan = shared
        features = self.step.features(rows)
        found = self.step.assign(posterior, features, rows.weights)
        loss = _pair_losses(posterior.ids, plan.pairs, found, rows.weights)
        labels = posterior.ids.astype(np.int32)[found.labels]
        born = labels.copy()
        births = tuple(
            self._share_out(posterior, b, features, found, rows.weights, born) for b in plan.births
        )
        deletes = tuple(
            self._hand_over(posterior, k, features, found, rows.weights) for k in plan.deletes
        )
        stats = self.step.summarize(
            posterior.ids,
            features,
            weighted(found.r, rows.weights),
            found.h,
            self.step.log_base(rows),
        )
        return Summary(stats, loss, births, deletes, born), labels

    def _splitting_step(self) -> MixtureStep:
        """A step that leaves no row with more components than it may have."""
        return self.step if self.step.top_l is None else replace(self.step, top_l=1)

    def _share_out(
        self,
        posterior: MixturePosterior,
        birth: Proposal,
        features: Table,
        found: Assignment,
        weights: Vec | None,
        born: Labels,
    ) -> Stats:
        """Statistics of the parts, if the target's share of each row went to them.

        Rows labelled with the target get the label of their likeliest part in `born`.
        """
        k = int(np.flatnonzero(posterior.ids == birth.target)[0])
        where = np.flatnonzero(found.r[:, k] > _MIN_SPLIT)
        share = found.r[where, k].astype(np.float64)
        mass = share if weights is None else share * weights[where]
        target = features[where]
        split = self._splitting_step().assign(birth.parts, target, mass)
        own = found.labels[where] == k
        born[where[own]] = birth.parts.ids[split.labels[own]]
        h = split.h + (-mass * np.log(share)) @ split.r
        return self.step.summarize(birth.parts.ids, target, weighted(split.r, mass), h)

    def _hand_over(
        self,
        posterior: MixturePosterior,
        component_id: int,
        features: Table,
        found: Assignment,
        weights: Vec | None,
    ) -> Stats:
        """Change in the others' statistics, if this component's rows were assigned anew."""
        k = int(np.flatnonzero(posterior.ids == component_id)[0])
        where = np.flatnonzero(found.r[:, k] > _MIN_REMOVE)
        mass = None if weights is None else weights[where]
        bias = posterior.bias.copy()
        bias[k] = -np.inf
        target = features[where]
        new = self.step.assign(replace(posterior, bias=bias), target, mass)
        old = found.r[where]
        change = weighted(new.r - old, mass)
        h = new.h - _entropy(old, mass)
        moved = self.step.summarize(posterior.ids, target, change, h)
        return Delete(component_id).on(moved)


@dataclass(frozen=True, slots=True)
class KeepingStep:
    """The same for rows whose labels stay with them: sums do not grow with the number of rows."""

    step: TrackedStep

    def __call__(self, shared: tuple[MixturePosterior, Plan], rows: Rows) -> tuple[Summary, Marks]:
        summary, labels = self.step(shared, rows)
        return replace(summary, born=np.empty(0, np.int32)), Marks(labels, summary.born)


def _pair_losses(
    ids: IntVec, pairs: NDArray[np.int64], found: Assignment, weights: Vec | None
) -> Vec:
    loss = np.zeros(len(pairs))
    if len(pairs):
        order = np.argsort(ids)
        places = order[np.searchsorted(ids, pairs, sorter=order)]
        slots = np.full((len(ids), len(ids)), -1, np.int32)
        slots[places.min(axis=1), places.max(axis=1)] = np.arange(len(pairs), dtype=np.int32)
        unit = np.empty(0) if weights is None else weights
        pair_entropy_loss(found.r, unit, slots, loss)
    return loss


def _entropy(r: NDArray[np.floating], weights: Vec | None) -> Vec:
    """-sum_n w_n r_nk log r_nk for each component."""
    r64 = r.astype(np.float64)
    logs = np.log(r64, out=np.zeros_like(r64), where=r64 > 0)
    return np.asarray(-weighted(r64 * logs, weights).sum(axis=0))
