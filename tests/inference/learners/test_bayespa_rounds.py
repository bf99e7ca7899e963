"""Rounds of a batch that end by themselves."""

from dataclasses import replace

import pytest
from numpy.testing import assert_array_equal

from everlearn.inference.learners.bayespa import learn_batch
from inference.learners.topic_learners import (
    LEARNERS,
    PLANTED,
    SERIAL,
    arrays_of,
    begin,
    targets_of,
)
from oracles.batches import batch_of

LABELLED = [name for name, learner in LEARNERS.items() if learner.loss is not None]
every_labelled = pytest.mark.parametrize("name", LABELLED)


def learned(learner):
    targets = targets_of(PLANTED.labels, 4, learner.loss)
    batch = batch_of(PLANTED.documents, targets)
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


def test_a_smaller_tolerance_takes_longer():
    learner = replace(LEARNERS["gibbs, collapsed"], n_rounds=500)
    rounds = [learned(replace(learner, tol=tol))[1].n_rounds for tol in (1e-2, 1e-3, 1e-4)]
    assert rounds == sorted(rounds)
    assert rounds[0] < rounds[-1]
