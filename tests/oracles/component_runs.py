"""Small trees of components, beliefs about them and rows that come from one."""

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from everlearn.components.local import score_slots
from everlearn.components.model import ComponentModel, NodeStats
from everlearn.components.state import ComponentTreeState, OpenRows
from everlearn.core.priors.nested import NestedPrior, TreeSticks
from everlearn.core.tree import Tree
from oracles.trees import random_tree


def planted(n, seed=0, d=8, noise=0.3):
    """Rows of a tree of depth 3: root, two children, two last nodes each; and their paths."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(np.random.default_rng(1).normal(size=(d, d)))[0]
    upper, lower = axes[[1, 2]] * 4.0, axes[[3, 4, 5, 6]] * 3.0
    path = rng.integers(4, size=n)
    x = rng.normal(size=(n, 3))
    X = x[:, :1] * axes[0] * 6.0 + x[:, 1:2] * upper[path // 2] + x[:, 2:] * lower[path]
    return X + noise * rng.normal(size=(n, d)) + 2.0, path


def beliefs(seed=0, d=3, n_branches=3, depth=2, scale=4.0):
    """A model and any beliefs about a random tree."""
    rng = np.random.default_rng(seed)
    tree = random_tree(seed, n_branches, depth)
    k = len(tree)
    model = ComponentModel(NestedPrior(1.3), d, scale, 0.5, 0.7)
    spread = rng.normal(size=(k, k)) * 0.2
    covariance = spread @ spread.T + 0.05 * np.eye(k)
    q = model.start(tree, rng.normal(size=(k, d)), rng.normal(size=d), 1.7)
    return model, replace(
        q,
        sticks=TreeSticks(1 + rng.gamma(2.0, size=k), 0.5 + rng.gamma(2.0, size=k)),
        covariance=covariance,
        centre_variance=0.1,
        shape=3.0,
        rate=2.0,
    )


def evidence(slots, X):
    """Local bound of each row, all paths summed."""
    found = score_slots(slots, X)
    return logsumexp(found.scores, axis=1) + found.base


def state_of(X, depth=3, n_branches=3, seed=0, pieces=1):
    """A tree at random loadings whose rows are not visited yet."""
    d = X.shape[1]
    scale = float(X.var(axis=0).mean())
    model = ComponentModel(NestedPrior(1.0), d, scale, 1e-3, 1e-3 * scale)
    tree = random_tree(seed, n_branches, depth)
    rng = np.random.default_rng(seed)
    q = model.start(tree, rng.normal(size=(len(tree), d)), X.mean(axis=0), 1.0 / scale)
    nothing = NodeStats.zeros(tree.ids, d)
    batches = tuple(OpenRows(part, nothing) for part in np.array_split(X, pieces))
    return ComponentTreeState(model, q, nothing, batches, nothing, 1000, seed)


def chain_of(X, depth):
    """The same for a single path."""
    state = state_of(X, depth, 0)
    tree = Tree.root(depth).grown(0, list(range(1, depth)))
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(depth, X.shape[1]))
    q = state.model.start(tree, mean, X.mean(axis=0), state.q.precision)
    nothing = NodeStats.zeros(tree.ids, X.shape[1])
    return replace(state, q=q, sealed=nothing, total=nothing, batches=(OpenRows(X, nothing),))
