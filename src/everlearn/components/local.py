"""Local steps of a tree of components: paths and coordinates of rows, as additive statistics.

"path" gives each row a posterior of coordinates for each path, which is exact; "meanfield" gives
it one posterior for all paths, as in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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
_ROUNDS = 20
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Slots:
    """What all rows need to know of the slots.

    Attributes
    ----------
    q : the beliefs
    products : (K, L, L) E[w . w'] of each slot's levels; of unseen ones, their prior's
    factors : (K, L) row of each node in the Cholesky factors of I + E[tau] products
    covariances : (K, L, L) of the coordinates of each slot
    bias : (K,) log-weight of each slot and the log-volume of its coordinates
    weights : (K,) E log-weight of each slot
    unseen_variance : of coordinates on unseen levels
    """

    q: PathPosterior
    products: Cube
    factors: Mat
    covariances: Cube
    bias: Vec
    weights: Vec
    unseen_variance: float

    def base(self, squares: Vec) -> Vec:
        """What the log-likelihood of rows has besides scores, from their squared distances."""
        q = self.q
        d = len(q.centre)
        constant = 0.5 * d * (q.log_precision - LOG_2PI - q.precision * q.centre_variance)
        return np.asarray(constant - 0.5 * q.precision * squares)


def prepare(model: ComponentModel, q: PathPosterior) -> Slots:
    """The slots of these beliefs."""
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
    unseen = model.unseen_variance(q)
    return Slots(q, products, factors, covariances, weights - volumes, weights, unseen)


class Scored(NamedTuple):
    """Rows and their scores in each slot."""

    scores: Mat
    solved: Mat
    base: Vec


def scored(slots: Slots, X: Mat) -> Scored:
    """Scores of the slots: `scores + base` are log-weights plus expected log-likelihoods."""
    q = slots.q
    centred = X - q.centre
    solved = q.precision * (centred @ q.mean.T)
    tree = q.tree
    scores = path_scores(solved, tree.paths, tree.levels, slots.factors, slots.bias)
    return Scored(scores, solved, slots.base(np.einsum("nd,nd->n", centred, centred)))


def evidence(slots: Slots, X: Mat) -> Vec:
    """Local bound of each row, all paths summed."""
    found = scored(slots, X)
    return np.asarray(logsumexp(found.scores, axis=1) + found.base)


def path_stats(slots: Slots, X: Mat) -> tuple[PathStats, None]:
    """Statistics of rows whose coordinates are believed path by path."""
    tree = slots.q.tree
    k, depth = len(tree), tree.depth
    found = scored(slots, X)
    codes, mass, moments = np.zeros((len(X), k)), np.zeros(k), np.zeros((k, depth, depth))
    entropy, _ = path_sums(
        found.scores, found.solved, tree.paths, tree.levels, slots.factors, codes, mass, moments
    )
    lower = np.tril(np.ones((depth, depth), bool), -1)
    moments += np.where(lower, moments, 0.0).transpose(0, 2, 1)
    moments += mass[:, None, None] * slots.covariances
    volumes = slots.weights - slots.bias
    local = 0.5 * depth * mass.sum() - mass @ volumes
    local -= 0.5 * np.trace(moments, axis1=1, axis2=2).sum()
    return _collected(slots, X, mass, moments, codes, entropy + local), None


def meanfield_stats(slots: Slots, block: tuple[Mat, Mat]) -> tuple[PathStats, Mat]:
    """Statistics of rows whose coordinates are believed for all paths at once, and the slots.

    `block` are the rows and the probabilities of their slots to start from.
    """
    X, r = block
    q, tree = slots.q, slots.q.tree
    centred = X - q.centre
    projections = q.precision * (centred @ q.mean.T)
    products = q.precision * slots.products.reshape(len(tree), -1)
    r, x, covariance = _settled(slots, projections, products, r)
    second = covariance + x[:, :, None] * x[:, None, :]
    moments = (r.T @ second.reshape(len(X), -1)).reshape(slots.products.shape)
    codes = tree.through(r) * x[:, tree.levels]
    entropy = -np.sum(xlogy(r, r))
    volume = np.linalg.slogdet(covariance)[1]
    local = 0.5 * np.sum(volume + tree.depth - np.trace(second, axis1=1, axis2=2))
    return _collected(slots, X, r.sum(axis=0), moments, codes, float(entropy + local)), r


def _settled(slots: Slots, projections: Mat, products: Mat, r: Mat) -> tuple[Mat, Mat, Cube]:
    """Slots and coordinates in turn until neither changes, each row by itself."""
    tree = slots.q.tree
    n, depth = len(projections), tree.depth
    level = np.eye(depth)[tree.levels]
    r = r.copy()
    x, covariance = np.zeros((n, depth)), np.zeros((n, depth, depth))
    moving = np.arange(n)
    for _ in range(_ROUNDS):
        own, p = r[moving], projections[moving]
        precision = np.eye(depth) + (own @ products).reshape(-1, depth, depth)
        spread = np.linalg.inv(precision)
        pull = (tree.through(own) * p) @ level
        mean = np.einsum("nij,nj->ni", spread, pull)
        second = (spread + mean[:, :, None] * mean[:, None, :]).reshape(len(own), -1)
        gains = p * mean[:, tree.levels]
        scores = _along_paths(tree.parents, gains) - 0.5 * second @ products.T + slots.weights
        new = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
        r[moving], x[moving], covariance[moving] = new, mean, spread
        moving = moving[np.abs(new - own).max(axis=1) > _CLOSE]
        if not len(moving):
            break
    return r, x, covariance


def _along_paths(parents: np.ndarray, values: Mat) -> Mat:
    """Sums from the root to each node, along the last axis."""
    sums = values.copy()
    for i in range(1, values.shape[1]):
        sums[:, i] += sums[:, parents[i]]
    return sums


def responsibilities(slots: Slots, X: Mat) -> Mat:
    """Probability of each slot for each row, (n, K)."""
    scores = scored(slots, X).scores
    return np.asarray(np.exp(scores - logsumexp(scores, axis=1, keepdims=True)))


def _collected(
    slots: Slots, X: Mat, mass: Vec, moments: Cube, codes: Mat, entropy: float
) -> PathStats:
    """Sums over slots become sums over nodes and pairs of nodes."""
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
class FarRows:
    """Rows that an engine holds in chunks, seen from an origin."""

    chunked: ChunkedRows
    origin: Vec

    def __len__(self) -> int:
        return len(self.chunked)

    def take(self, positions: IntVec, engine: Engine) -> Mat:
        """The rows at these positions, which ascend, brought here."""
        return np.asarray(self.chunked.take(positions, engine).X - self.origin)


def _far_stats(shared: tuple[Slots, Vec], rows: Rows) -> tuple[PathStats, None]:
    """`path_stats` of rows where they are."""
    slots, origin = shared
    return path_stats(slots, np.asarray(rows.X) - origin)


@dataclass(frozen=True, slots=True)
class PathRunner:
    """Runs local steps on an engine, in blocks of rows; no result depends on the engine."""

    model: ComponentModel
    engine: Engine
    meanfield: bool = False

    def run(
        self, q: PathPosterior, X: Mat | FarRows, start: Mat | None
    ) -> tuple[PathStats, Mat | None]:
        """Statistics of all rows; under mean field also their slots, which it starts from."""
        slots = prepare(self.model, q)
        if isinstance(X, FarRows):
            far = X.chunked.pieces(BLOCK_ROWS)
            return self.engine.map_sum(_far_stats, far, (slots, X.origin))[0], None
        rows = pieces(X, BLOCK_ROWS)
        if not self.meanfield:
            return self.engine.map_sum(path_stats, rows, slots)[0], None
        if start is None:
            start = np.concatenate(self.engine.map(responsibilities, rows, slots))
        blocks = pieces(X, BLOCK_ROWS, start.__getitem__)
        stats, ends = self.engine.map_sum(meanfield_stats, blocks, slots)
        return stats, np.concatenate(ends)

    def some(self, parts: Sequence[Mat | FarRows], positions: IntVec | None) -> Mat:
        """The rows at these positions of all parts, which ascend; None: all of them."""
        far = [part for part in parts if isinstance(part, FarRows)]
        if not far:
            here: Mat = np.concatenate([part for part in parts if not isinstance(part, FarRows)])
            return here if positions is None else here[positions]
        chunks = tuple(chunk for part in far for chunk in part.chunked.chunks)
        whole = FarRows(replace(far[0].chunked, chunks=chunks), far[0].origin)
        every = np.arange(len(whole)) if positions is None else positions
        return whole.take(every, self.engine)

    def evidence(self, q: PathPosterior, X: Mat) -> Vec:
        """Local bound of each row."""
        found = self.engine.map(evidence, pieces(X, BLOCK_ROWS), prepare(self.model, q))
        return np.concatenate(found)
