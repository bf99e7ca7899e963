"""`Grouping`: everything that one look at the sample finds, from units to the groups of the cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from everlearn.clusters.codebook import Graph, graph_of, learn_codebooks, near_prototypes
from everlearn.clusters.joins import Join, joined
from everlearn.clusters.kernels import votes
from everlearn.clusters.ladder import Rung, climb, rung_of
from everlearn.clusters.null import NullCurve, depth, gaps, null_curve
from everlearn.clusters.units import LENGTH, Units, choose_units
from everlearn.core.arrays import Cube, Labels, Mat, Vec

FEWEST_ROWS: Final = 16
"""Fewer distinct rows than this are one cluster, unless the number is given."""
_NO_CLUSTERS: Final = 0.62
"""Links cut, relative to the null, above which the whole is one cluster.

Heavy tails and flat edges reach 0.67 and more, and the overlapping clusters of real data 0.56.
"""
_NO_LEVEL: Final = 0.9
"""The same before any join: no join can help then, and a Gaussian may have hundreds of groups."""
_KEPT_DEPTH: Final = 0.25
"""Joins that leave less than this of the depth of a level are undone.

On a grid of overlapping clusters, one wrong join makes a group so large that all others follow.
"""
_PREDICT_ROWS: Final = 1 << 15
GIVEN, UNIMODAL, LARGEST_GAP, FEW = "given", "one mode", "largest gap", "few rows"
REASONS: Final = (GIVEN, UNIMODAL, LARGEST_GAP, FEW)


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Prototypes, their graph, the ladder, and the groups of the cut.

    Attributes
    ----------
    units : in which distances are measured
    books : (n_codebooks, n_prototypes, d) prototypes
    graph : links between all prototypes
    rungs : of the ladder without repetitions, the coarsest first
    gap : (n_rungs,) how much less each rung cuts than a Gaussian
    chosen : position of the rung from which the cut was made
    groups : (n_codebooks * n_prototypes,) group of each prototype in the cut
    joins : what joined groups of the rung
    reason : why this cut, one of `REASONS`
    """

    units: Units
    books: Cube
    graph: Graph
    rungs: tuple[Rung, ...]
    gap: Vec
    chosen: int
    groups: Labels
    joins: tuple[Join, ...]
    reason: str

    @property
    def n_groups(self) -> int:
        """Number of groups in the cut."""
        return int(self.groups.max()) + 1

    @property
    def positions(self) -> Mat:
        """All prototypes, codebook after codebook."""
        return self.books.reshape(-1, self.books.shape[2])

    @property
    def most_groups(self) -> int:
        """Groups of the finest rung."""
        return max(rung.n_groups for rung in self.rungs)

    def cut(self, n_groups: int) -> tuple[int, Labels, tuple[Join, ...]]:
        """The rung, the groups and the joins of a cut with this number of groups."""
        finer = [i for i, rung in enumerate(self.rungs) if rung.n_groups >= n_groups]
        rung = min(finer, key=lambda i: self.rungs[i].n_groups)
        own = self.rungs[rung].groups
        groups, joins = joined(self.graph, self.positions, own, n_groups, join_from=0.0)
        return rung, groups, joins

    def assign(self, rows: Mat, groups: Labels | None = None) -> Labels:
        """Group of each row, in the cut or among other groups of the prototypes."""
        groups = self.groups if groups is None else groups
        n_groups, found = int(groups.max()) + 1, [np.zeros(0, np.int32)]
        for first in range(0, len(rows), _PREDICT_ROWS):
            near = near_prototypes(
                self.units.measured(rows[first : first + _PREDICT_ROWS]), self.books
            )
            found.append(votes(near, groups, n_groups))
        return np.concatenate(found)


def group_rows(rows: Mat, n_clusters: int | None, seed: int) -> Grouping:
    """Group the rows of a sample. `n_clusters` is their number, or None to find it."""
    units = choose_units(rows)
    measured = units.measured(rows)
    distinct = np.unique(measured, axis=0)
    if len(distinct) < FEWEST_ROWS:
        return _few_rows(units, distinct, n_clusters)
    books = learn_codebooks(measured, seed)
    graph = graph_of(near_prototypes(measured, books), books.shape[1])
    null = null_curve(measured, seed, on_sphere=units.kind == LENGTH)
    rungs = climb(graph, seed)
    gap = gaps(rungs, null)
    kept = _distinct(rungs)
    rungs, gap = [rungs[i] for i in kept], gap[kept]
    several = [i for i, rung in enumerate(rungs) if rung.n_groups > 1]
    chosen = max(several, key=lambda i: gap[i], default=0)
    whole = np.zeros(len(graph), np.int32)
    found = Grouping(units, books, graph, tuple(rungs), gap, chosen, whole, (), UNIMODAL)
    if n_clusters is not None:
        return _given(found, n_clusters)
    return _default(found, null) if gap[chosen] > 0 else found


def _default(found: Grouping, null: NullCurve) -> Grouping:
    """The grouping with the cut at its chosen level, after joins, if that is no single mode."""
    level = found.rungs[found.chosen]
    if level.cut > _NO_LEVEL * null.at(level.effective):
        return found
    groups, joins = joined(found.graph, found.positions, level.groups, fewest=1)
    final = rung_of(found.graph, groups)
    if depth(final, null) < _KEPT_DEPTH * depth(level, null):
        final, groups, joins = level, level.groups, ()
    if final.cut > _NO_CLUSTERS * null.at(final.effective):
        return found
    return replace(found, groups=groups, joins=joins, reason=LARGEST_GAP)


def _distinct(rungs: Sequence[Rung]) -> list[int]:
    """Positions of the rungs that differ from the one before, in the order of their size."""
    order = sorted(range(len(rungs)), key=lambda i: (rungs[i].n_groups, i))
    kept: list[int] = []
    for i in order:
        if not kept or not np.array_equal(rungs[i].groups, rungs[kept[-1]].groups):
            kept.append(i)
    return kept


def _few_rows(units: Units, distinct: Mat, n_clusters: int | None) -> Grouping:
    """One group of rows that are prototypes each; a given number of groups by distance."""
    apart = np.arange(len(distinct), dtype=np.int32)
    whole = np.zeros_like(apart)
    graph = Graph(np.zeros(len(distinct) + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    rungs = [Rung(whole, 1.0, 0.0), Rung(apart, float(len(distinct)), 0.0)]
    rungs = rungs[: min(len(distinct), 2)]
    gap = np.zeros(len(rungs))
    found = Grouping(units, distinct[None], graph, tuple(rungs), gap, 0, whole, (), FEW)
    return found if n_clusters is None else _given(found, n_clusters)


def _given(found: Grouping, n_clusters: int) -> Grouping:
    """The grouping with the cut at this number, or at the most that there is."""
    chosen, groups, joins = found.cut(min(n_clusters, found.most_groups))
    return replace(found, chosen=chosen, groups=groups, joins=joins, reason=GIVEN)
