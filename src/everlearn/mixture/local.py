"""The local step of a mixture: responsibilities and statistics of rows, on an engine.

For a block of rows, the step takes two matrix products and one fused pass over the
responsibilities. On the way it measures what the moves need: see `Plan` and `Summary`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core.arrays import IntVec, Labels, Mat, Table, Vec
from everlearn.core.families.base import Family
from everlearn.core.stats import Delete, Stats, total
from everlearn.engine.chunks import BlockLabels, ChunkedRows, KeptLabels
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.mixture.fitness import Baseline
from everlearn.mixture.kernels import add_products, pair_entropy_loss, softmax_entropy
from everlearn.mixture.model import MixturePosterior
from everlearn.mixture.strangers import StrangerDetector

_UNIT_WEIGHTS: Final = np.empty(0)
_FLOAT32_ROWS: Final = 128
"""Rows that a float32 product sums over. With more, the bound is off in its sixth digit."""
_FEW_SUMS: Final = 8192
"""Up to this many sums, all pieces are multiplied in one call."""
_MIN_SPLIT, _MIN_REMOVE = 1e-14, 1e-10
"""Rows with a smaller responsibility take no part in a birth or a delete."""
_NO_PAIRS: Final[NDArray[np.int64]] = np.empty((0, 2), np.int64)
MAX_BLOCK_ROWS: Final = 4096
_MIN_BLOCK_ROWS: Final = 32
_ROWS_PER_COMPONENT: Final = 8
_PREPARED_BLOCKS: Final = 4


@dataclass(frozen=True, slots=True)
class Assignment:
    """Responsibilities of a block: `r` (n, K), their argmax, log normalisers and entropy (K,)."""

    r: NDArray[np.floating]
    labels: Labels
    log_norm: Vec
    h: Vec


@dataclass(frozen=True, slots=True)
class MixtureStep:
    """Assigns rows to components of a family, in float64 or float32."""

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
        """Optimal responsibilities at a fixed posterior."""
        eta = posterior.eta.astype(self.dtype, copy=False)
        with _ignore_invalid():
            scores = np.ascontiguousarray(features @ eta.T)
        bias = posterior.bias.astype(self.dtype, copy=False)
        n, k = scores.shape
        log_norm, labels, h = np.empty(n), np.empty(n, np.int32), np.zeros(k)
        unit = _UNIT_WEIGHTS if weights is None else weights
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
            with _ignore_invalid():
                t = _feature_sums(r, features)
        return Stats(ids, n, t, h, base)

    def log_base(self, rows: Rows) -> float:
        """Log base measure of all rows together."""
        return _sum(self.family.log_base(rows.X), rows.weights)


def _sum(each: Vec, weights: Vec | None) -> float:
    return float(each.sum() if weights is None else each @ weights)


def _ignore_invalid() -> np.errstate:
    """Without warnings of matrix products, because BLAS may warn of lanes that it throws away.

    Results that are not finite make the bound not finite, and are refused there.
    """
    return np.errstate(invalid="ignore")


def _feature_sums(r: NDArray[np.floating], features: NDArray[np.floating]) -> Mat:
    """The product r'T in float64. Of float32 arrays it is a sum of float32 products of few rows.

    Moments about the family's origin are much larger than moments about a mean, so a long
    float32 sum would change the bound by more than a millionth.
    """
    if r.dtype == np.float64:
        return np.asarray(r.T @ features)
    n, k = r.shape
    width = features.shape[1]
    if k * width > _FEW_SUMS:
        t = np.zeros((k, width))
        part = np.empty((k, width), r.dtype)
        for i in range(0, n, _FLOAT32_ROWS):
            np.matmul(r[i : i + _FLOAT32_ROWS].T, features[i : i + _FLOAT32_ROWS], out=part)
            add_products(part, t)
        return t
    whole = n - n % _FLOAT32_ROWS
    left = r[:whole].reshape(-1, _FLOAT32_ROWS, k).transpose(0, 2, 1)
    parts = left @ features[:whole].reshape(-1, _FLOAT32_ROWS, width)
    return np.asarray(parts.sum(axis=0, dtype=np.float64) + r[whole:].T @ features[whole:])


def weighted(r: NDArray[np.floating], weights: Vec | None) -> NDArray[np.floating]:
    """Responsibilities times row weights."""
    return r if weights is None else (r * weights[:, None]).astype(r.dtype, copy=False)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A birth: the id of a component, and the parts that may replace it."""

    target: int
    parts: MixturePosterior


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure for moves: pairs of ids (P, 2), births, and ids that may be deleted.

    With a detector, strangers are counted too. With a baseline, log densities are compared with it.
    """

    pairs: NDArray[np.int64] = field(default_factory=lambda: _NO_PAIRS)
    births: tuple[Proposal, ...] = ()
    deletes: tuple[int, ...] = ()
    detector: StrangerDetector | None = None
    baseline: Baseline | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of rows, and what a plan measures; summaries can be added.

    Attributes
    ----------
    stats : statistics of all components
    pair_loss : entropy that the merge of each pair of the plan would lose
    births : statistics of the parts of each birth
    deletes : change of the other components' statistics by each delete
    born : labels (ids) of the rows if all births were accepted
    strangers : weight of the strangers that each component took, or no entries without a detector
    fit : the `Baseline.deviation_sums` of the rows, or no entries without a baseline
    """

    stats: Stats
    pair_loss: Vec
    births: tuple[Stats, ...]
    deletes: tuple[Stats, ...]
    born: Labels = field(default_factory=lambda: np.empty(0, np.int32))
    strangers: Vec = field(default_factory=lambda: np.empty(0))
    fit: Vec = field(default_factory=lambda: np.empty(0))

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.stats + other.stats,
            self.pair_loss + other.pair_loss,
            tuple(a + b for a, b in zip(self.births, other.births, strict=True)),
            tuple(a + b for a, b in zip(self.deletes, other.deletes, strict=True)),
            np.concatenate([self.born, other.born]),
            self.strangers + other.strangers,
            self.fit + other.fit,
        )


@dataclass(frozen=True, slots=True)
class TrackedStep:
    """The local step as a task of an engine: ((posterior, plan), rows) -> (summary, labels).

    Labels are permanent ids, so they stay valid when components are reordered.
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
            self._birth_stats(posterior, birth, features, found, rows.weights, born)
            for birth in plan.births
        )
        deletes = tuple(
            self._delete_stats(posterior, component, features, found, rows.weights)
            for component in plan.deletes
        )
        log_base = self.step.family.log_base(rows.X)
        stats = self.step.summarize(
            posterior.ids,
            features,
            weighted(found.r, rows.weights),
            found.h,
            _sum(log_base, rows.weights),
        )
        strangers = np.empty(0)
        if plan.detector is not None:
            with _ignore_invalid():
                where = plan.detector.strangers(self.step.family, rows, features, log_base)
            mass = None if rows.weights is None else rows.weights[where]
            strangers = np.bincount(found.labels[where], mass, len(posterior)).astype(np.float64)
        fit = np.empty(0)
        if plan.baseline is not None:
            fit = plan.baseline.deviation_sums(found.log_norm + log_base, rows.weights)
        return Summary(stats, loss, births, deletes, born, strangers, fit), labels

    def _birth_stats(
        self,
        posterior: MixturePosterior,
        birth: Proposal,
        features: Table,
        found: Assignment,
        weights: Vec | None,
        born: Labels,
    ) -> Stats:
        """Statistics of the parts if they took the target's share of each row.

        Writes the likeliest part of the rows with the target's label into `born`.
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

    def _delete_stats(
        self,
        posterior: MixturePosterior,
        component_id: int,
        features: Table,
        found: Assignment,
        weights: Vec | None,
    ) -> Stats:
        """Change of the other components' statistics if they took this component's rows."""
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
    """The same for rows on workers. Labels stay with the rows, so only sums travel."""

    step: TrackedStep

    def __call__(
        self, shared: tuple[MixturePosterior, Plan], rows: Rows
    ) -> tuple[Summary, BlockLabels]:
        summary, labels = self.step(shared, rows)
        return replace(summary, born=np.empty(0, np.int32)), BlockLabels(labels, summary.born)


def _pair_losses(
    ids: IntVec, pairs: NDArray[np.int64], found: Assignment, weights: Vec | None
) -> Vec:
    loss = np.zeros(len(pairs))
    if len(pairs):
        order = np.argsort(ids)
        places = order[np.searchsorted(ids, pairs, sorter=order)]
        slots = np.full((len(ids), len(ids)), -1, np.int32)
        slots[places.min(axis=1), places.max(axis=1)] = np.arange(len(pairs), dtype=np.int32)
        unit = _UNIT_WEIGHTS if weights is None else weights
        pair_entropy_loss(found.r, unit, slots, loss)
    return loss


def _entropy(r: NDArray[np.floating], weights: Vec | None) -> Vec:
    """-sum_n w_n r_nk log r_nk for each component."""
    r64 = r.astype(np.float64)
    logs = np.log(r64, out=np.zeros_like(r64), where=r64 > 0)
    return np.asarray(-weighted(r64 * logs, weights).sum(axis=0))


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Runs a step on an engine, in blocks whose features take about `block_bytes`."""

    step: MixtureStep
    engine: Engine
    block_bytes: int = 2_000_000

    def block_rows(self, n_components: int) -> int:
        """Rows of a block. They depend on the model alone, so all engines give the same bits.

        Blocks fit into the cache. But they have several rows for each component, because adding
        the statistics of a block takes as long as a few rows.
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

    def in_process(self) -> LocalRunner:
        """The same in this process, for rows too few to be sent to workers."""
        return replace(self, engine=self.engine.local)

    @property
    def prepared_rows(self) -> int:
        """Most rows whose features are computed once and kept."""
        return _PREPARED_BLOCKS * self.block_rows(0)

    def prepared(self, rows: Rows) -> Rows:
        """Rows with their features, if there are few enough."""
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
