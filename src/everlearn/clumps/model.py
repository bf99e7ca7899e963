"""The model: priors, statistics of topics, and the lower bound of the log evidence.

Given the assignment of points to topics, the best topics and mixtures of documents are known in
closed form. So the bound needs sums only: points and feature sums of each topic, points by group
and topic, and the entropy of the assignment.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.families.base import Family
from everlearn.core.priors.learned_dirichlet import GroupCounts, LearnedDirichlet


@dataclass(frozen=True, slots=True)
class GroupedModel:
    """The parts of a model that never change: the family with its prior, and the prior of alpha."""

    family: Family[Any]
    dirichlet: LearnedDirichlet

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays of the family and its prior."""
        return _array_bytes(self.family)

    def empty_cumulant(self) -> float:
        """Cumulant of a topic without points."""
        prior = self.family.posterior(np.zeros(1), np.zeros((1, self.family.n_stats)))
        return float(self.family.cumulant(prior)[0])

    def topic_bounds(self, n: Vec, t: Mat, copies: float = 1.0) -> Vec:
        """The term of each topic in the bound, if each of its points came `copies` times."""
        q = self.family.posterior(copies * n, copies * t)
        return np.asarray(self.empty_cumulant() - self.family.cumulant(q))

    def contrast(self, n: Vec, t: Mat, rest_n: Vec, rest_t: Mat) -> tuple[Mat, Vec]:
        """Slope and offset of the log-odds that a point is in one part of a topic, not the rest."""
        eta, constant = self.family.natural(self.family.posterior(n, t))
        rest = self.family.posterior(np.maximum(rest_n, 0.0), rest_t)
        rest_eta, rest_constant = self.family.natural(rest)
        return eta - rest_eta, constant - rest_constant


@dataclass(frozen=True, slots=True)
class Topics:
    """Statistics of the topics.

    Attributes
    ----------
    ids : (n_topics,) permanent ids
    n : (n_topics,) points of each topic
    t : (n_topics, n_stats) sums of the family's features
    counts : (n_groups, n_topics) points of each topic by group of documents
    alpha : (n_topics,) parameters of the Dirichlet prior of documents
    entropy : of the assignment of all points
    """

    ids: IntVec
    n: Vec
    t: Mat
    counts: Mat
    alpha: Vec
    entropy: float

    def __len__(self) -> int:
        return len(self.ids)

    def bound(
        self, model: GroupedModel, sizes: Vec, base: float = 0.0, copies: float = 1.0
    ) -> float:
        """Lower bound of the log evidence. `base` is the log base measure of all points.

        `copies` is how many times each point and document counts.
        """
        documents = model.dirichlet.bound(self.alpha, GroupCounts.of(self.counts, sizes), copies)
        topics = model.topic_bounds(self.n, self.t, copies).sum()
        return float(topics + documents + copies * (self.entropy + base))

    def score_parameters(self, model: GroupedModel, sizes: Vec) -> tuple[Mat, Mat]:
        """Slopes (n_topics, n_stats) and offsets (n_groups, n_topics) of the scores of points."""
        eta, constant = model.family.natural(model.family.posterior(self.n, self.t))
        bias = model.dirichlet.expected_log(self.alpha, self.counts, sizes)
        bias += constant
        return eta, bias

    def with_better_alpha(self, model: GroupedModel, sizes: Vec) -> Topics:
        """Update alpha by a few steps, none of which lowers the bound."""
        entries = GroupCounts.of(self.counts, sizes)
        return replace(self, alpha=model.dirichlet.improved(self.alpha, entries))

    def select(self, chosen: IntVec) -> Topics:
        """Topics at some positions. The entropy stays that of all."""
        counts = np.ascontiguousarray(self.counts[:, chosen])
        parts = (self.ids[chosen], self.n[chosen], self.t[chosen], counts, self.alpha[chosen])
        return Topics(*parts, self.entropy)

    @property
    def shares(self) -> Vec:
        """Share of each topic in all points. Equal shares if there are no points."""
        total = self.n.sum()
        return np.asarray(self.n / total if total > 0 else np.full(len(self), 1.0 / len(self)))

    def with_groups(self, n_groups: int) -> Topics:
        """Append groups without points, up to `n_groups`."""
        empty = np.zeros((n_groups - len(self.counts), len(self)))
        return replace(self, counts=np.concatenate([self.counts, empty]))

    def regrouped(self, into: IntVec) -> Topics:
        """Merge groups: the group at position g moves to `into[g]`."""
        counts = np.zeros((int(into.max()) + 1, len(self)))
        np.add.at(counts, into, self.counts)
        return replace(self, counts=counts)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(a.nbytes for a in (self.ids, self.n, self.t, self.counts, self.alpha))


def _array_bytes(value: Any) -> int:
    """Bytes of the arrays in a dataclass and in the dataclasses within it."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if not is_dataclass(value):
        return 0
    return sum(_array_bytes(getattr(value, f.name)) for f in fields(value))


def topics_bytes(n_topics: int, n_groups: int, n_stats: int) -> int:
    """`Topics.nbytes` for these numbers of topics, groups and statistics."""
    return 8 * n_topics * (n_stats + 3 + n_groups)
