"""Draws of paths and levels over a tree that grows and shrinks with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.tree import Tree
from everlearn.kernels.draws import stream_keys
from everlearn.trees.kernels.draws import move_down, sweep, sweep_levels
from everlearn.trees.kernels.scores import Levels, Nodes, Priors, Tokens, spread_columns
from everlearn.trees.model import TreeRules, TreeTopics

_ROOM, _SPARE = 0.25, 8
"""Places for new nodes that a level has for each of its nodes, and at least."""
_SPARSE = 1.4
"""So many places for each node are too many: all of them are looked at."""
_LEVELS_ONLY = 2


class TreeSampler:
    """A tree with documents that still move; all others have left their counts behind.

    Parameters
    ----------
    found : the tree to begin with, which is left as it is
    rules : what it is learned under; the prior of words may change with `word_prior`
    """

    def __init__(self, found: TreeTopics, rules: TreeRules) -> None:
        self._rules = rules
        self.word_prior = rules.word_prior
        self.alpha = found.alpha
        self._tokens = Tokens(
            np.zeros(1, np.int64),
            np.empty(0, np.int32),
            np.empty(0, np.uint8),
            np.empty((0, rules.depth), np.int64),
        )
        self._nodes = _laid_out(found)

    def __len__(self) -> int:
        return len(self._tokens.paths)

    # ------------------------------------------------------------------ documents

    def seat(self, documents: Documents, levels: IntVec, leaves: IntVec) -> None:
        """Documents that are already in the counts, by levels of tokens and ids of leaves."""
        paths = self._paths_to(self._places(leaves))
        self._append(documents, levels.astype(np.uint8), paths)

    def add(self, documents: Documents, seed: int, clock: int, *, informed: bool = False) -> None:
        """New documents, whose paths and levels are drawn one after the other.

        Their words' first levels are drawn from the prior, or `informed`: for a path that fits the
        document. Words on levels at random fit no node of a tree that knows its words well, so
        that documents would begin branches of their own, and their levels then keep them there.
        """
        begin = len(self)
        levels = np.zeros(documents.n_tokens, np.uint8)
        self._append(documents, levels, np.full((len(documents), self._rules.depth), -1))
        self._draw(begin, seed, clock, new=True, informed=informed)

    def sweep(self, seed: int, clock: int) -> None:
        """Draw all documents once."""
        if len(self._nodes.ids) > _SPARSE * self.n_nodes + 2 * _SPARE * self._rules.depth:
            self._make_room(_ROOM)
        self._draw(0, seed, clock)

    def replace_tree(self, found: TreeTopics, moved: dict[int, int]) -> None:
        """Go on with a tree in which some nodes, by id, have become part of others."""
        ends, each = np.unique(self.leaves, return_inverse=True)
        for i, leaf in enumerate(ends):
            while int(leaf) in moved:
                leaf = moved[int(leaf)]
            ends[i] = leaf
        leaves = ends[each]
        self._nodes = _laid_out(found)
        self._tokens = self._tokens._replace(paths=self._paths_to(self._places(leaves)))

    def copy(self, found: TreeTopics) -> TreeSampler:
        """A sampler that goes its own way from here, with a tree that has the same leaves."""
        twin = object.__new__(TreeSampler)
        twin.__dict__.update(self.__dict__)
        twin._tokens = self._tokens._replace(levels=self._tokens.levels.copy())
        twin.replace_tree(found, {})
        return twin

    def through(self, node_id: int) -> IntVec:
        """Positions of the documents whose path passes a node."""
        place = self._places(np.array([node_id]))[0]
        return np.flatnonzero((self._tokens.paths == place).any(axis=1))

    def move_down(self, rows: IntVec, level: int, common: NDArray[np.bool_]) -> None:
        """Put words of some documents that are on a level, or the next, where they belong.

        Common words get the level, all others the next.
        """
        move_down(self._tokens, self._nodes, rows, level, common)

    def sweep_levels(self, rows: IntVec, seed: int, clock: int) -> None:
        """Draw the levels of some documents once, with paths as they are."""
        streams = stream_keys(seed, clock, _LEVELS_ONLY, len(self))
        sweep_levels(self._tokens, self._nodes, self._priors(), streams, rows)

    @property
    def n_nodes(self) -> int:
        """Nodes that the tree has now."""
        return int((self._nodes.ids >= 0).sum())

    @property
    def leaves(self) -> IntVec:
        """Id of the last node of each document's path."""
        return self._nodes.ids[self._tokens.paths[:, -1]]

    @property
    def levels(self) -> IntVec:
        """Level of each token, document by document, equal words side by side."""
        return self._tokens.levels.astype(np.int64)

    @property
    def level_counts(self) -> Mat:
        """Tokens of each document at each level, (n_documents, depth)."""
        depth = self._rules.depth
        rows = np.repeat(np.arange(len(self)), np.diff(self._tokens.starts))
        flat = np.bincount(rows * depth + self._tokens.levels, minlength=len(self) * depth)
        return flat.reshape(len(self), depth).astype(np.float64)

    def found(self) -> TreeTopics:
        """The tree as it is now, siblings by decreasing mass."""
        nodes = self._nodes
        alive = np.flatnonzero(nodes.ids >= 0)
        places = np.full(len(nodes.ids) + 1, -1, np.int64)
        places[alive] = np.arange(len(alive))
        tree = Tree(nodes.ids[alive], places[nodes.parents[alive]], self._rules.depth)
        mass = nodes.mass[alive]
        slots = mass.copy()
        np.subtract.at(slots, tree.parents[1:], mass[1:])
        ordered = tree.sorted_by(mass)
        at = tree.at(ordered.ids)
        counts = np.take(nodes.counts, alive[at], axis=1)
        slots = np.maximum(slots[at], 0.0)
        return TreeTopics(ordered, counts, slots, self.alpha, int(nodes.next_id[0]))

    # ------------------------------------------------------------------ inner

    def _append(self, documents: Documents, levels: Levels, paths: IntVec) -> None:
        old = self._tokens
        words = np.repeat(documents.words, documents.counts)
        starts = old.starts[-1] + np.cumsum(documents.lengths)
        self._tokens = Tokens(
            np.concatenate([old.starts, starts]),
            np.concatenate([old.words, words]),
            np.concatenate([old.levels, levels]),
            np.concatenate([old.paths, paths]),
        )

    def _draw(
        self, begin: int, seed: int, clock: int, *, new: bool = False, informed: bool = False
    ) -> None:
        priors, end, most = self._priors(), len(self), self._rules.max_nodes
        streams = stream_keys(seed, clock, int(new), end)
        while begin < end:
            begin = sweep(
                self._tokens, self._nodes, priors, streams, begin, end, new, informed, most
            )
            if begin < end:
                self._make_room(1.0 if new else _ROOM)

    def _priors(self) -> Priors:
        words = self.word_prior * len(self._nodes.counts)
        return Priors(self.alpha, self.word_prior, words, self._rules.paths.gamma)

    def _make_room(self, room: float) -> None:
        """Lay out the nodes anew, with places for so many more of them."""
        old = self._nodes
        alive = np.flatnonzero(old.ids >= 0)
        levels = np.searchsorted(old.firsts, alive, side="right") - 1
        firsts, found = _blocks(levels, self._rules.depth, room)
        places = np.full(len(old.ids) + 1, -1, np.int64)
        places[alive] = found
        counts = np.zeros((len(old.counts), firsts[-1]))
        spread_columns(old.counts, places[:-1], counts)
        self._nodes = Nodes(
            firsts,
            counts,
            _spread(old.totals[alive], found, firsts[-1]),
            _spread(old.mass[alive], found, firsts[-1]),
            _spread(places[old.parents[alive]], found, firsts[-1], -1),
            _spread(old.ids[alive], found, firsts[-1], -1),
            old.next_id,
        )
        self._tokens = self._tokens._replace(paths=places[self._tokens.paths])

    def _places(self, node_ids: IntVec) -> IntVec:
        places = {int(node): at for at, node in enumerate(self._nodes.ids) if node >= 0}
        return np.array([places[int(node)] for node in node_ids], np.int64)

    def _paths_to(self, ends: IntVec) -> IntVec:
        paths = np.empty((len(ends), self._rules.depth), np.int64)
        for level in range(self._rules.depth - 1, -1, -1):
            paths[:, level] = ends
            ends = self._nodes.parents[ends]
        return paths


def _laid_out(found: TreeTopics) -> Nodes:
    """Nodes in blocks of one level each, with room in all blocks but the root's."""
    tree = found.tree
    firsts, places = _blocks(tree.levels, tree.depth, _ROOM)
    size = int(firsts[-1])
    counts = np.zeros((found.n_words, size))
    spread_columns(found.counts, places, counts)
    return Nodes(
        firsts,
        counts,
        counts.sum(axis=0),
        _spread(found.mass, places, size),
        _spread(np.append(places, -1)[tree.parents], places, size, -1),
        _spread(tree.ids, places, size, -1),
        np.array([found.next_id], np.int64),
    )


def _blocks(levels: IntVec, depth: int, spare: float) -> tuple[IntVec, IntVec]:
    """Where the block of each level begins, and the place of each node of these levels."""
    each = np.bincount(levels, minlength=depth)
    more = np.maximum((spare * each).astype(np.int64), _SPARE)
    room = np.where(np.arange(depth) > 0, each + more, 1)
    firsts = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    order = np.argsort(levels, kind="stable")
    rank = np.empty(len(levels), np.int64)
    rank[order] = np.arange(len(levels)) - np.repeat(np.cumsum(each) - each, each)
    return firsts, firsts[levels] + rank


def _spread(values: Vec | IntVec, places: IntVec, size: int, default: int = 0) -> np.ndarray:
    out = np.full(size, default, values.dtype)
    out[places] = values
    return out
