"""Learners of topics, states they begin with, and batches of planted documents."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from everlearn.engine.local import SerialEngine
from everlearn.testing.data import planted_topics
from everlearn.topics.batches import Batch, Targets
from everlearn.topics.bayespa import learn_batch
from everlearn.topics.priors import FixedTopics, SharedSticks
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import Gaussians, first_state

SERIAL = SerialEngine()
AVERAGING = Loss("averaging", 16.0, 50.0, 4e-4)
GIBBS = Loss("gibbs", 16.0, 5.0, 0.1)
FIXED = FixedTopics(0.2)
STICKS = SharedSticks(5.0, 1.0)
LEARNERS = {
    "plain": TopicSettings(FIXED, 0.1),
    "averaging": TopicSettings(FIXED, 0.1, AVERAGING),
    "averaging, two rounds": TopicSettings(FIXED, 0.1, AVERAGING, n_rounds=2),
    "averaging, digamma": TopicSettings(FIXED, 0.1, AVERAGING, "digamma", burn_in=1),
    "averaging, collapsed": TopicSettings(FIXED, 0.1, AVERAGING, "collapsed"),
    "averaging, born": TopicSettings(STICKS, 0.1, AVERAGING),
    "averaging, born, collapsed": TopicSettings(STICKS, 0.1, AVERAGING, "collapsed"),
    "gibbs": TopicSettings(FIXED, 0.1, GIBBS),
    "gibbs, two rounds": TopicSettings(FIXED, 0.1, GIBBS, n_rounds=2),
    "gibbs, collapsed": TopicSettings(FIXED, 0.1, GIBBS, "collapsed"),
    "gibbs, born": TopicSettings(STICKS, 0.1, GIBBS, n_rounds=2),
    "gibbs, born, collapsed": TopicSettings(STICKS, 0.1, GIBBS, "collapsed", n_rounds=2),
    "born": TopicSettings(STICKS, 0.1),
}
every_learner = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)
losses = pytest.mark.parametrize("loss", [AVERAGING, GIBBS], ids=["averaging", "gibbs"])
PLANTED = planted_topics(90, 4, 60, 60, random_state=0)


def targets_of(labels, n_tasks, loss):
    """One task against the rest for each class, or none."""
    if loss is None:
        return Targets.none(len(labels))
    signs = np.where(labels[:, None] == np.arange(n_tasks), 1, -1).astype(np.int8)
    return Targets(signs, np.full(signs.shape, loss.margin))


def begin(learner, *, n_topics=6, n_tasks=4, seed=0, n_words=60):
    n_tasks = 0 if learner.loss is None else n_tasks
    return first_state(learner, n_words, n_topics, np.arange(n_tasks), seed)


def learn(learner, state, documents, targets, batch_size=30, engine=SERIAL):
    for i in range(0, len(documents), batch_size):
        where = slice(i, i + batch_size)
        batch = Batch.of(documents[where], targets[where])
        state, _ = learn_batch(learner, state, batch, engine)
    return state


def learned(learner, planted=PLANTED, **settings):
    targets = targets_of(planted.labels, 4, learner.loss)
    return learn(learner, begin(learner, **settings), planted.documents, targets)


def arrays_of(state):
    weights = state.weights
    if isinstance(weights, Gaussians):
        numbers = (weights.precision, weights.shift)
    else:
        numbers = () if weights is None else (weights.mean,)
    k = state.n_topics
    return [
        state.counts[:, :k],
        state.totals[:k],
        state.ids,
        state.codes,
        state.tables,
        *numbers,
    ]


def assert_same(a, b):
    assert (a.clock, a.next_id, a.seed) == (b.clock, b.next_id, b.seed)
    for x, y in zip(arrays_of(a), arrays_of(b), strict=True):
        assert_array_equal(x, y)


def sharp_state(learner, n_topics, *, n_tasks=1, seed=0, n_words=60, mass=1e9):
    """Word w belongs to topic w mod K beyond doubt: topics of tokens are forced."""
    state = begin(learner, n_topics=n_topics, n_tasks=n_tasks, seed=seed, n_words=n_words)
    state.counts[np.arange(n_words), np.arange(n_words) % n_topics] = mass
    state.totals[:n_topics] = state.counts.sum(axis=0)
    return state
