"""Scores of documents at nodes, against gamma functions and plain sums."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln

from everlearn.trees.kernels import scores
from everlearn.trees.kernels.scores import Scratch, Tokens, spread_columns
from support.kernels import from_python
from trees.small_trees import ALPHA, N_WORDS, corpus, drawn, rules_of

log_rising, score_level, score_slots = map(
    from_python, (scores.log_rising, scores.score_level, scores.score_slots)
)


@pytest.mark.parametrize("x", [0.3, 5.0, 15.9, 16.0, 1234.5])
@pytest.mark.parametrize("n", [0.0, 1.0, 7.0, 300.0])
def test_log_rising(x: float, n: float) -> None:
    assert_allclose(log_rising(x, n), gammaln(x + n) - gammaln(x), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("word_prior", [0.4, 40.0])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 15, 16, 17, 35, 64])
def test_scores_of_a_level_are_those_of_its_words_together(n: int, word_prior: float) -> None:
    sampler = drawn(corpus(length=9), rules_of(word_prior=word_prior))
    nodes, room = sampler._nodes, len(sampler._nodes.ids)
    rng = np.random.default_rng(n)
    words = np.sort(rng.integers(0, N_WORDS, 2 * n))
    levels = rng.permutation(np.repeat([1, 2], n)).astype(np.uint8)
    tokens = Tokens(
        np.array([0, 2 * n]), words.astype(np.int32), levels, np.full((1, 3), -1)
    )  # fmt: skip
    scratch = Scratch(
        *(np.full(room, 7.0) for _ in range(5)), np.full(3, 7.0),
        np.empty(2 * n, np.int64), np.empty(2 * n),
    )  # fmt: skip
    score_level(tokens, 0, 2 * n, 2, nodes, sampler._priors(), scratch)
    mine = np.bincount(words[levels == 2], minlength=N_WORDS)
    for at in range(nodes.firsts[2], nodes.firsts[3]):
        before = nodes.counts[:, at] + word_prior
        each = gammaln(before + mine) - gammaln(before)
        together = gammaln(before.sum() + n) - gammaln(before.sum())
        assert_allclose(scratch.scores[at], each.sum() - together, rtol=1e-9, atol=1e-9)
    new = (gammaln(word_prior + mine) - gammaln(word_prior)).sum()
    new -= gammaln(N_WORDS * word_prior + n) - gammaln(N_WORDS * word_prior)
    assert_allclose(scratch.fresh[2], new, rtol=1e-9, atol=1e-9)


def test_scores_of_slots_are_those_of_words_on_any_level() -> None:
    sampler = drawn(corpus(length=9), rules_of())
    nodes, priors, room = sampler._nodes, sampler._priors(), len(sampler._nodes.ids)
    document = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, *[4] * 20])
    tokens = Tokens(
        np.array([0, len(document)]), document.astype(np.int32),
        np.zeros(len(document), np.uint8), np.full((1, 3), -1),
    )  # fmt: skip
    scratch = Scratch(
        *(np.ones(room) for _ in range(5)), np.zeros(3),
        np.empty(len(document), np.int64), np.empty(len(document)),
    )  # fmt: skip
    score_slots(tokens, 0, len(document), nodes, priors, scratch)
    found = sampler.topics()
    shares = ALPHA / ALPHA.sum()
    topics = np.append(found.topics(0.4), np.full((N_WORDS, 1), 1.0 / N_WORDS), axis=1)
    expected = np.log(topics[document][:, found.tree.paths] @ shares).sum(axis=0)
    root = expected[0]
    for node, score in zip(found.tree.ids, expected, strict=True):
        at, total = int(np.flatnonzero(nodes.ids == node)[0]), root
        while at > 0:
            total, at = total + scratch.scores[at], int(nodes.parents[at])
        assert_allclose(total, score, rtol=1e-12)
    assert not scratch.fresh.any()


def test_columns_move_and_some_are_left_out() -> None:
    values, out = np.arange(1.0, 9.0).reshape(2, 4), np.full((2, 3), -1.0)
    spread_columns(values, np.array([2, -1, 0, -1]), out)
    assert_array_equal(out, [[3, -1, 1], [7, -1, 5]])
