"""Weights of topics: fixed, or sticks that all documents share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.topics.priors import FixedTopics, SharedSticks, stick_weights
from oracles import bayespa as oracle

tables = st.lists(
    st.one_of(st.just(0.0), st.floats(0.01, 1e5), st.integers(1, 4).map(float)), max_size=12
).map(lambda values: np.array(values, float))
etas = st.floats(1e-3, 50.0)


@given(tables, etas)
def test_weights_are_the_means_of_the_sticks(counts, eta):
    weights, rest = stick_weights(counts, eta)
    expected, left = oracle.stick_weights(counts.tolist(), eta)
    np.testing.assert_allclose(weights, expected, rtol=1e-8, atol=1e-300)
    assert rest == pytest.approx(left, rel=1e-8)


@given(tables, etas)
def test_weights_and_the_rest_are_everything(counts, eta):
    weights, rest = stick_weights(counts, eta)
    assert weights.sum() + rest == pytest.approx(1.0, abs=1e-12)
    assert ((weights > 0) == (counts > 0)).all()
    assert rest > 0


@given(tables, etas, st.randoms())
def test_topics_in_another_order_have_the_same_weights(counts, eta, random):
    counts = counts + 1e-4 * np.arange(len(counts)) * (counts > 0)  # no ties
    order = list(range(len(counts)))
    random.shuffle(order)
    weights, rest = stick_weights(counts, eta)
    permuted, same = stick_weights(counts[order], eta)
    np.testing.assert_allclose(permuted, weights[order], rtol=1e-9)
    assert same == pytest.approx(rest, rel=1e-9)


def test_weights_are_means_of_drawn_sticks():
    """Monte Carlo of Beta sticks, within 5 standard errors."""
    rng = np.random.default_rng(0)
    counts, eta = np.array([2.0, 7.0, 4.0]), 1.5
    order = [1, 2, 0]
    sticks = rng.beta(1 + counts[order], eta + np.array([6.0, 2.0, 0.0]), size=(40_000, 3))
    drawn = np.empty((40_000, 3))
    drawn[:, order] = sticks * np.cumprod(np.hstack([np.ones((40_000, 1)), 1 - sticks]), 1)[:, :-1]
    weights, rest = stick_weights(counts, eta)
    assert (np.abs(drawn.mean(0) - weights) < 5 * drawn.std(0) / 200).all()
    left = 1 - drawn.sum(1)
    assert abs(left.mean() - rest) < 5 * left.std() / 200


def test_hundreds_of_topics_underflow_nowhere():
    weights, rest = stick_weights(np.full(3000, 1e-3), 1e-3)
    assert (weights >= 0).all()
    assert np.isfinite(weights).all()
    assert 0 <= rest < 1


def test_without_tables_everything_is_left():
    weights, rest = stick_weights(np.zeros(3), 2.0)
    assert weights.tolist() == [0, 0, 0]
    assert rest == 1.0


def test_a_fixed_number_of_topics_has_a_symmetric_prior():
    np.testing.assert_array_equal(FixedTopics(0.3).document_prior(np.array([0.0, 9.0])), [0.3, 0.3])


class TestSharedSticks:
    def test_topics_without_tables_share_the_rest(self):
        counts = np.array([3.0, 0.0, 8.0, 0.0])
        weights, rest = oracle.stick_weights(counts.tolist(), 1.0)
        alpha = SharedSticks(5.0, 1.0).document_prior(counts)
        expected = 5.0 * np.array([weights[0], rest / 2, weights[2], rest / 2])
        np.testing.assert_allclose(alpha, expected, rtol=1e-12)
        assert alpha.sum() == pytest.approx(5.0)

    def test_known_topics_do_not_get_the_rest(self):
        counts = np.array([3.0, 8.0])
        weights, rest = oracle.stick_weights(counts.tolist(), 1.0)
        alpha = SharedSticks(2.0, 1.0).document_prior(counts)
        np.testing.assert_allclose(alpha, 2.0 * weights)
        assert alpha.sum() == pytest.approx(2.0 * (1 - rest))

    def test_nothing_is_ever_impossible(self):
        alpha = SharedSticks(1e-30, 1e-9).document_prior(np.array([5.0, 0.0]))
        assert (alpha >= 1e-12).all()

    def test_the_input_stays_as_it_was(self):
        counts = np.array([3.0, 0.0])
        SharedSticks(1.0, 1.0).document_prior(counts)
        assert counts.tolist() == [3.0, 0.0]
