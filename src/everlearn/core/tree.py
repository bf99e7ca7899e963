"""A finite tree that stands for an infinite one, and its slots (where paths can end).

Every node has infinitely many children, of which the tree holds some. A path runs from the root
down to the last level. Paths fall into slots, one a node: the slot of a node on the last level is
the one path that ends there; the slot of any other node is all the paths that pass it and then
take a child that the tree does not hold. A posterior over infinitely many paths is thus a row of
as many numbers as there are nodes. Derivations: docs/math/nested_crp.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from everlearn.core.arrays import IntVec, Mat, Vec


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes by permanent id, each after its parent, siblings in the order of their sticks.

    Attributes
    ----------
    ids : (n_nodes,) permanent ids, the root's first
    parents : (n_nodes,) position of each node's parent; -1 for the root
    depth : number of levels of a full path, the root's included

    Examples
    --------
    >>> tree = Tree.root(3).grown(0, [1, 2]).grown(1, [3])
    >>> tree.ids.tolist(), tree.levels.tolist()
    ([0, 1, 2, 3], [0, 1, 2, 2])
    >>> tree.paths.tolist()
    [[0, -1, -1], [0, 1, -1], [0, 1, 2], [0, 1, 3]]
    """

    ids: IntVec
    parents: IntVec
    depth: int

    @classmethod
    def root(cls, depth: int, node_id: int = 0) -> Tree:
        """A tree of the root alone, with this id."""
        return cls(np.array([node_id], np.int64), np.array([-1], np.int64), depth)

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def levels(self) -> IntVec:
        """Level of each node, 0 for the root, (n_nodes,)."""
        levels = np.zeros(len(self), np.int64)
        for i in range(1, len(self)):
            levels[i] = levels[self.parents[i]] + 1
        return levels

    @cached_property
    def paths(self) -> IntVec:
        """Positions of the nodes from the root to each node, (n_nodes, depth); -1 below it."""
        paths = np.full((len(self), self.depth), -1, np.int64)
        for i in range(len(self)):
            if i:
                paths[i] = paths[self.parents[i]]
            paths[i, self.levels[i]] = i
        return paths

    @cached_property
    def n_children(self) -> IntVec:
        """Children that the tree holds of each node, (n_nodes,)."""
        return np.bincount(self.parents[1:], minlength=len(self)).astype(np.int64)

    @property
    def n_unseen(self) -> IntVec:
        """Levels of each slot's paths that the tree does not hold, (n_nodes,)."""
        return self.depth - 1 - self.levels

    def children(self, position: int) -> IntVec:
        """Positions of the children of one node, in the order of their sticks."""
        return np.flatnonzero(self.parents == position)

    def descends(self, position: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether each node is this one or below it, (n_nodes,)."""
        return np.asarray(self.paths[:, self.levels[position]] == position)

    def at(self, node_ids: ArrayLike) -> IntVec:
        """Positions of these ids; -1 for an id that the tree does not hold."""
        order = np.argsort(self.ids)
        wanted = np.asarray(node_ids, np.int64)
        places = np.minimum(np.searchsorted(self.ids, wanted, sorter=order), len(self) - 1)
        found = order[places]
        return np.where(self.ids[found] == wanted, found, -1)

    def through(self, slots: Mat) -> Mat:
        """Mass through each node from mass in each slot, along the last axis, (..., n_nodes)."""
        mass = np.array(slots, dtype=np.float64)
        for i in range(len(self) - 1, 0, -1):
            mass[..., self.parents[i]] += mass[..., i]
        return mass

    # ------------------------------------------------------------------ edits

    def grown(self, position: int, node_ids: Sequence[int]) -> Tree:
        """With a chain of new nodes below this one, the first of them its last child."""
        if len(node_ids) > self.n_unseen[position]:
            raise ValueError(
                f"a node on level {self.levels[position]} of a tree of depth {self.depth} cannot "
                f"have {len(node_ids)} levels below it"
            )
        first = len(self)
        chain = [position, *range(first, first + len(node_ids) - 1)][: len(node_ids)]
        ids = np.concatenate([self.ids, np.asarray(node_ids, np.int64)])
        return Tree(ids, np.concatenate([self.parents, np.asarray(chain, np.int64)]), self.depth)

    def without(self, positions: ArrayLike) -> Tree:
        """Without these nodes and everything below them."""
        gone = np.zeros(len(self) + 1, bool)  # the last entry stands for -1, below every path
        gone[np.asarray(positions, np.int64)] = True
        if gone[0]:
            raise ValueError("the root of a tree cannot be removed")
        return self.taken(np.flatnonzero(~gone[self.paths].any(axis=1)))

    def rehung(self, child: int, parent: int) -> Tree:
        """With one node, and what is below it, as the last child of another parent."""
        if self.levels[parent] + 1 != self.levels[child]:
            raise ValueError("a node can only be hung below a node of its parent's level")
        parents = self.parents.copy()
        parents[child] = parent
        moved = self.descends(child)
        return Tree(self.ids, parents, self.depth).taken(np.argsort(moved, kind="stable"))

    def sorted_by(self, mass: Vec) -> Tree:
        """Level by level, siblings by decreasing mass, ties by id."""
        rank = np.zeros(len(self), np.int64)
        order = [0]
        for level in range(1, self.depth):
            nodes = np.flatnonzero(self.levels == level)
            nodes = nodes[np.lexsort((self.ids[nodes], -mass[nodes], rank[self.parents[nodes]]))]
            rank[nodes] = np.arange(len(nodes))
            order += nodes.tolist()
        return self.taken(np.asarray(order))

    def taken(self, positions: IntVec) -> Tree:
        """The nodes at these positions, in this order; each must come after its parent."""
        places = np.full(len(self) + 1, -1, np.int64)
        places[positions] = np.arange(len(positions))
        return Tree(self.ids[positions], places[self.parents[positions]], self.depth)
