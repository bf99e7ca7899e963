"""Draws under word counts that follow every draw, against the joint density."""

import numpy as np
import pytest

from everlearn.core.documents import Documents
from everlearn.kernels.draws import stream_keys
from everlearn.topics.batches import as_bags
from everlearn.topics.kernels import choices, collapsed
from everlearn.topics.kernels.collapsed import (
    LiveCounts,
    sweep_collapsed,
    sweep_collapsed_with_hinges,
)
from everlearn.topics.kernels.sampler import CONTINUE, PREDICTIVE, UNIFORM, WordFactors
from everlearn.topics.weights import no_hinges
from oracles import bayespa as oracle
from oracles.gibbs_runs import EDGES, N_WORDS, STARTS, TOKENS, flat, labels_of, make_hinges, varied
from support.kernels import from_python

live_row = from_python(collapsed._live_row)


class Batch:
    """A batch with live counts, as `sweep_collapsed` takes it."""

    def __init__(self, tokens, counts, smoothing, keys):
        self.bags = as_bags(Documents.from_tokens(tokens))
        distinct, places = np.unique(self.bags.words, return_inverse=True)
        n_topics = counts.shape[1]
        totals = counts.sum(0) + smoothing * len(counts)
        self.factors = WordFactors(counts, smoothing, 1.0 / totals)
        self.live = LiveCounts(
            places.astype(np.int64), np.zeros((len(distinct), n_topics)), totals, 1.0 / totals
        )
        self.distinct = distinct
        self.topics = np.zeros(int(self.bags.starts[-1]), np.uint16)
        self.tallies = np.zeros((len(tokens), n_topics))
        self.streams = keys.copy()

    def sweep(self, alpha, tilts, hinges, start, inverses):
        before = self.bags, self.factors, alpha, self.live, tilts
        after = self.streams, start, self.topics, self.tallies
        if inverses.shape[1]:
            sweep_collapsed_with_hinges(*before, hinges, *after, inverses)
        else:
            sweep_collapsed(*before, *after)


class TestCollapsed:
    @pytest.mark.parametrize("start", ["uniform", "predictive"])
    @pytest.mark.parametrize("seed", range(3))
    def test_same_draws_under_the_gibbs_loss(self, seed, start):
        counts = np.random.default_rng(seed).gamma(0.5, 3.0, (N_WORDS, 3))
        alpha = np.array([0.3, 0.5, 0.7])
        labels = varied(labels_of(3, 2, seed=seed), len(TOKENS))
        keys = stream_keys(seed, 0, 0, len(TOKENS))
        batch, inverses = Batch(TOKENS, counts, 0.2, keys), np.zeros((len(TOKENS), 2))
        streams, given = [oracle.Stream(key) for key in keys], {}

        def after(d, z):
            means = labels[d].inverse_means(z)
            given[d] = [streams[d].inverse_gaussian(m) if m > 0 else 0.0 for m in means]

        path = oracle.collapsed_path(
            TOKENS,
            counts + 0.2,
            alpha,
            lambda d, z: labels[d].log_given(z, given[d]),
            after,
            streams,
            3,
            start,
        )
        for sweep, topics in enumerate(path):
            batch.sweep(
                alpha,
                np.ones((len(TOKENS), 3)),
                make_hinges(labels),
                CONTINUE if sweep else STARTS[start],
                inverses,
            )
            assert batch.topics.tolist() == flat(topics)
        assert batch.streams.tolist() == [stream.word for stream in streams]
        for d, found in given.items():
            np.testing.assert_allclose(inverses[d], found, rtol=1e-5)

    @pytest.mark.parametrize("seed", range(3))
    def test_same_draws_under_a_tilt(self, seed):
        rng = np.random.default_rng(seed)
        counts, alpha = rng.gamma(0.5, 3.0, (N_WORDS, 3)), np.array([0.3, 0.5, 0.7])
        tilts = rng.uniform(0.05, 1.0, (len(TOKENS), 3))
        keys = stream_keys(seed, 0, 0, len(TOKENS))
        batch = Batch(TOKENS, counts, 0.2, keys)
        streams = [oracle.Stream(key) for key in keys]
        path = oracle.collapsed_path(
            TOKENS,
            counts + 0.2,
            alpha,
            lambda d, z: sum(np.log(tilts[d, k]) for k in z),
            lambda d, z: None,
            streams,
            3,
            "uniform",
        )
        for sweep, topics in enumerate(path):
            batch.sweep(
                alpha,
                tilts,
                no_hinges(len(TOKENS), 3),
                CONTINUE if sweep else UNIFORM,
                np.zeros((len(TOKENS), 0)),
            )
            assert batch.topics.tolist() == flat(topics)

    def test_live_counts_are_those_of_the_batch(self):
        counts = np.random.default_rng(4).gamma(0.5, 3.0, (N_WORDS, 3))
        batch = Batch(TOKENS, counts, 0.2, stream_keys(1, 1, 1, len(TOKENS)))
        before = batch.live.totals.copy()
        for sweep in range(4):
            batch.sweep(
                np.full(3, 0.3),
                np.ones((len(TOKENS), 3)),
                no_hinges(len(TOKENS), 3),
                CONTINUE if sweep else PREDICTIVE,
                np.zeros((len(TOKENS), 0)),
            )
            expected = oracle.word_counts(TOKENS, [batch.topics], N_WORDS, 3)
            np.testing.assert_array_equal(batch.live.batch, expected[batch.distinct])
            np.testing.assert_allclose(batch.live.totals, before + expected.sum(0), rtol=1e-14)
            for d, words in enumerate(TOKENS):
                inside = batch.topics[EDGES[d] : EDGES[d] + len(words)]
                np.testing.assert_array_equal(batch.tallies[d], oracle.tally(inside, 3))


def test_words_of_the_other_tokens():
    """The word factor of collapsed draws, from the joint density of a batch."""
    documents, topics = [[0, 0, 2], [2, 3]], [[1, 0, 1], [0, 1]]
    delta = np.random.default_rng(7).gamma(1.0, 1.0, (N_WORDS, 2)) + 0.1
    batch = oracle.word_counts(documents, [flat(topics)], N_WORDS, 2)
    alpha = np.array([0.4, 0.9])
    tilt = np.array([0.3, 1.0])
    for d, words in enumerate(documents):
        for i, old in enumerate(topics[d]):
            held, live, totals = alpha + oracle.tally(topics[d], 2), batch.copy(), batch.sum(0)
            totals = totals + delta.sum(0)
            held[old] -= 1
            live[words[i], old] -= 1
            totals[old] -= 1
            rows, weights = np.empty((1, 2)), np.empty(2)
            scale = 1.0 / totals
            live_row(delta - 0.1, words[i], 0.1, live, words[i], scale, tilt, rows)
            total = choices.weigh_plainly(held, rows, 0, weights)

            def log_joint(z, d=d, i=i):
                others = [z if e == d else topics[e] for e in range(2)]
                joint = oracle.log_words_collapsed(documents, others, delta)
                return joint + oracle.log_allocation(z, alpha) + np.log(tilt[z[i]])

            expected = oracle.conditional(log_joint, topics[d], i, 2)
            np.testing.assert_allclose(weights / total, expected, rtol=1e-11)


def test_batches_without_documents_or_words_change_nothing():
    counts = np.random.default_rng(4).gamma(0.5, 3.0, (N_WORDS, 3))
    for tokens in ([], [[]], [[], []]):
        batch = Batch(tokens, counts, 0.2, stream_keys(1, 1, 1, len(tokens)))
        totals, streams = batch.live.totals.copy(), batch.streams.copy()
        none = np.zeros((len(tokens), 0))
        batch.sweep(
            np.full(3, 0.3), np.ones((len(tokens), 3)), no_hinges(len(tokens), 3), UNIFORM, none
        )
        np.testing.assert_array_equal(batch.live.totals, totals)
        np.testing.assert_array_equal(batch.streams, streams)
        assert not batch.tallies.any()


def test_a_single_topic_takes_every_token():
    batch = Batch(TOKENS, np.ones((N_WORDS, 1)), 0.2, stream_keys(1, 1, 1, len(TOKENS)))
    for start in (PREDICTIVE, CONTINUE):
        batch.sweep(
            np.full(1, 0.3),
            np.ones((len(TOKENS), 1)),
            no_hinges(len(TOKENS), 1),
            start,
            np.zeros((len(TOKENS), 0)),
        )
        np.testing.assert_array_equal(batch.tallies[:, 0], list(map(len, TOKENS)))
        np.testing.assert_allclose(batch.live.totals, N_WORDS * 1.2 + EDGES[-1])
