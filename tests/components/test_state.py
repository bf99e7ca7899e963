"""Visits of open rows: the bound never falls, and statistics follow the tree."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.components.local import PathRunner
from everlearn.components.state import rescale, sweep, visit_batch
from everlearn.engine.local import SerialEngine
from oracles.component_runs import planted, state_of


def test_rescaling_raises_the_bound_by_what_it_says():
    X, _ = planted(300)
    state = state_of(X)
    runner = PathRunner(state.model, SerialEngine())
    state = sweep(state, runner, 3)
    after = rescale(state)
    assert after.bound() >= state.bound()
    assert_allclose(after.bound(), after.with_total().bound(), rtol=1e-12)
    assert sweep(after, runner).bound() >= after.bound() - 1e-9 * abs(after.bound())


def test_every_visit_of_a_batch_raises_the_bound():
    X, _ = planted(240)
    state = state_of(X, pieces=4)
    runner = PathRunner(state.model, SerialEngine())
    state = sweep(state, runner)
    bounds = [state.bound()]
    for _ in range(10):
        for position in range(4):
            state = visit_batch(state, position, runner)
            bounds.append(state.bound())
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()


def test_one_batch_of_all_is_the_batch_algorithm():
    X, _ = planted(200)
    state = state_of(X)
    runner = PathRunner(state.model, SerialEngine())
    q, batch = state.q, sweep(state, runner, 1)
    stats = runner.run(q, X)
    assert_allclose(batch.total.second, stats.for_tree(batch.tree).second)
    plain = state.model.update(stats, q)
    assert_allclose(state.model.bound(stats, plain), batch.bound(), rtol=1e-6)


@pytest.mark.parametrize("pieces", [1, 4])
def test_the_bound_never_falls(pieces):
    X, _ = planted(200)
    state = state_of(X, pieces=pieces)
    runner = PathRunner(state.model, SerialEngine())
    state = sweep(state, runner)  # before it, rows that are not visited have said nothing
    bounds = [state.bound()]
    for _ in range(50):
        state = sweep(state, runner, together=False)
        bounds.append(state.bound())
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()
    assert bounds[-1] > bounds[0]


def test_statistics_follow_the_nodes_of_another_tree():
    """Nodes that go take what they say with them; nodes that come have said nothing."""
    X, _ = planted(120)
    state = state_of(X, pieces=2)
    state = sweep(state, PathRunner(state.model, SerialEngine()), 2)
    kept = state.tree.without([int(np.flatnonzero(state.tree.n_unseen == 0)[-1])])
    smaller = state.with_posterior(state.q.select(kept))
    where = state.tree.at(kept.ids)
    for old, new in zip(
        (state.total, *(b.stats for b in state.batches)),
        (smaller.total, *(b.stats for b in smaller.batches)),
        strict=True,
    ):
        assert_array_equal(new.slots, old.slots[where])
        assert_array_equal(new.second, old.second[np.ix_(where, where)])
    assert_array_equal(smaller.sealed.ids, kept.ids)
    assert smaller.n_open == 120


def test_siblings_are_ordered_by_mass_if_that_raises_the_bound():
    """Sticks favour early siblings, so the heavier one should come first."""
    X, _ = planted(300)
    state = state_of(X)
    runner = PathRunner(state.model, SerialEngine())
    for _ in range(3):
        visited = visit_batch(state, 0, runner)
        state = sweep(state, runner, together=False)
        assert state.bound() >= visited.bound() - 1e-9 * abs(visited.bound())
    ordered = state.model.paths.ordered(state.tree, state.total.slots)
    assert_array_equal(ordered.ids, state.tree.ids)
