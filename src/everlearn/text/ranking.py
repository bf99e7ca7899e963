"""Which words describe a topic: those that it has more often than all other topics together.

The likeliest words of most topics are "the", "of" and "and". The ranking by

    p(word | topic) log(p(word | topic) / p(word | other topics))

puts first what sets a topic apart. Its sum over words is the divergence of the topic from the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.estimator.params import Constraint, Interval, Options

RANKING_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "n": (Interval(1, integer=True),),
    "by": (Options(("distinctiveness", "probability")),),
}
"""Constraints of the parameters of `top_words`."""


class TopicWords(NamedTuple):
    """Topics of one model as counts (words, K), their sums (K,) over `n_words`, and the prior.

    Counts may be those of some of the words only.
    """

    counts: Mat
    totals: Vec
    n_words: int
    prior: float

    @classmethod
    def joined(cls, tables: Sequence[TopicWords]) -> TopicWords:
        """Topics of several models with the same words and the same prior, as one model's."""
        if len(tables) == 1:
            return tables[0]
        counts = np.hstack([table.counts for table in tables])
        totals = np.concatenate([table.totals for table in tables])
        return cls(counts, totals, tables[0].n_words, tables[0].prior)

    def top(self, n: int, by: str = "distinctiveness", *, own: bool = False) -> list[IntVec]:
        """Places of the `n` words that describe each topic best, the best one first.

        `own` leaves out words that a topic has not got, or no more often than other topics.
        """
        every, found = self.counts.sum(axis=1), []
        for topic in range(len(self.totals)):
            counts = self.counts[:, topic]
            scores = counts + self.prior
            if by == "distinctiveness":
                scores = scores * self.log_lifts(topic, every)
            if own:
                scores[counts <= 0.0] = 0.0
            places = _largest(scores, n)
            found.append(places[scores[places] > 0.0] if own else places)
        return found

    def log_lifts(self, topic: int, every: Vec | None = None) -> Vec:
        """log(p(word | topic) / p(word | other topics)) of each word.

        `every` are the counts of all topics together, if known. An only topic has nothing to be
        compared with: then 1 for each word.
        """
        others = len(self.totals) - 1
        if not others:
            return np.ones(len(self.counts))
        every = self.counts.sum(axis=1) if every is None else every
        own, mass = self.counts[:, topic], self.prior * self.n_words
        rest = np.maximum(every - own, 0.0) + others * self.prior
        rest /= self.totals.sum() - self.totals[topic] + others * mass
        return np.asarray(np.log((own + self.prior) / (self.totals[topic] + mass) / rest))


def _largest(values: Vec, n: int) -> IntVec:
    """Places of the `n` largest values in descending order, equal ones in order of place."""
    if n < len(values):
        places = np.flatnonzero(values >= np.partition(values, -n)[-n])
    else:
        places = np.arange(len(values))
    return places[np.argsort(-values[places], kind="stable")[:n]]
