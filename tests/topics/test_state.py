"""What a topic model knows: topics that come and go, room that grows, steps that are undone."""

import pickle
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from everlearn.core.documents import Documents
from everlearn.topics.batches import as_bags
from everlearn.topics.state import (
    CountBuffer,
    FixedSpread,
    Gaussians,
    SavedCounts,
    TopicState,
    WordWeights,
)


def gaussians(seed=0, q=2, k=3):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(q, k, k))
    return Gaussians(root @ root.transpose(0, 2, 1) + np.eye(k), rng.normal(size=(q, k)))


def state_of(weights=None, words=None, n_words=5, k=3, seed=0):
    rng = np.random.default_rng(seed)
    state = TopicState.empty(n_words, np.arange(k) % 2, weights, words, seed=7)
    state.counts[:] = rng.integers(0, 9, (n_words, k))
    state.totals[:] = state.counts.sum(axis=0)
    return state


class TestWeights:
    def test_natural_parameters_are_a_gaussian(self):
        weights = gaussians()
        mean, covariance = weights.moments()
        for q in range(2):
            np.testing.assert_allclose(covariance[q], np.linalg.inv(weights.precision[q]))
            np.testing.assert_allclose(weights.precision[q] @ mean[q], weights.shift[q])
        assert_array_equal(weights.mean, mean)

    def test_new_topics_are_independent_with_their_prior(self):
        old, means = gaussians(), np.array([[4.0, -1.0], [0.0, 2.5]])
        mean, covariance = old.extended(means, 0.25).moments()
        old_mean, old_covariance = old.moments()
        np.testing.assert_allclose(mean, np.hstack([old_mean, means]), rtol=1e-12)
        np.testing.assert_allclose(covariance[:, :3, :3], old_covariance, rtol=1e-10)
        np.testing.assert_allclose(covariance[:, 3:, 3:], [0.25 * np.eye(2)] * 2)
        assert not covariance[:, :3, 3:].any()

    @pytest.mark.parametrize("weights", [gaussians(), FixedSpread(np.arange(6.0).reshape(2, 3))])
    def test_what_was_added_can_be_taken_away(self, weights):
        more = weights.extended(np.ones((2, 4)), 0.5)
        assert more.mean.shape == (2, 7)
        np.testing.assert_allclose(more.select(np.arange(3)).mean, weights.mean, rtol=1e-12)
        np.testing.assert_allclose(more.select(np.array([3, 6])).mean, 1.0)
        none = weights.extended(np.empty((2, 0)), 0.5)
        np.testing.assert_array_equal(none.mean, weights.mean)

    @pytest.mark.parametrize("weights", [gaussians(), FixedSpread(np.arange(6.0).reshape(2, 3))])
    def test_topics_in_another_order(self, weights):
        order = np.array([2, 0, 1])
        np.testing.assert_allclose(weights.select(order).mean, weights.mean[:, order], rtol=1e-12)

    def test_the_precision_left_is_that_of_the_topics_left(self):
        """The block of the precision, not of the covariance: the others are fixed, not averaged."""
        weights = gaussians()
        left = weights.select(np.array([0, 2]))
        assert_array_equal(left.precision, weights.precision[:, [0, 2]][:, :, [0, 2]])
        assert_array_equal(left.shift, weights.shift[:, [0, 2]])

    def test_a_fixed_spread_starts_new_topics_at_their_means(self):
        more = FixedSpread(np.ones((2, 1))).extended(np.array([[5.0], [-5.0]]), 0.1)
        assert_array_equal(more.mean, [[1, 5], [1, -5]])


class TestRoom:
    def test_enough_room_is_the_same_state(self):
        state = state_of()
        assert state.with_room(5, 3) is state
        assert state.with_room(2, 1) is state

    @pytest.mark.parametrize(
        ("n_words", "n_topics", "shape"),
        [(5, 4, (5, 4)), (9, 3, (9, 3)), (6, 20, (6, 20)), (1, 4, (5, 4))],
    )
    def test_new_room_is_empty(self, n_words, n_topics, shape):
        state = state_of()
        more = state.with_room(n_words, n_topics)
        assert more.counts.shape == shape
        assert more.totals.shape == shape[1:]
        assert_array_equal(more.counts[:5, :3], state.counts)
        assert more.counts.sum() == state.counts.sum()
        assert_array_equal(more.totals, more.counts.sum(axis=0))
        assert more.n_topics == 3
        assert state.counts.shape == (5, 3)

    def test_columns_grow_by_a_quarter_and_rows_by_as_many_again(self):
        wide = state_of().with_room(5, 20)
        assert wide.with_room(5, 21).counts.shape == (5, 25)
        assert wide.with_room(6, 40).counts.base.shape == (10, 40)

    def test_words_with_weights_get_room_too(self):
        words = WordWeights(np.ones((5, 2)), np.arange(5.0), 9.0)
        more = state_of(words=words).with_room(8, 3)
        assert more.words.weights.shape == (8, 2)
        assert more.words.frequencies.tolist() == [0, 1, 2, 3, 4, 0, 0, 0]
        assert more.words.weights.sum() == 10
        assert more.words.n_documents == 9.0
        assert words.with_room(5) is words
        none = WordWeights.empty(3, 2)
        assert (none.weights.shape, none.frequencies.shape, none.n_documents) == ((3, 2), (3,), 0)

    def test_words_that_come_one_by_one_are_seldom_copied(self):
        words = WordWeights(np.ones((5, 2)), np.arange(5.0), 9.0)
        state, copies = state_of(words=words), 0
        for n in range(6, 200):
            more = state.with_room(n, 3)
            assert more.counts.shape == (n, 3)
            assert more.words.weights.shape == (n, 2)
            assert not more.counts[-1].any()
            copies += not np.shares_memory(more.counts, state.counts)
            more.counts[-1] = n
            state = more
        assert copies == 6  # room for 10, 20, 40, 80, 160 and 320 words
        assert_array_equal(state.counts[5:, 0], np.arange(6, 200))
        assert_array_equal(state.words.frequencies[:5], np.arange(5.0))

    def test_what_a_call_that_was_undone_left_behind_is_cleared(self):
        state = state_of().with_room(6, 3)
        state.with_room(8, 3).counts[6:] = 7.0
        assert not state.with_room(8, 3).counts[6:].any()

    def test_copies_have_no_room(self):
        state = state_of().with_room(6, 3)
        for copy in (deepcopy(state), pickle.loads(pickle.dumps(state))):
            assert copy.counts.base is None or len(copy.counts.base) == 6
            assert not np.shares_memory(copy.with_room(7, 3).counts, state.counts)

    def test_the_beginning_of_other_arrays_is_not_their_room(self):
        whole = np.arange(30.0).reshape(10, 3)
        state = replace(state_of(), counts=whole[::2])
        more = state.with_room(7, 3)
        assert not np.shares_memory(more.counts, whole)
        assert_array_equal(whole, np.arange(30.0).reshape(10, 3))

    def test_an_empty_state(self):
        state = TopicState.empty(4, np.array([0, 1, 0]), None, None, seed=3)
        assert (state.n_words, state.n_topics, state.next_id) == (4, 3, 3)
        assert (state.clock, state.seed) == (0, 3)
        assert not state.counts.any()
        assert state.ids.tolist() == [0, 1, 2]


class TestSavedCounts:
    def change(self, state, saved, tokens, seed):
        documents = Documents.from_tokens(tokens)
        saved.save(documents.words)
        kept = np.random.default_rng(seed).integers(0, 3, (2, documents.n_tokens))
        totals = np.bincount(kept.ravel(), minlength=3)
        buffer = CountBuffer(state)
        buffer.add_draws(as_bags(documents), kept.astype(np.uint16), 0.3, totals)
        np.testing.assert_allclose(state.totals[:3], state.counts[:, :3].sum(axis=0), rtol=1e-12)

    def test_every_bit_comes_back(self):
        state = state_of()
        counts, totals = state.counts.copy(), state.totals.copy()
        saved = SavedCounts(state)
        self.change(state, saved, [[0, 0, 3]], 0)
        self.change(state, saved, [[3, 4], [0]], 1)  # again, after they have changed
        assert (state.counts != counts).any()
        saved.restore()
        assert_array_equal(state.counts, counts)
        assert_array_equal(state.totals, totals)

    def test_words_not_saved_stay(self):
        state = state_of()
        saved = SavedCounts(state)
        saved.save(np.array([1], np.int32))
        before = state.counts.copy()
        state.counts[[1, 2]] += 1.0
        saved.restore()
        assert_array_equal(state.counts[1], before[1])
        assert_array_equal(state.counts[2], before[2] + 1.0)

    def test_word_weights_come_back(self):
        words = WordWeights(np.arange(10.0).reshape(5, 2), np.arange(5.0), 9.0)
        saved = SavedCounts(state_of(words=words))
        saved.save(np.array([0, 3, 3], np.int32))
        words.weights[[0, 3]] += 0.1
        words.frequencies[[0, 3]] += 1.0
        saved.restore()
        assert_array_equal(words.weights, np.arange(10.0).reshape(5, 2))
        assert_array_equal(words.frequencies, np.arange(5.0))

    def test_words_that_were_not_known_yet(self):
        state = state_of()
        before = state.counts.copy()
        saved = SavedCounts(state)
        saved.save(np.array([2, 9, 40], np.int32))
        state.counts[2] += 1.0
        saved.restore()
        assert_array_equal(state.counts, before)
