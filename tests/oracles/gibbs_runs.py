"""Small batches, labels and Gaussians for the samplers of max-margin topic models."""

from dataclasses import replace

import numpy as np

from everlearn.core.documents import Documents
from everlearn.topics.batches import as_bags
from everlearn.topics.kernels.hinges import Hinges
from everlearn.topics.kernels.sampler import PREDICTIVE, UNIFORM, WordFactors
from oracles import bayespa as oracle

N_WORDS = 4
STARTS = {"uniform": UNIFORM, "predictive": PREDICTIVE}
TOKENS = [[0, 0, 1, 3], [], [2], [1, 1, 1, 2, 3], [0, 2, 2], [], [3, 3]]
EDGES = np.cumsum([0, *map(len, TOKENS)])
NO_BAGS = as_bags(Documents.from_tokens([[]]))


def factors_of(n_topics, seed=0):
    counts = np.random.default_rng(seed).gamma(0.5, 8.0, (N_WORDS, n_topics))
    return WordFactors(counts, 0.2, 1.0 / (counts.sum(0) + 0.2 * N_WORDS))


def table_of(factors):
    return (factors.counts + factors.smoothing) * factors.scale


def labels_of(n_topics, n_tasks, *, scale=1.0, seed=1, missing=()):
    """Labels of one document; tasks and topics of a random Gaussian, offsets of any sign."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n_tasks, n_topics, n_topics))
    signs = rng.choice([-1, 1], n_tasks)
    signs[list(missing)] = 0
    return oracle.GibbsLabels(
        signs=signs,
        offsets=scale * rng.normal(0.5, 1.0, n_tasks),
        mean=scale * rng.normal(size=(n_tasks, n_topics)),
        covariance=0.1 * scale**2 * root @ root.transpose(0, 2, 1),
        c=1.7,
    )


def make_hinges(labels, mean_only=False):
    """The same for kernels; one entry of the list for each document, weights of the first."""
    one = labels[0]
    second = one.covariance + one.mean[:, :, None] * one.mean[:, None, :]
    return Hinges(
        np.array([each.signs for each in labels], np.int8),
        np.array([each.offsets for each in labels], float),
        one.mean,
        np.ascontiguousarray(one.mean.T),
        np.ascontiguousarray(second.transpose(1, 0, 2)),
        np.ascontiguousarray(second.transpose(1, 2, 0)),
        np.ascontiguousarray(np.einsum("qkk->qk", second)),
        one.c,
        mean_only,
    )


def varied(labels, n):
    """Documents whose signs and offsets differ, the weights being shared."""
    rng = np.random.default_rng(5)
    return [
        replace(
            labels,
            signs=rng.choice([-1, 0, 1], len(labels.signs)),
            offsets=labels.offsets + rng.normal(size=len(labels.signs)),
        )
        for _ in range(n)
    ]


def flat(topics):
    return [k for z in topics for k in z]
