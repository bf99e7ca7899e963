"""Coherence, diversity and document completion against their plain definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.core.documents import LARGEST, Documents, split_documents
from everlearn.metrics import topics as metrics
from everlearn.metrics.topics import (
    completion_log_likelihood,
    npmi_coherence,
    perplexity,
    topic_diversity,
)
from everlearn.testing.data import planted_topics
from oracles.topics import coherence, completion, npmi

rows_of_words = st.lists(st.lists(st.integers(0, 6), max_size=8), min_size=1, max_size=8)
tops = st.integers(2, 5).flatmap(
    lambda n: st.lists(st.permutations(range(9)).map(lambda p: p[:n]), min_size=1, max_size=3)
)


class TestCoherence:
    @given(rows_of_words, tops, st.sampled_from([1e-9, 0.5, 1.0, 10.0]))
    def test_it_is_the_plain_definition_and_finite(self, rows, top, smoothing):
        found = npmi_coherence(top, Documents.from_tokens(rows), smoothing=smoothing)
        np.testing.assert_allclose(
            found.topics, coherence(top, [set(row) for row in rows], smoothing), atol=1e-12
        )
        assert (np.abs(found.topics) <= 1 + 1e-12).all()
        assert found.mean == pytest.approx(found.topics.mean())

    def test_without_smoothing_it_is_the_textbook_value(self):
        rows = [[0, 1], [0, 1, 2], [1, 2], [0, 2], [3]]
        sets = [set(row) for row in rows]
        expected = np.mean([npmi(sets, i, j) for i, j in [(0, 1), (0, 2), (1, 2)]])
        found = npmi_coherence([[0, 1, 2]], Documents.from_tokens(rows), smoothing=1e-12)
        assert found.mean == pytest.approx(expected, rel=1e-9)

    def test_words_that_always_meet_have_one_and_words_that_never_meet_minus_one(self):
        documents = Documents.from_tokens([[0, 1]] * 50 + [[2]] * 50)
        found = npmi_coherence([[0, 1], [0, 2]], documents, smoothing=1e-200)
        np.testing.assert_allclose(found.topics, [1, -1], atol=0.01)

    def test_unseen_and_ubiquitous_words_count_nothing(self):
        documents = Documents.from_tokens([[0, 1, 2], [0, 1], [0, 1, 2]])
        found = npmi_coherence([[0, 1], [0, 9], [8, 9], [2, 0]], documents)
        np.testing.assert_allclose(found.topics, 0, atol=1e-12)

    def test_how_often_a_word_occurs_in_a_document_does_not_matter(self):
        planted = planted_topics(60, 3, 30, random_state=0)
        once = planted.X
        once.data[:] = 1
        top = np.argsort(-planted.phi)[:, :5]
        assert npmi_coherence(top, planted.X).mean == npmi_coherence(top, once).mean

    @pytest.mark.parametrize("seed", range(3))
    def test_planted_topics_cohere_and_shuffled_ones_do_not(self, seed):
        planted = planted_topics(300, 5, 100, random_state=seed)
        top = np.argsort(-planted.phi, axis=1)[:, :8]
        shuffled = np.random.default_rng(seed).permutation(top.ravel()).reshape(top.shape)
        true, false = (npmi_coherence(t, planted.documents).topics for t in (top, shuffled))
        assert true.min() > false.max() + 0.05

    @pytest.mark.parametrize(
        "top", [[1, 2], [[1]], [[0.0, 1.0]], np.empty((0, 3), int), [[1, 2], [3, 3]]]
    )
    def test_top_words_without_pairs_are_refused(self, top):
        with pytest.raises(ValueError, match="'top_words' must"):
            npmi_coherence(top, Documents.from_tokens([[1]]))

    @pytest.mark.parametrize("smoothing", [0, -1, np.nan, np.inf])
    def test_smoothing_is_positive(self, smoothing):
        with pytest.raises(ValueError, match="'smoothing' must be a positive number"):
            npmi_coherence([[0, 1]], Documents.from_tokens([[1]]), smoothing=smoothing)

    def test_no_documents_are_refused(self):
        with pytest.raises(ValueError, match="one or more documents"):
            npmi_coherence([[0, 1]], Documents.from_tokens([]))


@pytest.mark.parametrize(
    ("top", "share"), [([[0, 1], [2, 3]], 1.0), ([[0, 1], [1, 0]], 0.5), ([[0, 1, 2, 3]] * 4, 0.25)]
)
def test_diversity_is_the_share_of_distinct_words(top, share):
    assert topic_diversity(top) == share


class TestSplit:
    @given(rows_of_words, st.integers(0, 3))
    def test_halves_add_up_and_have_equal_lengths(self, rows, seed):
        documents = Documents.from_tokens(rows)
        observed, held_out = split_documents(documents, seed)
        whole = observed.to_csr(7) + held_out.to_csr(7)
        np.testing.assert_array_equal(whole.toarray(), documents.to_csr(7).toarray())
        difference = observed.lengths - held_out.lengths
        np.testing.assert_array_equal(difference, documents.lengths % 2)
        assert min(observed.counts.min(initial=1), held_out.counts.min(initial=1)) == 1

    def test_a_document_splits_in_the_same_way_in_any_company(self):
        documents = planted_topics(40, random_state=1).documents
        rows = np.random.default_rng(0).permutation(40)[:25]
        for whole, part in zip(
            split_documents(documents, 7), split_documents(documents.take(rows), 7), strict=True
        ):
            for name in ("indptr", "words", "counts"):
                np.testing.assert_array_equal(getattr(part, name), getattr(whole.take(rows), name))

    def test_seeds_and_documents_are_drawn_apart(self):
        documents = Documents.from_dense(np.array([[20, 20, 20], [20, 20, 21]]))
        firsts = [split_documents(documents, seed)[0].to_csr(3).toarray() for seed in range(60)]
        one, other = np.array(firsts)[:, :, 0].T
        assert len(set(one)) > 4
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.5

    def test_tokens_are_drawn_without_preference(self):
        documents = Documents.from_dense(np.array([[9, 3, 4]]))
        first = [split_documents(documents, seed)[0].to_csr(3).toarray()[0] for seed in range(2000)]
        expected = np.array([9, 3, 4]) / 2
        variance = expected * (1 - np.array([9, 3, 4]) / 16) * 8 / 15
        error = np.sqrt(variance / 2000)
        assert (np.abs(np.mean(first, axis=0) - expected) < 4 * error).all()
        np.testing.assert_allclose(np.var(first, axis=0), variance, rtol=0.15)

    def test_a_document_too_long_to_draw_from_is_refused(self):
        with pytest.raises(ValueError, match=f"fewer than 1000000000 tokens, got {LARGEST}"):
            split_documents(Documents.from_dense([[LARGEST]]), 0)


class TestCompletion:
    ROWS = ((0, 1, 1), (), (3,), (2, 2, 2, 0))

    def case(self):
        rng = np.random.default_rng(3)
        return rng.dirichlet(np.ones(3), 4), rng.dirichlet(np.ones(4), 3)

    @pytest.mark.parametrize("block", [1, 6, 2**21])
    def test_it_is_the_plain_sum(self, monkeypatch, block):
        monkeypatch.setattr(metrics, "_BLOCK", block)
        theta, phi = self.case()
        held_out = Documents.from_tokens([np.array(row, dtype=int) for row in self.ROWS])
        expected = completion(theta, phi, self.ROWS)
        for given_phi in (phi, lambda words: phi[:, words]):
            found = completion_log_likelihood(theta, given_phi, held_out)
            np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_an_impossible_word_is_minus_infinity(self):
        held_out = Documents.from_tokens([[0], [1]])
        found = completion_log_likelihood(np.ones((2, 1)), np.array([[1.0, 0.0]]), held_out)
        assert found.tolist() == [0.0, -np.inf]
        assert perplexity(found, 2) == np.inf

    def test_the_truth_beats_a_single_topic(self):
        planted = planted_topics(100, 4, 60, random_state=2)
        _, held_out = split_documents(planted.documents, 0)
        true = completion_log_likelihood(planted.theta, planted.phi, held_out)
        mean = completion_log_likelihood(
            np.tile(planted.theta.mean(axis=0), (100, 1)), planted.phi, held_out
        )
        n = held_out.n_tokens
        assert perplexity(true, n) < 0.7 * perplexity(mean, n)

    def test_shapes_that_do_not_fit_are_refused(self):
        theta, phi = self.case()
        with pytest.raises(ValueError, match="'theta' must have a row for each of the 1 documents"):
            completion_log_likelihood(theta, phi, Documents.from_tokens([[0]]))
        with pytest.raises(ValueError, match="'phi' has no column for word 4, only 4"):
            completion_log_likelihood(theta[:1], phi, Documents.from_tokens([[4]]))

    def test_perplexity_of_equal_chances_is_their_number(self):
        assert perplexity(np.log([1 / 5, 1 / 5]), 2) == pytest.approx(5)

    def test_perplexity_of_nothing_is_refused(self):
        with pytest.raises(ValueError, match="'n_tokens' must be at least 1, got 0"):
            perplexity(0.0, 0)
