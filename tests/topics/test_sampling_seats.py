"""Tables that documents open while word counts stand still."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.core.documents import Documents
from everlearn.engine.local import SerialEngine, ThreadEngine
from everlearn.topics.batches import Batch, Targets
from everlearn.topics.priors import FixedTopics, SharedSticks
from everlearn.topics.sampling import IndependentSampler
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import first_state
from oracles.bayespa import deviations, table_law

N, LENGTH = 6000, 5
LOSSES = {"averaging": Loss("averaging", 2.0, 1.0, 0.5), "gibbs": Loss("gibbs", 2.0, 1.0, 0.5)}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def sampler_of(loss, n_topics, prior, engine=None, tables=None, **settings):
    """A sampler of documents with a few words each, a third of them empty if topics are many."""
    learner = TopicSettings(prior, 0.3, loss, **settings)
    state = first_state(learner, 4, n_topics, np.arange(2), 0)
    state = replace(state, clock=1, tables=1.0 + np.arange(n_topics) if tables is None else tables)
    rng = np.random.default_rng(1)
    lengths = np.where((np.arange(N) % 3 == 2) & (n_topics > 1), 0, LENGTH)
    documents = Documents.from_tokens([rng.integers(0, 4, n) for n in lengths])
    signs = rng.choice([-1, 1], (N, 2)).astype(np.int8)
    batch = Batch.of(documents, Targets(signs, np.full(signs.shape, 2.0)))
    return IndependentSampler(learner, state, batch, engine or SerialEngine()), state


def drawn(sampler, state, number=0):
    return sampler.draw(number, state.weights, np.zeros((N, 2)))


@every_loss
@pytest.mark.parametrize("ghosts", [1, 4])
def test_law_and_sticks_of_the_next_round(loss, ghosts):
    """One topic: five customers each, then more mass for it; chi-square below 4.5 deviations."""
    prior = SharedSticks(2.0, 30_000.0)  # so weak that every table tells
    sampler, state = sampler_of(
        loss, 1, prior, tables=np.array([3000.0]), n_sweeps=1, ghosts=ghosts
    )
    tables = state.tables
    for number in range(2):
        draws = drawn(sampler, state, number)
        (alpha,) = prior.document_prior(tables)
        found = np.bincount(draws.tables[:, 0].astype(int), minlength=LENGTH + 1)
        assert deviations(found, table_law(LENGTH, alpha)) < 4.5
        tables = state.tables + ghosts * draws.n_tables


@every_loss
def test_sweeps_add_up(loss):
    sampler, state = sampler_of(loss, 3, SharedSticks(2.0, 1.0), n_sweeps=4, burn_in=1)
    draws = drawn(sampler, state)
    assert draws.tables.shape == (N, 3)
    assert (draws.tables <= draws.totals).all()
    assert ((draws.tables > 0) == (draws.totals > 0)).all()
    np.testing.assert_allclose(3 * draws.n_tables, draws.tables.sum(axis=0))
    assert draws.tables.max() > 3  # in some sweep several tables of a topic


@every_loss
def test_none_where_no_topic_is_born(loss):
    """And topics of the first sweep, which tables come after, are the same with them."""
    none = np.zeros(3)  # topics without tables share the mass
    born, state = sampler_of(loss, 3, SharedSticks(1.5, 1.0), tables=none, n_sweeps=1)
    given, _ = sampler_of(loss, 3, FixedTopics(0.5), n_sweeps=1)
    draws = drawn(given, state)
    assert draws.tables.shape == (0, 3)
    assert draws.n_tables.tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_array_equal(drawn(born, state).topics, draws.topics)


@every_loss
def test_threads_change_nothing(loss):
    prior = SharedSticks(2.0, 1.0)
    one, state = sampler_of(loss, 3, prior)
    with ThreadEngine(3) as engine:
        two, _ = sampler_of(loss, 3, prior, engine)
        np.testing.assert_array_equal(drawn(one, state).tables, drawn(two, state).tables)
