"""Joins: two groups are one if their border is no valley.

If two groups are halves of one Gaussian, the positions of the two ends of a link, along the line
between the groups, are two Gaussian variables with a correlation. The correlation says how many
links must cross the border. A border that is crossed by clearly fewer is a valley.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtri, owens_t

from everlearn.clusters.codebook import Graph
from everlearn.core.arrays import IntVec, Labels, Mat

_JOIN_FROM: Final = 0.5
_JOIN_SMALL: Final = 1.0
"""Two groups are one from this ratio on, plus `_JOIN_SMALL` / root of their number of prototypes.

Halves of a Gaussian that communities find have 0.6 to 0.9, because they lie where links are few.
Links of small groups are as long as the groups, so that they cross real valleys too.
"""
_PARTNERS: Final = 3
"""Best linked partners of each group that are tried."""
_NO_GAUSSIAN: Final = 9.0
"""Ratio of groups at the same place, which no line separates."""


@dataclass(frozen=True, slots=True)
class Join:
    """Two groups that became one.

    Attributes
    ----------
    shares : shares of all links at the two groups, the larger first
    ratio : links across their border, relative to a Gaussian's
    """

    shares: tuple[float, float]
    ratio: float


@dataclass(slots=True)
class _Groups:
    """Groups while they are joined, in place: the node lists, links, and known ratios."""

    graph: Graph
    positions: Mat
    members: dict[int, IntVec]
    links: Mat
    ratios: dict[tuple[int, int], float]

    def candidates(self) -> list[tuple[int, int]]:
        """Pairs of a group and one of its best linked partners."""
        names = np.array(sorted(self.members))
        links = self.links[np.ix_(names, names)]
        volumes = links.sum(axis=1)
        strength = links / np.maximum(np.minimum(volumes[:, None], volumes), 1e-300)
        np.fill_diagonal(strength, 0.0)
        best = np.argsort(-strength, axis=1, kind="stable")[:, :_PARTNERS]
        return sorted(
            {
                (int(min(names[a], names[b])), int(max(names[a], names[b])))
                for a in range(len(names))
                for b in best[a]
                if strength[a, b] > 0
            }
        )

    def nearest(self) -> tuple[int, int]:
        """The pair with the nearest centres, for groups without any links between them."""
        names = sorted(self.members)
        centres = np.stack([self.positions[self.members[name]].mean(axis=0) for name in names])
        apart = np.linalg.norm(centres[:, None] - centres, axis=2)
        np.fill_diagonal(apart, np.inf)
        a, b = np.unravel_index(int(apart.argmin()), apart.shape)
        return min(names[a], names[b]), max(names[a], names[b])

    def ratio(self, pair: tuple[int, int]) -> float:
        if pair not in self.ratios:
            a, b = pair
            own, other = self.members[a], self.members[b]
            limit = _JOIN_FROM + _JOIN_SMALL / np.sqrt(len(own) + len(other))
            self.ratios[pair] = border_ratio(self.graph, self.positions, own, other) / limit
        return self.ratios[pair]

    def join(self, a: int, b: int) -> Join:
        volumes = self.links.sum(axis=1)
        total = max(float(volumes.sum()), 1e-300)
        shares = sorted((float(volumes[i]) / total for i in (a, b)), reverse=True)
        done = Join((shares[0], shares[1]), self.ratio((a, b)))
        self.members[a] = np.concatenate([self.members[a], self.members.pop(b)])
        self.links[a] += self.links[b]
        self.links[:, a] += self.links[:, b]
        self.links[b] = self.links[:, b] = 0.0
        self.ratios = {p: r for p, r in self.ratios.items() if not {a, b} & set(p)}
        return done


def joined(
    graph: Graph, positions: Mat, groups: Labels, fewest: int, join_from: float = 1.0
) -> tuple[Labels, tuple[Join, ...]]:
    """Groups after joins of the worst borders, while there are more than `fewest`.

    positions : (n_nodes, d) of the prototypes
    """
    n_groups = int(groups.max()) + 1
    members = {g: np.flatnonzero(groups == g) for g in range(n_groups)}
    state = _Groups(graph, positions, members, graph.between(groups, n_groups), {})
    joins: list[Join] = []
    while len(state.members) > fewest:
        pairs = state.candidates()
        if not pairs and join_from > 0:
            break
        pairs = pairs or [state.nearest()]
        worst = max(pairs, key=state.ratio)
        if state.ratio(worst) < join_from:
            break
        joins.append(state.join(*worst))
    after = np.empty_like(groups)
    for number, nodes in enumerate(state.members[name] for name in sorted(state.members)):
        after[nodes] = number
    return after, tuple(joins)


def border_ratio(graph: Graph, positions: Mat, first: IntVec, second: IntVec) -> float:
    """Links that cross the border of two groups, relative to those of one Gaussian."""
    nodes = np.concatenate([first, second])
    place = np.full(len(graph), -1)
    place[nodes] = np.arange(len(nodes))
    sources, ends, weights = _links_within(graph, nodes, place)
    degrees = np.bincount(sources, weights, len(nodes))
    side = np.arange(len(nodes)) < len(first)
    total = degrees.sum()
    if total <= 0:
        return _NO_GAUSSIAN
    smaller = min(degrees[side].sum(), degrees[~side].sum()) / total
    if smaller <= 0:
        return _NO_GAUSSIAN
    own = positions[nodes]
    line = np.average(own[side], 0, degrees[side]) - np.average(own[~side], 0, degrees[~side])
    along = own @ line
    variance = (degrees * (along - degrees @ along / total) ** 2).sum() / total
    if variance <= 0:
        return _NO_GAUSSIAN
    apart = (weights * (along[sources] - along[ends]) ** 2).sum() / total
    correlation = np.clip(1.0 - apart / (2.0 * variance), -0.99, 1.0 - 1e-9)
    slope = np.sqrt((1.0 - correlation) / (1.0 + correlation))
    expected = 4.0 * owens_t(ndtri(smaller), slope)  # both ends beyond the quantile, or neither
    crossing = weights[side[sources] != side[ends]].sum() / total
    return float(crossing / max(expected, 1e-12))


def _links_within(graph: Graph, nodes: IntVec, place: IntVec) -> tuple[IntVec, IntVec, Mat]:
    """Links between these nodes; ends are their positions in `nodes`."""
    counts = graph.starts[nodes + 1] - graph.starts[nodes]
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    where = np.repeat(graph.starts[nodes], counts) + offsets
    sources, ends = np.repeat(np.arange(len(nodes)), counts), place[graph.ends[where]]
    inside = ends >= 0
    return sources[inside], ends[inside], graph.weights[where[inside]]
