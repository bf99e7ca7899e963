"""Births that cost at first: they raise the bound in the end, or leave no trace."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from everlearn.engine.rows import Rows
from everlearn.mixture import search
from everlearn.mixture.births import ATTEMPTS
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.learner import Schedule
from everlearn.mixture.memoized import lap
from everlearn.mixture.search import MAX_TRY_LAPS, fit_all, try_costly_births
from oracles.runs import (
    PLAIN,
    assert_stats,
    lively,
    model_of,
    never_falls,
    runner_of,
    started,
    tools_of,
)


def settled(case, runner, n_batches=2, k=1, laps=12):
    state = started(case, n_batches, k, runner=runner)
    for _ in range(laps):
        state, _ = lap(state, runner, lively())
    return state


class TestCostlyBirths:
    @pytest.mark.parametrize("number", range(len(ATTEMPTS)))
    def test_it_pays_or_leaves_no_trace(self, case, runner, number):
        state = settled(case, runner)
        tried = try_costly_births(state, runner, lively(), number)
        assert 1 <= tried.n_laps <= MAX_TRY_LAPS
        assert tried.state.clock == state.clock + tried.n_laps
        if tried.info is None:
            same = replace(tried.state, clock=state.clock)
            assert same == state
        else:
            assert tried.info.bound == tried.state.bound() > state.bound()
            assert not tried.info.settled
            assert_stats(tried.state.total, tried.state.resummed().total)
            assert_allclose(tried.state.total.n.sum(), state.total.n.sum(), rtol=1e-9)

    def test_births_are_accepted_whatever_they_cost(self):
        runner = runner_of(PLAIN)
        state = replace(settled(PLAIN, runner), birth_trials={})
        moves = lively()
        births = replace(moves.births, least_parts=2)
        _, plain = lap(state, runner, replace(moves, births=births))
        after, bold = lap(state, runner, replace(moves, births=births, n_forced_births=1))
        gains = [m.gain for m in plain.moves if m.kind == "birth"]
        assert len(gains) >= 2
        assert max(gains) < 0
        accepted = [m.gain for m in bold.moves if m.kind == "birth" and m.accepted]
        assert accepted == [max(gains)]
        assert len(after.total) > len(state.total)
        assert_allclose(bold.bound - plain.bound, max(gains), rtol=1e-9)

    def test_a_limit_of_components_holds(self):
        runner = runner_of(PLAIN)
        state = settled(PLAIN, runner)
        k = len(state.total)
        tried = try_costly_births(state, runner, lively(max_components=k), 0)
        assert len(tried.state.total) <= k


class TestInAFit:
    def test_their_laps_count(self, case):
        told = []
        plan = Schedule(100, 30, 1e-6)
        tools = tools_of(runner_of(case), lively(), schedule=plan, on_lap=told.append)
        result = fit_all(model_of(case), Rows(case.X), 0, tools)
        assert tuple(told) == result.laps
        assert len(told) < result.state.clock <= 30
        assert never_falls([info.bound for info in told])

    def test_a_fit_settles_when_too_few_laps_are_left(self, monkeypatch):
        monkeypatch.setattr(search, "MAX_TRY_LAPS", 99)
        tools = tools_of(runner_of(PLAIN), lively())
        result = fit_all(model_of(PLAIN), Rows(PLAIN.X), 0, tools)
        assert result.converged
        assert result.state.clock == len(result.laps) < 60

    def test_there_are_none_without_births(self):
        moves = lively(kinds=frozenset({"merge", "delete"}))
        plan = Schedule(100, 60, 1e-6, start_components=6)
        tools = tools_of(runner_of(PLAIN), moves, schedule=plan)
        result = fit_all(model_of(PLAIN), Rows(PLAIN.X), 0, tools)
        assert result.converged
        assert result.state.clock == len(result.laps)

    @pytest.mark.slow
    def test_they_find_what_single_births_miss(self, monkeypatch):
        """Clusters of digits overlap; about 120 nats were gained on average over five seeds."""
        X = PCA(30, svd_solver="full").fit_transform(load_digits().data)
        X /= np.sqrt(X.var(axis=0).mean())

        def bounds():
            # How many laps it takes depends on the rounding of BLAS.
            params = {"family": "zero-mean", "prior": "wishart", "max_laps": 200}
            return [
                DPMixture(random_state=seed, engine="serial", **params).fit(X).bound_
                for seed in range(4)
            ]

        with_costly_births = bounds()
        monkeypatch.setattr(search, "_MAX_FUTILE", 0)
        assert np.mean(with_costly_births) > np.mean(bounds()) + 30.0
