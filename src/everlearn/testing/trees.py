"""Documents from a tree of topics that is known, to see whether it is found again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat
from everlearn.core.tree import Tree


@dataclass(frozen=True, slots=True, eq=False)
class PlantedTree:
    """Documents, and where they came from.

    Attributes
    ----------
    counts : (n_documents, n_words) how often each word occurs
    tree : the tree, every node with as many children
    leaves : (n_documents,) position of the last node of each document's path
    topics : (n_nodes, n_words) word probabilities of each node
    """

    counts: NDArray[np.int64]
    tree: Tree
    leaves: IntVec
    topics: Mat

    def branches(self, level: int) -> IntVec:
        """Position of each document's node on a level, (n_documents,)."""
        return np.asarray(self.tree.paths[self.leaves, level])


def planted_tree(
    seed: int,
    *,
    branching: int = 3,
    depth: int = 3,
    n_documents: int = 400,
    n_tokens: int = 80,
    words_per_node: int = 10,
) -> PlantedTree:
    """Documents of `n_tokens` words from a tree in which each node has words of its own.

    Topics are uneven over their words, levels are drawn from Dir(4, 3, 3), or as many threes as
    there are levels below the root, and leaves at random.

    Examples
    --------
    >>> planted = planted_tree(0, branching=2, n_documents=5)
    >>> planted.counts.shape, len(planted.tree), planted.counts.sum(axis=1).tolist()
    ((5, 70), 7, [80, 80, 80, 80, 80])
    """
    rng = np.random.default_rng(seed)
    tree = Tree.root(depth)
    for level in range(depth - 1):
        for parent in np.flatnonzero(tree.levels == level):
            for _ in range(branching):
                tree = tree.grown(int(parent), [len(tree)])
    n_words = len(tree) * words_per_node
    topics = np.zeros((len(tree), n_words))
    for node in range(len(tree)):
        own = slice(node * words_per_node, (node + 1) * words_per_node)
        topics[node, own] = rng.dirichlet(np.full(words_per_node, 2.0))
    ends = np.flatnonzero(tree.levels == depth - 1)
    leaves = rng.choice(ends, n_documents)
    shares = rng.dirichlet([4.0, *[3.0] * (depth - 1)], n_documents)
    counts = np.empty((n_documents, n_words), np.int64)
    for i, leaf in enumerate(leaves):
        counts[i] = rng.multinomial(n_tokens, shares[i] @ topics[tree.paths[leaf]])
    return PlantedTree(counts, tree, leaves, topics)
