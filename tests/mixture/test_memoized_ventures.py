"""Ventures: never a lower bound, no trace if given up, and worth their laps."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from everlearn.engine.rows import Rows
from everlearn.mixture import memoized as fitting
from everlearn.mixture.births import ATTEMPTS
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.memoized import MOST_LAPS, Schedule, lap, venture
from oracles.runs import PLAIN, assert_stats, lively, model_of, never_falls, runner_of, started


def quiet(info):
    """Nobody listens."""


def settled(case, runner, n_batches=2, k=1, laps=12):
    state = started(case, n_batches, k, runner=runner)
    for _ in range(laps):
        state, _ = lap(state, runner, lively())
    return state


class TestVenture:
    @pytest.mark.parametrize("number", range(len(ATTEMPTS)))
    def test_it_pays_or_leaves_no_trace(self, case, runner, number):
        state = settled(case, runner)
        tried = venture(state, runner, lively(), number)
        assert 1 <= tried.n_laps <= MOST_LAPS
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
        after, bold = lap(state, runner, replace(moves, births=births, n_bold=1))
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
        tried = venture(state, runner, lively(max_components=k), 0)
        assert len(tried.state.total) <= k


class TestInAFit:
    def test_laps_of_ventures_count(self, case):
        told = []
        plan = Schedule(100, 30, 1e-6)
        rows = Rows(case.X)
        result = fitting.fit(model_of(case), rows, 0, runner_of(case), lively(), plan, told.append)
        assert tuple(told) == result.laps
        assert len(told) < result.state.clock <= 30
        assert never_falls([info.bound for info in told])

    def test_a_fit_settles_when_too_few_laps_are_left(self, monkeypatch):
        monkeypatch.setattr(fitting, "MOST_LAPS", 99)
        plan = Schedule(100, 60, 1e-6)
        result = fitting.fit(
            model_of(PLAIN), Rows(PLAIN.X), 0, runner_of(PLAIN), lively(), plan, quiet
        )
        assert result.settled
        assert result.state.clock == len(result.laps) < 60

    def test_there_are_none_without_births(self):
        moves = lively(kinds=frozenset({"merge", "delete"}))
        plan = Schedule(100, 60, 1e-6, start_components=6)
        result = fitting.fit(
            model_of(PLAIN), Rows(PLAIN.X), 0, runner_of(PLAIN), moves, plan, quiet
        )
        assert result.settled
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

        with_ventures = bounds()
        monkeypatch.setattr(fitting, "_FUTILE", 0)
        assert np.mean(with_ventures) > np.mean(bounds()) + 30.0
