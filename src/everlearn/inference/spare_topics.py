"""Topics that a batch may fill: offered empty, and dropped if left empty.

A topic whose weights start at zero would violate the margins of every task at once, so it is
never chosen; one that is anchored to a class violates none. Classes that get one in turn stand in
for auxiliary draws from the prior of a new topic (Neal, 2000, algorithm 8), and those without any
topic come first. All spare topics together have the mass of what no topic has taken yet, and their
number does not change inside a batch.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.core.codes import code_means, n_codes
from everlearn.inference.kernels.topics import Bags
from everlearn.inference.kernels.word_counts import tally_topics
from everlearn.inference.local.topic_steps import Draws
from everlearn.inference.topic_model import TopicLearner
from everlearn.inference.topic_state import TopicState

_SPARES = 3
"""How many are offered in turn, or belong to no class, if there is room."""
_PER_TOPIC, _MOST_AT_FIRST = 3, 100
"""Without labels: documents of the first batch for each topic offered to it, up to so many."""


def with_spares(learner: TopicLearner, state: TopicState, signs: NDArray[np.int8]) -> TopicState:
    """The state with spare topics behind the others, if topics are born in this model.

    `signs` (B, Q) are the labels of the batch. At the first batch, all of whose topics are empty,
    those that it has stand in for spare ones. Without labels many more are offered, because topics
    die sooner than they are born.
    """
    if not learner.grows:
        return state
    room = max(0, learner.max_topics - state.n_topics)
    loss = learner.loss
    if loss is not None and loss.anchored and state.weights is not None:
        codes = _offered(state, signs, room)
    else:
        codes = np.full(min(_n_offered(learner, state, len(signs)), room), -1)
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


def _n_offered(learner: TopicLearner, state: TopicState, n_documents: int) -> int:
    """How many spare topics that belong to no class."""
    if state.clock > 0:
        return _SPARES
    if learner.loss is not None:
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


def settled(draws: Draws, bags: Bags, n_old: int, n_topics: int) -> tuple[Draws, np.ndarray]:
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
