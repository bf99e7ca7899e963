"""Batches whose word counts follow every draw, against the sum over all topics of all tokens."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from everlearn.core.documents import Documents
from everlearn.kernels.draws import stream_keys
from everlearn.topics import sampling as module
from everlearn.topics.batches import Batch, Targets
from everlearn.topics.kernels.collapsed import sweep_collapsed_with_hinges
from everlearn.topics.kernels.sampler import CONTINUE, PREDICTIVE
from everlearn.topics.priors import FixedTopics, SharedSticks
from everlearn.topics.sampling import CollapsedSampler
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import FixedSpread, first_state
from oracles import bayespa as oracle

TOKENS = [[0, 1], [0, 2]]
N_WORDS = 3
LEARNER = TopicSettings(
    FixedTopics(0.6), 0.3, word_factor="collapsed", init="uniform", n_sweeps=12, burn_in=11
)
RUNS = 2500


def state_of(learner, seed, n_tasks=0, n_topics=2):
    state = first_state(learner, N_WORDS, n_topics, np.arange(n_tasks), seed)
    state.counts[:] = np.array([[2.0, 0.0], [0.5, 1.0], [0.0, 0.0]])[:, :n_topics]
    state.totals[:] = state.counts.sum(axis=0)
    return state


def last_topics(learner, targets, n_tasks, mean=None, multipliers=None):
    """Topics after the last sweep, one run for each seed, under these means if any."""
    rows = []
    multipliers = np.zeros(targets.signs.shape) if multipliers is None else multipliers
    batch = Batch.of(Documents.from_tokens(TOKENS), targets)
    for seed in range(RUNS):
        state = state_of(learner, seed, n_tasks)
        weights = state.weights if mean is None else FixedSpread(mean)
        draws = CollapsedSampler(learner, state, batch).draw(0, weights, multipliers)
        rows.append(draws.kept[-1])
    return np.array(rows, int)


def observed_of(rows):
    return np.bincount(rows @ 2 ** np.arange(4)[::-1], minlength=16)


def law(learner, log_labels):
    delta = state_of(learner, 0).counts + learner.smoothing
    alpha = np.full(2, 0.6)

    def log_joint(z):
        parts = [list(z[:2]), list(z[2:])]
        words = oracle.log_words_collapsed(TOKENS, parts, delta)
        return words + sum(
            oracle.log_allocation(part, alpha) + log_labels(d, part) for d, part in enumerate(parts)
        )

    return oracle.distribution(log_joint, 4, 2)


def test_without_labels():
    rows = last_topics(LEARNER, Targets.none(2), 0)
    expected = law(LEARNER, lambda d, z: 0.0)
    assert oracle.deviations(observed_of(rows), expected) < 4.5


SIGNS = np.array([[1], [-1]], np.int8)


def test_under_the_averaging_loss():
    """Multipliers as given, since there are no anchors; (40)."""
    loss = Loss("averaging", 1.0, 1.0, 1.0, anchored=False)
    learner = replace(LEARNER, loss=loss)
    mean, multipliers = np.array([[1.2, -0.7]]), np.array([[2.0], [1.5]])
    rows = last_topics(learner, Targets(SIGNS, np.ones((2, 1))), 1, mean, multipliers)
    expected = law(learner, lambda d, z: oracle.log_averaging(z, SIGNS[d], multipliers[d], mean))
    assert oracle.deviations(observed_of(rows), expected) < 4.5


def test_under_the_gibbs_loss():
    """Augmentation variables integrated out; (44)."""
    loss = Loss("gibbs", 1.3, 0.9, 0.8)
    learner = replace(LEARNER, loss=loss)
    rows = last_topics(learner, Targets(SIGNS, np.full((2, 1), 1.3)), 1)
    labels = [
        oracle.GibbsLabels(
            SIGNS[d], np.array([1.3]), np.array([[1.3, -1.3]]), 0.8 * np.eye(2)[None], 0.9
        )
        for d in range(2)
    ]
    expected = law(learner, lambda d, z: labels[d].log_marginal(z))
    assert oracle.deviations(observed_of(rows), expected) < 4.5


@pytest.mark.parametrize("anchored", [True, False])
def test_tokens_are_placed_with_what_labels_ask_for(anchored, monkeypatch):
    """Under the Gibbs loss; sweeps have no tilt, because they see the labels themselves."""
    loss = Loss("gibbs", 1.3, 0.9, 0.8, anchored=anchored)
    learner = replace(LEARNER, loss=loss, init="predictive", n_sweeps=2, burn_in=0)
    calls = []

    def sweep(*given):
        calls.append((given[4].copy(), given[7]))
        sweep_collapsed_with_hinges(*given)

    monkeypatch.setattr(module, "sweep_collapsed_with_hinges", sweep)
    state = replace(state_of(learner, 0, 1), clock=1)
    batch = Batch.of(Documents.from_tokens(TOKENS), Targets(SIGNS, np.full((2, 1), 1.3)))
    CollapsedSampler(learner, state, batch).draw(0, state.weights, np.zeros((2, 1)))
    assert [start for _, start in calls] == [PREDICTIVE, CONTINUE, CONTINUE]
    other = np.exp(-2 * 0.9 * 2 * 1.3 / 2) if anchored else 1.0
    np.testing.assert_allclose(calls[0][0], [[1.0, other], [other, 1.0]])
    assert all((tilt == 1.0).all() for tilt, _ in calls[1:])


@pytest.mark.parametrize("seed", range(4))
def test_sticks_follow_the_tables_of_the_batch(seed):
    """Draw by draw: topics, then tables, then the sticks that state and batch ask for (42)."""
    tokens = [[0, 0, 1], [], [2], [1, 2, 2, 2]]
    prior = SharedSticks(3.0, 1.0)
    learner = TopicSettings(prior, 0.3, n_sweeps=4, burn_in=1)
    state = replace(state_of(learner, seed), clock=1, tables=np.array([2.0, 0.0]))
    batch = Batch.of(Documents.from_tokens(tokens), Targets.none(4))
    draws = CollapsedSampler(learner, state, batch).draw(0, None, np.zeros((4, 0)))
    streams = [oracle.Stream(key) for key in stream_keys(seed, 1, 0, 4)]
    alpha, tables = prior.document_prior(state.tables), []

    def after_sweep(topics):
        parts = [
            oracle.drawn_tables(z, alpha, stream) for z, stream in zip(topics, streams, strict=True)
        ]
        tables.append(np.sum(parts, axis=0))
        alpha[:] = prior.document_prior(state.tables + tables[-1])

    path = oracle.collapsed_path(
        tokens,
        state.counts + 0.3,
        alpha,
        lambda d, z: 0.0,
        lambda d, z: None,
        streams,
        4,
        "predictive",
        after_sweep,
    )
    for row, topics in zip(draws.kept, path[2:], strict=True):
        assert row.tolist() == [k for z in topics for k in z]
    np.testing.assert_allclose(draws.n_tables, np.mean(tables[2:], axis=0))


@pytest.mark.parametrize("kind", ["averaging", "gibbs", None])
@pytest.mark.parametrize("prior", [FixedTopics(0.3), SharedSticks(2.0, 1.0)])
def test_what_is_kept_adds_up(kind, prior):
    rng = np.random.default_rng(0)
    tokens = [rng.integers(0, N_WORDS, n).tolist() for n in (5, 0, 1, 9)]
    loss = None if kind is None else Loss(kind, 2.0, 1.0, 1.0)
    learner = TopicSettings(prior, 0.3, loss, word_factor="collapsed", n_sweeps=4, burn_in=1)
    n_tasks = 0 if kind is None else 2
    state = replace(state_of(learner, 3, n_tasks), clock=2)
    signs = rng.choice([-1, 0, 1], (4, n_tasks)).astype(np.int8)
    documents = Documents.from_tokens(tokens)
    batch = Batch.of(documents, Targets(signs, np.full(signs.shape, 2.0)))
    before = state.counts.copy()
    sampler = CollapsedSampler(learner, state, batch)
    first = sampler.draw(0, state.weights, np.zeros(signs.shape))
    second = sampler.draw(1, state.weights, np.full(signs.shape, 0.1))
    for draws in (first, second):
        assert draws.kept.shape == (3, 15)
        edges = np.cumsum([0, 5, 0, 1, 9])
        for sweep, (d, (a, b)) in itertools.product(range(3), enumerate(itertools.pairwise(edges))):
            expected = oracle.tally(draws.kept[sweep, a:b], 2)
            np.testing.assert_array_equal(draws.tallies[sweep, d], expected)
        np.testing.assert_array_equal(draws.totals, draws.tallies.sum(axis=0))
        if isinstance(prior, SharedSticks):
            assert (draws.tables <= draws.totals).all()
            assert ((draws.tables > 0) == (draws.totals > 0)).all()
        else:
            assert draws.n_tables.tolist() == [0.0, 0.0]
        if kind == "gibbs":
            assert ((draws.inverses > 0) == (signs != 0) & (documents.lengths > 0)[:, None]).all()
    np.testing.assert_array_equal(second.topics, second.kept[-1])
    assert (first.kept != second.kept).any()
    np.testing.assert_array_equal(state.counts, before)
