"""Add empty spare topics for a batch, and drop those that stay empty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec
from everlearn.topics.kernels.sampler import Bags
from everlearn.topics.kernels.words import tally_topics
from everlearn.topics.settings import TopicSettings
from everlearn.topics.state import TopicState, anchor_means, n_anchors
from everlearn.topics.steps import Draws

_SPARES = 3
"""Spare topics of a batch that belong to no class, or to classes in turn, if there is room."""
_DOCUMENTS_PER_TOPIC, _MOST_AT_FIRST = 3, 100
"""Without labels: documents of the first batch for each topic of it, and most topics."""


def add_spare_topics(
    settings: TopicSettings, state: TopicState, signs: NDArray[np.int8]
) -> TopicState:
    """The state with spare topics behind the others; the same state if no topics are born.

    `signs` (B, Q) are the labels of the batch. All topics of a new model are empty, so its first
    batch needs spare topics only for classes that have none. Without labels it gets many more,
    because later batches remove topics more easily than they add any.
    """
    if not settings.grows:
        return state
    room = max(0, settings.max_topics - state.n_topics)
    loss = settings.loss
    if loss is not None and loss.anchored and state.weights is not None:
        codes = _spare_classes(state, signs, room)
    else:
        codes = np.full(min(_n_spares(settings, state, len(signs)), room), -1)
    n = len(codes)
    weights = state.weights
    if weights is not None and loss is not None:
        weights = weights.extended(anchor_means(codes, weights.n_tasks, loss.margin), loss.variance)
    return replace(
        state.with_room(state.n_words, state.n_topics + n),
        ids=np.concatenate([state.ids, state.next_id + np.arange(n)]),
        codes=np.concatenate([state.codes, codes]),
        tables=np.concatenate([state.tables, np.zeros(n)]),
        weights=weights,
    )


def _n_spares(settings: TopicSettings, state: TopicState, n_documents: int) -> int:
    """Number of spare topics that belong to no class."""
    if state.clock > 0:
        return _SPARES
    if settings.loss is not None:
        return 0
    return max(0, min(n_documents // _DOCUMENTS_PER_TOPIC, _MOST_AT_FIRST) - state.n_topics)


def _spare_classes(state: TopicState, signs: NDArray[np.int8], room: int) -> IntVec:
    """Classes that get a spare topic: those of the batch that have none, and others in turn.

    At the first batch these are all classes without a topic. Later batches begin with the class
    after the last one that had its turn, so that each class gets one again and again.
    """
    n = n_anchors(signs.shape[1])
    lacking = ~np.isin(np.arange(n), state.codes)
    if state.clock == 0:
        return np.flatnonzero(lacking)[:room]
    lacking &= _with_documents(signs)
    n_lacking = int(lacking.sum())
    n_turns = min(_SPARES, max(0, room - n_lacking))
    turn = (np.arange(n) - state.clock * n_turns) % n
    return np.sort(np.lexsort([turn, ~lacking])[: min(n_lacking, room) + n_turns])


def _with_documents(signs: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Which classes have documents in a batch with these labels."""
    yes = np.asarray((signs > 0).any(axis=0))
    return yes if len(yes) > 1 else np.array([yes[0], (signs < 0).any()])


def drop_empty_topics(draws: Draws, bags: Bags, n_old: int, n_topics: int) -> tuple[Draws, IntVec]:
    """Draws without the topics that are empty after the last sweep, and the topics that stay.

    The first `n_old` topics stay in any case, and all of them if none would. A token that was in a
    dropped topic at an earlier sweep counts there for the topic of its last sweep.
    """
    if n_old > 0 and not draws.totals[:, n_old:].any():
        return _first_topics(draws, n_old), np.arange(n_old)
    used = np.bincount(draws.topics, minlength=n_topics) > 0
    used[:n_old] = True
    if not used.any():
        used[:] = True
    stay = np.flatnonzero(used)
    if len(stay) == n_topics:
        return draws, stay
    kept = np.where(used[draws.kept], draws.kept, draws.topics)
    number = np.cumsum(used) - 1
    kept = number[kept].astype(np.uint16)
    tallies = tally_topics(bags, kept, len(stay))
    return (
        replace(
            draws,
            topics=number[draws.topics].astype(np.uint16),
            kept=kept,
            totals=tallies.sum(axis=0),
            tallies=tallies,
            tables=draws.tables[:, stay],
        ),
        stay,
    )


def _first_topics(draws: Draws, n_topics: int) -> Draws:
    """Draws without the last topics, in which there is no token."""
    return replace(
        draws,
        totals=np.ascontiguousarray(draws.totals[:, :n_topics]),
        tallies=np.ascontiguousarray(draws.tallies[..., :n_topics]),
        tables=draws.tables[:, :n_topics],
    )


def select_topics(state: TopicState, stay: IntVec) -> TopicState:
    """The state with these topics only; others must be spare ones, whose counts are zero."""
    return replace(
        state,
        ids=state.ids[stay],
        codes=state.codes[stay],
        tables=state.tables[stay],
        weights=None if state.weights is None else state.weights.select(stay),
        next_id=max(state.next_id, int(state.ids[stay].max()) + 1),
    )
