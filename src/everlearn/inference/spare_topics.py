"""Topics that a batch may fill: offered empty, one for each class, and dropped if left empty.

A topic whose weights start at zero would violate the margins of every task at once, so it is
never chosen; one that is anchored to a class violates none. All spare topics together have the
mass of what no topic has taken yet, and their number does not change inside a batch.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from everlearn.core.arrays import IntVec
from everlearn.core.codes import code_means, n_codes
from everlearn.inference.kernels.topics import Bags
from everlearn.inference.kernels.word_counts import tally_topics
from everlearn.inference.local.topic_steps import Draws
from everlearn.inference.topic_model import TopicLearner
from everlearn.inference.topic_state import TopicState

_UNANCHORED = 3
"""Spare topics of a model without anchors."""
_PER_TOPIC, _MOST_AT_FIRST = 3, 100
"""Without labels: documents of the first batch for each topic offered to it, up to so many."""


def with_spares(learner: TopicLearner, state: TopicState, n_documents: int) -> TopicState:
    """The state with spare topics behind the others, if topics are born in this model.

    At the first batch, all of whose topics are empty, those that it has stand in for spare ones.
    Without labels many more are offered, because topics die sooner than they are born.
    """
    if not learner.grows:
        return state
    codes = np.full(_UNANCHORED, -1)
    loss = learner.loss
    if loss is not None and loss.anchored and state.weights is not None:
        codes = np.arange(n_codes(state.weights.n_tasks))
    if state.clock == 0:
        codes = np.setdiff1d(codes, state.codes)
        if loss is None:
            n_offered = min(n_documents // _PER_TOPIC, _MOST_AT_FIRST)
            codes = np.full(max(0, n_offered - state.n_topics), -1)
    codes = _most_wanted(codes, state, max(0, learner.max_topics - state.n_topics))
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


def _most_wanted(codes: IntVec, state: TopicState, room: int) -> IntVec:
    """Classes that get a spare topic: those with fewest topics, else each in its turn.

    Where there is no room for all of them, none is left out for ever.
    """
    if len(codes) <= room:
        return codes
    n_topics = (state.codes[:, None] == codes).sum(axis=0)
    turn = (np.arange(len(codes)) - state.clock) % len(codes)
    return codes[np.sort(np.lexsort([turn, n_topics])[:room])]


def settled(draws: Draws, bags: Bags, n_old: int, n_topics: int) -> tuple[Draws, np.ndarray]:
    """Draws without the topics that were empty in the end, and the topics that are left.

    The first `n_old` topics stay in any case, and all of them if none would be left. A token that
    was in a dropped topic at an earlier sweep counts there for the topic it has in the end.
    """
    used = np.bincount(draws.topics, minlength=n_topics) > 0
    used[:n_old] = True
    if not used.any():
        used[:] = True
    left = np.flatnonzero(used)
    if len(left) == n_topics:
        return draws, left
    if left[-1] == len(left) - 1 and not draws.totals[:, len(left) :].any():
        return _narrowed(draws, len(left)), left
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


def without_spares(state: TopicState, left: np.ndarray) -> TopicState:
    """The state with these topics only; the columns of the others hold nothing."""
    return replace(
        state,
        ids=state.ids[left],
        codes=state.codes[left],
        tables=state.tables[left],
        weights=None if state.weights is None else state.weights.taken(left),
        next_id=max(state.next_id, int(state.ids[left].max()) + 1),
    )
