"""Scores of odd rows: against conjugate formulas by the book, and the share of rows flagged."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats

import everlearn
from everlearn import DPMixture
from everlearn.core.families.gaussian_full import FullGaussian, NormalWishartPrior
from everlearn.core.priors.dp import DPPrior
from everlearn.core.stats import Stats
from everlearn.engine.rows import Rows
from everlearn.mixture.model import Mixture
from everlearn.mixture.outliers import (
    MAX_SCORES,
    SeenScores,
    leave_one_out_scores,
    n_leave_one_out,
    outlier_scores,
    scored_positions,
)
from oracles.runs import model_of
from support.streams import FAMILIES, rows_of

RNG = np.random.default_rng
VAGUE = {"mean_precision": 1e-6, "shape": 1.0, "rate": 1e-4}
"""A prior that does not make narrow clusters wide."""


def mixture(family: str = "diagonal", **params: Any) -> DPMixture:
    return DPMixture(**{"family": family, "random_state": 0, "engine": "serial"} | params)


# The typical density of a row


@pytest.mark.parametrize("family", ["diagonal", "full", "zero-mean"])
def test_the_typical_log_density_is_the_mean_over_drawn_rows(family: str) -> None:
    known = mixture(family).fit(rows_of(family, 60, RNG(0)))._learned.state
    own = known.model.family
    q = own.posterior(known.total.n, known.total.t)
    for k in range(len(known.total)):
        drawn = own.draw(q, k, 20_000, RNG(k))
        found = own.log_predictive(drawn, q)[:, k]
        error = found.std() / np.sqrt(len(found))
        assert abs(own.log_typical(drawn, q)[0, k] - found.mean()) < 4 * error


def test_missing_entries_are_left_out_of_the_typical_density() -> None:
    X = rows_of("diagonal", 200, RNG(0))
    X[::3, 0] = np.nan
    known = mixture().fit(X)._learned.state
    own = known.model.family
    q = own.posterior(known.total.n, known.total.t)
    drawn = own.draw(q, 0, 20_000, RNG(0))
    drawn[:, 0] = np.nan
    found = own.log_predictive(drawn, q)[:, 0]
    typical = own.log_typical(drawn, q)[:, 0]
    assert abs(typical[0] - found.mean()) < 4 * found.std() / np.sqrt(len(found))
    nothing = np.full((1, X.shape[1]), np.nan)
    assert own.log_typical(nothing, q).tolist() == [[0.0] * len(known.total)]


def test_the_typical_log_density_of_counts_is_that_of_the_orders_of_tokens() -> None:
    X = rows_of("multinomial", 60, RNG(0))
    known = mixture("multinomial").fit(X)._learned.state
    own = known.model.family
    q = own.posterior(known.total.n, known.total.t)
    for table in (X, sparse.csr_array(X)):
        want = np.repeat(own.log_base(X)[:, None], len(known.total), axis=1)
        np.testing.assert_allclose(own.log_typical(table, q), want, rtol=1e-12)


# Scores


def test_a_score_of_one_component_is_the_density_beside_the_average_one(case: Any) -> None:
    model, n = model_of(case), len(case)
    features = np.asarray(case.family.features(case.dense), np.float64)
    one = Stats(
        np.zeros(1, np.int64), np.array([float(n)]), features.sum(axis=0)[None], np.zeros(1)
    )
    q = case.family.posterior(one.n, one.t)
    share = np.log((1.0 + n) / (1.0 + n + model.prior.alpha))
    want = case.family.log_typical(case.X, q) - case.family.log_predictive(case.X, q) - share
    want = want[:, 0]
    if case.family.__class__.__name__ == "Multinomial":
        want /= np.maximum(case.dense.sum(axis=1), 1.0)
    np.testing.assert_allclose(outlier_scores(model, one, case.X), want, rtol=1e-10, atol=1e-10)


def test_a_row_is_left_out_exactly(case: Any) -> None:
    """With one component, the score is that of a model which never saw the row."""
    model, n = model_of(case), len(case)
    features = np.asarray(case.family.features(case.dense), np.float64)

    def stats_of(chosen: np.ndarray) -> Stats:
        t = features[chosen].sum(axis=0)[None]
        return Stats(np.zeros(1, np.int64), np.array([float(len(chosen))]), t, np.zeros(1))

    found = leave_one_out_scores(model, stats_of(np.arange(n)), Rows(case.X))
    for i in range(0, n, max(1, n // 5)):
        rest = stats_of(np.delete(np.arange(n), i))
        q = case.family.posterior(rest.n, rest.t)
        row = case.X[i : i + 1]
        relative = case.family.log_predictive(row, q) - case.family.log_typical(row, q)
        size = 1.0
        if case.family.__class__.__name__ == "Multinomial":
            size = max(float(case.dense[i].sum()), 1.0)
        share = np.log(n / (1.0 + n + model.prior.alpha))
        np.testing.assert_allclose(found[i], -(relative[0, 0] + share) / size, rtol=1e-7, atol=1e-7)


def test_a_narrow_cluster_does_not_make_the_rows_of_a_wide_one_odd() -> None:
    """Four standard deviations from a narrow cluster is odd, the middle of a wide one is not."""
    narrow, wide = RNG(0).normal(0, 0.01, (2000, 3)), RNG(1).normal(9, 3.0, (2000, 3))
    model = mixture(prior=VAGUE).fit(np.concatenate([narrow, wide]))
    odd, middle = [[0.04, 0.04, 0.0]], [[9.0, 9.0, 9.0]]
    assert model.n_components_ == 2
    assert model.outlier_score(odd)[0] > model.outlier_score(middle)[0] + 3
    assert model.score_samples(odd)[0] > model.score_samples(middle)[0]
    assert model.is_outlier(odd)[0]
    assert not model.is_outlier(middle)[0]


def test_a_row_in_a_rare_cluster_is_odder_than_one_in_a_common_cluster() -> None:
    X = np.concatenate([RNG(0).normal(0, 1, (2000, 2)), RNG(1).normal(20, 1, (20, 2))])
    model = mixture().fit(X)
    rare, common = model.outlier_score([[20.0, 20.0], [0.0, 0.0]])
    assert rare - common == pytest.approx(np.log(100), abs=0.5)


def test_long_rows_of_counts_are_not_odd_for_their_length() -> None:
    rng = RNG(0)
    lengths = rng.integers(5, 200, 3000)
    X = rng.multinomial(lengths, rng.dirichlet(np.ones(30))).astype(float)
    model = mixture("multinomial").fit(X[:2000])
    new, long = X[2000:], lengths[2000:] > 100
    score = model.outlier_score(new)
    assert abs(np.corrcoef(score, lengths[2000:])[0, 1]) < 0.15
    assert np.corrcoef(-model.score_samples(new), lengths[2000:])[0, 1] > 0.8
    assert model.is_outlier(new[long], rate=0.05).mean() < 0.06


# The share of rows flagged


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("how", ["fit", "stream", "saved", "merged", "stochastic"])
def test_the_rate_holds_on_new_rows(family: str, how: str, tmp_path: Any) -> None:
    n = 3000
    X, new = rows_of(family, n, RNG(0)), rows_of(family, 8000, RNG(1))
    model = mixture(family, learner="stochastic" if how == "stochastic" else "memoized")
    if how == "merged":
        halves = [mixture(family).fit(part) for part in (X[:1500], X[1500:])]
        model = everlearn.merge(halves)
    elif how == "fit":
        model.fit(X)
    else:
        for start in range(0, n, 500):
            model.partial_fit(X[start : start + 500])
    if how == "saved":
        model.save(tmp_path / "m.evl")
        twin = everlearn.load(tmp_path / "m.evl")
        np.testing.assert_array_equal(twin.is_outlier(new), model.is_outlier(new))
    n_scores = len(model._learned.scores.scores)
    for rate in (0.05, 0.2):
        flagged = model.is_outlier(new, rate=rate).mean()
        # Counts have ties, none of which is flagged; a limit from few scores varies.
        slack = 4 * np.sqrt(rate * (1 - rate) * (1 / n_scores + 1 / len(new))) + 0.01
        low = 0.0 if family == "multinomial" else rate - slack
        assert low <= flagged <= rate + slack


def test_rates_of_small_sets_hold_because_rows_are_left_out() -> None:
    """Over 30 sets of 60 rows in 10 dimensions. The rows' own scores would flag far too many."""
    flagged, naive = [], []
    for seed in range(30):
        X, new = RNG(seed).normal(size=(60, 10)), RNG(seed + 1000).normal(size=(500, 10))
        model = mixture("full").fit(X)
        flagged.append(model.is_outlier(new, rate=0.1).mean())
        naive.append((model.outlier_score(new) > np.quantile(model.outlier_score(X), 0.9)).mean())
    error = np.std(flagged) / np.sqrt(len(flagged))
    assert abs(np.mean(flagged) - 0.1) < 4 * error + 0.01
    assert np.mean(naive) > 0.2


@pytest.mark.parametrize("family", FAMILIES)
def test_planted_outliers_are_flagged(family: str) -> None:
    X = rows_of(family, 2000, RNG(0))
    odd = np.full((5, X.shape[1]), 60.0)
    if family == "multinomial":
        X = RNG(0).multinomial(20, [0.6, 0.39, 0.01], 2000).astype(float)
        odd = np.full((5, 3), [0.0, 0.0, 20.0])
    model = mixture(family).fit(X)
    assert model.is_outlier(odd, rate=0.01).all()


def test_missing_values_first_seen_in_a_later_batch() -> None:
    X = rows_of("diagonal", 2000, RNG(0))
    model = mixture().partial_fit(X)
    gaps = X.copy()
    gaps[:, 0] = np.nan
    assert model.is_outlier(gaps).mean() < 0.03
    model.partial_fit(gaps)
    assert model.is_outlier(np.full((1, X.shape[1]), 50.0))[0]
    row = np.full((1, X.shape[1]), np.nan)
    assert not model.is_outlier(row)[0]


# What is kept


def test_fewer_rows_are_left_out_of_wide_covariances() -> None:
    narrow = mixture("full").fit(RNG(0).normal(size=(3000, 3)))
    assert len(narrow._learned.scores.scores) == MAX_SCORES
    model = narrow._learned.state.model
    assert n_leave_one_out(model, 100) == 100
    prior = NormalWishartPrior(np.zeros(400), 1.0, 402.0, np.eye(400))
    wide = Mixture(FullGaussian(prior, np.zeros(400)), DPPrior(1.0))
    assert n_leave_one_out(wide, MAX_SCORES) == 20_000_000 // wide.family.n_stats == 248


def test_rows_of_a_stream_are_scored_by_their_place_however_it_is_cut() -> None:
    first, start = 50_000, 50_000
    whole, parts = start + scored_positions(3, first, 10_000), []
    for size in (1, 7, 500, 492, 3000, 6000):
        parts.append(start + scored_positions(3, start, size))
        start += size
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert len(whole) == pytest.approx(10_000 / 8, abs=128)
    assert scored_positions(3, 0, 2000).tolist() == list(range(2000))
    for n in (4096, 8192, 16_384, 32_768):  # of the latter half
        assert 1000 <= len(scored_positions(3, n // 2, n // 2)) <= MAX_SCORES


def test_scores_are_bounded_and_of_models_that_knew_half_of_the_rows() -> None:
    seen = SeenScores.of(np.zeros(MAX_SCORES), None, 1000)
    seen = seen.after(SeenScores.of(np.ones(100), None, 1500))
    assert seen.scores.tolist() == [0.0] * (MAX_SCORES - 100) + [1.0] * 100
    seen = seen.after(SeenScores.of(np.full(10, 2.0), None, 2001))
    assert seen.scores.tolist() == [1.0] * 100 + [2.0] * 10


def test_the_threshold_is_that_of_a_new_row_of_any_rank() -> None:
    """Exact for exchangeable rows: with 99 scores, one in a hundred is above the largest."""
    seen = SeenScores.of(RNG(0).permutation(99).astype(float), None, 99)
    assert seen.threshold(0.01) == 98.0
    assert seen.threshold(0.02) == 97.0
    assert seen.threshold(0.5) == 49.0
    assert seen.threshold(1e-6) == 98.0


def test_weights_count_as_rows() -> None:
    scores, weights = np.arange(5.0), np.array([4.0, 1, 1, 1, 3])
    often = SeenScores.of(np.repeat(scores, weights.astype(int)), None, 10)
    weighted = SeenScores.of(scores, weights, 10)
    for rate in (0.35, 0.45, 0.6):
        assert weighted.threshold(rate) == often.threshold(rate)


def test_pooled_scores_keep_the_share_of_each_model() -> None:
    one = SeenScores.of(np.zeros(MAX_SCORES), None, 5000)
    two = SeenScores.of(np.ones(MAX_SCORES // 2), None, 2500)
    both = SeenScores.pooled([one, two], 7500)
    assert set(both.known.tolist()) == {7500}
    assert len(both.scores) <= MAX_SCORES
    assert both.scores.mean() == pytest.approx(1 / 3, abs=0.01)


@pytest.mark.parametrize("rate", [0.0, -1, 1.5, "1%", True, None])
def test_a_bad_rate_is_refused(rate: Any) -> None:
    X = rows_of("diagonal", 50, RNG(0))
    model = mixture().fit(X)
    with pytest.raises(ValueError, match="'rate'"):
        model.is_outlier(X, rate=rate)


def test_weighted_rows_are_scored_as_the_same_rows_repeated() -> None:
    X = rows_of("diagonal", 200, RNG(0))
    weighted = mixture().fit(X, sample_weight=np.full(200, 3.0))._learned.scores
    assert weighted.weights.tolist() == [3.0] * 200


@pytest.mark.parametrize("weight", [0.5, 0.1])
def test_a_row_of_little_weight_is_left_out_with_that_weight(weight: float) -> None:
    X = rows_of("diagonal", 400, RNG(0))
    model = mixture().fit(X, sample_weight=np.full(400, weight))
    fresh = model.outlier_score(rows_of("diagonal", 2000, RNG(1)))
    seen = model._learned.scores.scores
    assert abs(np.median(seen) - np.median(fresh)) < 0.2
    assert 0.02 < model.is_outlier(rows_of("diagonal", 2000, RNG(2)), rate=0.05).mean() < 0.1


def test_the_score_by_hand_for_a_row_between_two_components() -> None:
    X = np.concatenate([RNG(0).normal(0, 1, (300, 1)), RNG(1).normal(9, 2, (100, 1))])
    model = mixture(moves=("merge",), max_components=2).fit(X)
    known = model._learned.state
    q = known.model.family.posterior(known.total.n, known.total.t)
    x, want = 3.0, 0.0
    known_weights, _ = known.model.sticks(known.total).mean_weights()
    for k in range(2):
        dof = 2 * q.shape[k, 0]
        scale = np.sqrt(q.rate[k, 0] * (1 + 1 / q.mean_precision[k, 0]) / q.shape[k, 0])
        t = stats.t(dof, q.mean[k, 0] + known.model.family.origin[0], scale)
        want += known_weights[k] * t.pdf(x) * np.exp(t.entropy())
    np.testing.assert_allclose(model.outlier_score([[x]]), -np.log(want))
