"""Topics under the Gibbs loss, against the joint density."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.core.documents import Documents
from everlearn.kernels.draws import LARGEST_INVERSE, stream_keys
from everlearn.topics.batches import as_bags
from everlearn.topics.kernels import choices
from everlearn.topics.kernels import hinges as kernels
from everlearn.topics.kernels.gibbs import sample_augmented
from everlearn.topics.kernels.sampler import CONTINUE, PREDICTIVE, UNIFORM, Samples
from everlearn.topics.weights import no_hinges
from oracles import bayespa as oracle
from oracles.gibbs_runs import (
    EDGES,
    N_WORDS,
    NO_BAGS,
    STARTS,
    TOKENS,
    factors_of,
    labels_of,
    make_hinges,
    table_of,
    varied,
)

LIMIT = 4.5
"""Standard deviations that a chi-square may lie above its mean."""


def run(tokens, factors, alpha, hinges, schedule, *, tilts=None, keys=None, z=None, inverses=None):
    bags = as_bags(Documents.from_tokens(tokens))
    n, n_tokens, n_kept = len(tokens), int(bags.starts[-1]), schedule[0] - schedule[1]
    topics = np.zeros(n_tokens, np.uint16) if z is None else np.array(z, np.uint16)
    kept = np.zeros((n_kept, n_tokens), np.uint16)
    out = Samples(topics, kept, np.zeros((n, len(alpha))), np.zeros((0, len(alpha))))
    tallies = np.zeros((n_kept, n, len(alpha)))
    found = np.zeros((n_kept, n, hinges.signs.shape[1]))
    if inverses is not None:
        found[-1] = inverses
    keys = stream_keys(1, 2, 3, n) if keys is None else keys
    tilts = np.ones((n, len(alpha))) if tilts is None else tilts
    given = (bags, factors, alpha, hinges, tilts, keys, schedule)
    sample_augmented(*given, out, tallies, found)
    return out, tallies, found


def frequencies(topics, n_tokens, n_topics):
    places = np.asarray(topics, int).reshape(-1, n_tokens) @ n_topics ** np.arange(n_tokens)[::-1]
    return np.bincount(places, minlength=n_topics**n_tokens)


class TestPaths:
    """Whole runs, draw by draw, with weights from the joint density."""

    def replay(self, labels, factors, alpha, tilts, keys, n_sweeps, start, mean_only):
        return [
            oracle.gibbs_path(
                words, table_of(factors), alpha, each, key, n_sweeps, start, tilt, mean_only
            )
            for words, each, tilt, key in zip(TOKENS, labels, tilts, keys, strict=True)
        ]

    @pytest.mark.parametrize("start", ["uniform", "predictive"])
    @pytest.mark.parametrize("mean_only", [False, True])
    @pytest.mark.parametrize(
        ("n_topics", "n_tasks", "scale"), [(2, 1, 1.0), (3, 3, 1.0), (3, 2, 4.0), (19, 2, 2.0)]
    )
    def test_same_draws(self, n_topics, n_tasks, scale, start, mean_only):
        factors, alpha = factors_of(n_topics), np.linspace(0.3, 0.7, n_topics)
        labels = varied(labels_of(n_topics, n_tasks, scale=scale), len(TOKENS))
        for seed in range(3):
            keys = stream_keys(seed, 0, 0, len(TOKENS))
            tilts = np.random.default_rng(seed).random((len(TOKENS), n_topics)) ** 3
            out, tallies, inverses = run(
                TOKENS,
                factors,
                alpha,
                make_hinges(labels, mean_only),
                (5, 2, STARTS[start]),
                tilts=tilts,
                keys=keys,
            )
            paths = self.replay(labels, factors, alpha, tilts, keys, 5, start, mean_only)
            for d, path in enumerate(paths):
                if not TOKENS[d]:
                    assert not tallies[:, d].any()
                    continue
                for sweep, (z, found) in enumerate(path[2:]):
                    assert out.kept[sweep, EDGES[d] : EDGES[d + 1]].tolist() == z
                    np.testing.assert_array_equal(tallies[sweep, d], oracle.tally(z, n_topics))
                    np.testing.assert_allclose(inverses[sweep, d], found, rtol=1e-5)
            np.testing.assert_array_equal(out.totals, tallies.sum(axis=0))
            np.testing.assert_array_equal(out.topics, out.kept[-1])

    @pytest.mark.parametrize("scale", [30.0, 300.0, 3000.0])
    def test_long_documents(self, scale):
        """Most tokens stay, and are seen to without a look at all topics."""
        tokens = [np.repeat(np.arange(N_WORDS), [30, 0, 11, 19]).tolist()]
        factors, alpha = factors_of(9), np.full(9, 0.02)
        moved = 0.0
        for seed in range(4):
            labels, keys = [labels_of(9, 3, scale=scale, seed=seed)], stream_keys(seed, 0, 0, 1)
            out, _, _ = run(
                tokens, factors, alpha, make_hinges(labels), (4, 0, PREDICTIVE), keys=keys
            )
            path = oracle.gibbs_path(
                tokens[0], table_of(factors), alpha, labels[0], keys[0], 4, "predictive"
            )
            assert out.kept.tolist() == [z for z, _ in path]
            moved += (out.kept[2] != out.kept[3]).mean() / 4
        assert 0.0 < moved < 0.4

    def test_products_that_vanish(self):
        """Weights so strong that `weigh` alone would lose topics."""
        factors, alpha = factors_of(3), np.full(3, 0.5)
        labels = varied(labels_of(3, 2, scale=3000.0), len(TOKENS))
        lost = 0
        for seed in range(6):
            keys = stream_keys(seed, 1, 0, len(TOKENS))
            out, _, _ = run(TOKENS, factors, alpha, make_hinges(labels), (3, 0, UNIFORM), keys=keys)
            flat_tilts = np.ones((len(TOKENS), 3))
            paths = self.replay(labels, factors, alpha, flat_tilts, keys, 3, "uniform", False)
            for d, path in enumerate(paths):
                if not TOKENS[d]:
                    continue
                assert [z for z, _ in path] == out.kept[:, EDGES[d] : EDGES[d + 1]].tolist()
                for z, found in path:
                    s = kernels.scratch(NO_BAGS, 3, 2)
                    s.tally[:] = oracle.tally(z, 3)
                    kernels.set_exponent(d, len(z), found, make_hinges(labels), s)
                    products = (s.gains[0] * s.boosts[z[0]]).sum()
                    lost += products < choices.TINY
        assert lost > 5

    def test_going_on_equals_never_having_stopped(self):
        factors, alpha = factors_of(3), np.full(3, 0.4)
        tokens = 20 * TOKENS
        labels = varied(labels_of(3, 2, scale=4.0), len(tokens))
        hinges, keys = make_hinges(labels), stream_keys(5, 0, 0, len(tokens))
        whole, _, last = run(tokens, factors, alpha, hinges, (6, 0, UNIFORM), keys=keys)
        part, _, found = run(tokens, factors, alpha, hinges, (4, 0, UNIFORM), keys=keys)
        later = []
        for key, words, each in zip(keys, tokens, labels, strict=True):
            stream = oracle.Stream(key)
            for _ in range(5 * (len(words) + 3 * int(np.sum(each.signs != 0)))):
                stream.uniform()
            later.append(stream.word)
        rest, _, end = run(
            tokens,
            factors,
            alpha,
            hinges,
            (2, 0, CONTINUE),
            keys=np.array(later, np.uint64),
            z=part.topics,
            inverses=found[-1],
        )
        np.testing.assert_array_equal(rest.kept, whole.kept[4:])
        for d in np.flatnonzero([len(words) for words in tokens]):
            np.testing.assert_array_equal(end[:, d], last[4:, d])

    def test_a_document_is_drawn_alike_in_any_company(self):
        factors, alpha = factors_of(3), np.full(3, 0.4)
        labels = varied(labels_of(3, 2), len(TOKENS))
        keys = stream_keys(6, 0, 0, len(TOKENS))
        whole, _, inverses = run(
            TOKENS, factors, alpha, make_hinges(labels), (3, 1, UNIFORM), keys=keys
        )
        for d, words in enumerate(TOKENS):
            alone, _, found = run(
                [words],
                factors,
                alpha,
                make_hinges(labels[d : d + 1]),
                (3, 1, UNIFORM),
                keys=keys[d : d + 1],
            )
            np.testing.assert_array_equal(alone.kept, whole.kept[:, EDGES[d] : EDGES[d + 1]])
            np.testing.assert_array_equal(found[:, 0], inverses[:, d])


class TestLaw:
    @pytest.mark.parametrize("words", [[1], [0, 0, 2], [0, 1, 3]])
    @pytest.mark.parametrize("n_topics", [2, 3])
    def test_long_run(self, words, n_topics):
        """The last of 12 sweeps in 20,000 chains, augmentation variables integrated out."""
        factors, alpha = factors_of(n_topics), np.linspace(0.4, 0.9, n_topics)
        labels = labels_of(n_topics, 2, seed=8)
        hinges = make_hinges([labels] * 20_000)
        out, _, _ = run([words] * 20_000, factors, alpha, hinges, (12, 11, UNIFORM))

        def log_joint(z):
            plain = oracle.log_allocation(z, alpha) + oracle.log_words(words, z, table_of(factors))
            return plain + labels.log_marginal(z)

        observed = frequencies(out.topics, len(words), n_topics)
        expected = oracle.distribution(log_joint, len(words), n_topics)
        assert oracle.deviations(observed, expected) < LIMIT


class TestExtremes:
    @pytest.mark.parametrize("sign", [1, -1])
    @pytest.mark.parametrize("inverse", [1e-8, 1.0, LARGEST_INVERSE])
    def test_one_token_with_huge_weights(self, sign, inverse):
        """n = 1, weights of 164, lambda from 1e-8 to 1e8; the margin is met by one topic only."""
        mean = np.array([[164.0, -164.0, 0.0]])
        labels = oracle.GibbsLabels(
            np.array([sign]), np.array([164.0]), mean, 1e-9 * np.eye(3)[None], 1.0
        )
        n = 40
        out, tallies, inverses = run(
            [[1]] * n,
            factors_of(3),
            np.full(3, 0.3),
            make_hinges([labels] * n),
            (1, 0, CONTINUE),
            z=np.arange(n) % 3,
            inverses=np.full((n, 1), inverse),
        )
        assert np.isfinite(inverses).all()
        assert (inverses > 0).all()
        assert (tallies.sum(axis=2) == 1).all()
        if inverse >= 1.0:
            assert (out.topics == (0 if sign > 0 else 1)).all()

    def test_repeated_words_and_large_counts(self):
        labels = labels_of(3, 2, scale=164.0)
        out, tallies, inverses = run(
            [[2] * 3000, [0] * 5],
            factors_of(3),
            np.full(3, 1e-12),
            make_hinges([labels] * 2),
            (3, 0, UNIFORM),
        )
        assert tallies.sum() == 3 * 3005
        assert np.isfinite(inverses).all()
        assert (out.topics < 3).all()

    def test_without_signs_labels_are_silent(self):
        factors, alpha = factors_of(3), np.full(3, 0.4)
        labels = [replace(labels_of(3, 2), signs=np.zeros(2, int))] * len(TOKENS)
        out, _, inverses = run(TOKENS, factors, alpha, make_hinges(labels), (3, 0, UNIFORM))
        assert not inverses.any()
        none, _, _ = run(TOKENS, factors, alpha, no_hinges(len(TOKENS), 3), (3, 0, UNIFORM))
        np.testing.assert_array_equal(out.kept, none.kept)
