"""Memoized learning without moves: exact at every visit, and batch learning with one batch."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.random import stream
from everlearn.core.stats import total
from everlearn.mixture.local import Plan
from everlearn.mixture.memoized import lap, open_batches, visit
from everlearn.mixture.state import State
from oracles import mixture as oracle
from oracles.cases import CASES, diagonal, named, responsibilities
from oracles.ledger import Ledger
from oracles.runs import (
    ALPHA,
    PLAIN,
    STILL,
    N,
    assert_stats,
    groups,
    model_of,
    never_falls,
    random_posterior,
    rows_of,
    runner_of,
    softmax,
    started,
)


def begun(case, n_batches, k, seed=0, weighted=False):
    """A state, its runner, and a ledger of its responsibilities."""
    runner = runner_of(case)
    state = started(case, n_batches, k, seed, weighted, runner)
    posterior = random_posterior(state.model, rows_of(case, weighted), k, seed)
    return state, runner, Ledger.of(state, posterior)


class TestMonotone:
    @pytest.mark.parametrize(("n_batches", "weighted"), [(1, False), (3, True)])
    def test_fifty_laps_never_lower_the_bound(self, case, n_batches, weighted):
        runner = runner_of(case)
        state = started(case, n_batches, 6, seed=1, weighted=weighted, runner=runner)
        bounds = [state.bound()]
        for _ in range(50):
            state, info = lap(state, runner, STILL)
            bounds.append(info.bound)
        assert never_falls(bounds)
        assert bounds[-1] > bounds[0]

    def test_no_visit_lowers_the_bound(self, case, weighted):
        state, runner, _ = begun(case, 5, 4, 1, weighted)
        bounds = [state.bound()]
        for position in np.random.default_rng(0).integers(5, size=25).tolist():
            state, _ = visit(state, position, Plan(), runner)
            bounds.append(state.bound())
        assert never_falls(bounds)
        assert bounds[-1] > bounds[0]


class TestExact:
    def test_each_visit_has_the_bound_of_all_responsibilities(self, case, weighted):
        state, runner, ledger = begun(case, 4, 4, 2, weighted)
        assert_allclose(state.bound(), ledger.bound(), rtol=1e-10)
        for position in [0, 1, 2, 3, 3, 1, 0, 2]:
            state, summary = visit(state, position, Plan(), runner)
            ledger.visit(position)
            assert_allclose(state.bound(), ledger.bound(), rtol=1e-10)
            assert_stats(summary.stats, ledger.stats(ledger.open[position]), atol=1e-8)
        assert_stats(state.total, ledger.total, rtol=1e-9, atol=1e-8)

    @named(CASES)
    def test_by_the_definition_of_the_bound(self, case):
        state, runner, ledger = begun(case, 3, 3)
        for position in (2, 0, 1):
            state, _ = visit(state, position, Plan(), runner)
            ledger.visit(position)
        R = np.concatenate([kept.matrix(ledger.order) for kept in ledger.open])
        slow = oracle.elbo(case.oracle, case.dense, R, ALPHA)
        assert_allclose(state.bound(), slow, rtol=1e-10)

    def test_laps_visit_in_their_own_order(self, case):
        """The permutation that seed and clock name; another one would leave other sums."""
        state, runner, ledger = begun(case, 5, 4, seed=3)
        for clock in range(3):
            order = stream(3, "order", clock).permutation(5)
            state, info = lap(state, runner, STILL)
            for position in order.tolist():
                ledger.visit(position)
            ledger.order = state.total.ids.tolist()
            assert_stats(state.total, ledger.total, rtol=1e-9, atol=1e-8)
            assert info.clock == state.clock == clock + 1

    def test_laps_let_go_of_what_is_empty(self):
        """No row prefers a component without rows, whose mean is that of the prior, far away."""
        case = diagonal("far", groups(N, seed=1) + 1000.0)
        model, runner, rows = model_of(case), runner_of(case), rows_of(case)
        posterior = random_posterior(model, rows, 4)
        bias = np.where(posterior.ids == 2, -np.inf, posterior.bias)
        posterior = replace(posterior, bias=bias)
        state = open_batches(State.empty(model, 0, 4), posterior, [rows], runner)
        ledger = Ledger.of(state, posterior)
        ledger.visit(0)
        assert ledger.total.n[2] == 0
        after, info = lap(state, runner, STILL)
        assert sorted(after.total.ids.tolist()) == [0, 1, 3]
        assert_allclose(info.bound, ledger.best_bound(), rtol=1e-10)

    def test_labels_are_the_largest_responsibilities(self, case):
        state, runner, ledger = begun(case, 2, 4)
        state, _ = visit(state, 1, Plan(), runner)
        ledger.visit(1)
        largest = ledger.open[1].matrix(ledger.order).argmax(axis=1)
        assert_array_equal(state.batches[1].labels, np.array(ledger.order)[largest])


def slow_step(case, R):
    """Responsibilities after one step of batch learning, by the book, in the order given."""
    W = np.tile(oracle.expected_log_weights(oracle.sticks(R, ALPHA)), (len(R), 1))
    for k in range(R.shape[1]):
        q = case.oracle.posterior(case.dense, R[:, k])
        W[:, k] += [case.oracle.expected_log_likelihood(x, q) for x in case.dense]
    return softmax(W)


class TestOneBatch:
    @named(CASES)
    def test_it_is_batch_learning(self, case):
        runner = runner_of(case)
        state = started(case, 1, 3, seed=4, runner=runner)
        R = slow_step(case, responsibilities(len(case), 3, seed=4))
        for _ in range(6):
            assert_allclose(state.total.n, R.sum(axis=0), rtol=1e-8)
            slow = oracle.elbo(case.oracle, case.dense, R, ALPHA)
            assert_allclose(state.bound(), slow, rtol=1e-9)
            state, info = lap(state, runner, STILL)
            assert info.bound == state.bound()
            R = slow_step(case, R)
            R = R[:, np.argsort(-R.sum(axis=0), kind="stable")]

    def test_a_lap_is_a_visit_in_the_best_order(self, case, runner):
        state = started(case, 1, 4)
        by_lap, _ = lap(state, runner, STILL)
        by_visit, _ = visit(state, 0, Plan(), runner)
        assert_stats(by_lap.total, by_visit.resummed().reordered().total, rtol=0, atol=0)


class TestOpening:
    def test_batches_join_what_is_there(self, case, model, weighted):
        runner, rows = runner_of(case), rows_of(case, weighted)
        pieces = rows.blocks(100)
        empty = State.empty(model, 0, 3)
        posterior = random_posterior(model, rows, 3)
        at_once = open_batches(empty, posterior, pieces, runner)
        first = open_batches(empty, posterior, pieces[:1], runner)
        in_turn = open_batches(first, posterior, pieces[1:], runner)
        assert_stats(in_turn.total, at_once.total)
        assert_allclose(at_once.total.n.sum(), rows.mass, rtol=1e-12)
        assert at_once.n_open == len(rows)

    def test_drift_is_gone_after_a_lap(self):
        runner = runner_of(PLAIN)
        state = started(PLAIN, 7, 5, runner=runner)
        for _ in range(5):
            state, _ = lap(state, runner, STILL)
        parts = [state.sealed.stats, *(b.stats for b in state.batches)]
        assert_stats(state.total, total(parts), rtol=0, atol=0)

    def test_a_lap_tells_what_it_did(self, case, runner):
        state, info = lap(started(case, 3, 2), runner, STILL)
        assert info.mass == pytest.approx(len(case))
        assert info.n_components == len(state.total) == 2
        assert info.bound == state.bound()
        assert info.moves == ()
        assert info.settled
