"""The objective of a batch, token by token, and when it has ceased to fall."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.topics.batches import Targets
from everlearn.topics.objective import ConvergenceMonitor, Objective, monitor_of, total_loss
from everlearn.topics.priors import FixedTopics, SharedSticks
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import first_state
from oracles import bayespa as oracle

DOCUMENTS = [[0, 1, 1, 4], [2, 2], [], [3, 0, 4, 4, 4]]
TOPICS = [[0, 1, 1, 0], [2, 2], [], [0, 0, 2, 2, 1]]
N_TOPICS, N_WORDS = 3, 6
SIGNS = np.array([[1, -1], [0, 1], [-1, -1], [-1, 0]], np.int8)
LOSSES = {
    "averaging": Loss("averaging", 1.5, 0.4, 0.7),
    "gibbs": Loss("gibbs", 1.5, 0.4, 0.7),
    "number": Loss("averaging", 0.1, 0.4, 0.7, anchored=False, regression=True),
}


def learner_of(loss, prior=FixedTopics(0.3), **settings):  # noqa: B008 (frozen)
    return TopicSettings(prior, 0.2, loss, **settings)


def known(learner, seed=0):
    """A state that has counted something, and weights with a mean of their own."""
    rng = np.random.default_rng(seed)
    state = first_state(learner, N_WORDS, N_TOPICS, np.arange(2), 0)
    state.counts[:N_WORDS, :N_TOPICS] = rng.poisson(2.0, (N_WORDS, N_TOPICS))
    state.totals[:N_TOPICS] = state.counts[:N_WORDS, :N_TOPICS].sum(axis=0)
    return replace(state, tables=np.array([2.0, 5.0, 1.0]))


def targets_of(loss):
    values = np.full(SIGNS.shape, loss.margin)
    if loss.regression:
        return Targets(np.abs(SIGNS), np.random.default_rng(1).normal(size=SIGNS.shape))
    return Targets(SIGNS, values)


def standing(topics=TOPICS):
    """Tallies of documents and counts of words."""
    counts = np.zeros((N_WORDS, N_TOPICS))
    for words, z in zip(DOCUMENTS, topics, strict=True):
        np.add.at(counts, (words, z), 1.0)
    return np.array([oracle.tally(z, N_TOPICS) for z in topics]), counts


def by_definition(learner, state, targets, mean, copies=1):
    """Minus the log of all that is given, document by document and hinge by hinge."""
    loss, alpha = learner.loss, learner.prior.document_prior(state.tables)
    delta = state.counts[:N_WORDS, :N_TOPICS] + learner.smoothing
    total = -oracle.log_words_collapsed(DOCUMENTS * copies, TOPICS * copies, delta)
    for d, z in enumerate(TOPICS):
        total -= copies * oracle.log_allocation(z, alpha)
        score = mean @ (oracle.tally(z, N_TOPICS) / max(1, len(z)))
        for sign, value, f in zip(targets.signs[d], targets.values[d], score, strict=True):
            if loss.regression:
                missed = max(0.0, abs(value - f) - loss.margin) * abs(sign)
            else:
                missed = max(0.0, loss.margin - sign * f) * abs(sign)
            total += 2.0 * loss.c * copies * missed
    moved = mean - state.weights.mean
    return total + (moved**2).sum() / (2.0 * loss.variance)


@pytest.mark.parametrize("prior", [FixedTopics(0.3), SharedSticks(2.0, 1.5)])
@pytest.mark.parametrize("ghosts", [1, 3])
@pytest.mark.parametrize("kind", LOSSES)
def test_value_is_what_the_definition_says(kind, ghosts, prior):
    loss = LOSSES[kind]
    learner = learner_of(loss, prior, ghosts=ghosts)
    state, targets = known(learner), targets_of(loss)
    mean = np.random.default_rng(2).normal(size=(2, N_TOPICS))
    objective = Objective.of(learner, state, targets, state.counts[:N_WORDS, :N_TOPICS])
    tallies, counts = standing()
    found = objective.value(tallies, counts, state.tables, mean)
    assert found == pytest.approx(by_definition(learner, state, targets, mean, ghosts), rel=1e-12)


def test_precision_of_gaussian_weights_counts():
    """Weights that were learned cost more to move than those before any data."""
    loss = LOSSES["gibbs"]
    learner = learner_of(loss)
    state, targets = known(learner), targets_of(loss)
    sure = replace(state, weights=replace(state.weights, precision=4.0 * state.weights.precision))
    mean = np.random.default_rng(3).normal(size=(2, N_TOPICS))
    values = []
    for each in (state, sure):
        objective = Objective.of(learner, each, targets, each.counts[:N_WORDS, :N_TOPICS])
        values.append(objective.value(*standing(), each.tables, mean))
        values.append(objective.value(*standing(), each.tables, each.weights.mean))
    at = 0.5 / loss.variance * ((mean - state.weights.mean) ** 2).sum()
    shifted = 0.5 * 4.0 / loss.variance * ((mean - sure.weights.mean) ** 2).sum()
    losses = [
        2.0 * loss.c * total_loss(loss, targets, frequencies(), m)
        for m in (mean, state.weights.mean, mean, sure.weights.mean)
    ]
    assert values[0] - losses[0] == pytest.approx(values[1] - losses[1] + at)
    assert values[2] - losses[2] == pytest.approx(values[3] - losses[3] + shifted)


def frequencies():
    tallies = standing()[0]
    return tallies / np.maximum(tallies.sum(axis=1, keepdims=True), 1.0)


def descent(values, tol):
    loss = LOSSES["averaging"]
    state = known(learner_of(loss))
    objective = Objective.of(learner_of(loss), state, targets_of(loss), state.counts)
    return ConvergenceMonitor(objective, tol, list(values))


class TestEnd:
    def test_not_before_two_windows_are_full(self):
        assert not descent(np.ones(19), 1e-4).has_converged
        assert descent(np.ones(20), 1e-4).has_converged

    @pytest.mark.parametrize("start", [1000.0, -1000.0])
    def test_a_steady_fall_is_measured_a_round(self, start):
        values = start - 0.1 * np.arange(20.0)  # the mean of the first ten is start - 0.45
        share = 0.1 / abs(start - 0.45)
        assert not descent(values, 0.999 * share).has_converged
        assert descent(values, 1.001 * share).has_converged

    def test_turns_to_and_fro_do_not_hide_a_fall(self):
        rounds = np.arange(40.0)
        values = 1000.0 - 0.3 * rounds + 50.0 * (-1.0) ** rounds
        assert not descent(values, 1e-4).has_converged
        assert descent(values + 0.3 * rounds, 1e-4).has_converged

    @pytest.mark.parametrize("value", [0.0, 3.0, -3.0])
    def test_a_standstill_has_ended(self, value):
        assert descent(np.full(20, value), 0.0).has_converged

    def test_what_rises_has_ended(self):
        assert descent(np.arange(20.0), 0.0).has_converged

    def test_only_the_last_rounds_count(self):
        values = [*np.linspace(900.0, 100.0, 30), *np.full(20, 100.0)]
        assert not descent(values[:30], 1e-4).has_converged
        assert descent(values, 1e-4).has_converged

    def test_nothing_is_watched_without_a_tolerance(self):
        loss = LOSSES["averaging"]
        state = known(learner_of(loss))
        given = (state, targets_of(loss), state.counts)
        assert monitor_of(learner_of(loss), *given) is None
        assert monitor_of(learner_of(loss, tol=0.1), *given) is not None
