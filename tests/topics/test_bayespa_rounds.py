"""Rounds of a batch that end by themselves."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.topics.batches import Batch
from everlearn.topics.bayespa import learn_batch
from everlearn.topics.objective import Objective
from support.topic_learners import (
    LEARNERS,
    PLANTED,
    SERIAL,
    arrays_of,
    begin,
    learn,
    targets_of,
)

LABELLED = [name for name, learner in LEARNERS.items() if learner.loss is not None]
every_labelled = pytest.mark.parametrize("name", LABELLED)


def learned(learner):
    targets = targets_of(PLANTED.labels, 4, learner.loss)
    batch = Batch.of(PLANTED.documents, targets)
    return learn_batch(learner, begin(learner), batch, SERIAL)


@every_labelled
def test_they_are_as_many_rounds_of_a_given_number(name):
    learner = replace(LEARNERS[name], n_rounds=200)
    state, info = learned(replace(learner, tol=1e-3))
    assert 20 <= info.n_rounds < 200
    assert info.converged
    again, told = learned(replace(learner, n_rounds=info.n_rounds))
    assert told.n_rounds == info.n_rounds
    for a, b in zip(arrays_of(state), arrays_of(again), strict=True):
        assert_array_equal(a, b)


@every_labelled
def test_the_limit_holds_and_is_told(name):
    limited = replace(LEARNERS[name], n_rounds=7)
    state, info = learned(replace(limited, tol=1e-3))
    assert (info.n_rounds, info.converged) == (7, False)
    again, told = learned(limited)
    assert (told.n_rounds, told.converged) == (7, True)  # as many as were asked for
    for a, b in zip(arrays_of(state), arrays_of(again), strict=True):
        assert_array_equal(a, b)


@every_labelled
@pytest.mark.parametrize("ghosts", [1, 3])
def test_what_is_looked_at_is_what_is_learned(name, ghosts, monkeypatch):
    """The last of three rounds, as the objective is told of it and as the state takes it in."""
    looked = []
    monkeypatch.setattr(Objective, "value", lambda self, *at: looked.append((self, *at)) or 0.0)
    burn_in = 2 if "born" in name else 1  # what is in a spare topic in one sweep of two moves later
    learner = replace(LEARNERS[name], n_rounds=3, tol=1e-3, ghosts=ghosts, burn_in=burn_in)
    targets = targets_of(PLANTED.labels, 4, learner.loss)
    state = learn(
        replace(learner, n_rounds=1), begin(learner), PLANTED.documents[:40], targets[:40]
    )
    before = state.counts.copy()
    looked.clear()
    batch = Batch.of(PLANTED.documents[40:], targets[40:])
    after, _ = learn_batch(learner, state, batch, SERIAL, n_known=10**6)  # no merge is due
    assert len(looked) == 3
    objective, tallies, counts, tables, mean = looked[-1]
    used = np.isin(objective.prior.ids, after.ids)  # the others are spare, and were left empty
    assert not counts[:, ~used].any()
    words = np.unique(batch.bags.words)
    k = np.flatnonzero(used)
    assert_array_equal(objective.before[:, : before.shape[1]], before[words][:, : len(used)])
    added = after.counts[words][:, : after.n_topics] - objective.before[:, k]
    assert_allclose(ghosts * counts[:, k], added, atol=1e-9)
    assert_allclose(tallies.sum(axis=1), PLANTED.documents[40:].lengths)
    assert_allclose(tallies.sum(axis=0), counts.sum(axis=0))
    assert_allclose(tables[k], after.tables)
    assert_allclose(mean[:, k], after.weights.mean, rtol=1e-6)


def test_a_smaller_tolerance_takes_longer():
    learner = replace(LEARNERS["gibbs, collapsed"], n_rounds=500)
    rounds = [learned(replace(learner, tol=tol))[1].n_rounds for tol in (1e-2, 1e-3, 1e-4)]
    assert rounds == sorted(rounds)
    assert rounds[0] < rounds[-1]
