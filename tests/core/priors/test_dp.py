"""Sticks of the Dirichlet process: closed forms, order, and empty components."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from scipy import stats

from everlearn.core.priors.dp import DPPrior, SticksPosterior
from everlearn.core.stats import Grow, Permute, Stats
from everlearn.mixture.model import Mixture
from oracles import mixture as oracle
from oracles.cases import responsibilities, statistics

MASSES = np.array([0.0, 12.3, 4.0, 250.0, 0.7, 4.0])
ALPHAS = [0.1, 1.0, 7.5]
masses = st.integers(1, 8).flatmap(lambda k: arrays(float, k, elements=st.floats(0, 1e4)))
alphas = st.floats(0.05, 20)


def pairs(sticks):
    return list(zip(sticks.won, sticks.lost, strict=True))


class TestPosterior:
    def test_counts_what_stopped_and_what_went_on(self):
        sticks = DPPrior(1.5).posterior(np.array([3.0, 0.0, 2.0]))
        assert_allclose(sticks.won, [4.0, 1.0, 3.0])
        assert_allclose(sticks.lost, [3.5, 3.5, 1.5])

    def test_expected_logs_are_integrals(self):
        sticks = SticksPosterior(np.array([2.0, 1.3]), np.array([0.8, 5.0]))
        log_v, log_rest = sticks.expected_log()
        for k, (a, b) in enumerate(pairs(sticks)):
            assert_allclose(log_v[k], stats.beta(a, b).expect(np.log), rtol=1e-7)
            assert_allclose(log_rest[k], stats.beta(a, b).expect(lambda v: np.log1p(-v)), rtol=1e-6)

    @given(masses, alphas)
    def test_expected_log_weights(self, n, alpha):
        sticks = DPPrior(alpha).posterior(n)
        expected = oracle.expected_log_weights(pairs(sticks))
        assert_allclose(sticks.expected_log_weights(), expected, rtol=1e-11, atol=1e-11)

    @given(masses, alphas)
    def test_weights_and_tail_sum_to_one(self, n, alpha):
        weights, tail = DPPrior(alpha).posterior(n).mean_weights()
        assert_allclose(weights.sum() + tail, 1.0, rtol=1e-12)
        assert (weights > 0).all()
        assert tail > 0

    def test_mean_weights_by_simulation(self):
        sticks = DPPrior(2.0).posterior(np.array([5.0, 1.0, 3.0]))
        v = np.random.default_rng(0).beta(sticks.won, sticks.lost, (40_000, 3))
        draws = v * np.cumprod(np.hstack([np.ones((len(v), 1)), 1 - v[:, :-1]]), axis=1)
        error = 4 * draws.std(axis=0) / np.sqrt(len(draws))
        assert (np.abs(sticks.mean_weights()[0] - draws.mean(axis=0)) < error).all()

    def test_without_components_all_mass_is_unseen(self):
        prior = DPPrior(1.5)
        weights, tail = prior.posterior(np.zeros(0)).mean_weights()
        assert len(weights) == 0
        assert tail == 1.0
        assert prior.bound(np.zeros(0)) == 0.0


class TestBound:
    @given(masses, alphas)
    def test_closed_form_is_the_sum_over_sticks(self, n, alpha):
        prior = DPPrior(alpha)
        slow = oracle.stick_sum(n, pairs(prior.posterior(n)), alpha)
        assert_allclose(prior.bound(n), slow, rtol=1e-12, atol=1e-9)

    @pytest.mark.parametrize("alpha", ALPHAS)
    def test_closed_form_to_twelve_digits(self, alpha):
        prior = DPPrior(alpha)
        slow = oracle.stick_sum(MASSES, pairs(prior.posterior(MASSES)), alpha)
        assert_allclose(prior.bound(MASSES), slow, rtol=1e-12)

    def test_bounds_of_many_orders_at_once(self):
        orders = np.array([MASSES, MASSES[::-1], np.sort(MASSES)])
        one_by_one = [DPPrior(1.5).bound(n) for n in orders]
        assert_allclose(DPPrior(1.5).bounds(orders), one_by_one, rtol=1e-14)

    @pytest.mark.parametrize("alpha", ALPHAS)
    def test_is_the_definition(self, alpha):
        R = responsibilities(30, 4)
        slow = oracle.allocation_bound(R, oracle.sticks(R, alpha), alpha)
        assert_allclose(DPPrior(alpha).bound(R.sum(axis=0)), slow, rtol=1e-11)

    @given(masses, alphas)
    def test_bound_at_the_optimum_is_the_bound(self, n, alpha):
        prior = DPPrior(alpha)
        assert_allclose(
            prior.bound_at(n, prior.posterior(n)), prior.bound(n), rtol=1e-12, atol=1e-9
        )

    @given(masses, alphas, st.data())
    def test_bound_at_other_sticks(self, n, alpha, data):
        prior = DPPrior(alpha)
        other = data.draw(arrays(float, len(n), elements=st.floats(0, 1e4)))
        sticks = prior.posterior(other)
        value = prior.bound_at(n, sticks)
        assert_allclose(value, oracle.stick_sum(n, pairs(sticks), alpha), rtol=1e-10, atol=1e-8)
        assert value <= prior.bound(n) + 1e-9 * (1 + abs(value))


class TestOrder:
    @pytest.mark.parametrize("alpha", ALPHAS)
    @pytest.mark.parametrize("k", [2, 4, 6])
    def test_decreasing_masses_are_optimal(self, k, alpha):
        n = MASSES[:k]
        best = max(DPPrior(alpha).bound(np.array(order)) for order in permutations(n))
        ours = DPPrior(alpha).bound(np.sort(n)[::-1])
        assert_allclose(ours, best, rtol=1e-14)
        assert ours > DPPrior(alpha).bound(np.sort(n))

    @pytest.mark.parametrize("alpha", ALPHAS)
    @pytest.mark.parametrize("k", range(5))
    def test_swapping_neighbours(self, k, alpha):
        swapped = MASSES.copy()
        swapped[[k, k + 1]] = swapped[[k + 1, k]]
        x, y, behind = MASSES[k], MASSES[k + 1], MASSES[k + 2 :].sum()
        change = DPPrior(alpha).bound(swapped) - DPPrior(alpha).bound(MASSES)
        assert_allclose(change, np.log((alpha + y + behind) / (alpha + x + behind)), atol=1e-10)

    @pytest.mark.parametrize("alpha", ALPHAS)
    def test_distance_to_the_chinese_restaurant(self, alpha):
        n = np.array([9.0, 4.0, 1.0])
        behind = np.cumsum(n[::-1])[::-1]
        crp = oracle.log_crp([int(m) for m in n], alpha)
        expected = crp + np.log(n / (alpha + behind)).sum()
        assert_allclose(DPPrior(alpha).bound(n), expected, rtol=1e-12)


class TestEmptyComponents:
    """Nested truncation, on the bound of the whole mixture."""

    @pytest.mark.parametrize("alpha", ALPHAS)
    def test_at_the_end_they_change_nothing(self, case, alpha):
        mixture = Mixture(case.family, DPPrior(alpha))
        s = statistics(case.family, case.X, responsibilities(len(case), 3))
        empty = Grow(Stats.zeros(np.array([7, 8]), case.family.n_stats))
        assert_allclose(mixture.bound(s.apply(empty)), mixture.bound(s), rtol=1e-14)

    def test_in_front_they_cost(self, case):
        mixture = Mixture(case.family, DPPrior(1.0))
        s = statistics(case.family, case.X, responsibilities(len(case), 3))
        grown = s.apply(Grow(Stats.zeros(np.array([7]), case.family.n_stats)))
        first = grown.apply(Permute(np.roll(grown.ids, 1)))
        cost = np.log(1.0 + s.n.sum())
        assert_allclose(mixture.bound(first), mixture.bound(s) - cost, rtol=1e-12)
