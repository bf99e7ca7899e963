"""Statistics are a vector space, and edits of their components are linear."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.stats import Delete, Grow, Merge, Permute, Split, Stats, total
from oracles.cases import DIAGONAL, responsibilities, statistics

FIELDS = ("n", "t", "h", "base")
N_STATS = 3
numbers = st.floats(-1e3, 1e3, allow_subnormal=False)


@st.composite
def stats_lists(draw, size=2, ids=None):
    """Several statistics over one list of ids."""
    if ids is None:
        ids = draw(st.lists(st.integers(0, 50), min_size=2, max_size=5, unique=True))
    k = len(ids)
    table = draw(arrays(float, (size, k, N_STATS + 2), elements=numbers))
    bases = draw(arrays(float, size, elements=numbers))
    return [
        Stats(np.array(ids), a[:, 0], a[:, 2:], a[:, 1], float(base))
        for a, base in zip(table, bases, strict=True)
    ]


batches = st.integers(1, 13).flatmap(lambda size: stats_lists(size, ids=[4, 2]))


def assert_same(a, b, atol=0.0):
    assert_array_equal(a.ids, b.ids)
    for name in FIELDS:
        assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=atol, err_msg=name)


def two_ids(stats):
    return int(stats.ids[0]), int(stats.ids[-1])


class TestVectorSpace:
    @given(stats_lists(2))
    def test_subtraction_undoes_addition(self, parts):
        a, b = parts
        assert_same((a + b) - b, a, atol=1e-12 * 1e3)

    @given(stats_lists(3))
    def test_addition_commutes_and_associates(self, parts):
        a, b, c = parts
        assert_same(a + b, b + a)
        assert_same((a + b) + c, a + (b + c), atol=1e-12 * 1e3)

    @given(stats_lists(2), numbers, numbers)
    def test_scalar_laws(self, parts, c, d):
        a, b = parts
        scale = 1e-12 * 1e6
        assert_same(a * 1.0, a)
        assert_same((a + b) * c, a * c + b * c, atol=scale)
        assert_same(a * (c + d), a * c + a * d, atol=scale)
        assert_same(a * (c * d), a * d * c, atol=scale * 1e3)

    @given(stats_lists(1))
    def test_zeros_is_neutral(self, parts):
        (a,) = parts
        assert_same(a + Stats.zeros(a.ids, N_STATS), a)
        assert_same(a - a, Stats.zeros(a.ids, N_STATS))
        assert_same(a * 0.0, Stats.zeros(a.ids, N_STATS))

    def test_a_numpy_scalar_scales_too(self):
        a = Stats(np.array([3]), np.ones(1), np.ones((1, 2)), np.ones(1), 1.0)
        assert_same(a * np.float64(2.0), a + a)

    @pytest.mark.parametrize("other", [[2, 1], [1, 3], [1], [1, 2, 3]])
    def test_other_ids_are_refused(self, other):
        a, b = Stats.zeros(np.array([1, 2]), 1), Stats.zeros(np.array(other), 1)
        for combine in (lambda: a + b, lambda: a - b, lambda: total([a, b])):
            with pytest.raises(ValueError, match="cannot be combined"):
                combine()


class TestTotal:
    @given(batches, st.data())
    def test_grouping_does_not_matter(self, parts, data):
        cut = data.draw(st.integers(0, len(parts) - 1))
        grouped = total(([total(parts[:cut])] if cut else []) + [total(parts[cut:])])
        assert_same(grouped, total(parts), atol=1e-9)

    @given(batches)
    def test_bits_depend_on_the_order_alone(self, parts):
        assert_same(total(iter(parts)), total(parts))

    @given(batches)
    @pytest.mark.parametrize("width", [2, 4])
    def test_bits_survive_blocks_of_a_power_of_two(self, width, parts):
        blocks = [total(parts[i : i + width]) for i in range(0, len(parts), width)]
        assert_same(total(blocks), total(parts))

    def test_many_small_numbers_lose_less_than_a_running_sum(self):
        one = Stats(np.array([0]), np.array([0.1]), np.zeros((1, 1)), np.zeros(1))
        parts = [one] * 4096
        running = sum(parts[1:], parts[0])
        assert abs(total(parts).n[0] - 409.6) < abs(running.n[0] - 409.6)

    def test_nothing_to_sum(self):
        with pytest.raises(ValueError, match="nothing to sum"):
            total([])


class TestEditsAreLinear:
    """Editing a sum equals summing the edited parts."""

    @given(stats_lists(3), st.randoms(use_true_random=False))
    def test_permute(self, parts, random):
        order = parts[0].ids.tolist()
        random.shuffle(order)
        edit = Permute(np.array(order))
        assert_same(total(parts).apply(edit), total(p.apply(edit) for p in parts))

    @given(stats_lists(3), st.data())
    def test_delete(self, parts, data):
        edit = Delete(data.draw(st.sampled_from(parts[0].ids.tolist())))
        assert_same(total(parts).apply(edit), total(p.apply(edit) for p in parts))

    @given(stats_lists(3), st.lists(numbers, min_size=3, max_size=3), numbers)
    def test_merge_when_losses_add(self, parts, losses, c):
        keep, drop = two_ids(parts[0])
        left = total(parts).apply(Merge(keep, drop, sum(losses)))
        edited = [p.apply(Merge(keep, drop, loss)) for p, loss in zip(parts, losses, strict=True)]
        assert_same(left, total(edited), atol=1e-9)
        scaled = (parts[0] * c).apply(Merge(keep, drop, c * losses[0]))
        assert_same(scaled, edited[0] * c, atol=1e-6)

    @given(stats_lists(2), stats_lists(2, ids=[60, 61]))
    def test_grow_and_split_when_parts_add(self, parts, fresh):
        target = int(parts[0].ids[0])
        for make in (Grow, lambda p: Split(target, p)):
            left = (parts[0] + parts[1]).apply(make(fresh[0] + fresh[1]))
            right = parts[0].apply(make(fresh[0])) + parts[1].apply(make(fresh[1]))
            assert_same(left, right)

    @given(stats_lists(1), stats_lists(1, ids=[60, 61]))
    def test_edits_leave_their_operand_alone(self, parts, fresh):
        (a,), (f,) = parts, fresh
        before = a * 1.0
        first, last = two_ids(a)
        for edit in (
            Permute(a.ids[::-1].copy()),
            Delete(first),
            Merge(first, last, 1.0),
            Grow(f),
            Split(first, f),
        ):
            a.apply(edit)
            assert_same(a, before)


class TestEditsMeanWhatTheySay:
    """The same answer from edited statistics and from edited responsibilities."""

    R = responsibilities(len(DIAGONAL), 4, seed=3)
    ids = np.array([10, 11, 12, 13])

    def stats(self, R, ids):
        return statistics(DIAGONAL.family, DIAGONAL.X, R, ids)

    def test_merge_adds_columns(self):
        a, b = self.R[:, 1], self.R[:, 3]
        share = np.divide(a, a + b, out=np.zeros_like(a), where=a + b > 0)
        mixed = (share > 0) & (share < 1)
        p = share[mixed]
        binary = -p * np.log(p) - (1 - p) * np.log(1 - p)
        loss = ((a + b)[mixed] * binary).sum()
        assert loss > 0.1
        R = np.column_stack([self.R[:, 0], a + b, self.R[:, 2]])
        merged = self.stats(self.R, self.ids).apply(Merge(11, 13, loss))
        assert_same(merged, self.stats(R, [10, 11, 12]), atol=1e-12)

    def test_split_moves_a_column(self):
        share = np.random.default_rng(0).random(len(self.R))[:, None]
        fresh = np.hstack([share, 1 - share]) * self.R[:, [2]]
        R = np.hstack([self.R, fresh])
        R[:, 2] = 0.0
        parts = self.stats(fresh, [20, 21])
        split = self.stats(self.R, self.ids).apply(Split(12, parts))
        assert_same(split, self.stats(R, [*self.ids, 20, 21]), atol=1e-12)

    def test_permute_and_delete_select_columns(self):
        a = self.stats(self.R, self.ids)
        order = [2, 0, 3, 1]
        permuted = self.stats(self.R[:, order], self.ids[order])
        assert_same(a.apply(Permute(self.ids[order])), permuted, atol=1e-12)
        deleted = self.stats(self.R[:, [0, 2, 3]], [10, 12, 13])
        assert_same(a.apply(Delete(11)), deleted, atol=1e-12)

    def test_rows_selects_and_leaves_the_base_behind(self):
        a = self.stats(self.R, self.ids)
        some = replace(self.stats(self.R[:, [3, 1]], [13, 11]), base=0.0)
        assert_same(a.rows(np.array([3, 1])), some, atol=1e-12)
        assert a.rows(slice(1, 3)).ids.tolist() == [11, 12]

    def test_position_and_size(self):
        a = self.stats(self.R, self.ids)
        assert len(a) == 4
        assert a.position(12) == 2
        assert a.nbytes == 8 * (4 + 4 + 4 * DIAGONAL.family.n_stats + 4)


@pytest.mark.parametrize(
    "edit",
    [
        Delete(9),
        Merge(1, 9, 0.0),
        Merge(9, 1, 0.0),
        Permute(np.array([1, 9])),
        Permute(np.array([1, 1])),
        Permute(np.array([2])),
        Split(9, Stats.zeros(np.array([5]), 1)),
    ],
)
def test_unknown_components_are_refused(edit):
    with pytest.raises(KeyError):
        Stats.zeros(np.array([1, 2]), 1).apply(edit)


@pytest.mark.parametrize(
    "edit", [Grow(Stats.zeros(np.array([2]), 1)), Split(1, Stats.zeros(np.array([1]), 1))]
)
def test_ids_in_use_are_refused(edit):
    with pytest.raises(ValueError, match="already in use"):
        Stats.zeros(np.array([1, 2]), 1).apply(edit)


def test_a_component_does_not_merge_with_itself():
    with pytest.raises(ValueError, match="itself"):
        Stats.zeros(np.array([1, 2]), 1).apply(Merge(1, 1, 0.0))
