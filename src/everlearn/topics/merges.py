"""Merges of topics, judged by the evidence of labelled documents or by words not yet seen.

With labels, each topic has a class, and the evidence decides: the joint probability of words and
topics as they were drawn, with the two topics and with one instead. Without labels the evidence
would leave far too few topics, because real topics look nothing like draws from a symmetric prior
over a large vocabulary. There the next batch decides: the topics of one half of each document
predict the words of the other half, and topics that predict better as one are merged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, Self

import numpy as np
from scipy.special import gammaln

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents, split_documents
from everlearn.engine.protocol import Engine
from everlearn.topics.predict import infer_expected
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import TopicState, anchor_means, word_factors

Pairs = Sequence[tuple[int, int]]
_FEWEST_FOR_ALL: Final = 16
"""A batch with at least this many documents represents all earlier ones too."""
_FEWEST_DOCUMENTS, _MOST_DOCUMENTS = 50, 500
"""Fewest and most unlabelled documents to judge merges by. With fewer, chance would decide."""
_PASSES: Final = 5
"""Passes over the observed half of a document."""
_BLOCK_NUMBERS: Final = 2**18
"""Words times topics in a block of `Completion`, so that long documents need little memory."""


class Judge(Protocol):
    """Decides which topics of a state should be merged."""

    def gains(self, state: TopicState, pairs: Pairs) -> Vec:
        """Nats gained by merging each pair of topics; negative for a loss."""

    def after_merge(self, position: IntVec) -> Self:
        """The judge of the state in which topics with the same position were merged."""


@dataclass(frozen=True, slots=True)
class JointEvidence:
    """Evidence of words and documents, given the topics that were drawn.

    tallies : (B, K), tokens of the documents of the last batch in each topic
    weight : how many documents each of these represents, counting ghosts but not forgotten ones
    """

    settings: TopicSettings
    tallies: Mat
    weight: float

    @classmethod
    def of(cls, settings: TopicSettings, tallies: Mat, state: TopicState) -> JointEvidence:
        """The evidence after a batch with these tallies, which the state has learned."""
        n_tokens = tallies.sum()
        if len(tallies) < _FEWEST_FOR_ALL or n_tokens == 0:
            return cls(settings, tallies, settings.ghosts)
        return cls(settings, tallies, float(state.totals.sum() / n_tokens))

    def gains(self, state: TopicState, pairs: Pairs) -> Vec:
        alpha = self.settings.prior.document_prior(state.tables)
        prior, counts = self.settings.smoothing, state.counts[: state.n_words]
        words = [word_gain(counts[:, keep], counts[:, drop], prior) for keep, drop in pairs]
        documents = [
            document_gain(self.tallies[:, [keep, drop]], alpha[[keep, drop]])
            for keep, drop in pairs
        ]
        return np.asarray(np.array(words) + self.weight * np.array(documents))

    def after_merge(self, position: IntVec) -> JointEvidence:
        tallies = np.zeros((len(self.tallies), position.max() + 1))
        for old, new in enumerate(position.tolist()):
            tallies[:, new] += self.tallies[:, old]
        return replace(self, tallies=tallies)


def word_gain(a: Vec, b: Vec, smoothing: float) -> float:
    """Nats gained in the probability of words if topics with counts a and b (V,) are merged.

    The Dirichlet-multinomial evidence changes only in the totals and in words of both topics.
    """
    both = (a > 0) & (b > 0)
    words = gammaln(np.stack([a[both] + b[both], a[both], b[both]]) + smoothing)
    total = a.sum(), b.sum()
    prior = smoothing * len(a)
    totals = gammaln(np.array([sum(total), *total]) + prior)
    shared = words[0] - words[1] - words[2] + gammaln(smoothing)
    return float(shared.sum() - (totals[0] - totals[1] - totals[2] + gammaln(prior)))


def document_gain(tallies: Mat, alpha: Vec) -> float:
    """Nats gained in the probability of topics, with tokens (B, 2) in the two; never negative."""

    def evidence(tokens: Vec, prior: float) -> float:
        return float((gammaln(tokens + prior) - gammaln(prior)).sum())

    apart = sum(evidence(tallies[:, i], float(alpha[i])) for i in (0, 1))
    return evidence(tallies.sum(axis=1), float(alpha.sum())) - apart


@dataclass(frozen=True, slots=True)
class Completion:
    """Prediction of one half of each document from the other, for documents not learned yet."""

    settings: TopicSettings
    observed: Documents
    held_out: Documents
    engine: Engine

    @classmethod
    def of(cls, settings: TopicSettings, documents: Documents, engine: Engine) -> Completion | None:
        """The halves of a batch; None if it is so small that chance would decide."""
        if len(documents) < _FEWEST_DOCUMENTS:
            return None
        return cls(settings, *split_documents(documents[:_MOST_DOCUMENTS], 0), engine)

    def gains(self, state: TopicState, pairs: Pairs) -> Vec:
        settings, held_out, k = self.settings, self.held_out, state.n_topics
        factors = word_factors(settings, state)
        alpha = settings.prior.document_prior(state.tables)
        proportions = infer_expected(self.observed, factors, alpha, _PASSES, self.engine)
        document = np.repeat(np.arange(len(held_out)), np.diff(held_out.indptr))
        prior = factors.smoothing * state.n_words
        gains = np.zeros(len(pairs))
        size = max(1, _BLOCK_NUMBERS // k)
        for start in range(0, len(document), size):
            some = slice(start, start + size)
            # One row for each topic: the entries of a topic lie side by side.
            theta = np.ascontiguousarray(proportions[document[some]].T)
            counts = np.ascontiguousarray(state.counts[held_out.words[some], :k].T)
            shares = theta * (counts + factors.smoothing) * factors.scale[:, None]
            total = shares.sum(axis=0)
            for place, (a, b) in enumerate(pairs):
                share = (theta[a] + theta[b]) * (counts[a] + counts[b] + factors.smoothing)
                share /= state.totals[a] + state.totals[b] + prior
                change = np.log1p((share - shares[a] - shares[b]) / total)
                gains[place] += held_out.counts[some] @ change
        return gains

    def after_merge(self, position: IntVec) -> Completion:
        return self


_GROWTH, _PERIOD = 1.25, 2**14
"""Merges are due when documents have grown by this factor, and once every `_PERIOD` documents."""
_WORDS_COMPARED: Final = 2000
"""Most frequent words by which similar topics are found."""


def merge_is_due(before: int, after: int) -> bool:
    """Whether to look for merges at a batch that raises the number of documents to `after`.

    Merges are due whenever the number of documents has grown by a quarter, and at regular
    intervals in a long stream, for batches of any size. The first batch is always due.
    """
    return _step(before) != _step(after)


def _step(n_documents: int) -> int:
    if n_documents == 0:
        return -1
    short = min(n_documents, _PERIOD)
    return int(math.log(short) / math.log(_GROWTH)) + n_documents // _PERIOD


def merge_topics(settings: TopicSettings, state: TopicState, judge: Judge) -> TopicState:
    """The state after every merge with a gain, the largest gains first."""
    while pairs := _merge_candidates(state):
        gains = judge.gains(state, pairs)
        used: set[int] = set()
        chosen = []
        for place in np.argsort(-gains, kind="stable"):
            if gains[place] > 0 and used.isdisjoint(pairs[place]):
                chosen.append(pairs[place])
                used.update(pairs[place])
        if not chosen:
            break
        left, position = _positions(state.n_topics, chosen)
        state = _merge_state(settings, state, left, position)
        judge = judge.after_merge(position)
    return state


def _merge_candidates(state: TopicState) -> list[tuple[int, int]]:
    """For each topic, the most similar one of its class among those with more tokens."""
    k = state.n_topics
    if len(np.unique(state.codes)) == k > 1:  # one topic a class, as in most batches
        return []
    frequent = np.argsort(-state.counts[:, :k].sum(axis=1), kind="stable")[:_WORDS_COMPARED]
    table = np.sqrt(state.counts[frequent, :k])
    table /= np.maximum(np.sqrt((table**2).sum(axis=0)), 1e-300)
    similar = table.T @ table
    order = np.argsort(-state.totals[:k], kind="stable")
    pairs = []
    for place, drop in enumerate(order.tolist()):
        heavier = order[:place]
        heavier = heavier[state.codes[heavier] == state.codes[drop]]
        if len(heavier):
            pairs.append((int(heavier[np.argmax(similar[heavier, drop])]), drop))
    return pairs


def _positions(n_topics: int, pairs: list[tuple[int, int]]) -> tuple[IntVec, IntVec]:
    """Topics that are left after merging disjoint pairs, and the new position of each topic."""
    owner = np.arange(n_topics)
    for keep, drop in pairs:
        owner[drop] = keep
    left = np.flatnonzero(owner == np.arange(n_topics))
    return left, np.searchsorted(left, owner)


def _merge_state(
    settings: TopicSettings, state: TopicState, left: IntVec, position: IntVec
) -> TopicState:
    """The state with topics of the same position merged; arrays of the old one stay as they are."""
    k = state.n_topics
    counts, totals, tables = state.counts.copy(), state.totals.copy(), state.tables.copy()
    for table in (counts, totals, tables):
        for old in np.setdiff1d(np.arange(k), left).tolist():
            table[..., left[position[old]]] += table[..., old]
        for new, old in enumerate(left.tolist()):
            if new < old:
                table[..., new] = table[..., old]
        table[..., len(left) : k] = 0.0
    weights = state.weights
    if weights is not None and settings.loss is not None:
        means = anchor_means(state.codes, weights.n_tasks, settings.loss.margin)
        weights = weights.merge(position, state.totals[:k], means, settings.loss.variance)
    return replace(
        state,
        counts=counts,
        totals=totals,
        ids=state.ids[left],
        codes=state.codes[left],
        tables=tables[: len(left)],
        weights=weights,
    )
