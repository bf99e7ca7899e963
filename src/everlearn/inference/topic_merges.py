"""Topics that are better as one are joined: when they are looked for, and how it is done.

Labelled documents are looked at after they are learned, others before; see `merge_judges`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from everlearn.core.arrays import IntVec
from everlearn.core.codes import code_means
from everlearn.inference.merge_judges import Judge
from everlearn.inference.topic_model import TopicLearner
from everlearn.inference.topic_state import TopicState

_GROWTH, _PERIOD = 1.25, 2**14
_WORDS_COMPARED: Final = 2000


def is_due(before: int, after: int) -> bool:
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


def merged(learner: TopicLearner, state: TopicState, judge: Judge) -> TopicState:
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
        state, judge = _joined(learner, state, left, position), judge.joined(position)
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


def _joined(learner: TopicLearner, state: TopicState, left: IntVec, position: IntVec) -> TopicState:
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
    if weights is not None and learner.loss is not None:
        means = code_means(state.codes, weights.n_tasks, learner.loss.margin)
        weights = weights.joined(position, state.totals[:k], means, learner.loss.variance)
    return replace(
        state,
        counts=counts,
        totals=totals,
        ids=state.ids[left],
        codes=state.codes[left],
        tables=tables[: len(left)],
        weights=weights,
    )
