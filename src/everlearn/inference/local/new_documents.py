"""Documents that a model has not learned from: their topics at fixed beliefs, and retrieval.

A document's mixture is inferred from its own points alone, so that any set of documents gives
for each one what it gives by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, psi

from everlearn.core.arrays import Labels, Mat, Vec
from everlearn.inference.clumped_topics import GroupedModel, Topics
from everlearn.inference.clumps import Items
from everlearn.inference.engine import Engine
from everlearn.inference.kernels.retrieval import best_path_scores
from everlearn.inference.local.clumps import assigned, summed

_MOST_STEPS = 100
_TOLERANCE = 1e-4
"""Share of a document's points that may still move when its mixture is taken for settled."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a document is found to be.

    Attributes
    ----------
    zeta : (n_topics,) Dirichlet posterior of its mixture
    labels : (n_points,) position of the likeliest topic of each point
    bound : lower bound of its log-likelihood
    """

    zeta: Vec
    labels: Labels
    bound: float


@dataclass(frozen=True, slots=True)
class Reader:
    """Fixed beliefs, as reading needs them: natural parameters, constants, alpha, and shares.

    Reading starts from the `shares` that topics have in all points: with alpha alone, a topic that
    gets no point at first could hardly get one later.
    """

    model: GroupedModel
    eta: Mat
    constant: Vec
    alpha: Vec
    shares: Vec

    @classmethod
    def of(cls, model: GroupedModel, topics: Topics) -> Reader:
        """The beliefs of a model as it is now."""
        eta, constant = model.family.natural(model.family.posterior(topics.n, topics.t))
        return cls(model, eta, constant, topics.alpha, topics.shares)

    def read_all(self, documents: Sequence[Mat], engine: Engine) -> list[Reading]:
        """Each document by itself."""
        return engine.map(_read, documents, self)

    def read(self, X: Mat) -> Reading:
        """A document's mixture of topics by coordinate ascent."""
        features = np.ascontiguousarray(self.model.family.features(X))
        items = Items.points(features, np.zeros(len(X), np.int32))
        zeta = self.alpha + len(X) * self.shares
        for _ in range(_MOST_STEPS):
            found = assigned(self.eta, (self.constant + psi(zeta))[None, :], items)
            used, zeta = zeta, self.alpha + summed(items, found, (1, len(self.alpha)))[2][0]
            if np.abs(zeta - used).sum() <= _TOLERANCE * len(X):
                break
        # The assignments are optimal for `used`, at which the bound is therefore taken.
        points = float(found.log_norm.sum() + self.model.family.log_base(X).sum())
        bound = points - len(X) * float(psi(used.sum())) - _divergence(used, self.alpha)
        return Reading(zeta, found.topics[:, 0].copy(), bound)

    def resemblance(self, X: Mat, zetas: Mat) -> Vec:
        """How likely documents with these posteriors make the points, each by its best topic."""
        family = self.model.family
        scores = np.ascontiguousarray(family.features(X) @ self.eta.T + self.constant)
        out = np.empty(len(zetas))
        best_path_scores(scores, np.ascontiguousarray(psi(zetas)), out)
        return np.asarray(out - len(X) * psi(zetas.sum(axis=1)) + family.log_base(X).sum())


def _read(reader: Reader, X: Mat) -> Reading:
    return reader.read(X)


def _divergence(zeta: Vec, alpha: Vec) -> float:
    """Kullback-Leibler divergence of Dir(zeta) from Dir(alpha)."""
    expected = psi(zeta) - psi(zeta.sum())
    normalizers = gammaln(zeta.sum()) - gammaln(zeta).sum() - gammaln(alpha.sum())
    return float(normalizers + gammaln(alpha).sum() + (zeta - alpha) @ expected)
