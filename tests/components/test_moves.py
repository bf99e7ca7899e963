"""Moves of trees of components: what they change, and gains that are differences of bounds."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.components import moves
from everlearn.components.local import PathRunner, prepare_slots
from everlearn.components.model import ComponentModel, NodeStats
from everlearn.components.moves import (
    Branch,
    add_branch,
    best_branches,
    merge_candidates,
    merge_siblings,
    removal_candidates,
    remove_branch,
    split_candidates,
    split_leaf,
    survey_rows,
)
from everlearn.components.search import (
    grow_tree,
    judge,
    open_batches,
    seal_all,
    shrink_tree,
    start_path,
)
from everlearn.components.settings import ComponentTreeSettings
from everlearn.components.state import sweep
from everlearn.core.priors.nested import NestedPrior
from everlearn.engine.local import SerialEngine
from oracles.component_runs import evidence, planted, state_of


def recomputed(state):
    """The bound from the rows themselves, all of them visited at the current beliefs."""
    X = np.concatenate([batch.X for batch in state.batches])
    model, q = state.model, state.q
    rows = evidence(prepare_slots(model, q), X).sum()
    return rows - model.divergence(q) - model.paths.divergence(q.sticks)


@pytest.fixture(scope="module")
def settled():
    X, _ = planted(400)
    state = state_of(X, depth=3, n_branches=3)
    runner = PathRunner(state.model, SerialEngine())
    return sweep(state, runner, 20), runner


def survey_of(state, seed=0):
    return survey_rows(state, np.random.default_rng(seed), SerialEngine())


def test_a_survey_sees_the_rows_as_the_local_step_does(settled):
    state, _ = settled
    survey = survey_of(state)
    X = state.batches[0].X
    assert_allclose(survey.evidence + survey.base, evidence(prepare_slots(state.model, state.q), X))
    path = state.tree.paths[survey.best[0]]
    own = state.q.mean[path[path >= 0]]
    x = np.linalg.lstsq(own.T, survey.centred[0], rcond=None)[0]
    least = np.sum((survey.centred[0] - x @ own) ** 2)
    assert survey.unexplained()[0] >= least - 1e-9
    assert_allclose(survey.residuals(int(path[path >= 0][-1]))[0], survey.centred[0] - x @ own)


def test_large_data_are_sampled(settled, monkeypatch):
    state, _ = settled
    monkeypatch.setattr(moves, "MAX_SURVEY_ROWS", 100)
    survey = survey_of(state)
    assert len(survey.best) == 100
    assert survey.factor == 4.0


def test_branches_grow_where_there_is_room(settled):
    state, _ = settled
    rng = np.random.default_rng(0)
    survey = survey_of(state)
    for room in (1, 2):
        for branch in best_branches(survey, rng, 12, room, 3):
            assert len(branch.mean) == state.tree.n_unseen[branch.below] <= room
    new = add_branch(state, best_branches(survey, rng, 12, 2, 1)[0])
    added = set(new.tree.ids) - set(state.tree.ids)
    assert added == set(range(1000, new.next_id))
    assert new.total.slots.sum() == pytest.approx(state.total.slots.sum())


def test_an_estimated_gain_is_not_above_what_comes_of_it(settled):
    """With all else fixed the branch can only gain less than after visits of all rows."""
    state, runner = settled
    found = best_branches(survey_of(state), np.random.default_rng(1), 16, 5, 1)[0]
    plain = sweep(state, runner, 3)
    new = sweep(add_branch(state, found), runner, 3)
    gain = new.bound() - plain.bound()
    assert gain > 0.5 * found.gain


@pytest.mark.parametrize("kind", ["birth", "split", "merge", "delete"])
def test_the_gain_of_a_move_is_a_difference_of_bounds(settled, kind):
    state, runner = settled
    survey = survey_of(state)
    if kind == "birth":
        found = best_branches(survey, np.random.default_rng(0), 16, 3, 1)
        trial = add_branch(state, found[0])
    elif kind == "split":
        trial = split_leaf(state, survey, int(split_candidates(survey)[0]))
    elif kind == "merge":
        trial = merge_siblings(state, *merge_candidates(state, 1)[0])
    else:
        trial = remove_branch(state, removal_candidates(state, survey)[0].position)
    plain, trial = sweep(state, runner, 3), sweep(trial, runner, 3)
    kept, record = judge(plain, trial, kind, 0.0)
    difference = trial.bound() - plain.bound()
    assert record.gain == difference
    # The log-sum form after one more visit is the long form of the sums it would give.
    for one in (plain, trial):
        visited = runner.run(one.q, one.batches[0].X)
        assert_allclose(one.model.bound(visited, one.q), recomputed(one), rtol=1e-10)
        assert one.bound() <= recomputed(one) + 1e-9 * abs(one.bound())
    assert record.accepted == (kept is trial)
    ids = set(plain.tree.ids.tolist())
    assert set(record.removed) <= ids
    assert not set(record.added) & ids


def test_a_new_node_must_bring_a_margin(settled):
    state, runner = settled
    found = best_branches(survey_of(state), np.random.default_rng(0), 16, 3, 1)[0]
    plain = sweep(state, runner, 3)
    trial = sweep(add_branch(state, found), runner, 3)
    gain = trial.bound() - plain.bound()
    per_feature = gain / len(found.mean) / state.model.n_features
    assert judge(plain, trial, "birth", 0.99 * per_feature)[1].accepted
    assert not judge(plain, trial, "birth", 1.01 * per_feature)[1].accepted


def test_a_duplicate_is_merged_and_an_idle_node_is_removed():
    X, _ = planted(400)
    X = X - X.mean(axis=0)
    scale = float(X.var(axis=0).mean())
    model = ComponentModel(NestedPrior(1.0), X.shape[1], scale, 1e-3, 1e-3 * scale)
    runner = PathRunner(model, SerialEngine())
    settings = ComponentTreeSettings(max_iter=20)
    start = open_batches(start_path(model, X, ComponentTreeSettings(max_nodes=20), 0), [X])
    state, _ = grow_tree(start, runner, settings, lambda info: None)
    twin = int(np.flatnonzero((state.tree.n_children == 0) & (state.total.slots > 50))[0])
    parent = int(state.tree.parents[twin])
    own = np.array([[state.q.covariance[twin, twin]]])
    shares = np.zeros(1)
    same = Branch(parent, state.q.mean[[twin]], own, shares, state.total.slots[twin], 0.0)
    double = sweep(add_branch(state, same), runner, 3)
    settings = ComponentTreeSettings(moves=frozenset({"merge"}))
    merged, records = shrink_tree(double, runner, settings)
    assert any(record.kind == "merge" and record.accepted for record in records)
    assert len(merged.tree) < len(double.tree)
    idle = Branch(parent, 1e-3 * state.q.mean[[twin]], own, shares, 1.0, 0.0)
    larger = sweep(add_branch(state, idle), runner, 3)
    smaller, records = shrink_tree(
        larger, runner, ComponentTreeSettings(moves=frozenset({"delete"}))
    )
    assert any(record.kind == "delete" and record.accepted for record in records)
    assert len(smaller.tree) < len(larger.tree)


def test_merged_nodes_have_the_children_of_both():
    X, _ = planted(60)
    state = state_of(X, n_branches=8)
    state = sweep(state, PathRunner(state.model, SerialEngine()))
    inner = [
        pair for pair in merge_candidates(state, 50) if state.tree.n_children[list(pair)].any()
    ]
    one, two = inner[0]
    ids = state.tree.ids
    new = merge_siblings(state, one, two)
    assert set(new.tree.ids) == set(ids) - {ids[two]}
    children = {*ids[state.tree.children(one)], *ids[state.tree.children(two)]}
    assert set(new.tree.ids[new.tree.children(int(new.tree.at(ids[one])))]) == children


def test_what_holds_rows_that_are_gone_stays(settled):
    state, _ = settled
    sealed = seal_all(state)
    sealed = replace(sealed, batches=state.batches)
    assert not [
        cut
        for cut in removal_candidates(sealed, survey_of(sealed))
        if sealed.tree.through(sealed.sealed.slots)[cut.position] > 0
    ]
    assert all(sealed.sealed.slots[two] == 0 for _, two in merge_candidates(sealed, 10))


def test_rows_without_rest_grow_nothing():
    X = np.zeros((30, 4))
    state = state_of(X + 1e-9 * np.arange(30)[:, None], depth=2, n_branches=1)
    survey = replace(survey_of(state), centred=np.zeros((30, 4)))
    survey = replace(survey, scores=np.tile(survey.slots.bias, (30, 1)))
    assert best_branches(survey, np.random.default_rng(0), 5, 5, 1) == []


def test_statistics_of_no_rows_are_zero():
    nothing = NodeStats.zeros(np.array([3, 5]), 4)
    assert nothing.n == 0.0
    assert_array_equal(nothing.second, np.zeros((2, 2)))
