"""The natural constraint in parameter space: how far an M-step may leave a reference model.

Each form takes the parameters of the M-step and those of the reference, and returns parameters
between them. The constraint by divergence, which works on moments or statistics instead, is part of
the learner. Derivation: docs/math/ppca.md, section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from everlearn.core.arrays import Mat, Vec
from everlearn.ppca.fisher import Fisher
from everlearn.ppca.model import PPCA, noise_floor

_CG_ITERATIONS = 30
_RIDGE = 1e-12


@dataclass(frozen=True, slots=True)
class ParameterConstraint:
    """A form of the constraint.

    Attributes
    ----------
    form : "gain", "ewc" or "printed"
    complete : whether the printed form uses the information of rows with their latents
    clip : whether the printed form is kept from going beyond the reference
    align : whether the reference is rotated to the loadings before they are subtracted
    """

    form: str
    complete: bool = True
    clip: bool = True
    align: bool = True

    def apply(self, fresh: PPCA, zz: Mat, reference: PPCA, weight: float) -> PPCA:
        """Parameters between those of the M-step and the reference.

        Parameters
        ----------
        fresh : the parameters of the M-step
        zz : (q, q), the second moments of latents that the M-step was made from
        reference : the model to stay close to
        weight : beta, how much the reference counts
        """
        if self.align:
            reference = aligned(reference, fresh)
        forms = {"gain": gain, "ewc": elastic, "printed": self._printed}
        return forms[self.form](fresh, zz, reference, weight)

    def _printed(self, fresh: PPCA, zz: Mat, reference: PPCA, weight: float) -> PPCA:
        return printed(fresh, reference, weight, complete=self.complete, clip=self.clip)


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


def printed(fresh: PPCA, reference: PPCA, weight: float, *, complete: bool, clip: bool) -> PPCA:
    """Theta - beta F^-1 (theta - theta_ref) for each of mean, loadings and noise.

    As the authors' slides print it; no maximiser of their objective. It depends on the units of the
    rows, and diverges without `clip` if the weight is large. `complete` takes the information of
    rows with their latents, which is isotropic; otherwise that of rows alone, with a
    pseudo-inverse for the loadings.
    """
    d = len(fresh.mean)
    to_mean, to_loadings = fresh.mean - reference.mean, fresh.loadings - reference.loadings
    if complete:
        largest = (reference.noise, reference.noise, 2.0 * reference.noise**2 / d)
        moves = (reference.noise * to_mean, reference.noise * to_loadings)
    else:
        fisher = Fisher.of(reference)
        largest = fisher.largest_inverses
        moves = (fisher.mean_inverse(to_mean), fisher.loadings_pinv(to_loadings))
    steps = [min(weight, 1.0 / top) if clip and top > 0.0 else weight for top in largest]
    noise = fresh.noise - steps[2] * largest[2] * (fresh.noise - reference.noise)
    return PPCA(
        fresh.mean - steps[0] * moves[0],
        fresh.loadings - steps[1] * moves[1],
        max(noise, noise_floor(reference.noise)),
    )
