"""Edits of a state: sealed and open rows stay what they are, and together they are the total."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.stats import Delete, Grow, Merge, Permute, Split, Stats, total
from everlearn.mixture.local import Plan
from everlearn.mixture.memoized import visit
from everlearn.mixture.state import OpenBatch, Sealed, State, Trial
from everlearn.mixture.streaming import seal_oldest
from oracles.cases import responsibilities
from oracles.responsibilities import pair_entropy_loss
from oracles.runs import PLAIN, assert_stats, model_of, rows_of, runner_of, started, statistics

UNIT = np.empty(0)


def whole(state):
    return total([state.sealed.stats, *(b.stats for b in state.batches)])


def half_sealed(case, k=4, seed=0, weighted=False):
    """Two sealed batches and two open ones."""
    runner = runner_of(case)
    state = started(case, 4, k, seed, weighted, runner)
    return seal_oldest(seal_oldest(state, runner), runner).resummed()


def parts_of(batch, target, rng, ids):
    """Shares of the target's statistics for some new components."""
    k = batch.stats.position(target)
    share = rng.dirichlet(np.ones(len(ids)))
    one = batch.stats.rows(slice(k, k + 1))
    return Stats(np.array(ids), share * one.n, share[:, None] * one.t, share * one.h)


def edits(state, seed):
    """One edit of each kind with its share for each open batch."""
    rng = np.random.default_rng(seed)
    a, b = rng.choice(state.total.ids, 2, replace=False).tolist()
    parts = [parts_of(batch, a, rng, [90, 91]) for batch in state.batches]
    losses = rng.random(len(state.batches))
    yield "permute", Permute(rng.permutation(state.total.ids)), None
    yield "merge", Merge(a, b, 0.0), [Merge(a, b, loss) for loss in losses]
    yield "split", Split(a, total(parts)), [Split(a, p) for p in parts]
    yield "grow", Grow(total(parts) * 0.0), None
    yield "delete", Delete(b), None


class TestEdits:
    @pytest.mark.parametrize("seed", range(3))
    def test_sealed_and_open_are_the_total(self, case, weighted, seed):
        state = half_sealed(case, weighted=weighted)
        for name, edit, shares in edits(state, seed):
            after = state.edited(edit, shares)
            for stats in (after.sealed.stats, *(b.stats for b in after.batches)):
                assert_array_equal(stats.ids, after.total.ids, err_msg=name)
            assert_stats(after.total, whole(after))
            assert after.sealed.pair_loss.shape == (len(after.total),) * 2

    @pytest.mark.parametrize("seed", range(3))
    def test_mass_and_features_are_kept(self, case, weighted, seed):
        state, mass = half_sealed(case, weighted=weighted), rows_of(case, weighted).mass
        assert_allclose(state.total.n.sum(), mass, rtol=1e-12)
        for name, edit, shares in edits(state, seed):
            if name != "delete":
                after = state.edited(edit, shares)
                assert_allclose(after.total.n.sum(), mass, rtol=1e-12, err_msg=name)
                sums = [s.total.t.sum(axis=0) for s in (state, after)]
                assert_allclose(*sums, rtol=1e-10, atol=1e-9, err_msg=name)
                assert_allclose(after.total.base, state.total.base, rtol=1e-13)

    def test_a_birth_leaves_the_sealed_past_alone(self, case):
        state = half_sealed(case)
        target = int(state.total.ids[1])
        parts = [parts_of(b, target, np.random.default_rng(0), [90, 91]) for b in state.batches]
        after = state.edited(Split(target, total(parts)), [Split(target, p) for p in parts])
        k = after.sealed.stats.position(target)
        assert after.sealed.stats.n[k] == state.sealed.stats.n[1] > 0
        assert_array_equal(after.sealed.stats.n[-2:], 0.0)
        assert_array_equal(after.sealed.pair_loss[-2:], 0.0)
        assert_array_equal(after.sealed.pair_loss[:-2, :-2], state.sealed.pair_loss)
        assert_allclose(after.total.n[k], after.sealed.stats.n[k])

    def test_labels_follow_a_merge(self):
        labels = np.array([3, 5, 3, 9], np.int32)
        batch = OpenBatch(rows_of(PLAIN)[:4], Stats.zeros(np.array([3, 5, 9]), 4), labels)
        after = batch.after(Merge(5, 3, 0.0))
        assert after.labels.tolist() == [5, 5, 5, 9]
        assert after.labels.dtype == np.int32
        assert batch.after(Permute(np.array([9, 5, 3]))).labels is labels
        assert labels.tolist() == [3, 5, 3, 9]


class TestSealedLosses:
    """What merging two components would cost the rows that are gone."""

    ids = np.array([4, 1, 7, 2])

    @pytest.fixture(name="R")
    def assigned(self):
        return responsibilities(len(PLAIN), 4, seed=2)

    @pytest.fixture
    def sealed(self, R):
        pairs = [(j, k) for j in range(4) for k in range(4)]
        loss = pair_entropy_loss(R, UNIT, pairs).reshape(4, 4)
        np.fill_diagonal(loss, 0.0)
        return Sealed(statistics(PLAIN.family, rows_of(PLAIN), R, self.ids), loss)

    def test_losses_are_found_by_id(self, sealed):
        pairs = np.array([[7, 4], [1, 2], [4, 7]])
        expected = [sealed.pair_loss[2, 0], sealed.pair_loss[1, 3], sealed.pair_loss[0, 2]]
        assert_array_equal(sealed.losses(pairs), expected)
        assert len(sealed.losses(np.empty((0, 2), np.int64))) == 0

    def test_a_merge_is_exact(self, R, sealed):
        """Whatever the open rows lose: the sealed ones know their own loss."""
        after = sealed.after(Merge(1, 2, entropy_loss=123.0))
        merged = np.column_stack([R[:, 0], R[:, 1] + R[:, 3], R[:, 2]])
        assert_stats(after.stats, statistics(PLAIN.family, rows_of(PLAIN), merged, [4, 1, 7]))

    def test_losses_of_merged_components_are_bounded_above(self, R, sealed):
        after, columns = sealed, dict(zip(self.ids.tolist(), R.T, strict=True))
        for keep, drop in [(4, 2), (7, 4)]:
            after = after.after(Merge(keep, drop, 0.0))
            columns[keep] = columns[keep] + columns.pop(drop)
            for a in columns:
                for b in columns:
                    if a != b:
                        pair = np.column_stack([columns[a], columns[b]])
                        (true,) = pair_entropy_loss(pair, UNIT, [(0, 1)])
                        (known,) = after.losses(np.array([[a, b]]))
                        assert known >= true - 1e-9
                        assert (known > true + 1e-9) == (keep in (a, b))
            assert_array_equal(after.pair_loss, after.pair_loss.T)
            assert_array_equal(np.diag(after.pair_loss), 0.0)
            R_now = np.column_stack([columns[int(i)] for i in after.stats.ids])
            true = statistics(PLAIN.family, rows_of(PLAIN), R_now, after.stats.ids)
            assert after.stats.h.sum() <= true.h.sum() + 1e-9

    def test_other_edits_move_losses_along(self, sealed):
        order = np.array([2, 7, 4, 1])
        where = [3, 2, 0, 1]
        permuted = sealed.after(Permute(order))
        assert_array_equal(permuted.pair_loss, sealed.pair_loss[np.ix_(where, where)])
        rest = [0, 1, 3]
        deleted = sealed.after(Delete(7))
        assert_array_equal(deleted.pair_loss, sealed.pair_loss[np.ix_(rest, rest)])


class TestOrder:
    @pytest.mark.parametrize("seed", range(4))
    def test_by_mass_never_lowers_the_bound(self, case, seed):
        state = started(case, 2, 5, seed)
        ordered = state.reordered()
        assert (np.diff(ordered.total.n) <= 0).all()
        assert ordered.bound() >= state.bound() - 1e-12 * abs(state.bound())
        assert ordered.bound() > state.bound() or (np.diff(state.total.n) <= 0).all()
        assert ordered.reordered() is ordered

    def test_no_other_order_is_better(self, case):
        state = started(case, 2, 5).reordered()
        for seed in range(10):
            order = np.random.default_rng(seed).permutation(state.total.ids)
            assert state.edited(Permute(order)).bound() <= state.bound() + 1e-10

    def test_adjacent_swaps(self, case, model):
        """Masses x, y with R behind them: log((alpha + y + R) / (alpha + x + R)), new less old."""
        state = started(case, 2, 5)
        n, ids, alpha = state.total.n, state.total.ids, model.prior.alpha
        for k in range(4):
            order = ids.copy()
            order[[k, k + 1]] = order[[k + 1, k]]
            behind = n[k + 2 :].sum()
            gain = np.log((alpha + n[k + 1] + behind) / (alpha + n[k] + behind))
            swapped = state.edited(Permute(order))
            assert_allclose(swapped.bound() - state.bound(), gain, atol=1e-9)


class TestEmptyComponent:
    def test_it_changes_no_bound(self, case):
        state = started(case, 2, 3)
        grown = state.edited(Grow(Stats.zeros(np.array([77]), case.family.n_stats)))
        assert grown.total.ids.tolist() == [0, 1, 2, 77]
        assert_allclose(grown.bound(), state.bound(), rtol=1e-14)
        assert_stats(grown.pruned().total, state.total)

    def test_a_visit_with_it_still_raises_the_bound(self, case, runner):
        state = started(case, 1, 3)
        grown = state.edited(Grow(Stats.zeros(np.array([77]), case.family.n_stats)))
        after, _ = visit(grown, 0, Plan(), runner)
        assert after.bound() >= grown.bound()

    def test_only_empty_components_go(self):
        state = started(PLAIN, 1, 3)
        assert state.pruned() is state
        lonely = State.empty(model_of(PLAIN), 0)
        assert lonely.pruned() is lonely


class TestBeginning:
    def test_a_state_without_rows(self, case, model):
        state = State.empty(model, seed=3, n_components=2, next_id=5)
        assert state.total.ids.tolist() == [5, 6]
        assert state.next_id == 7
        assert state.n_open == 0
        assert_allclose(state.bound(), 0.0, atol=1e-12)

    def test_resummed_forgets_drift(self):
        state = started(PLAIN, 3, 2)
        drifted = replace(state, total=state.total * (1.0 + 1e-6))
        assert_stats(drifted.resummed().total, whole(state), rtol=0, atol=0)

    def test_counts_open_rows(self):
        assert started(PLAIN, 3, 2).n_open == len(PLAIN)
        assert half_sealed(PLAIN).n_open == len(PLAIN) // 2

    def test_trials_go_stale_with_mass(self):
        trial = Trial(1, 100.0)
        assert not trial.is_stale(101.0, 0.02)
        assert trial.is_stale(103.0, 0.02)
        assert trial.is_stale(97.0, 0.02)
        assert Trial(1, 0.0).is_stale(1e-9, 0.02)
