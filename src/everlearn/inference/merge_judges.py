"""What speaks for joining two topics: the evidence of labelled documents, or words still unseen.

Where labels tell topics apart, words and topics of the tokens are compared as they were drawn:
their joint probability with the two topics and with one instead. Without labels this asks for far
too few topics, because a symmetric prior over a large vocabulary is nothing like real topics. There
a batch that is not learned yet judges: from one half of each document the topics have to tell the
other, and those that do it better as one are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, Self

import numpy as np
from scipy.special import gammaln

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents
from everlearn.core.halves import split_documents
from everlearn.inference.engine import Engine
from everlearn.inference.local.topics import infer
from everlearn.inference.topic_model import TopicLearner, word_factors
from everlearn.inference.topic_state import TopicState

Pairs = Sequence[tuple[int, int]]
_SPOKESMEN: Final = 16
"""Documents of a batch that can speak for all that came before; fewer speak for themselves."""
_FEWEST_JUDGES, _MOST_JUDGES = 50, 500
"""Documents without labels that can judge, and how many of a batch do."""
_PASSES: Final = 5
"""Over the observed half of a document."""
_NUMBERS: Final = 2**18
"""Entries times topics that are looked at together, so that long documents need little memory."""


class Judge(Protocol):
    """Says what would be gained by joining topics of a state."""

    def gains(self, state: TopicState, pairs: Pairs) -> Vec:
        """Nats gained by making each pair of topics one; negative for a loss."""

    def joined(self, position: IntVec) -> Self:
        """The judge of the state whose topics with the same position were made one."""


@dataclass(frozen=True, slots=True)
class JointEvidence:
    """Words and documents, given the topics that were drawn.

    tallies : (B, K), tokens of the documents of the last batch in each topic
    weight : documents that each of these speaks for, ghosts included and forgotten ones not
    """

    learner: TopicLearner
    tallies: Mat
    weight: float

    @classmethod
    def of(cls, learner: TopicLearner, tallies: Mat, state: TopicState) -> JointEvidence:
        """From the tallies of a batch that the state has learned."""
        n_tokens = tallies.sum()
        if len(tallies) < _SPOKESMEN or n_tokens == 0:
            return cls(learner, tallies, learner.ghosts)
        return cls(learner, tallies, float(state.totals.sum() / n_tokens))

    def gains(self, state: TopicState, pairs: Pairs) -> Vec:
        alpha = self.learner.prior.document_prior(state.tables)
        prior, counts = self.learner.smoothing, state.counts[: state.n_words]
        words = [word_gain(counts[:, keep], counts[:, drop], prior) for keep, drop in pairs]
        documents = [
            document_gain(self.tallies[:, [keep, drop]], alpha[[keep, drop]])
            for keep, drop in pairs
        ]
        return np.asarray(np.array(words) + self.weight * np.array(documents))

    def joined(self, position: IntVec) -> JointEvidence:
        tallies = np.zeros((len(self.tallies), position.max() + 1))
        for old, new in enumerate(position.tolist()):
            tallies[:, new] += self.tallies[:, old]
        return replace(self, tallies=tallies)


def word_gain(a: Vec, b: Vec, smoothing: float) -> float:
    """Nats by which the words of two topics, counted (V,), become more probable as those of one.

    Where both have a word, and in their totals, the Dirichlet-multinomial evidence changes; nowhere
    else.
    """
    both = (a > 0) & (b > 0)
    words = gammaln(np.stack([a[both] + b[both], a[both], b[both]]) + smoothing)
    total = a.sum(), b.sum()
    prior = smoothing * len(a)
    totals = gammaln(np.array([sum(total), *total]) + prior)
    shared = words[0] - words[1] - words[2] + gammaln(smoothing)
    return float(shared.sum() - (totals[0] - totals[1] - totals[2] + gammaln(prior)))


def document_gain(tallies: Mat, alpha: Vec) -> float:
    """The same of the topics of tokens, of which each document has (B, 2) in the two; never < 0."""

    def evidence(tokens: Vec, prior: float) -> float:
        return float((gammaln(tokens + prior) - gammaln(prior)).sum())

    apart = sum(evidence(tallies[:, i], float(alpha[i])) for i in (0, 1))
    return evidence(tallies.sum(axis=1), float(alpha.sum())) - apart


@dataclass(frozen=True, slots=True)
class Completion:
    """Halves of documents that are not learned yet, to be told from their other halves."""

    learner: TopicLearner
    observed: Documents
    held_out: Documents
    engine: Engine

    @classmethod
    def of(cls, learner: TopicLearner, documents: Documents, engine: Engine) -> Completion | None:
        """By a batch, unless it is so small that chance would judge."""
        if len(documents) < _FEWEST_JUDGES:
            return None
        return cls(learner, *split_documents(documents[:_MOST_JUDGES], 0), engine)

    def gains(self, state: TopicState, pairs: Pairs) -> Vec:
        learner, held_out, k = self.learner, self.held_out, state.n_topics
        factors = word_factors(learner, state)
        alpha = learner.prior.document_prior(state.tables)
        proportions = infer(self.observed, factors, alpha, _PASSES, self.engine)
        document = np.repeat(np.arange(len(held_out)), np.diff(held_out.indptr))
        prior = factors.smoothing * state.n_words
        gains = np.zeros(len(pairs))
        size = max(1, _NUMBERS // k)
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

    def joined(self, position: IntVec) -> Completion:
        return self
