"""Compiled loops over paths, against one path at a time in plain NumPy."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from everlearn.components.kernels import LIKELY, path_scores, path_sums
from everlearn.components.local import path_stats, prepare_slots, score_slots
from oracles.component_runs import beliefs
from oracles.trees import random_tree


def test_slots_that_are_far_away_cost_nothing():
    model, q = beliefs(1, 3, 4, 2)
    q = replace(q, mean=q.mean * 30)
    X = np.random.default_rng(0).normal(size=(20, 3)) * 40
    slots = prepare_slots(model, q)
    found = score_slots(slots, X)
    stats, _ = path_stats(slots, X)
    assert np.ptp(found.scores, axis=1).max() > 100
    r = np.exp(found.scores - logsumexp(found.scores, axis=1, keepdims=True))
    assert_allclose(stats.slots, r.sum(axis=0), atol=1e-12)


def plain_scores(projections, tree, lowers, bias):
    """Scores of slots, each path solved by itself: bias + |L^-1 p|^2 / 2."""
    scores = np.empty(projections.shape)
    for s, path in enumerate(tree.paths):
        own = path[path >= 0]
        y = np.linalg.solve(lowers[s][: len(own), : len(own)], projections[:, own].T)
        scores[:, s] = bias[s] + 0.5 * np.square(y).sum(axis=0)
    return scores


def plain_sums(projections, scores, tree, lowers):
    """Entropy, masses, moments and codes, one row and slot at a time."""
    k, depth = len(tree), tree.depth
    mass, moments, codes = np.zeros(k), np.zeros((k, depth, depth)), np.zeros(projections.shape)
    entropy = 0.0
    for row in range(len(scores)):
        log_p = scores[row] - logsumexp(scores[row])
        for s, path in enumerate(tree.paths):
            own = path[path >= 0]
            lower = lowers[s][: len(own), : len(own)]
            x = np.linalg.solve(lower @ lower.T, projections[row, own])
            p = np.exp(log_p[s])
            entropy -= p * log_p[s]
            mass[s] += p
            codes[row, own] += p * x
            moments[s, : len(own), : len(own)] += p * np.outer(x, x)
    return entropy, mass, moments, codes


def problem(seed, n, n_branches, depth):
    """A random tree, Cholesky factors of nested precisions, and projections of rows."""
    rng = np.random.default_rng(seed)
    tree = random_tree(seed, n_branches, depth)
    k = len(tree)
    root = 0.5 * rng.normal(size=(k, k))
    precision = root @ root.T + np.eye(k)
    held = tree.paths >= 0
    pairs = held[:, :, None] & held[:, None, :]
    own = precision[tree.paths[:, :, None], tree.paths[:, None, :]]
    lowers = np.linalg.cholesky(np.where(pairs, own, np.eye(depth)))
    factors = np.where(held, lowers[np.arange(k), tree.levels], 0.0)
    return tree, lowers, factors, rng.normal(size=(n, k)), rng.normal(size=k)


@pytest.mark.parametrize("n", [0, 1, 20])
@pytest.mark.parametrize(("n_branches", "depth"), [(0, 1), (0, 3), (1, 2), (6, 4)])
@pytest.mark.parametrize("seed", range(3))
def test_loops_are_those_of_each_path_alone(seed, n_branches, depth, n):
    tree, lowers, factors, projections, bias = problem(seed, n, n_branches, depth)
    k, solved = len(tree), projections.copy()
    scores = path_scores(solved, tree.paths, tree.levels, factors, bias)
    assert_allclose(scores, plain_scores(projections, tree, lowers, bias), rtol=1e-10)
    codes, mass, moments = np.zeros((n, k)), np.zeros(k), np.zeros((k, depth, depth))
    sums = (codes, mass, moments)
    entropy = path_sums(scores, solved, tree.paths, tree.levels, factors, *sums)
    want, *others = plain_sums(projections, scores, tree, lowers)
    assert_allclose(entropy, want, rtol=1e-10, atol=1e-12)
    assert_allclose(mass, others[0], atol=1e-12)
    assert_allclose(moments, np.tril(others[1]), atol=1e-10)  # lower triangles only
    assert_allclose(codes, others[2], atol=1e-10)


def test_equal_scores_share_a_row_evenly():
    tree, _, factors, projections, _ = problem(0, 3, 4, 3)
    k, scores = len(tree), np.full((3, len(tree)), -5.0)
    mass = np.zeros(k)
    sums = (np.zeros((3, k)), mass, np.zeros((k, 3, 3)))
    entropy = path_sums(scores, projections, tree.paths, tree.levels, factors, *sums)
    assert_allclose(mass, 3 / k)
    assert_allclose(entropy, 3 * np.log(k))


def test_sums_are_added_to_what_is_there():
    tree, _, factors, projections, bias = problem(1, 5, 3, 3)
    k = len(tree)
    scores = path_scores(projections, tree.paths, tree.levels, factors, bias)
    args = (scores, projections, tree.paths, tree.levels, factors)
    once, twice = ([np.zeros((5, k)), np.zeros(k), np.zeros((k, 3, 3))] for _ in range(2))
    path_sums(*args, *once)
    for _ in range(2):
        path_sums(*args, *twice)
    for one, two in zip(once, twice, strict=True):
        assert_allclose(two, 2 * one, rtol=1e-12)


def test_slots_beyond_the_limit_get_nothing():
    """Less likely than exp(-40) times the best one: exactly zero, and no share of the entropy."""
    tree, _, factors, projections, _ = problem(2, 1, 3, 2)
    k = len(tree)
    scores = np.full((1, k), -LIKELY)
    scores[0, 1] = 0.0
    sums = (np.zeros((1, k)), np.zeros(k), np.zeros((k, 2, 2)))
    args = (projections, tree.paths, tree.levels, factors)
    assert path_sums(scores, *args, *sums) == 0.0
    assert_array_equal(sums[1], np.arange(k) == 1)
