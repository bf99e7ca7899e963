"""What a model keeps: epochs, points without a copy, merged groups, and bytes as counted."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_array_equal

from everlearn.clumps import state as module
from everlearn.clumps.items import Items, clumped, regrouped
from everlearn.clumps.state import ClumpedState, Epoch, Past, Seen
from oracles.cases import named
from oracles.clumped_runs import FAMILIES, corpus

every = named(FAMILIES)


def past_of(case, n=20):
    """Every third of the first points is single, the others are three clumps of two groups."""
    X, groups = case.X[:n], np.arange(n, dtype=np.int32) % 2
    single = np.arange(n) % 3 == 0
    leaf = np.where(single, -1, np.arange(n) % 9 // 3).astype(np.int32)
    points = Items.points(case.family.features(X), groups)
    return Past(clumped(points, leaf, 3), X[single], groups[single])


def seen_of(case):
    """The past and an epoch of three documents, one of which is empty."""
    epoch = Epoch([case.X[20:24], case.X[:0], case.X[24:30]])
    return Seen(past_of(case), epoch, epoch.documents + np.int32(2))


def test_points_belong_to_documents_in_order():
    epoch = Epoch([np.ones((2, 3)), np.ones((0, 3)), np.ones((1, 3))])
    assert (epoch.n_documents, epoch.n_points) == (3, 3)
    assert_array_equal(epoch.documents, [0, 0, 2])
    assert epoch.documents.dtype == np.int32
    assert len(Epoch(()).documents) == 0


@every
def test_items_are_clumps_then_old_points_then_new_ones(case, monkeypatch):
    seen, model = seen_of(case), corpus(case).model
    whole = seen.items(model)
    past = seen.past
    n = len(past)
    assert (len(whole), seen.n_clumps) == (n + 10, 3)
    assert_array_equal(whole.features[:3], past.clumps.features)
    points = np.concatenate([past.singles, case.X[20:30]])
    assert_array_equal(whole.features[3:], case.family.features(points))
    assert_array_equal(whole.mass[3:], 1.0)
    assert_array_equal(whole.groups[whole.starts[3] :], [*past.single_groups, *seen.groups])
    monkeypatch.setattr(module, "_FEATURE_ROWS", 4)  # blocks change nothing
    assert_array_equal(seen.items(model).features, whole.features)
    assert_array_equal(past.items(model).features, whole.features[:n])


@every
def test_points_are_found_wherever_they_are(case):
    seen = seen_of(case)
    everything = np.concatenate([seen.past.singles, case.X[20:30]])
    end = len(everything)
    for which in ([], [0], [end - 1], [2, 6, 7, 8, end - 1], list(range(end))):
        found = seen.points(np.array(which, int) + seen.n_clumps)
        assert_array_equal(found, everything[which])


@every
def test_what_is_kept_knows_merged_groups(case):
    """Without compression, what is kept has all items, in the groups as merged."""
    seen, model = seen_of(case), corpus(case).model
    merged = regrouped(seen.items(model), np.array([0, 0, 1, 1, 1]))
    kept = seen.kept(merged)
    again = kept.items(model)
    for name in ("features", "mass", "starts", "groups", "counts"):
        assert_array_equal(getattr(again, name), getattr(merged, name))
    assert len(kept) == len(seen.past) + 10
    assert not np.shares_memory(kept.clumps.groups, merged.groups)


@every
def test_no_points_are_no_items(case):
    model = corpus(case).model
    past = Past.empty(case.family.n_stats, case.family.n_features)
    assert len(past) == len(past.items(model)) == 0
    assert past.nbytes == 8  # `starts` of no clumps
    assert Seen(past).points(np.arange(0)).shape == (0, case.family.n_features)


@every
def test_a_fresh_state_has_one_topic_without_points(case):
    c = corpus(case)
    state = ClumpedState.fresh(c.model, 3.0)
    assert_array_equal(state.topics.ids, [0])
    assert state.next_id == 1
    assert_array_equal(state.topics.shares, [1.0])
    # Nothing seen: only the prior of alpha, which is exponential.
    assert state.bound == -c.oracle.rate * state.topics.alpha.sum()


@every
def test_merged_groups_keep_the_first_document_and_its_number(case):
    state = replace(
        ClumpedState.fresh(corpus(case).model, 3.0),
        group_ids=np.array([0, 1, 4, 6]),
        document_groups=np.array([0, 1, 0, 1, 2, 2, 3], np.int32),
    )
    after = state.regrouped(np.array([0, 1, 0, 1]))
    assert_array_equal(after.group_ids, [0, 1])
    assert_array_equal(after.document_groups, [0, 1, 0, 1, 0, 0, 1])
    assert after.document_groups.dtype == np.int32
    assert (after.n_tracked, state.n_tracked) == (7, 7)
    untracked = replace(state, document_groups=None).regrouped(np.arange(4))
    assert untracked.document_groups is None
    assert untracked.n_tracked == 0
    assert_array_equal(untracked.group_ids, state.group_ids)
