"""The local step against plain sums: dense, with the largest responsibilities, in float32."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from everlearn.engine.local import ThreadEngine
from everlearn.engine.rows import Rows
from everlearn.mixture.local import MAX_BLOCK_ROWS, MixtureStep, Plan, weighted
from everlearn.mixture.memoized import lap
from oracles.cases import full
from oracles.runs import (
    PLAIN,
    SMALL_BLOCKS,
    STILL,
    assert_stats,
    diagonal_scaled,
    model_of,
    random_posterior,
    rows_of,
    runner_of,
    scores,
    softmax,
    started,
    statistics,
)

K = 6
IDS = np.array([8, 3, 5, 11, 2, 7])


def run(case, rows, posterior, **options):
    return runner_of(case, **options).run(posterior, Plan(), rows)


class TestOneStep:
    def test_statistics_are_those_of_the_oracle(self, case, model, weighted):
        rows = rows_of(case, weighted)
        posterior = random_posterior(model, rows, K, ids=IDS)
        W = scores(case.family, posterior, rows)
        summary, labels = run(case, rows, posterior)
        assert_stats(summary.stats, statistics(case.family, rows, softmax(W), IDS))
        assert_array_equal(labels, IDS[W.argmax(axis=1)])
        assert labels.dtype == np.int32

    def test_normalisers(self, case, model):
        rows = rows_of(case)
        posterior = random_posterior(model, rows, K)
        step = MixtureStep(case.family)
        W = scores(case.family, posterior, rows)
        found = step.assign(posterior, step.features(rows), None)
        assert_allclose(found.log_norm, logsumexp(W, axis=1), rtol=1e-12, atol=1e-11)
        assert_allclose(found.r.sum(axis=1), 1.0, rtol=1e-13)

    def test_weights_count_rows_several_times(self):
        """A row of weight three is three rows."""
        case, rng = PLAIN, np.random.default_rng(0)
        times = rng.integers(1, 4, len(case))
        posterior = random_posterior(model_of(case), rows_of(case), K)
        once, _ = run(case, Rows(case.X, times.astype(float)), posterior)
        often, _ = run(case, Rows(np.repeat(case.X, times, axis=0)), posterior)
        assert_stats(once.stats, often.stats)

    def test_weighting_leaves_unit_weights_alone(self):
        r = np.random.default_rng(0).random((4, 2)).astype(np.float32)
        assert weighted(r, None) is r
        scaled = weighted(r, np.arange(4.0))
        assert scaled.dtype == np.float32
        assert_allclose(scaled, r * np.arange(4.0)[:, None], rtol=1e-6)


class TestBlocks:
    def test_grouping_of_rows_hardly_matters(self, case, model, weighted):
        rows = rows_of(case, weighted)
        posterior = random_posterior(model, rows, K)
        one, labels = run(case, rows, posterior)
        many, same_labels = run(case, rows, posterior, block_bytes=SMALL_BLOCKS)
        assert_stats(many.stats, one.stats, rtol=1e-12)
        assert_array_equal(labels, same_labels)

    def test_blocks_are_bounded(self, case):
        rows = [runner_of(case, block_bytes=b).block_rows(K) for b in (1, 10**5, 10**6, 10**9)]
        assert rows == sorted(rows)
        assert 1 <= rows[0] < rows[-1] == MAX_BLOCK_ROWS
        width = 8 * (case.family.n_stats + K)
        assert runner_of(case, block_bytes=1000 * width).block_rows(K) == 1000
        assert runner_of(case, block_bytes=1000 * width, dtype=np.float32).block_rows(K) == 2000

    def test_blocks_do_not_depend_on_the_engine(self, case):
        with ThreadEngine(2) as engine:
            threads = runner_of(case, engine)
            assert threads.block_rows(K) == runner_of(case).block_rows(K)

    def test_many_rows_keep_no_features(self):
        many = Rows(np.zeros((20_000, 2)))
        assert runner_of(PLAIN, block_bytes=SMALL_BLOCKS).prepared(many) is many

    def test_prepared_rows_say_the_same(self, case, model, runner, weighted):
        rows = rows_of(case, weighted)
        prepared = runner.prepared(rows)
        assert runner.step.features(prepared) is prepared.features is not None
        posterior = random_posterior(model, rows, K)
        one, labels = runner.run(posterior, Plan(), rows)
        other, same_labels = runner.run(posterior, Plan(), prepared)
        assert_stats(other.stats, one.stats, rtol=0, atol=0)
        assert_array_equal(labels, same_labels)

    @pytest.mark.parametrize("block_bytes", [SMALL_BLOCKS, 10**6])
    def test_hard_assignments(self, case, weighted, block_bytes):
        rows = rows_of(case, weighted)
        labels = np.random.default_rng(0).integers(K - 1, size=len(rows))  # one stays empty
        stats = runner_of(case, block_bytes=block_bytes).hard_stats(rows, labels, IDS)
        assert_stats(stats, statistics(case.family, rows, np.eye(K)[labels], IDS))


def principal_components(n, dim, seed=0):
    """Groups in features of decaying spread, scaled to a mean variance of one."""
    rng = np.random.default_rng(seed)
    spread = np.arange(1, dim + 1) ** -0.7
    centres = 2.0 * rng.standard_normal((8, dim)) * spread
    X = centres[rng.integers(8, size=n)] + rng.standard_normal((n, dim)) * spread
    X -= X.mean(axis=0)
    return X / np.sqrt(X.var(axis=0).mean())


class TestSinglePrecision:
    """float32 stays within 1e-6 of float64."""

    X = principal_components(9000, 20)
    CASES = (diagonal_scaled("diagonal", X), full("full", X[:, :12]))

    @pytest.mark.parametrize("n", [0, 1, 127, 128, 129, 4096])
    @pytest.mark.parametrize(("k", "width"), [(1, 1), (3, 6), (90, 100)])
    def test_long_sums_keep_their_digits(self, n, k, width):
        """Of positive features, which a float32 sum of thousands keeps to five digits only."""
        rng = np.random.default_rng(n)
        r = rng.random((n, k)).astype(np.float32)
        features = (9 + rng.random((n, width))).astype(np.float32)
        step = MixtureStep(PLAIN.family, np.float32)
        t = step.summarize(np.arange(k), features, r, np.zeros(k)).t
        assert t.dtype == np.float64
        assert_allclose(t, r.T.astype(float) @ features.astype(float), rtol=1e-6)

    @pytest.mark.parametrize("data_type", [np.float32, np.float64])
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_one_step(self, case, data_type):
        model, rows = model_of(case), Rows(case.X.astype(data_type))
        posterior = random_posterior(model, rows, 8)
        double, _ = run(case, rows, posterior)
        single, _ = run(case, rows, posterior, dtype=np.float32)
        for name in ("n", "t", "h"):
            a, b = (getattr(s.stats, name) for s in (double, single))
            assert a.dtype == b.dtype == np.float64
            assert np.abs(a - b).max() <= 1e-6 * np.abs(a).max(), name
        a, b = (model.bound(s.stats) for s in (double, single))
        assert 0 < abs(a - b) <= 1e-6 * abs(a)

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_ten_laps(self, case):
        bounds = []
        for dtype in (np.float64, np.float32):
            runner = runner_of(case, dtype=dtype)
            state = started(case, 3, 8, seed=1, runner=runner)
            for _ in range(10):
                state, info = lap(state, runner, STILL)
            bounds.append(info.bound)
        assert_allclose(bounds[1], bounds[0], rtol=1e-6)
