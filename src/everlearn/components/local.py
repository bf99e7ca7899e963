"""Local steps of a tree of components: rows in, additive statistics out.

"path" gives each row a posterior of coordinates for each path, which is exact. "meanfield" gives
it one posterior for all paths, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from scipy.special import logsumexp, xlogy

from everlearn.components.kernels import path_scores, path_sums
from everlearn.components.model import ComponentModel, PathPosterior, PathStats
from everlearn.core.arrays import Cube, IntVec, Mat, Vec
from everlearn.core.math import LOG_2PI
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine, pieces
from everlearn.engine.rows import Rows

BLOCK_ROWS = 1024
"""Rows of one task of an engine."""
_MEAN_FIELD_ROUNDS: Final = 20
_MEAN_FIELD_TOL: Final = 1e-6
"""Mean field stops when no probability of a slot changes by more than this."""


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

    q: PathPosterior
    products: Cube
    factors: Mat
    covariances: Cube
    bias: Vec
    weights: Vec


def prepare_slots(model: ComponentModel, q: PathPosterior) -> Slots:
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


def responsibilities(slots: Slots, X: Mat) -> Mat:
    """Probability of each slot for each row, (n, K)."""
    scores = score_slots(slots, X).scores
    return np.asarray(np.exp(scores - logsumexp(scores, axis=1, keepdims=True)))


def path_stats(slots: Slots, X: Mat) -> tuple[PathStats, None]:
    """Statistics of rows with a posterior of coordinates for each path."""
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


def meanfield_stats(slots: Slots, block: tuple[Mat, Mat]) -> tuple[PathStats, Mat]:
    """Statistics of rows with one posterior of coordinates for all paths, and their slots.

    `block` holds the rows, and probabilities of their slots to start from.
    """
    X, r = block
    q, tree = slots.q, slots.q.tree
    centred = X - q.centre
    projections = q.precision * (centred @ q.mean.T)
    products = q.precision * slots.products.reshape(len(tree), -1)
    r, x, covariance = _iterate_mean_field(slots, projections, products, r)
    second = covariance + x[:, :, None] * x[:, None, :]
    moments = (r.T @ second.reshape(len(X), -1)).reshape(slots.products.shape)
    codes = tree.through(r) * x[:, tree.levels]
    entropy = -np.sum(xlogy(r, r))
    volume = np.linalg.slogdet(covariance)[1]
    local = 0.5 * np.sum(volume + tree.depth - np.trace(second, axis1=1, axis2=2))
    return _node_stats(slots, X, r.sum(axis=0), moments, codes, float(entropy + local)), r


def _iterate_mean_field(
    slots: Slots, projections: Mat, products: Mat, r: Mat
) -> tuple[Mat, Mat, Cube]:
    """Update slots and coordinates in turn until they stop changing, each row by itself."""
    tree = slots.q.tree
    n, depth = len(projections), tree.depth
    level = np.eye(depth)[tree.levels]
    r = r.copy()
    x, covariance = np.zeros((n, depth)), np.zeros((n, depth, depth))
    moving = np.arange(n)
    for _ in range(_MEAN_FIELD_ROUNDS):
        own, p = r[moving], projections[moving]
        precision = np.eye(depth) + (own @ products).reshape(-1, depth, depth)
        spread = np.linalg.inv(precision)
        pull = (tree.through(own) * p) @ level
        mean = np.einsum("nij,nj->ni", spread, pull)
        second = (spread + mean[:, :, None] * mean[:, None, :]).reshape(len(own), -1)
        gains = _sum_along_paths(tree.parents, p * mean[:, tree.levels])
        scores = gains - 0.5 * second @ products.T + slots.weights
        new = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
        r[moving], x[moving], covariance[moving] = new, mean, spread
        moving = moving[np.abs(new - own).max(axis=1) > _MEAN_FIELD_TOL]
        if not len(moving):
            break
    return r, x, covariance


def _sum_along_paths(parents: IntVec, values: Mat) -> Mat:
    """Sums from the root to each node, along the last axis."""
    sums = values.copy()
    for i in range(1, values.shape[1]):
        sums[:, i] += sums[:, parents[i]]
    return sums


def _node_stats(
    slots: Slots, X: Mat, mass: Vec, moments: Cube, codes: Mat, entropy: float
) -> PathStats:
    """Turn sums over slots into sums over nodes and pairs of nodes."""
    tree = slots.q.tree
    k, paths = len(tree), tree.paths
    held = paths >= 0
    pairs = held[:, :, None] & held[:, None, :]
    second = np.zeros((k, k))
    one, two = np.broadcast_to(paths[:, :, None], pairs.shape), paths[:, None, :]
    np.add.at(second, (one[pairs], np.broadcast_to(two, pairs.shape)[pairs]), moments[pairs])
    diagonal = np.diagonal(moments, axis1=1, axis2=2)
    return PathStats(
        tree.ids, float(len(X)), mass, codes.sum(axis=0), second, codes.T @ X, X.sum(axis=0),
        float(np.einsum("nd,nd->", X, X)), float(diagonal[~held].sum()), entropy,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class RemoteRows:
    """Rows in chunks that an engine holds; `origin` is subtracted where they are."""

    chunked: ChunkedRows
    origin: Vec

    def __len__(self) -> int:
        return len(self.chunked)

    def fetch(self, positions: IntVec, engine: Engine) -> Mat:
        """Bring the rows at these positions, which ascend, into this process."""
        return np.asarray(self.chunked.take(positions, engine).X - self.origin)


def _remote_stats(shared: tuple[Slots, Vec], rows: Rows) -> tuple[PathStats, None]:
    """`path_stats` of rows where they are."""
    slots, origin = shared
    return path_stats(slots, np.asarray(rows.X) - origin)


def fetch_rows(parts: Sequence[Mat | RemoteRows], positions: IntVec | None, engine: Engine) -> Mat:
    """The rows at these positions of all parts together, which ascend; None means all rows."""
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
    meanfield: bool = False

    def run(
        self, q: PathPosterior, X: Mat | RemoteRows, start: Mat | None
    ) -> tuple[PathStats, Mat | None]:
        """Statistics of all rows. Mean field starts from the slots in `start` and returns new ones.

        Remote rows always take the step by paths.
        """
        slots = prepare_slots(self.model, q)
        if isinstance(X, RemoteRows):
            remote = X.chunked.pieces(BLOCK_ROWS)
            return self.engine.map_sum(_remote_stats, remote, (slots, X.origin))[0], None
        rows = pieces(X, BLOCK_ROWS)
        if not self.meanfield:
            return self.engine.map_sum(path_stats, rows, slots)[0], None
        if start is None:
            start = np.concatenate(self.engine.map(responsibilities, rows, slots))
        blocks = pieces(X, BLOCK_ROWS, start.__getitem__)
        stats, ends = self.engine.map_sum(meanfield_stats, blocks, slots)
        return stats, np.concatenate(ends)
