"""Merges: exact gains, no promising pair left out, and greedy merging that never overstates."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln

from everlearn.core.priors.dp import DPPrior
from everlearn.core.stats import Merge, Stats
from everlearn.mixture import merges
from everlearn.mixture.merges import judge_pairs, merge_gain, merge_greedily, promising_pairs
from everlearn.mixture.model import Mixture
from oracles import mixture as oracle
from oracles.cases import CASES, named, responsibilities
from oracles.responsibilities import pair_entropy_loss
from oracles.runs import ALPHA, PLAIN, by_mass_bound, model_of, rows_of, statistics

UNIT = np.empty(0)
IDS = np.array([6, 1, 9, 4])


def soft(case, weighted, k=4, seed=0):
    """Rows, random responsibilities, and their statistics."""
    rows, R = rows_of(case, weighted), responsibilities(len(case), k, seed)
    return rows, R, statistics(case.family, rows, R, IDS[:k] if k <= 4 else np.arange(k))


def losses(rows, R, pairs):
    return pair_entropy_loss(R, UNIT if rows.weights is None else rows.weights, pairs)


def pooled(R, j, k):
    """Column k added to column j."""
    out = R.copy()
    out[:, j] += out[:, k]
    return np.delete(out, k, axis=1)


class TestGain:
    @pytest.mark.parametrize("seed", range(3))
    def test_it_is_the_difference_of_bounds(self, case, model, weighted, seed):
        rows, R, stats = soft(case, weighted, seed=seed)
        before = by_mass_bound(model, stats)
        for j, k in [(0, 1), (3, 1), (2, 3)]:
            (loss,) = losses(rows, R, [(j, k)])
            gain = merge_gain(model, stats, int(IDS[j]), int(IDS[k]), loss)
            after = statistics(case.family, rows, pooled(R, j, k), np.delete(IDS, k))
            assert_allclose(gain, by_mass_bound(model, after) - before, atol=1e-9 * abs(before))

    @named(CASES)
    def test_it_is_the_difference_of_expectations(self, case):
        """By the definition of the bound, not by any closed form."""
        model, R = model_of(case), responsibilities(len(case), 3)
        R = R[:, np.argsort(-R.sum(axis=0), kind="stable")]
        stats = statistics(case.family, rows_of(case), R)
        (loss,) = pair_entropy_loss(R, UNIT, [(0, 2)])
        merged = pooled(R, 0, 2)
        assert merged[:, 0].sum() >= merged[:, 1].sum()
        slow = [oracle.elbo(case.oracle, case.dense, r, ALPHA) for r in (R, merged)]
        assert_allclose(
            merge_gain(model, stats, 0, 2, loss), slow[1] - slow[0], atol=1e-9 * abs(slow[0])
        )

    def test_order_of_components_does_not_matter(self, case, model):
        _, _, stats = soft(case, False)
        shuffled = stats.rows(np.array([2, 0, 3, 1]))
        assert_allclose(
            merge_gain(model, shuffled, 6, 4, 0.5), merge_gain(model, stats, 6, 4, 0.5), atol=1e-8
        )
        assert_allclose(
            merge_gain(model, stats, 4, 6, 0.5), merge_gain(model, stats, 6, 4, 0.5), atol=1e-8
        )

    def test_the_entropy_bracket_is_bounded(self, case):
        rows, R, stats = soft(case, True)
        for j, k in combinations(range(4), 2):
            (loss,) = losses(rows, R, [(j, k)])
            assert 0.0 <= loss <= (stats.n[j] + stats.n[k]) * np.log(2.0) + 1e-9


@dataclass(frozen=True)
class Toll:
    """A family in which every component that has rows costs the same."""

    cost: float
    n_stats: int = 1

    def posterior(self, n, t):
        return n

    def cumulant(self, q):
        return np.where(q > 0, self.cost, 0.0)


masses = st.lists(st.floats(1e-3, 1e4), min_size=2, max_size=7)


class TestPromisingPairs:
    @pytest.mark.parametrize("k", [2, 3, 6])
    @pytest.mark.parametrize("seed", range(4))
    def test_no_pair_that_gains_is_left_out(self, case, model, k, seed):
        """Without its loss of entropy, so that no responsibilities can make it gain more."""
        _, _, stats = soft(case, False, k, seed)
        found = {frozenset(pair) for pair in promising_pairs(model, stats, 10**6).tolist()}
        for a, b in combinations(stats.ids.tolist(), 2):
            if merge_gain(model, stats, a, b, 0.0) > 0:
                assert frozenset((a, b)) in found

    @given(masses, st.floats(1e-3, 1e3), st.data())
    def test_the_bound_on_the_allocation_holds(self, n, alpha, data):
        """Components cost just so much that the pair breaks even: then it must be found."""
        k = len(n)
        stats = Stats(np.arange(k), np.array(n), np.zeros((k, 1)), np.zeros(k))
        a, b = data.draw(st.sampled_from(list(combinations(range(k), 2))))
        gain = merge_gain(Mixture(Toll(0.0), DPPrior(alpha)), stats, a, b, 0.0)
        slack = 1e-6 * (1.0 + abs(gain) + sum(n))
        model = Mixture(Toll(slack - gain), DPPrior(alpha))
        assert merge_gain(model, stats, a, b, 0.0) > 0
        assert [a, b] in promising_pairs(model, stats, 10**6).tolist()

    def test_the_best_come_first(self, case, model):
        _, _, stats = soft(case, False, 6)
        everything = promising_pairs(model, stats, 10**6)
        assert_array_equal(promising_pairs(model, stats, 4), everything[:4])
        assert len(promising_pairs(model, stats, 0)) == 0
        # The order of sticks apart, all of the gain but the entropy is known.
        n, t = stats.n, stats.t
        terms = model.observation_terms(n, t) + gammaln(1 + n)
        hopes = [
            model.observation_terms(n[[a]] + n[[b]], t[[a]] + t[[b]])[0]
            + gammaln(1 + n[a] + n[b])
            - terms[a]
            - terms[b]
            for a, b in everything
        ]
        assert len(hopes) > 4
        assert hopes == sorted(hopes, reverse=True)

    def test_hopeless_pairs_are_skipped(self):
        far = Stats(*(np.array(a) for a in ([0, 1], [50.0, 50.0])), np.zeros((2, 4)), np.zeros(2))
        far.t[:, 0] = [-5e4, 5e4]
        far.t[:, 2] = 5e7 + 50.0
        assert promising_pairs(model_of(PLAIN), far, 10).shape == (0, 2)

    def test_one_component_has_no_pairs(self):
        stats = Stats.zeros(np.array([3]), PLAIN.family.n_stats)
        assert promising_pairs(model_of(PLAIN), stats, 10).shape == (0, 2)


class TestVerdicts:
    def judged(self, case, model, k=6, margin=0.0):
        rows, R, stats = soft(case, True, k, seed=5)
        pairs = np.array(list(combinations(stats.ids.tolist(), 2)))
        lost = losses(rows, R, pairs) * 0.2  # as if the components were told apart more clearly
        return stats, lost, pairs, judge_pairs(model, stats, pairs, lost, margin)

    def test_each_component_merges_once(self, case, model):
        *_, judged = self.judged(case, model)
        merged = [i for pair in judged if pair.accepted for i in (pair.keep, pair.drop)]
        assert merged
        assert len(merged) == len(set(merged))

    def test_gains_are_those_at_their_turn(self, case, model):
        stats, lost, pairs, judged = self.judged(case, model)
        for pair in judged:
            assert set(pairs[pair.row].tolist()) == {pair.keep, pair.drop}
            kept, dropped = (stats.n[stats.position(i)] for i in (pair.keep, pair.drop))
            assert kept >= dropped
            after = Merge(pair.keep, pair.drop, lost[pair.row]).on(stats)
            true = by_mass_bound(model, after) - by_mass_bound(model, stats)
            assert_allclose(pair.gain, true, atol=1e-9 * abs(by_mass_bound(model, stats)))
            stats = after if pair.accepted else stats

    def test_the_best_pair_is_judged_first(self, case, model):
        stats, lost, pairs, judged = self.judged(case, model)
        gains = [
            merge_gain(model, stats, *pair, loss) for pair, loss in zip(pairs, lost, strict=True)
        ]
        assert judged[0].gain == max(gains)

    def test_a_margin_must_be_exceeded(self, case, model):
        *_, judged = self.judged(case, model)
        best = judged[0].gain
        *_, strict = self.judged(case, model, margin=best)
        assert not any(pair.accepted for pair in strict)
        assert len(strict) == 15

    def test_nothing_to_judge(self, case, model):
        stats = soft(case, False)[2]
        assert judge_pairs(model, stats, np.empty((0, 2), np.int64), np.empty(0), 0.0) == []


def conservative_bound(model, stats, others):
    """Bound of some components next to others whose masses alone are known."""
    n = np.sort(np.concatenate([stats.n, others]))[::-1]
    return model.prior.bound(n) + model.observation_terms(stats.n, stats.t).sum() + stats.h.sum()


def merge_slowly(model, stats, loss, others):
    """Greedy merging with every bound computed anew; also which ids went where."""
    where = {int(i): [int(i)] for i in stats.ids}
    while len(stats) > 1:
        now = conservative_bound(model, stats, others)
        options = []
        for a, b in combinations(range(len(stats)), 2):
            after = Merge(int(stats.ids[a]), int(stats.ids[b]), loss[a, b]).on(stats)
            options.append((conservative_bound(model, after, others) - now, -a, -b, after))
        gain, a, b, after = max(options, key=lambda option: option[:3])
        if gain <= 0:
            break
        where[int(stats.ids[-a])] += where.pop(int(stats.ids[-b]))
        stats, a, b = after, -a, -b
        loss = loss.copy()
        loss[a] += loss[b]
        loss[:, a] = loss[a]
        loss = np.delete(np.delete(loss, b, 0), b, 1)
    return stats, where


class TestGreedy:
    @pytest.fixture(params=range(3))
    def some(self, request, case, weighted):
        k = 7
        rows, R, stats = soft(case, weighted, k, seed=request.param)
        loss = np.zeros((k, k))
        for a, b in combinations(range(k), 2):
            loss[a, b] = loss[b, a] = 0.15 * losses(rows, R, [(a, b)])[0]
        return rows, R, stats, loss, np.array([300.0, 3.0, 0.5])

    def test_as_if_every_bound_were_computed(self, model, some):
        _, _, stats, loss, others = some
        fast = merge_greedily(model, stats, loss, others)
        slow, _ = merge_slowly(model, stats, loss, others)
        assert 1 <= len(fast) < len(stats)
        assert_array_equal(fast.ids, slow.ids)
        for name in ("n", "t", "h"):
            assert_allclose(getattr(fast, name), getattr(slow, name), rtol=1e-10, atol=1e-8)

    def test_the_bound_never_falls(self, case, model, some):
        """Neither what is known of it nor the true one, which is at least as high."""
        rows, R, stats, loss, others = some
        after = merge_greedily(model, stats, loss, others)
        before = conservative_bound(model, stats, others)
        known = conservative_bound(model, after, others)
        assert known >= before - 1e-9 * abs(before)
        _, where = merge_slowly(model, stats, loss, others)
        columns = np.column_stack([R[:, where[int(i)]].sum(axis=1) for i in after.ids])
        merged = statistics(case.family, rows, columns, after.ids)
        lost = stats.h.sum() - merged.h.sum()
        # Losses were scaled down above; scaled alike, the true ones are no larger.
        assert stats.h.sum() - after.h.sum() >= 0.15 * lost - 1e-9
        assert_allclose(after.n, merged.n, rtol=1e-10)
        assert_allclose(after.t, merged.t, rtol=1e-9, atol=1e-8)

    def test_no_merge_lowers_the_exact_bound(self, case, model, monkeypatch):
        """One row each at first: more than three times as many parts as there are groups."""
        size = min(len(case), 60)
        rows = rows_of(case)[:size]
        stats = statistics(case.family, rows, np.eye(size))
        bounds = [by_mass_bound(model, stats)]

        class Watched(Merge):
            def on(self, before):
                after = super().on(before)
                bounds.append(by_mass_bound(model, after))
                return after

        monkeypatch.setattr(merges, "Merge", Watched)
        after = merge_greedily(model, stats, np.zeros((size, size)), UNIT)
        assert 1 <= len(after) < size
        assert len(bounds) == size - len(after) + 1
        assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[:-1])).all()

    @given(
        masses=st.lists(st.floats(1e-3, 1e4), min_size=2, max_size=8),
        others=st.lists(st.floats(0.0, 1e4), max_size=4),
        alpha=st.floats(0.05, 20.0),
    )
    def test_gains_of_the_allocation_are_never_overstated(self, masses, others, alpha):
        prior, n, rest = DPPrior(alpha), np.array(masses), np.array(others)
        model = Mixture(PLAIN.family, prior)

        def bound(own):
            return prior.bound(np.sort(np.concatenate([own, rest]))[::-1])

        sticks = merges._stick_gains(model, n, rest)
        for a, b in combinations(range(len(n)), 2):
            merged = np.append(np.delete(n, [a, b]), n[a] + n[b])
            pooling = gammaln(1 + n[a] + n[b]) - gammaln(1 + n[a]) - gammaln(1 + n[b])
            exact = bound(merged) - bound(n)
            known = pooling + min(sticks[a], sticks[b])
            assert known <= exact + 1e-9 * (1 + abs(bound(n)))

    def test_dear_pairs_stay_apart(self, model, some):
        _, _, stats, _, others = some
        dear = np.full((7, 7), 1e9)
        assert merge_greedily(model, stats, dear, others) is stats

    def test_inputs_stay_as_they_are(self, model, some):
        _, _, stats, loss, others = some
        copies = stats.n.copy(), stats.t.copy(), stats.h.copy(), loss.copy(), others.copy()
        merge_greedily(model, stats, loss, others)
        for old, new in zip(copies, (stats.n, stats.t, stats.h, loss, others), strict=True):
            assert_array_equal(old, new)
