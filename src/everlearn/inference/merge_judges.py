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
    weight : documents that each of these speaks for
    """

    learner: TopicLearner
    tallies: Mat
    weight: float

    @classmethod
    def of(cls, learner: TopicLearner, tallies: Mat, n_documents: int) -> JointEvidence:
        """From the tallies of a batch after which so many documents are known."""
        n = len(tallies)
        return cls(learner, tallies, n_documents / n if n >= _SPOKESMEN else 1.0)

    def gains(self, state: TopicState, pairs: Pairs) -> Vec:
        alpha = self.learner.prior.document_prior(state.tables)
        words = [word_gain(state, keep, drop, self.learner.smoothing) for keep, drop in pairs]
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


def word_gain(state: TopicState, keep: int, drop: int, smoothing: float) -> float:
    """Nats by which the words of two topics become more probable as those of one.

    Where both have a word, and in their totals, the Dirichlet-multinomial evidence changes; nowhere
    else.
    """
    a, b = state.counts[:, keep], state.counts[:, drop]
    both = (a > 0) & (b > 0)
    words = gammaln(np.stack([a[both] + b[both], a[both], b[both]]) + smoothing)
    total = state.totals[keep], state.totals[drop]
    prior = smoothing * state.n_words
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
        theta = infer(self.observed, factors, alpha, _PASSES, self.engine)
        # One row for each topic: the entries of a topic lie side by side.
        theta = np.repeat(theta.T, np.diff(held_out.indptr), axis=1)
        counts = np.ascontiguousarray(state.counts[held_out.words, :k].T)
        shares = theta * (counts + factors.smoothing) * factors.scale[:, None]
        total = shares.sum(axis=0)
        prior = factors.smoothing * state.n_words
        gains = np.empty(len(pairs))
        for place, (a, b) in enumerate(pairs):
            share = (theta[a] + theta[b]) * (counts[a] + counts[b] + factors.smoothing)
            share /= state.totals[a] + state.totals[b] + prior
            gains[place] = held_out.counts @ np.log1p((share - shares[a] - shares[b]) / total)
        return gains

    def joined(self, position: IntVec) -> Completion:
        return self
