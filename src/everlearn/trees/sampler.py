"""The collapsed Gibbs sampler: it draws paths and levels of documents, and the tree with them.

Documents change the counts of nodes that others are drawn under, so they are visited one after the
other, in one thread.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.tree import Tree
from everlearn.kernels.draws import stream_keys
from everlearn.trees.kernels.draws import add_informed, move_down, sweep, sweep_levels
from everlearn.trees.kernels.scores import Levels, Nodes, Priors, Tokens, spread_columns
from everlearn.trees.model import TreeRules, TreeTopics

_ROOM, _SPARE = 0.25, 8
"""Free places for new nodes on a level: a share of its nodes, but at least `_SPARE`."""
_SPARSE = 1.4
"""Above this many places per node, nodes are laid out again, because kernels visit all places."""
_LEVELS_ONLY = 2
"""Number of the random stream of sweeps over levels. Full sweeps use streams 0 and 1."""


class TreeSampler:
    """A tree, and the documents that can still move in it.

    Its counts also hold documents that were learned before and cannot move any more.

    Parameters
    ----------
    topics : the tree to begin with; it is not changed
    rules : prior and limits of the tree; `word_prior` may be set to another value later
    """

    def __init__(self, topics: TreeTopics, rules: TreeRules) -> None:
        self._rules = rules
        self.word_prior = rules.word_prior
        self.alpha = topics.alpha
        self._tokens = Tokens(
            np.zeros(1, np.int64),
            np.empty(0, np.int32),
            np.empty(0, np.uint8),
            np.empty((0, rules.depth), np.int64),
        )
        self._nodes = _laid_out(topics)

    def __len__(self) -> int:
        return len(self._tokens.paths)

    # ------------------------------------------------------------------ documents

    def add_known(self, documents: Documents, levels: IntVec, leaves: IntVec) -> None:
        """Add documents that are in the counts already: levels of tokens, ids of last nodes."""
        paths = self._paths_to(self._places(leaves))
        self._append(documents, levels.astype(np.uint8), paths)

    def add(self, documents: Documents, seed: int, clock: int, *, informed: bool = False) -> None:
        """Add new documents, and draw their paths and levels one after the other.

        The first levels of their words are drawn from the prior or, with `informed`, for a path
        that fits the document. In a tree with sharp topics use the latter: words on random levels
        fit no node, so that documents would begin branches of their own and stay there.
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

    def replace_tree(self, topics: TreeTopics, moved: dict[int, int]) -> None:
        """Go on with another tree. `moved` maps ids of nodes to those that they became part of."""
        ends, each = np.unique(self.leaves, return_inverse=True)
        for i, leaf in enumerate(ends):
            while int(leaf) in moved:
                leaf = moved[int(leaf)]
            ends[i] = leaf
        leaves = ends[each]
        self._nodes = _laid_out(topics)
        self._tokens = self._tokens._replace(paths=self._paths_to(self._places(leaves)))

    def copy(self, topics: TreeTopics) -> TreeSampler:
        """An independent sampler of the same documents, with a tree that has the same leaves."""
        twin = object.__new__(TreeSampler)
        twin.__dict__.update(self.__dict__)
        twin._tokens = self._tokens._replace(levels=self._tokens.levels.copy())
        twin.replace_tree(topics, {})
        return twin

    def through(self, node_id: int) -> IntVec:
        """Positions of the documents whose path passes this node."""
        place = self._places(np.array([node_id]))[0]
        return np.flatnonzero((self._tokens.paths == place).any(axis=1))

    def move_down(self, rows: IntVec, level: int, common: NDArray[np.bool_]) -> None:
        """Put words that are on this level or the next on the former if common, else the latter."""
        move_down(self._tokens, self._nodes, rows, level, common)

    def sweep_levels(self, rows: IntVec, seed: int, clock: int) -> None:
        """Draw the levels of some documents once. Their paths stay."""
        streams = stream_keys(seed, clock, _LEVELS_ONLY, len(self))
        sweep_levels(self._tokens, self._nodes, self._priors(), streams, rows)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
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

    def topics(self) -> TreeTopics:
        """A copy of the tree, siblings by decreasing mass."""
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
            before = self._tokens, self._nodes, priors, streams, begin, end
            if informed:
                begin = add_informed(*before, most)
            else:
                begin = sweep(*before, new, most)
            if begin < end:
                self._make_room(1.0 if new else _ROOM)

    def _priors(self) -> Priors:
        words = self.word_prior * len(self._nodes.counts)
        return Priors(self.alpha, self.word_prior, words, self._rules.paths.gamma)

    def _make_room(self, room: float) -> None:
        """Lay out the nodes again. Each level gets this share of its nodes as free places."""
        old = self._nodes
        alive = np.flatnonzero(old.ids >= 0)
        levels = np.searchsorted(old.firsts, alive, side="right") - 1
        firsts, at = _blocks(levels, self._rules.depth, room)
        places = np.full(len(old.ids) + 1, -1, np.int64)
        places[alive] = at
        counts = np.zeros((len(old.counts), firsts[-1]))
        spread_columns(old.counts, places[:-1], counts)
        self._nodes = Nodes(
            firsts,
            counts,
            _spread(old.totals[alive], at, firsts[-1]),
            _spread(old.mass[alive], at, firsts[-1]),
            _spread(places[old.parents[alive]], at, firsts[-1], -1),
            _spread(old.ids[alive], at, firsts[-1], -1),
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


def _laid_out(topics: TreeTopics) -> Nodes:
    """Nodes in blocks of one level each, with room in all blocks but the root's."""
    tree = topics.tree
    firsts, places = _blocks(tree.levels, tree.depth, _ROOM)
    size = int(firsts[-1])
    counts = np.zeros((topics.n_words, size))
    spread_columns(topics.counts, places, counts)
    return Nodes(
        firsts,
        counts,
        counts.sum(axis=0),
        _spread(topics.mass, places, size),
        _spread(np.append(places, -1)[tree.parents], places, size, -1),
        _spread(tree.ids, places, size, -1),
        np.array([topics.next_id], np.int64),
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
