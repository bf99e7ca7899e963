"""The local step of a topic model over items: the few likely topics of each, and their sums."""

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
"""Topics that an item may share at most."""
_BLOCK_SCORES = 125_000
_LEAST_ROWS, _MOST_ROWS = 64, 4096


@dataclass(frozen=True, slots=True)
class Assignment:
    """The likely topics of each item, likeliest first, and their shares, zeros behind.

    `log_norm` is the log normaliser of each item, per point.
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
    """Assigns items to topics, in blocks that an engine may run side by side."""

    model: GroupedModel
    engine: Engine

    def assign(self, topics: Topics, sizes: Vec, items: Items) -> Assignment:
        """Optimal assignments, each among the best few topics, at fixed beliefs."""
        return assigned(*topics.beliefs(self.model, sizes), items, self.engine)

    def summarize(self, topics: Topics, items: Items, found: Assignment) -> Topics:
        """Statistics of all items under the assignment; ids and alpha stay."""
        n, t, counts, entropy = summed(items, found, topics.counts.shape)
        return replace(topics, n=n, t=t, counts=counts, entropy=entropy)

    def iterate(self, topics: Topics, sizes: Vec, items: Items) -> tuple[Topics, Assignment]:
        """One round of coordinate ascent: assignments, then topics, mixtures and alpha."""
        found = self.assign(topics, sizes, items)
        better = self.summarize(topics, items, found)
        return better.with_better_alpha(self.model, sizes), found


def assigned(eta: Mat, bias: Mat, items: Items, engine: Engine | None = None) -> Assignment:
    """Optimal assignments for natural parameters `eta` and a bias per group and topic."""
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
    """Points and feature sums of topics, points of groups in topics, of this shape, and entropy."""
    n, t = np.zeros(shape[1]), np.zeros((shape[1], items.features.shape[1]))
    counts = np.zeros(shape)
    entropy = summarize(
        found.topics, found.shares, items.features, items.mass, items.starts, items.groups,
        items.counts, n, t, counts,
    )  # fmt: skip
    return n, t, counts, entropy


def _assign(shared: tuple[Mat, Mat], block: tuple[Items, Assignment]) -> Assignment:
    """The assignment of a block; it is written into the one given, which is room and no more."""
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
