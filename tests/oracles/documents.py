"""A document's topic proportions by the sum over all ways to give its tokens topics."""

from itertools import product

import numpy as np


def expected_proportions(tokens, phi, alpha):
    """E[tokens in each topic] / n given the words, theta being integrated out."""
    k, weight, found = len(alpha), 0.0, np.zeros(len(alpha))
    for z in product(range(k), repeat=len(tokens)):
        seen, p = np.zeros(k), 1.0
        for topic, word in zip(z, tokens, strict=True):
            p *= (alpha[topic] + seen[topic]) * phi[topic, word]
            seen[topic] += 1
        weight += p
        found += p * seen
    return found / (weight * len(tokens))
