"""Predictions for a block of rows: densities, latents, filled gaps. They change no model."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from everlearn.core.arrays import Mat, Vec
from everlearn.engine.rows import Rows
from everlearn.ppca.local import joint_log_likelihood
from everlearn.ppca.model import PPCA, RowPosterior
from everlearn.ppca.state import PPCAState


def log_densities(state: PPCAState, rows: Rows) -> Vec:
    """Log density of the entries that each row has."""
    return np.asarray(logsumexp(_posteriors(state, rows)[1], axis=1))


def responsibilities(state: PPCAState, rows: Rows) -> Mat:
    """Probability of each component for each row."""
    return _normalised(_posteriors(state, rows)[1])


def latents(state: PPCAState, rows: Rows) -> Mat:
    """Expected latents under a single component."""
    return state.models[0].posterior(rows.X).z


def mixture_latents(state: PPCAState, rows: Rows) -> Mat:
    """Probabilities of the components, then the latents under each, times its probability."""
    found, joint = _posteriors(state, rows)
    shares = _normalised(joint)
    weighted = [r[:, None] * one.z for r, one in zip(shares.T, found, strict=True)]
    return np.hstack([shares, *weighted])


def filled(state: PPCAState, rows: Rows) -> Mat:
    """The rows, with their expected values in place of gaps."""
    found, joint = _posteriors(state, rows)
    guess = np.zeros(rows.X.shape)
    for r, one in zip(_normalised(joint).T, found, strict=True):
        guess += r[:, None] * one.filled
    return np.asarray(np.where(np.isnan(rows.X), guess, rows.X))


def rows_of_latents(state: PPCAState, Z: Mat, *, is_mixture: bool) -> Mat:
    """Inverse of `latents` or `mixture_latents`, up to what no component explains."""
    if not is_mixture:
        return np.asarray(state.models[0].mean + Z @ _unshrunk(state.models[0]).T)
    k, q = len(state.models), state.models[0].rank
    rows = Z[:, :k] @ np.stack([model.mean for model in state.models])
    for i, model in enumerate(state.models):
        rows += Z[:, k + i * q : k + (i + 1) * q] @ _unshrunk(model).T
    return np.asarray(rows)


def _posteriors(state: PPCAState, rows: Rows) -> tuple[list[RowPosterior], Mat]:
    """Posteriors under each component, and the log of share times density, (n, K)."""
    found = [model.posterior(rows.X) for model in state.models]
    return found, joint_log_likelihood(found, state.log_weights)


def _normalised(joint: Mat) -> Mat:
    shares = np.exp(joint - joint.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _unshrunk(model: PPCA) -> Mat:
    """(d, q): times expected latents, which are shrunk, this gives the orthogonal projection."""
    u, s, v = model.axes()
    scale = np.divide(s**2 + model.noise, s, out=np.zeros_like(s), where=s > 0.0)
    return np.asarray((u * scale) @ v.T)
