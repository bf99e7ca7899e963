"""Topics that say the same are one: merges judged by the evidence of the words.

Two topics are joined if their words are more probable as draws from one unknown distribution
than from two. Where both have a word, and in their totals, the Dirichlet-multinomial evidence
changes; nowhere else. What documents have to say is left out: they are never less probable with
fewer topics, so a gain is understated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from scipy.special import gammaln

from everlearn.core.codes import code_means
from everlearn.inference.topic_model import TopicLearner
from everlearn.inference.topic_state import TopicState

_FIRST, _PERIOD = 8, 64
_WORDS_COMPARED: Final = 2000


def is_due(clock: int) -> bool:
    """Whether merges are looked for after this many batches: at powers of two, then regularly."""
    if clock >= _PERIOD:
        return clock % _PERIOD == 0
    return clock >= _FIRST and clock & (clock - 1) == 0


def merged(learner: TopicLearner, state: TopicState) -> TopicState:
    """The state after every merge that pays, the most similar topics first."""
    while state.n_topics > 1:
        pairs = _candidates(state)
        gains = [evidence_gain(state, keep, drop, learner.smoothing) for keep, drop in pairs]
        used: set[int] = set()
        chosen = []
        for place in np.argsort(-np.array(gains), kind="stable"):
            if gains[place] > 0 and used.isdisjoint(pairs[place]):
                chosen.append(pairs[place])
                used.update(pairs[place])
        if not chosen:
            return state
        state = _joined(learner, state, chosen)
    return state


def evidence_gain(state: TopicState, keep: int, drop: int, smoothing: float) -> float:
    """Nats by which the words of two topics become more probable as those of one."""
    a, b = state.counts[:, keep], state.counts[:, drop]
    both = (a > 0) & (b > 0)
    words = gammaln(np.stack([a[both] + b[both], a[both], b[both]]) + smoothing)
    total = state.totals[keep], state.totals[drop]
    prior = smoothing * state.n_words
    totals = gammaln(np.array([sum(total), *total]) + prior)
    shared = words[0] - words[1] - words[2] + gammaln(smoothing)
    return float(shared.sum() - (totals[0] - totals[1] - totals[2] + gammaln(prior)))


def _candidates(state: TopicState) -> list[tuple[int, int]]:
    """For each topic the one most similar among those of its class that are heavier."""
    k = state.n_topics
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


def _joined(learner: TopicLearner, state: TopicState, pairs: list[tuple[int, int]]) -> TopicState:
    """The state with disjoint pairs of topics made one; arrays of the old one stay as they are."""
    k = state.n_topics
    owner = np.arange(k)
    for keep, drop in pairs:
        owner[drop] = keep
    left = np.flatnonzero(owner == np.arange(k))
    position = np.searchsorted(left, owner)
    counts, totals = np.zeros_like(state.counts), np.zeros_like(state.totals)
    tables = np.zeros(len(left))
    for old, new in enumerate(position.tolist()):
        counts[:, new] += state.counts[:, old]
        totals[new] += state.totals[old]
        tables[new] += state.tables[old]
    weights = state.weights
    if weights is not None and learner.loss is not None:
        means = code_means(state.codes, weights.n_tasks, learner.loss.margin)
        weights = weights.joined(position, state.totals[:k], means, learner.loss.variance)
    return replace(
        state,
        counts=counts,
        totals=totals,
        ids=state.ids[left],
        codes=state.codes[left],
        tables=tables,
        weights=weights,
    )
