"""The local step of a tree of components: rows in, additive statistics out.

Each row has a posterior of coordinates for each path, which is exact. A path is named by its slot.
The slot of a node on the last level is the path that ends there. That of any other node is all
paths that leave the tree at this node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from everlearn.components.kernels import path_scores, path_sums
from everlearn.components.model import ComponentModel, NodePosterior, NodeStats
from everlearn.core.arrays import Cube, IntVec, Mat, Vec
from everlearn.core.math import LOG_2PI
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine, pieces
from everlearn.engine.rows import Rows

BLOCK_ROWS = 1024
"""Rows of one task of an engine."""


@dataclass(frozen=True, slots=True)
class Slots:
    """What the local step needs of each slot, computed once for all rows.

    Attributes
    ----------
    q : the posterior
    products : (K, L, L) E[w . w'] of the levels of each slot; the prior's on unseen levels
    factors : (K, L) row of each node in the Cholesky factors of I + E[tau] products
    covariances : (K, L, L) posterior covariance of the coordinates in each slot
    bias : (K,) expected log-weight of each slot plus the log-volume of its coordinates
    weights : (K,) expected log-weight of each slot
    """

    q: NodePosterior
    products: Cube
    factors: Mat
    covariances: Cube
    bias: Vec
    weights: Vec


def prepare_slots(model: ComponentModel, q: NodePosterior) -> Slots:
    """The slots under this posterior."""
    tree, d = q.tree, model.n_features
    paths, depth = tree.paths, tree.depth
    held = paths >= 0
    pairs = held[:, :, None] & held[:, None, :]
    nodes = model.products(q)
    prior = np.eye(depth) * d * model.scale
    products = np.where(pairs, nodes[paths[:, :, None], paths[:, None, :]], prior)
    precisions = np.eye(depth) + q.precision * products
    lower = np.linalg.cholesky(precisions)
    k = np.arange(len(tree))
    factors = np.where(held, lower[k, tree.levels], 0.0)
    volumes = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    weights = model.paths.slot_log_weights(tree, q.sticks)
    inverse = np.linalg.inv(lower)
    covariances = np.swapaxes(inverse, 1, 2) @ inverse
    return Slots(q, products, factors, covariances, weights - volumes, weights)


class Scores(NamedTuple):
    """Scores of the slots for some rows.

    `scores + base[:, None]` are expected log-weights plus expected log-likelihoods. `solved` is
    what the kernel needs to compute coordinates.
    """

    scores: Mat
    solved: Mat
    base: Vec


def score_slots(slots: Slots, X: Mat) -> Scores:
    """Score every slot for every row."""
    q, tree = slots.q, slots.q.tree
    centred = X - q.centre
    solved = q.precision * (centred @ q.mean.T)
    scores = path_scores(solved, tree.paths, tree.levels, slots.factors, slots.bias)
    d, squares = len(q.centre), np.einsum("nd,nd->n", centred, centred)
    constant = 0.5 * d * (q.log_precision - LOG_2PI - q.precision * q.centre_variance)
    return Scores(scores, solved, np.asarray(constant - 0.5 * q.precision * squares))


def path_stats(slots: Slots, X: Mat) -> tuple[NodeStats, None]:
    """Statistics of rows."""
    tree = slots.q.tree
    k, depth = len(tree), tree.depth
    found = score_slots(slots, X)
    codes, mass, moments = np.zeros((len(X), k)), np.zeros(k), np.zeros((k, depth, depth))
    entropy = path_sums(
        found.scores, found.solved, tree.paths, tree.levels, slots.factors, codes, mass, moments
    )
    lower = np.tril(np.ones((depth, depth), bool), -1)
    moments += np.where(lower, moments, 0.0).transpose(0, 2, 1)
    moments += mass[:, None, None] * slots.covariances
    volumes = slots.weights - slots.bias
    local = 0.5 * depth * mass.sum() - mass @ volumes
    local -= 0.5 * np.trace(moments, axis1=1, axis2=2).sum()
    return _node_stats(slots, X, mass, moments, codes, entropy + local), None


def _node_stats(
    slots: Slots, X: Mat, mass: Vec, moments: Cube, codes: Mat, entropy: float
) -> NodeStats:
    """Turn sums over slots into sums over nodes and pairs of nodes."""
    tree = slots.q.tree
    k, paths = len(tree), tree.paths
    held = paths >= 0
    pairs = held[:, :, None] & held[:, None, :]
    second = np.zeros((k, k))
    one, two = np.broadcast_to(paths[:, :, None], pairs.shape), paths[:, None, :]
    np.add.at(second, (one[pairs], np.broadcast_to(two, pairs.shape)[pairs]), moments[pairs])
    diagonal = np.diagonal(moments, axis1=1, axis2=2)
    return NodeStats(
        tree.ids, float(len(X)), mass, codes.sum(axis=0), second, codes.T @ X, X.sum(axis=0),
        float(np.einsum("nd,nd->", X, X)), float(diagonal[~held].sum()), entropy,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class RemoteRows:
    """Rows in chunks that an engine holds. Tasks subtract `origin` from them."""

    chunked: ChunkedRows
    origin: Vec

    def __len__(self) -> int:
        return len(self.chunked)

    def fetch(self, positions: IntVec, engine: Engine) -> Mat:
        """Bring the rows at these positions, which ascend, into this process."""
        return np.asarray(self.chunked.take(positions, engine).X - self.origin)


def _remote_stats(shared: tuple[Slots, Vec], rows: Rows) -> tuple[NodeStats, None]:
    """`path_stats` of rows where they are."""
    slots, origin = shared
    return path_stats(slots, np.asarray(rows.X) - origin)


def fetch_rows(parts: Sequence[Mat | RemoteRows], positions: IntVec | None, engine: Engine) -> Mat:
    """The rows at these positions of all parts together, which ascend. None means all rows."""
    remote = [part for part in parts if isinstance(part, RemoteRows)]
    if not remote:
        rows: Mat = np.concatenate([part for part in parts if not isinstance(part, RemoteRows)])
        return rows if positions is None else rows[positions]
    chunks = tuple(chunk for part in remote for chunk in part.chunked.chunks)
    whole = RemoteRows(replace(remote[0].chunked, chunks=chunks), remote[0].origin)
    return whole.fetch(np.arange(len(whole)) if positions is None else positions, engine)


@dataclass(frozen=True, slots=True)
class PathRunner:
    """Runs local steps on an engine in blocks of rows. Results do not depend on the engine."""

    model: ComponentModel
    engine: Engine

    def run(self, q: NodePosterior, X: Mat | RemoteRows) -> NodeStats:
        """Statistics of all rows."""
        slots = prepare_slots(self.model, q)
        if isinstance(X, RemoteRows):
            remote = X.chunked.pieces(BLOCK_ROWS)
            return self.engine.map_sum(_remote_stats, remote, (slots, X.origin))[0]
        return self.engine.map_sum(path_stats, pieces(X, BLOCK_ROWS), slots)[0]
