"""The ladder: communities of the graph at resolutions from coarse to fine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from everlearn.clusters.codebook import Graph
from everlearn.clusters.kernels import communities
from everlearn.core.arrays import Labels, Mat

RESOLUTIONS: Final = np.geomspace(0.02, 32.0, 24)
_RESTARTS: Final = 2
_WORD: Final = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True, eq=False)
class Rung:
    """One level of the ladder.

    Attributes
    ----------
    groups : group of each prototype, numbered from 0 on
    effective : effective number of groups, the exponential of the entropy of their shares
    cut : share of the links that join different groups
    """

    groups: Labels
    effective: float
    cut: float

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.groups.max()) + 1


def climb(graph: Graph, seed: int) -> list[Rung]:
    """A rung for each resolution, the coarsest first."""
    return [rung_of(graph, _best(graph, float(r), seed)) for r in RESOLUTIONS]


def rung_of(graph: Graph, groups: Labels) -> Rung:
    """The rung with these groups."""
    links = graph.between(groups, int(groups.max()) + 1)
    shares = links.sum(axis=1) / links.sum()
    shares = shares[shares > 0]
    effective = float(np.exp(-(shares * np.log(shares)).sum()))
    return Rung(groups, effective, max(0.0, 1.0 - float(np.trace(links) / links.sum())))


def _best(graph: Graph, resolution: float, seed: int) -> Labels:
    """Of a few starts, the communities with the highest modularity."""
    found = []
    for start in range(_RESTARTS):
        word = np.uint64((seed * 2 + start + 1) * _WORD % 2**64 or 1)
        groups = communities(graph.starts, graph.ends, graph.weights, resolution, word)
        found.append(groups.astype(np.int32))
    if len(found) > 1 and np.array_equal(found[0], found[1]):
        return found[0]
    return max(found, key=lambda groups: modularity(graph, groups, resolution))


def modularity(graph: Graph, groups: Labels, resolution: float) -> float:
    """Share of links inside groups, minus `resolution` times what chance would put there."""
    links: Mat = graph.between(groups, int(groups.max()) + 1)
    total = links.sum()
    volumes = links.sum(axis=1) / total
    return float(np.trace(links) / total - resolution * (volumes**2).sum())
