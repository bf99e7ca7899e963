"""Starts, restarts, samples, and laps until the bound stays the same."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.random import stream
from everlearn.mixture import search
from everlearn.mixture.learner import Schedule
from everlearn.mixture.state import State
from oracles.cases import named
from oracles.runs import (
    PLAIN,
    SOME,
    STILL,
    assert_stats,
    ignore,
    lively,
    model_of,
    never_falls,
    rows_of,
    runner_of,
    started,
    tools_of,
)


def fit(case, seed=0, moves=None, on_lap=ignore, weighted=False, **schedule):
    plan = Schedule(
        **{"batch_rows": 100, "max_laps": 60, "tol": 1e-6, "sample_rows": 120} | schedule
    )
    rows = rows_of(case, weighted)
    tools = tools_of(runner_of(case), moves or lively(), schedule=plan, on_lap=on_lap)
    return search.fit_all(model_of(case), rows, seed, tools)


class TestFit:
    def test_it_settles_and_never_falls(self, case):
        told = []
        result = fit(case, on_lap=told.append, weighted=True)
        assert result.converged
        assert tuple(told) == result.laps
        assert never_falls([info.bound for info in told])
        assert result.state.bound() == told[-1].bound
        assert_allclose(result.state.total.n.sum(), rows_of(case, weighted=True).mass, rtol=1e-8)
        assert result.state.n_open == len(case)

    def test_it_stops_when_laps_run_out(self):
        result = fit(PLAIN, max_laps=2)
        assert len(result.laps) == 2
        assert not result.converged

    def test_batches_are_as_large_as_asked(self):
        sizes = [len(b.rows) for b in fit(PLAIN, batch_rows=100, max_laps=1).state.batches]
        assert sizes == [100, 100, 40]

    def test_a_wide_tolerance_stops_early(self):
        moves = STILL
        strict = fit(PLAIN, moves=moves, start_components=6, tol=1e-12)
        loose = fit(PLAIN, moves=moves, start_components=6, tol=1e-2)
        assert len(loose.laps) < len(strict.laps)
        gap = abs(loose.laps[-1].bound - loose.laps[-2].bound)
        assert gap <= 1e-2 * abs(loose.laps[-1].bound)

    @named(SOME)
    def test_continuing_is_the_same_as_not_stopping(self, case):
        runner, moves = runner_of(case), lively()
        state = started(case, 2, 1, runner=runner)
        long, short = (
            tools_of(runner, moves, schedule=Schedule(100, laps, 0.0)) for laps in (6, 3)
        )
        whole = search.run_laps(state, long).state
        half = search.run_laps(state, short).state
        rest = search.run_laps(half, short).state
        assert_stats(rest.total, whole.total, rtol=0, atol=0)
        assert rest.next_id == whole.next_id
        assert rest.birth_trials == whole.birth_trials


class TestStart:
    def test_one_component_starts_at_the_prior(self, case, model, runner):
        empty = State.empty(model, 0)
        posterior = search.start_posterior(empty, rows_of(case), runner)
        assert_array_equal(posterior.eta, empty.posterior().eta)

    def test_several_start_from_seeds(self, case, model, runner, weighted):
        rows = rows_of(case, weighted)
        empty = State.empty(model, 0, n_components=4, next_id=7)
        posterior = search.start_posterior(empty, rows, runner)
        assert posterior.ids.tolist() == [7, 8, 9, 10]
        assert len(np.unique(posterior.eta, axis=0)) == 4
        again = search.start_posterior(empty, rows, runner)
        assert_array_equal(posterior.eta, again.eta)

    def test_fewer_rows_than_components(self, case, model, runner):
        empty = State.empty(model, 0, n_components=5)
        posterior = search.start_posterior(empty, rows_of(case)[2:5], runner)
        assert len(posterior) == 5
        assert np.isfinite(posterior.eta).all()

    def test_the_best_of_several_runs_is_kept(self):
        """Each has the seed of its own stream, and can be had alone."""
        schedule = {"start_components": 6, "moves": STILL, "max_laps": 15}
        best = fit(PLAIN, seed=3, n_init=4, **schedule)
        seeds = [3, *(int(stream(3, "start", i).integers(2**63)) for i in range(1, 4))]
        alone = [fit(PLAIN, seed=seed, **schedule).state.bound() for seed in seeds]
        assert len(set(alone)) > 1
        assert best.state.bound() == max(alone)

    @named(SOME)
    def test_same_seed_same_trace(self, case):
        traces = [[info.bound for info in fit(case, seed=seed, max_laps=6).laps] for seed in (1, 1)]
        assert traces[0] == traces[1]

    def test_other_seeds_take_other_ways(self):
        a, b = (
            fit(PLAIN, seed=seed, start_components=8, moves=STILL, max_laps=3) for seed in (1, 2)
        )
        assert a.state.bound() != b.state.bound()


class TestSample:
    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch):
        monkeypatch.setattr(search, "SAMPLE_ABOVE", 200)

    @named(SOME)
    def test_a_sample_decides_on_the_structure(self, case):
        told = []
        result = fit(case, on_lap=told.append)
        assert tuple(told) == result.laps
        assert told[0].n_components > 1
        assert never_falls([info.bound for info in told])
        assert_allclose(result.state.total.n.sum(), len(case), rtol=1e-8)

    def test_the_sample_is_not_counted_twice(self):
        result = fit(PLAIN, moves=STILL, max_laps=1)
        assert result.state.sealed.stats.n.sum() == 0.0
        assert_allclose(result.state.total.n.sum(), len(PLAIN), rtol=1e-12)

    def test_it_reaches_what_a_cold_start_reaches(self, monkeypatch):
        warm = fit(PLAIN).state
        monkeypatch.setattr(search, "SAMPLE_ABOVE", 10**9)
        cold = fit(PLAIN).state
        assert_allclose(warm.bound(), cold.bound(), rtol=0.01)

    def test_the_sample_has_the_rows_of_its_seed(self):
        schedule = Schedule(100, 2, 1e-6, sample_rows=120)
        tools = tools_of(runner_of(PLAIN), STILL, schedule=schedule)
        states = [
            search.fit_sample(model_of(PLAIN), rows_of(PLAIN), seed, tools) for seed in (1, 1, 2)
        ]
        assert [s.n_open for s in states] == [120] * 3
        rows = [s.batches[0].rows.X for s in states]
        assert_array_equal(rows[0], rows[1])
        assert not np.array_equal(rows[0], rows[2])
