"""Sticks on a tree: sums over infinitely many paths, optimality, and nodes at their prior."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import psi

from everlearn.core.priors.nested import NestedPrior, TreeSticks
from everlearn.core.tree import Tree
from oracles.trees import path_log_weights, random_tree

cases = st.tuples(
    st.builds(random_tree, st.integers(0, 10_000), st.integers(0, 8), st.integers(2, 4)),
    st.integers(0, 1000),
    st.floats(0.1, 8.0),
)


def masses(tree, seed):
    return np.random.default_rng(seed).gamma(0.5, 20.0, len(tree))


class TestWeights:
    @pytest.mark.parametrize("gamma", [0.2, 1.0, 5.0])
    def test_slots_sum_over_all_their_paths(self, gamma):
        tree = random_tree(3, 4, 3)
        prior = NestedPrior(gamma)
        sticks = prior.posterior(tree, masses(tree, 1))
        slots = np.zeros(len(tree))
        for slot, weight in path_log_weights(tree, *sticks.expected_log(), gamma, 120):
            slots[slot] += np.exp(weight)
        assert_allclose(np.exp(prior.slot_log_weights(tree, sticks)), slots, rtol=1e-6)

    @pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
    def test_an_unseen_level_weighs_the_sum_over_its_siblings(self, gamma):
        terms = psi(1.0) - psi(1.0 + gamma) - np.arange(2000) / gamma
        assert_allclose(NestedPrior(gamma).log_unseen, np.log(np.exp(terms).sum()), rtol=1e-9)

    @given(cases)
    def test_mean_weights_sum_to_one(self, case):
        tree, seed, gamma = case
        prior = NestedPrior(gamma)
        weights = prior.mean_slot_weights(tree, prior.posterior(tree, masses(tree, seed)))
        assert_allclose(weights.sum(), 1.0, rtol=1e-12)
        assert (weights >= 0).all()

    def test_mean_weights_are_those_of_drawn_sticks(self):
        tree = random_tree(5, 5, 3)
        prior = NestedPrior(1.3)
        sticks = prior.posterior(tree, masses(tree, 2) / 10)
        rng = np.random.default_rng(0)
        drawn = np.zeros(len(tree))
        n = 4000
        for _ in range(n):
            v = rng.beta(sticks.won, sticks.lost)
            certain = TreeSticks(v, 1.0 - v)
            drawn += prior.mean_slot_weights(tree, certain) / n
        assert_allclose(drawn, prior.mean_slot_weights(tree, sticks), atol=5.0 / np.sqrt(n))


class TestPosterior:
    def test_counts_what_passed_and_what_went_on(self):
        tree = Tree.root(2).grown(0, [1]).grown(0, [2])
        sticks = NestedPrior(0.5).posterior(tree, np.array([1.0, 4.0, 2.0]))
        assert_allclose(sticks.won[1:], [5.0, 3.0])
        assert_allclose(sticks.lost[1:], [0.5 + 3.0, 0.5 + 1.0])

    @given(cases, st.sampled_from([-0.05, 0.05]))
    def test_no_other_sticks_are_better(self, case, change):
        tree, seed, gamma = case
        prior, slots = NestedPrior(gamma), masses(tree, seed)
        best = prior.posterior(tree, slots)
        top = prior.bound_at(tree, slots, best)
        for i in range(1, len(tree)):
            won, lost = best.won.copy(), best.lost.copy()
            won[i] *= 1.0 + change
            assert prior.bound_at(tree, slots, TreeSticks(won, best.lost)) <= top + 1e-9 * abs(top)
            lost[i] *= 1.0 + change
            assert prior.bound_at(tree, slots, TreeSticks(best.won, lost)) <= top + 1e-9 * abs(top)


class TestNesting:
    @given(cases)
    def test_a_last_child_at_its_prior_changes_nothing(self, case):
        tree, seed, gamma = case
        prior, slots = NestedPrior(gamma), masses(tree, seed)
        sticks = prior.posterior(tree, slots)
        inner = int(np.flatnonzero(tree.n_unseen > 0)[-1])
        new = tree.grown(inner, [10**6])
        grown = TreeSticks(np.append(sticks.won, 1.0), np.append(sticks.lost, gamma))
        old_slots = np.exp(prior.slot_log_weights(tree, sticks))
        new_slots = np.exp(prior.slot_log_weights(new, grown))
        # What left the inner slot is the new child's own slot.
        assert_allclose(new_slots[inner] + new_slots[-1], old_slots[inner], rtol=1e-9)
        assert_allclose(np.delete(new_slots[:-1], inner), np.delete(old_slots, inner), rtol=1e-9)
        assert_allclose(prior.divergence(grown), prior.divergence(sticks), rtol=1e-9, atol=1e-9)

    @given(cases)
    def test_ordering_never_lowers_the_bound(self, case):
        tree, seed, gamma = case
        prior, slots = NestedPrior(gamma), masses(tree, seed)
        new = prior.ordered(tree, slots)
        assert prior.bound(new, slots[tree.at(new.ids)]) >= prior.bound(tree, slots) - 1e-9

    def test_the_collapsed_form_is_tighter(self):
        tree = random_tree(5, 5, 3)
        slots = masses(tree, 4)
        assert NestedPrior(1.0, collapsed=True).bound(tree, slots) > NestedPrior(1.0).bound(
            tree, slots
        )
