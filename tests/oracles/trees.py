"""Slow, plain ways to say what a tree and its sticks are."""

import itertools

import numpy as np
from scipy.special import psi

from everlearn.core.tree import Tree


def random_tree(seed, n_branches, depth):
    """A tree grown by chains of random lengths below random nodes, ids with gaps."""
    rng = np.random.default_rng(seed)
    tree = Tree.root(depth)
    next_id = 1
    for _ in range(n_branches):
        inner = np.flatnonzero(tree.n_unseen > 0)
        position = int(rng.choice(inner))
        length = int(rng.integers(1, tree.n_unseen[position] + 1))
        tree = tree.grown(position, [next_id + 2 * j for j in range(length)])
        next_id += 2 * length
    return tree


def path_log_weights(tree, log_v, log_rest, gamma, width):
    """(slot, E log weight) of every path of a tree with `width` children at every node.

    Children that the tree does not hold have the prior's expectations and come after those it
    holds.
    """
    prior_v, prior_rest = psi(1.0) - psi(1.0 + gamma), -1.0 / gamma
    for turns in itertools.product(range(width), repeat=tree.depth - 1):
        node, weight = 0, 0.0
        for turn in turns:
            children = [] if node is None else [int(i) for i in tree.children(node)]
            for j in range(turn):
                weight += log_rest[children[j]] if j < len(children) else prior_rest
            if turn < len(children):
                node = children[turn]
                weight += log_v[node]
                slot = node
            else:
                weight += prior_v
                slot = slot_of(tree, turns)
                node = None
        yield slot, weight


def slot_of(tree, turns):
    """The slot of a path given by the number of the child taken at each level."""
    node = 0
    for turn in turns:
        children = tree.children(node)
        if turn >= len(children):
            return node
        node = int(children[turn])
    return node
