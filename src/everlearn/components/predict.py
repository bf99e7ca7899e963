"""Predictions of a tree of components for rows: codes, projections and densities."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from everlearn.components.local import Slots, score_slots
from everlearn.core.arrays import Cube, Mat, Vec
from everlearn.core.math import LOG_2PI


def encode(slots: Slots, rows: Mat) -> Mat:
    """Probabilities of the slots, and expected coordinates on the likeliest path, (n, K + L)."""
    q = slots.q
    scores = score_slots(slots, rows).scores
    best = scores.argmax(axis=1)
    paths = q.tree.paths[best]
    pulls = q.precision * ((rows - q.centre) @ q.mean.T)
    pull = np.where(paths >= 0, np.take_along_axis(pulls, np.maximum(paths, 0), axis=1), 0.0)
    x = np.einsum("nij,nj->ni", slots.covariances[best], pull)
    r = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    return np.hstack([r, x])


def projector(slots: Slots, slot: int) -> Mat:
    """Matrix from expected coordinates on a path to the projection on its loadings, (L, D)."""
    q = slots.q
    path = q.tree.paths[slot]
    own = q.mean[path[path >= 0]]
    seen = len(own)
    shrunk = np.eye(seen) / q.precision + slots.products[slot][:seen, :seen]
    out = np.zeros((len(path), own.shape[1]))
    out[:seen] = shrunk @ np.linalg.pinv(own @ own.T, hermitian=True) @ own
    return out


def path_densities(centred: Mat, loadings: Cube, noise: Vec) -> Mat:
    """Log-density of rows minus the centre on each slot's path, (n, K)."""
    k, depth, d = loadings.shape
    inner = np.eye(depth) + np.einsum("kid,kjd->kij", loadings, loadings) / noise[:, None, None]
    lower = np.linalg.cholesky(inner)
    solve = np.linalg.inv(lower) / noise[:, None, None]
    seen = (centred @ (solve @ loadings).reshape(-1, d).T).reshape(len(centred), k, depth)
    squares = np.einsum("nd,nd->n", centred, centred)[:, None] / noise
    volumes = 2.0 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    volumes += d * (np.log(noise) + LOG_2PI)
    return np.asarray(-0.5 * (squares - np.einsum("nkj,nkj->nk", seen, seen) + volumes))
