"""Constrain an M-step by a quadratic form: parameters between its own and those of a reference.

Both forms replace the divergence from the reference by its second-order expansion, whose matrix
is the Fisher information. The learner handles the exact divergence itself, on moments or
statistics. Derivation: docs/math/ppca.md, section 4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from benchmarks.reference.fisher import Fisher
from everlearn.core.arrays import Mat, Vec
from everlearn.ppca.model import PPCA

_CG_ITERATIONS = 30
_RIDGE = 1e-12


def constrained(form: str, fresh: PPCA, zz: Mat, reference: PPCA, weight: float) -> PPCA:
    """Parameters between those of the M-step and those of the reference.

    Parameters
    ----------
    form : "gain" or "ewc"
    fresh : the parameters of the M-step
    zz : (q, q), the second moments of latents that the M-step was made from
    reference : the model to stay close to
    weight : beta, how much the reference counts
    """
    reference = aligned(reference, fresh)
    return {"gain": gain, "ewc": elastic}[form](fresh, zz, reference, weight)


def aligned(reference: PPCA, model: PPCA) -> PPCA:
    """The reference with its latents rotated so that its loadings are closest to the model's."""
    u, _, vt = np.linalg.svd(reference.loadings.T @ model.loadings)
    return PPCA(reference.mean, reference.loadings @ (u @ vt), reference.noise)


def gain(fresh: PPCA, zz: Mat, reference: PPCA, weight: float) -> PPCA:
    """Maximiser of the quadratic expansion of the M-step's objective with the Fisher penalty.

    theta - (J + beta F)^-1 beta F (theta - theta_ref), with J the curvature of the objective for
    complete data. Pairs of loadings within the subspace are solved for with the diagonal of `zz`
    in the basis of the reference. Stable for every weight, and without units.
    """
    fisher = Fisher.of(reference)
    noise, d = fresh.noise, len(fresh.mean)
    away = fresh.mean - reference.mean
    inner = fisher.u.T @ away
    outside = 1.0 / (1.0 + weight * noise / reference.noise)
    inside = 1.0 / (1.0 + weight * noise / fisher.variances)
    mean = reference.mean + outside * away + fisher.u @ ((inside - outside) * inner)
    loadings = reference.loadings + _loadings_gain(fresh, zz, reference, fisher, weight)
    j, f = 0.5 * d / noise**2, weight * fisher.noise
    return PPCA(mean, loadings, (j * noise + f * reference.noise) / (j + f))


def _loadings_gain(fresh: PPCA, zz: Mat, reference: PPCA, fisher: Fisher, weight: float) -> Mat:
    """The part of the way from the reference's loadings that remains."""
    s, lam = fisher.s, fisher.variances
    t = fisher.v.T @ zz @ fisher.v / fresh.noise
    turned = (fresh.loadings - reference.loadings) @ fisher.v
    inner = fisher.u.T @ turned
    outside = turned - fisher.u @ inner
    penalty = weight * np.diag(s**2 / (reference.noise * lam))
    outside = outside @ np.linalg.solve(t + penalty, t).T if t.size else outside
    # Entries (i, j) and (j, i) together: a 2 x 2 system for each pair, solved by Cramer's rule.
    scale = weight / np.outer(lam, lam)
    curvature = np.diagonal(t)[None, :]
    a, c = curvature + scale * s[None, :] ** 2, curvature.T + scale * s[:, None] ** 2
    b = scale * np.outer(s, s)
    right, other = curvature * inner, curvature.T * inner.T
    inner = (c * right - b * other) / (a * c - b**2)
    return np.asarray((fisher.u @ inner + outside) @ fisher.v.T)


def elastic(fresh: PPCA, zz: Mat, reference: PPCA, weight: float) -> PPCA:
    """As `gain`, but with the information at the new parameters for J; by conjugate gradients."""
    old, new = Fisher.of(reference), Fisher.of(fresh)
    mean = fresh.mean - _solved(
        lambda v: new.mean(v) + weight * old.mean(v),
        weight * old.mean(fresh.mean - reference.mean),
    )
    loadings = fresh.loadings - _solved(
        lambda a: new.loadings(a) + weight * old.loadings(a),
        weight * old.loadings(fresh.loadings - reference.loadings),
    )
    j, f = new.noise, weight * old.noise
    noise = (j * fresh.noise + f * reference.noise) / (j + f)
    return PPCA(mean, loadings, noise)


def _solved(operator: Callable[[Mat], Mat], right: Mat) -> Mat:
    """Approximate solution of a positive semi-definite system."""
    size = float(np.abs(right).max(initial=0.0))
    if size == 0.0:
        return right
    ridge = _RIDGE * float(np.abs(operator(right)).max()) / size

    def product(v: Vec) -> Vec:
        return np.asarray(operator(v.reshape(right.shape)).ravel() + ridge * v)

    square = LinearOperator((right.size, right.size), matvec=product, dtype=np.float64)
    found = cg(square, right.ravel(), rtol=1e-8, maxiter=_CG_ITERATIONS)[0]
    return np.asarray(found.reshape(right.shape))
