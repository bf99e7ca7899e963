"""Rows on paths: exact posteriors against sums over grids, and engines."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.components.local import (
    PathRunner,
    path_stats,
    prepare_slots,
    score_slots,
)
from everlearn.engine.local import SerialEngine
from everlearn.engine.opening import open_engine
from oracles.component_runs import beliefs, evidence, planted, state_of
from oracles.components import plain_sums, slot_evidence

FIELDS = ("slots", "codes", "second", "cross", "first", "squares", "unseen", "entropy", "n")


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_integrals_over_coordinates(seed):
    model, q = beliefs(seed)
    slots = prepare_slots(model, q)
    for t in np.random.default_rng(seed).normal(size=(2, 3)) * 2:
        found = score_slots(slots, t[None])
        ours = found.scores[0] + found.base[0] - slots.weights
        exact = [slot_evidence(model, q, s, t)[0] for s in range(len(q.tree))]
        assert_allclose(ours, exact, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_sums_are_those_of_loops(seed, depth):
    model, q = beliefs(seed, 3, 4 if depth > 1 else 0, depth)
    X = np.random.default_rng(seed).normal(size=(15, 3)) * 2
    slots = prepare_slots(model, q)
    stats, _ = path_stats(slots, X)
    mass, codes, second, cross = plain_sums(model, q, slots, X)
    assert_allclose(stats.slots, mass, atol=1e-12)
    assert_allclose(stats.codes, codes, atol=1e-11)
    assert_allclose(stats.second, second, atol=1e-11)
    assert_allclose(stats.cross, cross, atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_the_long_form_is_the_log_sum(seed):
    model, q = beliefs(seed, 3, 4, 3)
    X = np.random.default_rng(seed).normal(size=(30, 3)) * 3
    slots = prepare_slots(model, q)
    stats, _ = path_stats(slots, X)
    short = evidence(slots, X).sum() - model.divergence(q) - model.paths.divergence(q.sticks)
    assert_allclose(model.bound(stats, q), short, rtol=1e-10)


def test_one_batch_of_all_rows_is_many_blocks(monkeypatch):
    X, _ = planted(300)
    state = state_of(X)
    runner = PathRunner(state.model, SerialEngine())
    whole = runner.run(state.q, X)
    monkeypatch.setattr("everlearn.components.local.BLOCK_ROWS", 37)
    cut = runner.run(state.q, X)
    for name in FIELDS:
        assert_allclose(getattr(cut, name), getattr(whole, name), rtol=1e-9, atol=1e-9)


def test_engines_give_the_same_bits(monkeypatch):
    monkeypatch.setattr("everlearn.components.local.BLOCK_ROWS", 37)
    X, _ = planted(300)
    state = state_of(X)
    found = []
    for name in ("serial", "threads"):
        with open_engine(name) as engine:
            found.append(PathRunner(state.model, engine).run(state.q, X))
    for name in FIELDS:
        assert_array_equal(getattr(found[0], name), getattr(found[1], name))
