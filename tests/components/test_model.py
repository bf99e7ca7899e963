"""The algebra of a tree of components: statistics, updates at their optimum, and the bound."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import gamma, multivariate_normal

from everlearn.components.local import path_stats, prepare_slots
from everlearn.components.model import NodeStats
from everlearn.core.priors.nested import TreeSticks
from oracles.component_runs import beliefs, evidence

cases = st.tuples(st.integers(0, 1000), st.integers(0, 4), st.integers(1, 4))


def case_of(case):
    seed, n_branches, depth = case
    model, q = beliefs(seed, 3, n_branches if depth > 1 else 0, depth)
    X = np.random.default_rng(seed).normal(size=(12, 3)) * 2
    return model, q, path_stats(prepare_slots(model, q), X)[0]


class TestStats:
    @given(cases)
    def test_they_add_and_subtract(self, case):
        *_, stats = case_of(case)
        twice = stats + stats
        back = twice - stats
        assert twice.n == 2 * stats.n
        assert_allclose(back.second, stats.second)
        assert_allclose(back.entropy, stats.entropy)

    def test_other_nodes_do_not_add(self):
        one, two = NodeStats.zeros([0, 1], 2), NodeStats.zeros([0, 2], 2)
        with pytest.raises(ValueError, match="same tree"):
            _ = one + two

    @given(cases)
    def test_a_larger_tree_gets_nothing_for_its_new_nodes(self, case):
        _, q, stats = case_of(case)
        inner = np.flatnonzero(q.tree.n_unseen > 0)
        if not len(inner):
            return
        tree = q.tree.grown(int(inner[0]), [10**6]).sorted_by(np.zeros(len(q.tree) + 1))
        grown = stats.for_tree(tree)
        where = tree.at(q.tree.ids)
        assert_array_equal(grown.slots[where], stats.slots)
        assert_array_equal(grown.second[np.ix_(where, where)], stats.second)
        assert grown.slots.sum() == pytest.approx(stats.slots.sum())
        assert_array_equal(grown.for_tree(q.tree).cross, stats.cross)


class TestUpdates:
    @given(cases, st.sampled_from(["mean", "covariance", "centre", "spread", "shape", "rate"]))
    def test_no_other_beliefs_are_better(self, case, what):
        model, q, stats = case_of(case)
        for _ in range(200):  # until all of them are at their common optimum
            q = model.update(stats, q)
        top = model.bound(stats, q)
        rng = np.random.default_rng(case[0])
        for size in (-0.05, 0.05):
            change = {
                "mean": {"mean": q.mean + size * rng.normal(size=q.mean.shape)},
                "covariance": {"covariance": q.covariance * (1 + size)},
                "centre": {"centre": q.centre + size * rng.normal(size=3)},
                "spread": {"centre_variance": q.centre_variance * (1 + size)},
                "shape": {"shape": q.shape * (1 + size)},
                "rate": {"rate": q.rate * (1 + size)},
            }[what]
            assert model.bound(stats, replace(q, **change)) < top + 1e-9 * abs(top)

    @given(cases)
    def test_each_update_raises_the_bound(self, case):
        model, q, stats = case_of(case)
        bounds = [model.bound(stats, q)]
        for _ in range(5):
            q = model.update(stats, q)
            bounds.append(model.bound(stats, q))
        assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()

    @given(cases)
    def test_the_best_scale_is_a_maximum_and_its_gain_is_exact(self, case):
        model, q, stats = case_of(case)
        model = replace(model, n_features=3)
        factors = model.best_factors(stats, q)
        best = model.bound(stats.rescale(q.tree, factors), q.rescale(factors))
        assert best >= model.bound(stats, q) - 1e-9 * abs(best)
        for change in (0.97, 1.03):
            other = np.where(factors != 1.0, factors * change, 1.0)
            near = model.bound(stats.rescale(q.tree, other), q.rescale(other))
            assert near <= best + 1e-9 * abs(best)


class TestDivergence:
    def test_it_is_the_mean_of_log_ratios(self):
        model, q = beliefs(4, 2, 2, 2)
        rng = np.random.default_rng(0)
        n = 40_000
        k = len(q.tree)
        shift = rng.multivariate_normal(np.zeros(k), q.covariance, size=(n, 2))
        w = q.mean.T + shift
        ratio = multivariate_normal(np.zeros(k), q.covariance).logpdf(shift).sum(axis=1)
        wide = multivariate_normal(np.zeros(k), model.scale * np.eye(k))
        ratio -= wide.logpdf(w).sum(axis=1)
        centre = q.centre + np.sqrt(q.centre_variance) * rng.normal(size=(n, 2))
        one = multivariate_normal(q.centre, q.centre_variance * np.eye(2))
        ratio += one.logpdf(centre)
        ratio -= multivariate_normal(np.zeros(2), model.scale * np.eye(2)).logpdf(centre)
        tau = rng.gamma(q.shape, 1 / q.rate, n)
        ratio += gamma(q.shape, scale=1 / q.rate).logpdf(tau)
        ratio -= gamma(model.shape, scale=1 / model.rate).logpdf(tau)
        error = 5 * ratio.std() / np.sqrt(n)
        assert_allclose(model.divergence(q), ratio.mean(), atol=error)


@given(cases)
def test_nodes_at_their_prior_change_nothing(case):
    model, q, _ = case_of(case)
    X = np.random.default_rng(case[0]).normal(size=(6, 3)) * 2
    inner = np.flatnonzero(q.tree.n_unseen > 0)
    if not len(inner):
        return
    position = int(inner[-1])
    length = int(q.tree.n_unseen[position])
    tree = q.tree.grown(position, list(range(10**6, 10**6 + length)))
    gamma_ = model.paths.gamma
    grown = q.append(
        tree,
        np.zeros((length, 3)),
        model.scale * np.eye(length),
        TreeSticks(np.ones(length), np.full(length, gamma_)),
    )

    def bound(beliefs_):
        rows = evidence(prepare_slots(model, beliefs_), X).sum()
        return rows - model.divergence(beliefs_) - model.paths.divergence(beliefs_.sticks)

    assert_allclose(bound(grown), bound(q), rtol=1e-9)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_densities_of_paths_have_the_moments_of_the_model(level):
    model, q = beliefs(7, 3, 3, 3)
    loadings, noise = model.path_covariances(q)
    rng = np.random.default_rng(0)
    slot = int(np.flatnonzero(q.tree.levels == level)[-1])
    path = q.tree.paths[slot][q.tree.paths[slot] >= 0]
    n, unseen = 200_000, 2 - level
    shift = rng.multivariate_normal(np.zeros(len(path)), q.covariance[np.ix_(path, path)], (n, 3))
    w = np.concatenate(
        [q.mean[path].T + shift, np.sqrt(model.scale) * rng.normal(size=(n, 3, unseen))], axis=2
    )
    rows = np.einsum("ndk,nk->nd", w, rng.normal(size=(n, 3)))
    rows += np.sqrt(q.centre_variance) * rng.normal(size=(n, 3))
    rows += rng.normal(size=(n, 3)) / np.sqrt(rng.gamma(q.shape, 1 / q.rate, (n, 1)))
    expected = loadings[slot].T @ loadings[slot] + noise[slot] * np.eye(3)
    assert_allclose(rows.T @ rows / n, expected, rtol=0.05, atol=0.1)
