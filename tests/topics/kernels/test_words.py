"""The linear term on words, against its definition, one document after the other."""

import math

import numpy as np
import pytest

from everlearn.core.documents import Documents
from everlearn.topics.batches import as_bags
from everlearn.topics.kernels.words import learn_words, score_words, word_features

N_WORDS = 8


def corpus(n=25, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.poisson(0.6, (n, N_WORDS))
    table[3] = 0
    signs = rng.choice([-1, 0, 1], (n, 2)).astype(np.int8)
    return table, signs, rng.normal(size=(n, 2))


def features(row, n_documents, frequencies):
    """{word: (variance, feature)} of spec 18.3."""
    scale = {
        w: (1 + math.log((1 + n_documents) / (1 + frequencies[w]))) ** 1.5
        for w in np.flatnonzero(row)
    }
    norm = math.sqrt(sum((scale[w] * math.log(1 + row[w])) ** 2 for w in scale))
    return {w: (scale[w] ** 2, math.log(1 + row[w]) / norm) for w in scale}


def learned(table, signs, offsets, box):
    weights, frequencies, n_documents = np.zeros((N_WORDS, 2)), np.zeros(N_WORDS), 0
    for row, y, offset in zip(table, signs, offsets, strict=True):
        if not row.any():
            continue
        n_documents += 1
        frequencies += row > 0
        x = features(row, n_documents, frequencies)
        for q in range(2):
            score = offset[q] + sum(weights[w, q] * each for w, (_, each) in x.items())
            tau = min(box, max(0.0, 1 - y[q] * score))
            for w, (variance, each) in x.items():
                weights[w, q] += tau * y[q] * variance * each
    return weights, frequencies, n_documents


@pytest.mark.parametrize("box", [0.2, 1.0, 50.0])
def test_learning_is_the_plain_one(box):
    table, signs, offsets = corpus()
    expected, documents_with, n_documents = learned(table, signs, offsets, box)
    weights, frequencies = np.zeros((N_WORDS, 2)), np.zeros(N_WORDS)
    bags = as_bags(Documents.from_dense(table))
    found = learn_words(bags, offsets, signs, box, 0.0, frequencies, weights)
    np.testing.assert_allclose(weights, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(frequencies, documents_with)
    assert found == n_documents == np.count_nonzero(table.any(axis=1))


def test_batches_do_not_matter():
    table, signs, offsets = corpus()
    weights, frequencies, n = np.zeros((N_WORDS, 2)), np.zeros(N_WORDS), 0.0
    for i in range(0, 25, 4):
        where = slice(i, i + 4)
        bags = as_bags(Documents.from_dense(table[where]))
        n = learn_words(bags, offsets[where], signs[where], 1.0, n, frequencies, weights)
    expected, _, _ = learned(table, signs, offsets, 1.0)
    np.testing.assert_allclose(weights, expected, rtol=1e-10, atol=1e-12)


def test_scores_are_added_and_a_step_meets_the_margin():
    table, _, _ = corpus()
    row = table[:1]
    signs, weights = np.array([[1, -1]], np.int8), np.zeros((N_WORDS, 2))
    frequencies = np.full(N_WORDS, 5.0)
    bags = as_bags(Documents.from_dense(row))
    n = learn_words(bags, np.zeros((1, 2)), signs, 9.0, 20.0, frequencies, weights)
    scores = np.array([[10.0, 20.0]])
    score_words(bags, n, frequencies, weights, scores)
    np.testing.assert_allclose(scores, [[11.0, 19.0]])
    x = features(row[0], n, frequencies)
    np.testing.assert_allclose(
        word_features(bags, n, frequencies), [x[w][1] for w in np.flatnonzero(row[0])], rtol=1e-12
    )
    assert sum(variance * each**2 for variance, each in x.values()) == pytest.approx(1.0)


def test_empty_documents_have_no_words():
    bags = as_bags(Documents.from_tokens([[], [1]]))
    scores = np.ones((2, 1))
    score_words(bags, 3.0, np.ones(N_WORDS), np.ones((N_WORDS, 1)), scores)
    assert scores[0, 0] == 1.0
    assert scores[1, 0] > 1.0
    assert word_features(bags, 3.0, np.ones(N_WORDS)).shape == (0,)
