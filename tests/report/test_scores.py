"""Scores of new batches: their means, and falls that last."""

import numpy as np
import pytest

from everlearn.report.scores import drift_of, new_scores


def log_of(scores, size=10):
    """A run log whose first batch was not scored, because nothing was learned before it."""
    return [{"records": size}] + [
        {"records": size * (i + 2), "score_before": s} for i, s in enumerate(scores)
    ]


def noisy(*levels, n=20, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([level + noise * rng.normal(size=n) for level in levels]).tolist()


def test_means_of_the_first_and_the_last_batches():
    found = new_scores(log_of([0.0] * 10 + [0.5] * 7 + [1.0] * 10))
    assert (found.n_batches, found.first, found.last) == (10, 0.0, 1.0)


def test_batches_count_by_their_records():
    log = [
        {"records": 10},
        {"records": 20, "score_before": 0.0},
        {"records": 50, "score_before": 1.0},
        {"records": 60, "score_before": 0.0},
        {"records": 90, "score_before": 1.0},
    ]
    found = new_scores(log)
    assert (found.n_batches, found.first, found.last) == (2, 0.75, 0.75)


@pytest.mark.parametrize("log", [[], [{"records": 5}], log_of([None, None])])
def test_without_scores_there_is_nothing_to_say(log):
    assert new_scores(log) is None
    assert drift_of(log) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_fall_that_lasts_is_found_where_it_is(seed):
    drift = drift_of(log_of(noisy(-3.0, -4.0, seed=seed)))
    assert drift.records == 210  # the last batch before the fall
    assert drift.before == pytest.approx(-3.0, abs=0.1)
    assert drift.since == pytest.approx(-4.0, abs=0.1)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n", [6, 30, 300])
def test_noise_and_learning_are_no_fall(seed, n):
    assert drift_of(log_of(noisy(-3.0, n=n, seed=seed))) is None
    rising = np.array(noisy(-3.0, n=n, seed=seed)) - 5.0 / np.arange(1, n + 1)
    assert drift_of(log_of(rising.tolist())) is None


def test_a_fall_that_was_made_good_is_not_told():
    assert drift_of(log_of(noisy(-3.0, -6.0, -3.0))) is None


def test_an_early_rise_does_not_hide_a_fall():
    rise = np.linspace(0.2, 0.95, 40).tolist()
    drift = drift_of(log_of(rise + noisy(0.95, 0.8, n=60, noise=0.01)))
    assert drift.records == pytest.approx(10 * 101, abs=20)
    assert drift.since == pytest.approx(0.8, abs=0.01)


def test_a_long_log_is_read_in_linear_time():
    """A search that averaged all later batches at each place would take an hour."""
    drift = drift_of(log_of(noisy(-3.0, -4.0, n=100_000)))
    assert drift.records == 10 * 100_001


def test_perfect_scores_that_end_are_a_fall():
    drift = drift_of(log_of([1.0] * 10 + [0.5] * 5))
    assert (drift.before, drift.since) == (1.0, 0.5)


def test_few_batches_say_nothing():
    assert drift_of(log_of([1.0, 1.0, 0.0, 0.0, 0.0])) is None
    assert drift_of(log_of([1.0] * 10 + [0.0])) is None
