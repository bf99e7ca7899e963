"""Small corpora of points in clumps, documents and groups: for the library, and for its oracle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.clumps.items import Items, clumped
from everlearn.clumps.local import Assignment, ClumpStep
from everlearn.clumps.merges import JoinProposals, propose_joins
from everlearn.clumps.model import GroupedModel, Topics
from everlearn.clumps.splits import SplitProposals, propose_splits
from everlearn.clumps.state import Epoch
from everlearn.core.priors.learned_dirichlet import LearnedDirichlet
from everlearn.engine.local import SerialEngine
from oracles.cases import Case, diagonal, full, multinomial
from oracles.clumped import TiedOracle
from oracles.runs import documents, groups

N_POINTS = 60
TIGHT = 1e-9
"""Share of a bound that may be rounding."""
FAMILIES = (
    full("full", groups(N_POINTS, dim=3, seed=1)),
    diagonal("diagonal", groups(N_POINTS, dim=3, seed=2)),
    multinomial("multinomial", documents(N_POINTS, symbols=5, trials=9, seed=3)),
)


@dataclass
class Corpus:
    """The same points for both: `oracle` has them all, `items` are what the library has."""

    case: Case
    model: GroupedModel
    oracle: TiedOracle
    items: Items
    sizes: np.ndarray
    base: float
    k: int

    @property
    def step(self) -> ClumpStep:
        return ClumpStep(self.model, SerialEngine())

    def topics(self, seed: int = 0) -> tuple[Topics, np.ndarray]:
        """Topics of random assignments q, and these (n_items, k)."""
        rng = np.random.default_rng([seed, 5])
        q = rng.dirichlet(np.full(self.k, 0.7), len(self.items))
        alpha = rng.gamma(1.0, 1.0, self.k) + 0.05
        return self.of(q, alpha), q

    def of(self, q: Any, alpha: Any) -> Topics:
        """The library's sums under assignments."""
        blank = Topics(
            np.arange(self.k),
            np.zeros(self.k),
            np.zeros((self.k, self.items.features.shape[1])),
            np.zeros((len(self.sizes), self.k)),
            np.array(alpha),
            0.0,
        )
        return self.step.summarize(blank, self.items, sparse_of(q))

    def bound(self, topics: Topics, copies: float = 1.0) -> float:
        return topics.bound(self.model, self.sizes, self.base, copies)


def sparse_of(q: Any) -> Assignment:
    """Assignments as the library holds them."""
    order = np.argsort(-q, axis=1, kind="stable")
    shares = np.take_along_axis(np.asarray(q, float), order, axis=1)
    return Assignment(order.astype(np.int32), shares, np.zeros(len(q)))


def dense_of(found: Assignment, k: int) -> np.ndarray:
    """Assignments as a matrix (n_items, k)."""
    q = np.zeros((len(found.topics), k))
    for c, (topics, shares) in enumerate(zip(found.topics, found.shares, strict=True)):
        for topic, share in zip(topics, shares, strict=True):
            q[c, topic] += share
    return q


def corpus(
    case: Case,
    *,
    tied: bool = True,
    n: int = 40,
    n_documents: int = 6,
    n_groups: int | None = None,
    n_clumps: int | None = None,
    k: int = 3,
    seed: int = 0,
) -> Corpus:
    """Points in documents; `tied` into clumps across documents, and documents into groups."""
    rng = np.random.default_rng([seed, 9])
    X = case.X[:n]
    n = len(X)
    document = np.sort(
        np.concatenate([np.arange(n_documents), rng.integers(n_documents, size=n)])[:n]
    )
    if tied:
        n_groups, n_clumps = n_groups or 3, n_clumps or max(1, n // 3)
        group = np.concatenate([np.arange(n_groups), rng.integers(n_groups, size=n_documents)])
        clump = np.concatenate([np.arange(n_clumps), rng.integers(n_clumps, size=n)])
        group, clump = group[:n_documents], clump[:n]
    else:
        group, clump = np.arange(n_documents), np.arange(n)
    oracle = TiedOracle(case.oracle, X, clump, document, group)
    points = Items.points(
        np.ascontiguousarray(case.family.features(X)), group[document].astype(np.int32)
    )
    items = clumped(points, clump.astype(np.int32), int(clump.max()) + 1) if tied else points
    sizes = np.bincount(group).astype(float)
    model = GroupedModel(case.family, LearnedDirichlet(oracle.rate))
    return Corpus(case, model, oracle, items, sizes, float(case.family.log_base(X).sum()), k)


def not_lower(after: float, before: float) -> bool:
    """Whether a bound has not fallen, but for rounding."""
    return after >= before - TIGHT * max(1.0, abs(before))


def settled(c: Corpus, seed: int = 0, steps: int = 3) -> tuple[Topics, Assignment]:
    """Topics and the assignments whose sums they are."""
    topics, _ = c.topics(seed)
    for _ in range(steps):
        topics, found = c.step.iterate(topics, c.sizes, c.items)
    return topics, found


def splits_of(c: Corpus, topics: Topics, found: Assignment) -> SplitProposals:
    """The best division of every topic."""
    every_topic = np.arange(len(topics))
    return propose_splits(c.model, SerialEngine(), topics, c.sizes, c.items, found, every_topic)


def joins_of(c: Corpus, topics: Topics, found: Assignment) -> JoinProposals:
    """The pairs of topics that may be joined."""
    return propose_joins(c.model, topics, c.sizes, c.items, found)


def epoch_of(case: Case, n: int = 60, n_documents: int = 6) -> Epoch:
    """Points of a case in documents of equal size."""
    return Epoch(np.array_split(case.X[:n], n_documents))
