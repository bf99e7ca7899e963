"""Stochastic learning: blends of statistics, exact at its edges and close to batch learning."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.mixture.learner import Schedule, Window
from everlearn.mixture.local import Plan
from everlearn.mixture.memoized import lap
from everlearn.mixture.search import fit_all
from everlearn.mixture.state import State
from everlearn.mixture.stochastic import STEP_SIZE, StepSize, StochasticLearner, blend
from everlearn.mixture.streaming import seal_all
from oracles.runs import (
    PLAIN,
    STILL,
    assert_stats,
    candidates_of,
    diagonal_scaled,
    lively,
    model_of,
    rows_of,
    runner_of,
    scores,
    softmax,
    started,
    statistics,
    tools_of,
)

LEARNER = StochasticLearner()


def absorbed(state, rows, batch_rows, runner, **tools):
    """The state after rows of a stream."""
    return LEARNER.absorb(
        state, rows, tools_of(runner, lively(), Window(batch_rows, batch_rows), **tools)
    )


class TestStepSize:
    def test_it_decays(self):
        size = StepSize(delay=2.0, decay=0.7)
        assert size.at(3) == 5.0**-0.7
        sizes = [size.at(t) for t in range(20)]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] <= 1.0

    def test_the_default_converges(self):
        assert 0.5 < STEP_SIZE.decay <= 1.0
        assert STEP_SIZE.at(0) <= 1.0


class TestBlend:
    def test_a_full_step_on_all_rows_is_batch_learning(self, case, weighted):
        runner, rows = runner_of(case), rows_of(case, weighted)
        state = started(case, 1, 4, 1, weighted, runner)
        learned, _ = lap(state, runner, STILL)
        blended = blend(seal_free(state), rows, rows.mass, 1.0, runner)
        assert_stats(blended.total, learned.total, rtol=1e-12, atol=1e-10)
        assert_allclose(blended.bound(), learned.bound(), rtol=1e-13)

    @pytest.mark.parametrize(("clock", "rho"), [(0, 0.6), (5, 0.1)])
    def test_statistics_are_blended(self, case, model, weighted, clock, rho):
        """(1 - rho) of what was, and rho of the batch as if all rows were like it."""
        runner, rows = runner_of(case), rows_of(case, weighted)
        batch, mass = rows[:50], rows.mass
        state = replace(seal_free(started(case, 1, 3, 1, weighted, runner)), clock=clock)
        after = blend(state, batch, mass, rho, runner)
        R = softmax(scores(case.family, model.posterior(state.total), batch))
        new = statistics(case.family, batch, R) * (mass / batch.mass)
        expected = state.total * (1.0 - rho) + new * rho
        where = [expected.position(int(i)) for i in after.total.ids]
        for name in ("n", "t", "h"):
            assert_allclose(
                getattr(after.total, name), getattr(expected, name)[where], rtol=1e-9, atol=1e-8
            )
        assert_allclose(after.total.base, expected.base, rtol=1e-12)
        assert_allclose(after.total.n.sum(), mass, rtol=1e-12)
        assert after.clock == clock + 1
        assert (np.diff(after.total.n) <= 0).all()

    def test_nothing_stays_open(self, case, runner):
        state = seal_free(started(case, 1, 3))
        after = blend(state, rows_of(case)[:50], float(len(case)), 0.5, runner)
        assert after.batches == ()
        assert_stats(after.total, after.sealed.stats, rtol=0, atol=0)


class TestAbsorb:
    def test_a_small_batch_is_added_up(self, case, model, weighted):
        """Its share of all rows is more than its part of a step: nothing else is forgotten."""
        runner, rows = runner_of(case), rows_of(case, weighted)
        state = replace(seal_free(started(case, 1, 3, 1, weighted, runner)), clock=4)
        row = rows[:1]
        after = absorbed(state, row, 1000, runner)
        R = softmax(scores(case.family, model.posterior(state.total), row))
        expected = state.total + statistics(case.family, row, R)
        where = [expected.position(int(i)) for i in after.total.ids]
        assert_allclose(after.total.n, expected.n[where], rtol=1e-9, atol=1e-9)
        assert_allclose(after.total.t, expected.t[where], rtol=1e-9, atol=1e-8)

    @pytest.mark.parametrize("batch_rows", [10, 40])
    def test_a_full_batch_takes_the_step_and_half_of_one_half_of_it(self, case, batch_rows):
        runner, rows = runner_of(case), rows_of(case)[:20]
        state = replace(seal_free(started(case, 1, 3, runner=runner)), clock=1)
        state = replace(state, total=state.total * 100.0)  # so many that a share is next to nothing
        first = rows[: min(batch_rows, 20)]
        rho = STEP_SIZE.at(2) * len(first) / batch_rows
        mass = float(state.total.n.sum()) + len(first)
        expected = blend(state, first, mass, rho, runner)
        after = absorbed(state, first, batch_rows, runner)
        assert_stats(after.total, expected.total, rtol=1e-12, atol=1e-9)

    def test_every_blend_is_told(self, case):
        told, runner = [], runner_of(case)
        state = replace(seal_free(started(case, 1, 3, runner=runner)), clock=7)
        after = absorbed(state, rows_of(case)[:50], 20, runner, on_lap=told.append)
        assert [info.clock for info in told] == [8, 9, 10]
        assert_allclose([info.mass for info in told], len(case) + np.array([20, 40, 50]))
        assert_allclose(told[-1].bound, after.bound())


def seal_free(state):
    """The same statistics without the rows."""
    sealed = replace(state.sealed, stats=state.total)
    return replace(state, sealed=sealed, batches=())


class TestFit:
    rng = np.random.default_rng(3)
    PLACES = np.array([[-8.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    case = diagonal_scaled("far", PLACES[rng.integers(3, size=900)] + rng.normal(0, 0.7, (900, 2)))

    def test_it_comes_near_the_batch_bound(self):
        runner, rows, model = runner_of(self.case), rows_of(self.case), model_of(self.case)
        schedule = Schedule(batch_rows=100, max_laps=5, tol=1e-6)
        tools = tools_of(runner, lively(), schedule=schedule)
        batch = fit_all(candidates_of(self.case), rows, 0, tools)
        noisy = LEARNER.fit(candidates_of(self.case), rows, 0, tools)
        assert len(noisy.state.total) == len(batch.state.total) == 3
        target = seal_all(batch.state, runner).bound()
        # The estimate itself, and the bound of all rows at its globals.
        assert_allclose(noisy.state.bound(), target, rtol=0.01)
        summary, _ = runner.run(noisy.state.posterior(), Plan(), rows)
        assert target - 20.0 < model.bound(summary.stats) <= target + 1e-6

    def test_laps_are_told(self):
        told = []
        runner = runner_of(PLAIN)
        schedule = Schedule(batch_rows=50, max_laps=3, tol=1e-6)
        tools = tools_of(runner, lively(), schedule=schedule, on_lap=told.append)
        fit = LEARNER.fit(candidates_of(PLAIN), rows_of(PLAIN), 0, tools)
        assert tuple(told) == fit.laps
        assert [info.clock for info in told] == [5, 10, 15]
        assert_allclose(fit.state.total.n.sum(), len(PLAIN), rtol=1e-10)

    def test_same_seed_same_result(self):
        schedule = Schedule(batch_rows=50, max_laps=2, tol=1e-6)
        tools = tools_of(runner_of(PLAIN), lively(), schedule=schedule)
        a, b, c = (
            LEARNER.fit(candidates_of(PLAIN), rows_of(PLAIN), seed, tools).state
            for seed in (4, 4, 5)
        )
        assert_stats(a.total, b.total, rtol=0, atol=0)
        assert not np.array_equal(a.total.n, c.total.n)


class TestBegin:
    def test_first_rows_are_learned_in_one_pass(self):
        told = []
        tools = tools_of(
            runner_of(PLAIN), lively(), schedule=Schedule(50, 5, 1e-6), on_lap=told.append
        )
        empty = replace(State.empty(model_of(PLAIN), 3, next_id=20), clock=7)
        rows = rows_of(PLAIN)
        begun = LEARNER.begin(
            candidates_of(PLAIN), empty, [(rows[:90], None), (rows[90:], 1)], tools
        )
        assert tuple(told) == begun.laps
        assert [info.clock for info in told] == [12]
        assert begun.state.batches == ()
        assert begun.state.seed == 3
        assert begun.state.total.ids.min() >= 20
        assert begun.state.next_id > begun.state.total.ids.max()
        assert_allclose(begun.state.total.n.sum(), len(PLAIN), rtol=1e-10)
        assert begun.choice.name == "given"
