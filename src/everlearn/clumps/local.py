"""The local step: assign items to topics, and sum them up by topic. Infer new documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, psi

from everlearn.clumps.items import Items
from everlearn.clumps.kernels import best_path_scores, best_topics, summarize
from everlearn.clumps.model import GroupedModel, Topics
from everlearn.core.arrays import Labels, Mat, Vec
from everlearn.engine.protocol import Engine, pieces, runs

WIDTH = 8
"""Each item belongs to at most this many topics."""
_BLOCK_SCORES = 125_000
_LEAST_ROWS, _MOST_ROWS = 64, 4096


@dataclass(frozen=True, slots=True)
class Assignment:
    """The topics of each item.

    Attributes
    ----------
    topics : (n_items, width) positions of the likely topics, the most likely first
    shares : (n_items, width) their shares, zeros last
    log_norm : (n_items,) log normalizer per point of the item
    """

    topics: Labels
    shares: Mat
    log_norm: Vec

    def __getitem__(self, where: slice) -> Assignment:
        return Assignment(self.topics[where], self.shares[where], self.log_norm[where])

    def __setitem__(self, where: slice, part: Assignment) -> None:
        self.topics[where], self.shares[where] = part.topics, part.shares
        self.log_norm[where] = part.log_norm


@dataclass(frozen=True, slots=True)
class ClumpStep:
    """Assigns items to topics in blocks, which the engine may run in parallel."""

    model: GroupedModel
    engine: Engine

    def assign(self, topics: Topics, sizes: Vec, items: Items) -> Assignment:
        """The optimal assignment at fixed topics, among the best `WIDTH` topics of each item."""
        return assigned(*topics.score_parameters(self.model, sizes), items, self.engine)

    def summarize(self, topics: Topics, items: Items, found: Assignment) -> Topics:
        """Statistics of the items under the assignment. Ids and alpha stay."""
        n, t, counts, entropy = summed(items, found, topics.counts.shape)
        return replace(topics, n=n, t=t, counts=counts, entropy=entropy)

    def iterate(self, topics: Topics, sizes: Vec, items: Items) -> tuple[Topics, Assignment]:
        """One iteration of coordinate ascent: assignment, then statistics, then alpha."""
        found = self.assign(topics, sizes, items)
        better = self.summarize(topics, items, found)
        return better.with_better_alpha(self.model, sizes), found


def assigned(eta: Mat, bias: Mat, items: Items, engine: Engine | None = None) -> Assignment:
    """The optimal assignment for natural parameters `eta` and a bias per group and topic."""
    n, k = len(items), len(eta)
    width = min(WIDTH, k)
    found = Assignment(np.empty((n, width), np.int32), np.empty((n, width)), np.empty(n))
    rows = int(np.clip(_BLOCK_SCORES // k, _LEAST_ROWS, _MOST_ROWS))
    if engine is None:
        for where in runs(n, rows):
            _assign((eta, bias), (items[where], found[where]))
        return found
    parts = engine.map(_assign, pieces(items, rows, found.__getitem__), (eta, bias))
    for where, part in zip((p.whole for p in pieces(items, rows)), parts, strict=True):
        found[where] = part
    return found


def summed(items: Items, found: Assignment, shape: tuple[int, ...]) -> tuple[Vec, Mat, Mat, float]:
    """Statistics of the assignment: points, feature sums, points by group and topic, entropy."""
    n, t = np.zeros(shape[1]), np.zeros((shape[1], items.features.shape[1]))
    counts = np.zeros(shape)
    entropy = summarize(
        found.topics, found.shares, items.features, items.mass, items.starts, items.groups,
        items.counts, n, t, counts,
    )  # fmt: skip
    return n, t, counts, entropy


def _assign(shared: tuple[Mat, Mat], block: tuple[Items, Assignment]) -> Assignment:
    """The assignment of a block, written into `found`."""
    (eta, bias), (items, found) = shared, block
    scores = np.ascontiguousarray(items.features @ eta.T)
    best_topics(
        scores,
        bias,
        items.starts,
        items.groups,
        items.counts,
        found.topics,
        found.shares,
        found.log_norm,
    )
    return found


_MOST_STEPS = 100
_TOLERANCE = 1e-4
"""A document's mixture has converged when it moves by this share of its points."""


@dataclass(frozen=True, slots=True)
class DocumentPosterior:
    """What the topics say about a document.

    Attributes
    ----------
    zeta : (n_topics,) Dirichlet posterior of its mixture
    labels : (n_points,) position of the most likely topic of each point
    bound : lower bound of its log-likelihood
    """

    zeta: Vec
    labels: Labels
    bound: float


@dataclass(frozen=True, slots=True)
class FixedTopics:
    """Topics as inference about new documents needs them.

    Attributes
    ----------
    eta, constant : natural parameters of each topic
    alpha : parameters of the Dirichlet prior of documents
    shares : share of each topic in all points, from which inference starts
    """

    model: GroupedModel
    eta: Mat
    constant: Vec
    alpha: Vec
    shares: Vec

    @classmethod
    def of(cls, model: GroupedModel, topics: Topics) -> FixedTopics:
        """The topics of a model as they are now."""
        eta, constant = model.family.natural(model.family.posterior(topics.n, topics.t))
        return cls(model, eta, constant, topics.alpha, topics.shares)

    def infer_all(self, documents: Sequence[Mat], engine: Engine) -> list[DocumentPosterior]:
        """`infer` for each document."""
        return engine.map(_infer, documents, self)

    def infer(self, X: Mat) -> DocumentPosterior:
        """The mixture of topics of one document, by coordinate ascent."""
        features = np.ascontiguousarray(self.model.family.features(X))
        items = Items.points(features, np.zeros(len(X), np.int32))
        # From alpha alone, a rare topic gets no point at first and hardly any later.
        zeta = self.alpha + len(X) * self.shares
        for _ in range(_MOST_STEPS):
            found = assigned(self.eta, (self.constant + psi(zeta))[None, :], items)
            used, zeta = zeta, self.alpha + summed(items, found, (1, len(self.alpha)))[2][0]
            if np.abs(zeta - used).sum() <= _TOLERANCE * len(X):
                break
        # `found` is optimal for `used`, so the bound is computed there and not at `zeta`.
        points = float(found.log_norm.sum() + self.model.family.log_base(X).sum())
        bound = points - len(X) * float(psi(used.sum())) - _divergence(used, self.alpha)
        return DocumentPosterior(zeta, found.topics[:, 0].copy(), bound)

    def similarity(self, X: Mat, zetas: Mat) -> Vec:
        """Log-likelihood of the points under each posterior, every point by its best topic."""
        family = self.model.family
        scores = np.ascontiguousarray(family.features(X) @ self.eta.T + self.constant)
        out = np.empty(len(zetas))
        best_path_scores(scores, np.ascontiguousarray(psi(zetas)), out)
        return np.asarray(out - len(X) * psi(zetas.sum(axis=1)) + family.log_base(X).sum())


def _infer(topics: FixedTopics, X: Mat) -> DocumentPosterior:
    return topics.infer(X)


def _divergence(zeta: Vec, alpha: Vec) -> float:
    """Kullback-Leibler divergence of Dir(zeta) from Dir(alpha)."""
    expected = psi(zeta) - psi(zeta.sum())
    normalizers = gammaln(zeta.sum()) - gammaln(zeta).sum() - gammaln(alpha.sum())
    return float(normalizers + gammaln(alpha).sum() + (zeta - alpha) @ expected)
