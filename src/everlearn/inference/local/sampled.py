"""Topic proportions of documents without their labels by drawing topics, as BayesPA does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.core.documents import Documents
from everlearn.inference.engine import Engine
from everlearn.inference.kernels.draws import Words, content_keys
from everlearn.inference.kernels.topics import (
    PREDICTIVE,
    Bags,
    Margins,
    Samples,
    WordFactors,
    sample_documents,
)
from everlearn.inference.local.topic_batches import as_bags
from everlearn.inference.local.topic_steps import cut, even_cuts
from everlearn.inference.shifts import new_turns

_BLOCK_TOKENS = 20_000
"""Tokens whose draws are held at a time."""


class _Drawing(NamedTuple):
    factors: WordFactors
    alpha: Vec
    n_sweeps: int


def infer_sampled(
    documents: Documents, factors: WordFactors, alpha: Vec, n_sweeps: int, seed: int, engine: Engine
) -> Mat:
    """Topic proportions (B, K), averaged over `n_sweeps` sweeps after as many that are dropped.

    A document's draws depend on the seed and on its words, not on those beside it.
    """
    bags = as_bags(documents)
    keys = content_keys(seed, bags.indptr, bags.words, bags.counts)
    parts = even_cuts(bags, max(engine.n_workers, int(bags.starts[-1]) // _BLOCK_TOKENS))
    blocks = [(cut(bags, where), keys[where]) for where in parts]
    found = engine.map(_drawn, blocks, _Drawing(factors, alpha, n_sweeps))
    return np.concatenate(found) if found else np.empty((0, len(alpha)))


def sampled_words(
    document: Documents, factors: WordFactors, alpha: Vec, n_sweeps: int, seed: int
) -> Mat:
    """Tokens of each word of one document in each topic, (words, K), in the same draws."""
    bags = as_bags(document)
    keys = content_keys(seed, bags.indptr, bags.words, bags.counts)
    kept = _draws(_Drawing(factors, alpha, n_sweeps), bags, keys).kept
    tokens = np.zeros((len(bags.words), len(alpha)))
    places = np.repeat(np.arange(len(bags.words)), bags.counts)
    np.add.at(tokens, (np.broadcast_to(places, kept.shape), kept), 1.0)
    return tokens / n_sweeps


def _drawn(drawing: _Drawing, block: tuple[Bags, Words]) -> Mat:
    bags, keys = block
    totals = _draws(drawing, bags, keys).totals
    totals[bags.starts[1:] == bags.starts[:-1]] = drawing.alpha
    return np.asarray(totals / totals.sum(axis=1, keepdims=True))


def _draws(drawing: _Drawing, bags: Bags, keys: Words) -> Samples:
    factors, alpha, n_sweeps = drawing
    n, n_tokens, k = len(keys), int(bags.starts[-1]), len(alpha)
    out = Samples(
        np.zeros(n_tokens, np.uint16),
        np.empty((n_sweeps, n_tokens), np.uint16),
        np.zeros((n, k)),
        np.zeros((0, k)),
    )
    margins = Margins(np.empty((0, k)), np.zeros((n, 0), np.int8), np.zeros((n, 0)))
    schedule = (2 * n_sweeps, n_sweeps, PREDICTIVE)
    turns = new_turns()
    sample_documents(bags, factors, alpha, margins, (0.0, 1.0, 0.0), keys, schedule, out, turns)
    return out
