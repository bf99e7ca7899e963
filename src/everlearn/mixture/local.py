"""The local step of a mixture: responsibilities, entropies and statistics of a block of rows.

Two matrix products and one fused pass over the responsibilities. What the moves want to know
about the same rows (see `tracking`) is measured on the way, with the same responsibilities.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core.arrays import IntVec, Labels, Mat, Table, Vec
from everlearn.core.families.base import Family
from everlearn.core.stats import Delete, Stats, total
from everlearn.engine.chunks import ChunkedRows, KeptLabels, Marks
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.mixture.kernels import (
    add_products,
    pair_entropy_loss,
    softmax_entropy,
)
from everlearn.mixture.model import MixturePosterior

_UNIT = np.empty(0)
_SINGLE_ROWS = 128
"""Rows over which a float32 product sums: of more, rounding shows in the bound's sixth digit."""
_FEW_SUMS = 8192
"""Up to this many sums, all pieces are multiplied in one call."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Responsibilities of a block: `r` (n, K), their argmax, log normalisers and entropy (K,)."""

    r: NDArray[np.floating]
    labels: Labels
    log_norm: Vec
    h: Vec


@dataclass(frozen=True, slots=True)
class MixtureStep:
    """How rows are assigned: the family of the components, and the precision of the arithmetic."""

    family: Family[Any]
    dtype: type[np.floating] = np.float64

    def features(self, rows: Rows) -> Table:
        """Features of the rows in the working precision."""
        if rows.features is not None:
            return rows.features
        return self.family.features(rows.X, self.dtype)

    def assign(
        self, posterior: MixturePosterior, features: Table, weights: Vec | None
    ) -> Assignment:
        """Optimal responsibilities at fixed globals."""
        eta = posterior.eta.astype(self.dtype, copy=False)
        with _blas_flags():
            scores = np.ascontiguousarray(features @ eta.T)
        bias = posterior.bias.astype(self.dtype, copy=False)
        n, k = scores.shape
        log_norm, labels, h = np.empty(n), np.empty(n, np.int32), np.zeros(k)
        unit = _UNIT if weights is None else weights
        softmax_entropy(scores, bias, unit, log_norm, labels, h)
        return Assignment(scores, labels, log_norm, h)

    def summarize(
        self, ids: IntVec, features: Table, r: NDArray[np.floating], h: Vec, base: float = 0.0
    ) -> Stats:
        """Statistics of rows given responsibilities `r`, already multiplied by row weights."""
        n = r.sum(axis=0, dtype=np.float64)
        if sparse.issparse(features):
            t = np.ascontiguousarray((features.T @ r).T, np.float64)
        else:
            with _blas_flags():
                t = _feature_sums(r, features)
        return Stats(ids, n, t, h, base)

    def log_base(self, rows: Rows) -> float:
        """Log base measure of all rows together."""
        each = self.family.log_base(rows.X)
        return float(each.sum() if rows.weights is None else each @ rows.weights)


def _blas_flags() -> np.errstate:
    """Products without warnings: kernels may flag lanes that they throw away.

    What is really not finite makes the bound so, and is refused there.
    """
    return np.errstate(invalid="ignore")


def _feature_sums(r: NDArray[np.floating], features: NDArray[np.floating]) -> Mat:
    """R'T in float64; of float32 arrays, from products of a few rows that are each float32.

    Moments about the family's origin are much larger than what is left of them about a mean, so a
    long float32 sum would lose more than a millionth of the bound.
    """
    if r.dtype == np.float64:
        return np.asarray(r.T @ features)
    n, k = r.shape
    width = features.shape[1]
    if k * width > _FEW_SUMS:
        t = np.zeros((k, width))
        part = np.empty((k, width), r.dtype)
        for i in range(0, n, _SINGLE_ROWS):
            np.matmul(r[i : i + _SINGLE_ROWS].T, features[i : i + _SINGLE_ROWS], out=part)
            add_products(part, t)
        return t
    whole = n - n % _SINGLE_ROWS
    left = r[:whole].reshape(-1, _SINGLE_ROWS, k).transpose(0, 2, 1)
    parts = left @ features[:whole].reshape(-1, _SINGLE_ROWS, width)
    return np.asarray(parts.sum(axis=0, dtype=np.float64) + r[whole:].T @ features[whole:])


def weighted(r: NDArray[np.floating], weights: Vec | None) -> NDArray[np.floating]:
    """Responsibilities times row weights."""
    return r if weights is None else (r * weights[:, None]).astype(r.dtype, copy=False)


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
        split = self.step.assign(birth.parts, target, mass)
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


MAX_BLOCK_ROWS = 4096
_MIN_BLOCK_ROWS = 32
_ROWS_PER_COMPONENT = 8
_PREPARED_BLOCKS = 4


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Runs a step on an engine, in blocks whose features take about `block_bytes`."""

    step: MixtureStep
    engine: Engine
    block_bytes: int = 2_000_000

    def block_rows(self, n_components: int) -> int:
        """Rows of a block. It depends on the model alone, so results never depend on engines.

        Blocks fit the cache, but have several rows for each component: otherwise adding up
        their statistics would take longer than making them.
        """
        width = self.step.family.n_stats + n_components
        fitting = self.block_bytes // (np.dtype(self.step.dtype).itemsize * width)
        wanted = max(fitting, _ROWS_PER_COMPONENT * n_components)
        return int(np.clip(wanted, _MIN_BLOCK_ROWS, MAX_BLOCK_ROWS))

    def run(
        self, posterior: MixturePosterior, plan: Plan, rows: Rows | ChunkedRows
    ) -> tuple[Summary, Labels | KeptLabels]:
        """Summary of all rows, and the id of the likeliest component of each."""
        blocks = rows.pieces(self.block_rows(len(posterior)))
        if isinstance(rows, ChunkedRows):
            task = KeepingStep(TrackedStep(self.step))
            summary, kept = self.engine.map_sum_and_keep(task, blocks, (posterior, plan))
            return summary, KeptLabels(tuple(kept))
        summary, labels = self.engine.map_sum(TrackedStep(self.step), blocks, (posterior, plan))
        return summary, np.concatenate(labels)

    def here(self) -> LocalRunner:
        """The same within this process, for rows that are not worth sending elsewhere."""
        return replace(self, engine=self.engine.local)

    @property
    def prepared_rows(self) -> int:
        """Rows whose features may be kept for a while."""
        return _PREPARED_BLOCKS * self.block_rows(0)

    def prepared(self, rows: Rows) -> Rows:
        """Rows that keep their features, if these take a few blocks at most."""
        if len(rows) > self.prepared_rows:
            return rows
        return replace(rows, features=self.step.features(rows))

    def hard_stats(self, rows: Rows, labels: IntVec, ids: IntVec) -> Stats:
        """Statistics when each row belongs to the component whose position its label gives."""
        size = self.block_rows(len(ids))
        parts = []
        for start in range(0, len(rows), size):
            block, where = rows[start : start + size], labels[start : start + size]
            r = (where[:, None] == np.arange(len(ids))).astype(self.step.dtype)
            features = self.step.features(block)
            shares = weighted(r, block.weights)
            parts.append(
                self.step.summarize(
                    ids, features, shares, np.zeros(len(ids)), self.step.log_base(block)
                )
            )
        return total(parts)
