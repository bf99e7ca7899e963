"""What speaks for joining two topics: the evidence of labelled documents, or words still unseen.

Where labels tell topics apart, words and topics of the tokens are compared as they were drawn:
their joint probability with the two topics and with one instead. Without labels this asks for far
too few topics, because a symmetric prior over a large vocabulary is nothing like real topics. There
a batch that is not learned yet judges: from one half of each document the topics have to tell the
other, and those that do it better as one are joined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.documents import Documents, split_documents
from everlearn.engine.protocol import Engine
from everlearn.topics.kernels.sampler import Bags
from everlearn.topics.kernels.words import tally_topics
from everlearn.topics.sampling import infer_expected
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import TopicState, code_means, n_codes, word_factors
from everlearn.topics.steps import Draws

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

    settings: TopicSettings
    tallies: Mat
    weight: float

    @classmethod
    def of(cls, settings: TopicSettings, tallies: Mat, state: TopicState) -> JointEvidence:
        """From the tallies of a batch that the state has learned."""
        n_tokens = tallies.sum()
        if len(tallies) < _SPOKESMEN or n_tokens == 0:
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

    settings: TopicSettings
    observed: Documents
    held_out: Documents
    engine: Engine

    @classmethod
    def of(cls, settings: TopicSettings, documents: Documents, engine: Engine) -> Completion | None:
        """By a batch, unless it is so small that chance would judge."""
        if len(documents) < _FEWEST_JUDGES:
            return None
        return cls(settings, *split_documents(documents[:_MOST_JUDGES], 0), engine)

    def gains(self, state: TopicState, pairs: Pairs) -> Vec:
        settings, held_out, k = self.settings, self.held_out, state.n_topics
        factors = word_factors(settings, state)
        alpha = settings.prior.document_prior(state.tables)
        proportions = infer_expected(self.observed, factors, alpha, _PASSES, self.engine)
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


_SPARES = 3
"""How many are offered in turn, or belong to no class, if there is room."""
_PER_TOPIC, _MOST_AT_FIRST = 3, 100
"""Without labels: documents of the first batch for each topic offered to it, up to so many."""


def add_spare_topics(
    settings: TopicSettings, state: TopicState, signs: NDArray[np.int8]
) -> TopicState:
    """The state with spare topics behind the others, if topics are born in this model.

    `signs` (B, Q) are the labels of the batch. At the first batch, all of whose topics are empty,
    those that it has stand in for spare ones. Without labels many more are offered, because topics
    die sooner than they are born.
    """
    if not settings.grows:
        return state
    room = max(0, settings.max_topics - state.n_topics)
    loss = settings.loss
    if loss is not None and loss.anchored and state.weights is not None:
        codes = _offered(state, signs, room)
    else:
        codes = np.full(min(_n_offered(settings, state, len(signs)), room), -1)
    n = len(codes)
    weights = state.weights
    if weights is not None and loss is not None:
        weights = weights.extended(code_means(codes, weights.n_tasks, loss.margin), loss.variance)
    return replace(
        state.with_room(state.n_words, state.n_topics + n),
        ids=np.concatenate([state.ids, state.next_id + np.arange(n)]),
        codes=np.concatenate([state.codes, codes]),
        tables=np.concatenate([state.tables, np.zeros(n)]),
        weights=weights,
    )


def _n_offered(settings: TopicSettings, state: TopicState, n_documents: int) -> int:
    """How many spare topics that belong to no class."""
    if state.clock > 0:
        return _SPARES
    if settings.loss is not None:
        return 0
    return max(0, min(n_documents // _PER_TOPIC, _MOST_AT_FIRST) - state.n_topics)


def _offered(state: TopicState, signs: NDArray[np.int8], room: int) -> IntVec:
    """Classes that get a spare topic: those of the batch that have none, and others in turn.

    At the first batch these are all classes without a topic. Later ones go on from the class where
    turns ended, so that none is left out for ever.
    """
    n = n_codes(signs.shape[1])
    wanting = ~np.isin(np.arange(n), state.codes)
    if state.clock == 0:
        return np.flatnonzero(wanting)[:room]
    wanting &= _with_documents(signs)
    n_wanting = int(wanting.sum())
    n_turns = min(_SPARES, max(0, room - n_wanting))
    turn = (np.arange(n) - state.clock * n_turns) % n
    return np.sort(np.lexsort([turn, ~wanting])[: min(n_wanting, room) + n_turns])


def _with_documents(signs: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Which classes have documents in a batch with these labels."""
    yes = np.asarray((signs > 0).any(axis=0))
    return yes if len(yes) > 1 else np.array([yes[0], (signs < 0).any()])


def drop_empty_topics(
    draws: Draws, bags: Bags, n_old: int, n_topics: int
) -> tuple[Draws, np.ndarray]:
    """Draws without the topics that were empty in the end, and the topics that are left.

    The first `n_old` topics stay in any case, and all of them if none would be left. A token that
    was in a dropped topic at an earlier sweep counts there for the topic it has in the end.
    """
    if n_old > 0 and not draws.totals[:, n_old:].any():
        return _narrowed(draws, n_old), np.arange(n_old)
    used = np.bincount(draws.topics, minlength=n_topics) > 0
    used[:n_old] = True
    if not used.any():
        used[:] = True
    left = np.flatnonzero(used)
    if len(left) == n_topics:
        return draws, left
    kept = np.where(used[draws.kept], draws.kept, draws.topics)
    number = np.cumsum(used) - 1
    kept = number[kept].astype(np.uint16)
    tallies = tally_topics(bags, kept, len(left))
    return (
        replace(
            draws,
            topics=number[draws.topics].astype(np.uint16),
            kept=kept,
            totals=tallies.sum(axis=0),
            tallies=tallies,
            tables=draws.tables[:, left],
        ),
        left,
    )


def _narrowed(draws: Draws, n_topics: int) -> Draws:
    """Draws without the last topics, which nothing was drawn from."""
    return replace(
        draws,
        totals=np.ascontiguousarray(draws.totals[:, :n_topics]),
        tallies=np.ascontiguousarray(draws.tallies[..., :n_topics]),
        tables=draws.tables[:, :n_topics],
    )


def keep_topics(state: TopicState, left: np.ndarray) -> TopicState:
    """The state with these topics only; the columns of the others hold nothing."""
    return replace(
        state,
        ids=state.ids[left],
        codes=state.codes[left],
        tables=state.tables[left],
        weights=None if state.weights is None else state.weights.select(left),
        next_id=max(state.next_id, int(state.ids[left].max()) + 1),
    )


_GROWTH, _PERIOD = 1.25, 2**14
_WORDS_COMPARED: Final = 2000


def merge_is_due(before: int, after: int) -> bool:
    """Whether merges are looked for when a batch makes so many documents of so many.

    They are whenever a quarter more is known, and regularly in a long stream, whatever the size of
    batches: one of all documents is always due.
    """
    return _step(before) != _step(after)


def _step(n_documents: int) -> int:
    if n_documents == 0:
        return -1
    short = min(n_documents, _PERIOD)
    return int(math.log(short) / math.log(_GROWTH)) + n_documents // _PERIOD


def merge_topics(settings: TopicSettings, state: TopicState, judge: Judge) -> TopicState:
    """The state after every merge that pays, those that gain most first."""
    while pairs := _candidates(state):
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
        state, judge = _joined(settings, state, left, position), judge.joined(position)
    return state


def _candidates(state: TopicState) -> list[tuple[int, int]]:
    """For each topic the one most similar among those of its class that are heavier."""
    k = state.n_topics
    if len(np.unique(state.codes)) == k > 1:  # one a class, as in most batches
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
    """Topics that are left when disjoint pairs are made one, and where each topic is then."""
    owner = np.arange(n_topics)
    for keep, drop in pairs:
        owner[drop] = keep
    left = np.flatnonzero(owner == np.arange(n_topics))
    return left, np.searchsorted(left, owner)


def _joined(
    settings: TopicSettings, state: TopicState, left: IntVec, position: IntVec
) -> TopicState:
    """The state with topics of one position made one; arrays of the old one stay as they are."""
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
        means = code_means(state.codes, weights.n_tasks, settings.loss.margin)
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
