"""Measures of topics by their plain definitions, one document and one token at a time."""

from itertools import combinations
from math import log

import numpy as np


def npmi(word_sets, i, j):
    """NPMI of two words that occur together, without smoothing (Bouma 2009, eq. 8)."""
    n = len(word_sets)
    p_i, p_j, p_ij = (sum(words <= held for held in word_sets) / n for words in ({i}, {j}, {i, j}))
    return log(p_ij / (p_i * p_j)) / -log(p_ij)


def smoothed_npmi(word_sets, i, j, smoothing):
    """The same with `smoothing` further documents in which the words are independent."""
    n = len(word_sets)
    p_i, p_j = (sum(word in held for held in word_sets) / n for word in (i, j))
    both = sum(i in held and j in held for held in word_sets)
    if p_i == 0 or p_j == 0 or both == n:
        return 0.0
    p_ij = (both + smoothing * p_i * p_j) / (n + smoothing)
    return log(p_ij / (p_i * p_j)) / -log(p_ij)


def coherence(top, word_sets, smoothing):
    """Mean over the pairs of each topic."""
    return [
        np.mean([smoothed_npmi(word_sets, i, j, smoothing) for i, j in combinations(topic, 2)])
        for topic in top
    ]


def completion(theta, phi, rows):
    """Log-likelihood of the tokens of each document under its proportions."""
    return [
        sum(log(sum(t * p for t, p in zip(theta[d], phi[:, word], strict=True))) for word in row)
        for d, row in enumerate(rows)
    ]
