"""Where a search begins: many small clusters, merged while that raises the bound."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.engine.rows import Rows
from everlearn.mixture import micro_clusters
from everlearn.mixture.micro_clusters import merged_micro_clusters
from oracles.cases import named
from oracles.runs import PLAIN, SOME, diagonal_scaled, groups, model_of, rows_of, runner_of

RNG = np.random.default_rng


def begun(case, seed=0, most=1000, rows=None, weighted=False):
    rows = rows_of(case, weighted) if rows is None else rows
    return merged_micro_clusters(model_of(case), rows, runner_of(case), RNG(seed), most)


def far_groups(k, n=60, seed=0):
    """Groups that nobody could confuse, and which group each row is of."""
    rng = RNG(seed)
    places = 30.0 * np.array([(i // 6, i % 6) for i in range(k)], float)
    labels = rng.permutation(np.repeat(np.arange(k), n))
    return places[labels] + rng.normal(size=(k * n, 2)), labels


class TestStatistics:
    def test_every_row_is_in_one_component(self, case, weighted):
        rows = rows_of(case, weighted)
        found = begun(case, weighted=weighted)
        features = case.family.features(rows.X)
        w = np.ones(len(rows)) if rows.weights is None else rows.weights
        assert_allclose(found.n.sum(), rows.mass, rtol=1e-10)
        assert_allclose(found.t.sum(axis=0), w @ features, rtol=1e-9, atol=1e-8)
        assert_array_equal(found.h, 0.0)
        assert (found.n > 0.0).all()

    def test_the_largest_comes_first(self, case):
        assert (np.diff(begun(case).n) <= 0.0).all()

    @named(SOME)
    def test_the_seed_says_it_all(self, case):
        one, same = begun(case, 4), begun(case, 4)
        assert_array_equal(one.n, same.n)
        assert_array_equal(one.t, same.t)

    @pytest.mark.parametrize("most", [1, 2, 3, 7])
    @named(SOME)
    def test_there_are_no_more_than_allowed(self, case, most):
        assert 1 <= len(begun(case, most=most)) <= most


class TestNumber:
    @pytest.mark.parametrize("k", [1, 2, 9, 30])
    def test_one_component_for_each_far_group(self, k):
        X, labels = far_groups(k)
        found = begun(diagonal_scaled("far", X))
        assert len(found) == k
        assert_allclose(np.sort(found.n), np.sort(np.bincount(labels)), atol=0)

    def test_many_groups_get_more_small_clusters(self, monkeypatch):
        """With a third as many as there are groups, some groups would share one."""
        sizes = []

        def watched(model, rows, size, *args, real=micro_clusters._micro_clusters):
            sizes.append(size)
            return real(model, rows, size, *args)

        monkeypatch.setattr(micro_clusters, "_micro_clusters", watched)
        X, _ = far_groups(60, 40)
        case = diagonal_scaled("far", X)
        narrow = replace(case.family.prior, rate=np.full(2, case.family.prior.shape))
        case = replace(case, family=replace(case.family, prior=narrow))
        assert len(begun(case)) >= 57
        assert sizes[:2] == [100, 200]
        assert max(sizes) <= 400

    @pytest.mark.parametrize("n", [100, 300, 1000])
    @pytest.mark.parametrize("seed", range(4))
    def test_noise_is_one_component(self, n, seed):
        """Merges of parts with few rows come to a stop early, at far less evidence."""
        X = RNG(seed).normal(size=(n, 3))
        assert len(begun(diagonal_scaled("noise", X), seed)) == 1

    def test_never_less_evidence_than_one_component(self, case, model, runner):
        rows = rows_of(case)
        one = runner.hard_stats(rows, np.zeros(len(rows), np.int64), np.arange(1))
        assert model.bound(begun(case)) >= model.bound(replace(one, base=0.0))


class TestOddRows:
    @pytest.mark.parametrize("n", [1, 2, 3, 5])
    @named(SOME)
    def test_few_rows(self, case, n):
        found = begun(case, rows=rows_of(case)[:n])
        assert 1 <= len(found) <= n
        assert_allclose(found.n.sum(), n)

    @named(SOME)
    def test_equal_rows(self, case):
        row = rows_of(case)
        found = begun(case, rows=row[np.zeros(50, np.int64)])
        assert len(found) == 1
        assert_allclose(found.n, 50.0)

    def test_rows_without_weight(self):
        X = groups(30, seed=1)
        weights = np.zeros(30)
        weights[3] = 2.0
        found = begun(PLAIN, rows=Rows(X, weights))
        assert_allclose(found.n, [2.0])
