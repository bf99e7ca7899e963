"""Deletes: who may go, what it would gain, and who takes over."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.core.stats import Permute, Stats
from everlearn.mixture import merges
from everlearn.mixture.local import Plan
from everlearn.mixture.state import Sealed, State, Trial
from oracles.runs import (
    PLAIN,
    by_mass_bound,
    model_of,
    random_posterior,
    rows_of,
    scores,
    softmax,
    statistics,
)


def masses(n, sealed=None, **changes):
    """A state of which only masses matter."""
    k, width = len(n), PLAIN.family.n_stats
    ids = np.arange(10, 10 + k)
    past = Stats(
        ids, np.zeros(k) if sealed is None else np.array(sealed), np.zeros((k, width)), np.zeros(k)
    )
    total = Stats(ids, np.array(n, float), np.zeros((k, width)), np.zeros(k))
    state = State(model_of(PLAIN), Sealed(past, np.zeros((k, k))), (), total, 10 + k, 0)
    return replace(state, **changes)


class TestCandidates:
    def test_the_smallest_come_first(self):
        state = masses([3.0, 100.0, 1.0, 2.0])
        assert merges.delete_candidates(state, 5) == (12, 13, 10)
        assert merges.delete_candidates(state, 2) == (12, 13)
        assert merges.delete_candidates(state, 1) == (12,)

    def test_large_components_stay(self):
        share = merges.MAX_SHARE
        state = masses([0.5, 0.5 - share - 0.001, share + 0.001])
        assert merges.delete_candidates(state, 5) == ()
        state = masses([0.5, 0.5 - share + 0.001, share - 0.001])
        assert merges.delete_candidates(state, 5) == (12,)

    def test_a_sealed_past_cannot_be_deleted(self):
        assert merges.delete_candidates(masses([100.0, 1.0, 2.0], sealed=[9.0, 1e-20, 0.0]), 5) == (
            12,
        )

    def test_the_last_component_stays(self):
        assert merges.delete_candidates(masses([0.0]), 5) == ()

    @pytest.mark.parametrize("direction", [-1, 1])
    def test_those_that_failed_wait_until_they_change(self, direction):
        little, enough = (1 + direction * f * merges.RETRY_AFTER for f in (0.9, 1.1))
        tried = {11: Trial(1, 1.0), 12: Trial(1, 1.0)}
        state = masses([99.0, little, enough], delete_trials=tried)
        assert merges.delete_candidates(state, 5) == (12,)

    def test_trials_are_kept_for_those_that_live(self):
        state = masses([9.0, 1.0], delete_trials={10: Trial(1, 8.0), 77: Trial(1, 1.0)})
        assert merges.after_failed_deletes(state, [11, 55]) == {
            10: Trial(1, 8.0),
            11: Trial(1, 1.0),
        }


class TestGain:
    @pytest.mark.parametrize("seed", range(3))
    def test_it_is_the_difference_of_bounds(self, case, model, runner, weighted, seed):
        """With the components in their best order before and after."""
        rows, ids = rows_of(case, weighted), np.array([4, 9, 1, 6])
        posterior = random_posterior(model, rows, 4, seed, ids)
        summary, _ = runner.run(posterior, Plan(deletes=(9, 6)), rows)
        before = by_mass_bound(model, summary.stats)
        for component, change in zip((9, 6), summary.deletes, strict=True):
            k = summary.stats.position(component)
            rest = np.delete(np.arange(4), k)
            R = softmax(scores(case.family, posterior, rows)[:, rest])
            after = by_mass_bound(model, statistics(case.family, rows, R, ids[rest]))
            gain = merges.delete_gain(model, summary.stats, component, change)
            assert_allclose(gain, after - before, atol=1e-9 * abs(before))

    def test_the_order_before_is_no_part_of_it(self, case, model, runner):
        rows = rows_of(case)
        posterior = random_posterior(model, rows, 4, seed=1)
        summary, _ = runner.run(posterior, Plan(deletes=(2,)), rows)
        gains = [
            merges.delete_gain(
                model,
                Permute(np.array(order)).on(summary.stats),
                2,
                Permute(np.array([i for i in order if i != 2])).on(summary.deletes[0]),
            )
            for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1])
        ]
        assert_allclose(gains, gains[0], atol=1e-8)

    def test_an_empty_component_gains_nothing(self, model, case):
        rows = rows_of(case)
        R = softmax(scores(case.family, random_posterior(model, rows, 2), rows))
        stats = statistics(case.family, rows, np.column_stack([R, np.zeros(len(rows))]))
        nothing = Stats.zeros(np.array([0, 1]), case.family.n_stats)
        assert_allclose(merges.delete_gain(model, stats, 2, nothing), 0.0, atol=1e-9)


def test_who_takes_over():
    change = Stats(np.array([4, 5, 6]), np.array([0.0, 1.0, 1e-12]), np.zeros((3, 1)), np.zeros(3))
    assert merges.receivers(change).tolist() == [5]
