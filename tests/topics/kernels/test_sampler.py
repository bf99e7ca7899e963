"""Topics drawn under a constant tilt, against enumeration of all topics of small documents."""

import numpy as np
import pytest

from everlearn.core.documents import Documents
from everlearn.kernels.draws import stream_keys
from everlearn.topics.batches import as_bags
from everlearn.topics.kernels.sampler import (
    CONTINUE,
    PREDICTIVE,
    UNIFORM,
    Margins,
    Samples,
    WordFactors,
    sample_documents,
)
from everlearn.topics.kernels.words import add_topics, tally_topics
from oracles import bayespa as oracle

N_WORDS = 4
CHAINS = 20_000
KEEP_GIVEN = (0.0, 1.0, 0.0)
LIMIT = 4.5
"""A chi-square statistic may be this many standard deviations above its mean."""


def factors_of(n_topics, seed=0):
    counts = np.random.default_rng(seed).gamma(0.5, 8.0, (N_WORDS, n_topics))
    return WordFactors(counts, 0.2, 1.0 / (counts.sum(0) + 0.2 * N_WORDS))


def table_of(factors):
    return (factors.counts + factors.smoothing) * factors.scale


def no_margins(n, n_topics):
    return Margins(np.zeros((0, n_topics)), np.zeros((n, 0), np.int8), np.zeros((n, 0)))


def run(tokens, factors, alpha, schedule, *, margins=None, closed=KEEP_GIVEN, keys=None, z=None):
    """Samples of documents given as lists of words in ascending order."""
    bags = as_bags(Documents.from_tokens(tokens))
    n, n_tokens = len(tokens), int(bags.starts[-1])
    topics = np.zeros(n_tokens, np.uint16) if z is None else np.array(z, np.uint16)
    out = Samples(
        topics,
        np.zeros((schedule[0] - schedule[1], n_tokens), np.uint16),
        np.zeros((n, len(alpha))),
        np.zeros((0, len(alpha))),
    )
    margins = no_margins(n, len(alpha)) if margins is None else margins
    keys = stream_keys(1, 2, 3, n) if keys is None else keys
    sample_documents(bags, factors, alpha, margins, closed, keys, schedule, out)
    return out


def label_case(n_topics, n, seed=3):
    """Weights, signs (one missing) and multipliers of three tasks, the same for n documents."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(3, n_topics))
    signs = np.tile(np.array([1, 0, -1], np.int8), (n, 1))
    return Margins(weights, signs, np.tile([1.2, 9.0, 0.8], (n, 1)))


def frequencies(topics, n_tokens, n_topics):
    places = np.asarray(topics, int).reshape(-1, n_tokens) @ n_topics ** np.arange(n_tokens)[::-1]
    return np.bincount(places, minlength=n_topics**n_tokens)


class TestLaw:
    """Topics of the last sweep in parallel chains, against the sum over all topics."""

    @pytest.mark.parametrize("words", [[1], [0, 0], [0, 2, 2], [0, 1, 3]])
    @pytest.mark.parametrize("n_topics", [2, 3])
    @pytest.mark.parametrize("labelled", [False, True])
    def test_long_run(self, words, n_topics, labelled):
        factors, alpha = factors_of(n_topics), np.linspace(0.4, 0.9, n_topics)
        margins = label_case(n_topics, CHAINS) if labelled else None

        def log_joint(z):
            label = 0.0
            if margins:
                label = oracle.log_averaging(
                    z, margins.signs[0], margins.multipliers[0], margins.weights
                )
            words_term = oracle.log_words(words, z, table_of(factors))
            return oracle.log_allocation(z, alpha) + words_term + label

        out = run([words] * CHAINS, factors, alpha, (25, 24, UNIFORM), margins=margins)
        observed = frequencies(out.kept[0], len(words), n_topics)
        expected = oracle.distribution(log_joint, len(words), n_topics)
        assert oracle.deviations(observed, expected) < LIMIT

    def test_predictive_start_takes_tokens_in_order_and_ignores_labels(self):
        factors, alpha, words = factors_of(3), np.array([0.3, 0.6, 0.9]), [0, 0, 2]

        def log_sequence(z):
            total = 0.0
            for i in range(3):
                weights = (alpha + oracle.tally(z[:i], 3)) * table_of(factors)[words[i]]
                total += np.log(weights[z[i]] / weights.sum())
            return total

        margins = label_case(3, CHAINS)
        out = run([words] * CHAINS, factors, alpha, (0, 0, PREDICTIVE), margins=margins)
        expected = oracle.distribution(log_sequence, 3, 3)
        assert oracle.deviations(frequencies(out.topics, 3, 3), expected) < LIMIT

    def test_uniform_start(self):
        out = run([[0, 1, 1]] * CHAINS, factors_of(3), np.full(3, 0.1), (0, 0, UNIFORM))
        assert oracle.deviations(frequencies(out.topics, 3, 3), np.full(27, 1 / 27)) < LIMIT

    def test_first_token_under_the_closed_form(self):
        """The multipliers of the start tilt the first sweep; its first token sees the start."""
        factors, alpha, words, z = factors_of(3), np.full(3, 0.5), [0, 1, 1], [2, 0, 2]
        margins = label_case(3, CHAINS)
        margins.multipliers[:] = 77.0
        closed = (1.5, 0.8, 2.0)
        topics = np.tile(z, CHAINS)
        out = run(
            [words] * CHAINS,
            factors,
            alpha,
            (1, 0, CONTINUE),
            margins=margins,
            closed=closed,
            z=topics,
        )
        frequency = oracle.tally(z, 3) / 3
        taus = [
            oracle.multiplier_alone(1.5, y, mu, frequency, 0.8, 2.0)
            for y, mu in zip(margins.signs[0], margins.weights, strict=True)
        ]

        def log_joint(z):
            label = oracle.log_averaging(z, margins.signs[0], taus, margins.weights)
            words_term = oracle.log_words(words, z, table_of(factors))
            return oracle.log_allocation(z, alpha) + words_term + label

        expected = oracle.conditional(log_joint, z, 0, 3)
        first = np.bincount(out.topics.reshape(-1, 3)[:, 0], minlength=3)
        assert oracle.deviations(first, expected) < LIMIT


class TestFirstMultipliers:
    @pytest.mark.parametrize("box", [0.05, 3.0, 1e9])
    def test_as_if_each_document_came_alone(self, box):
        tokens = [[0, 1, 1, 3], [2], [], [0, 0, 3]]
        rng = np.random.default_rng(4)
        weights = 2 * rng.normal(size=(3, 3))
        signs = np.array([[1, -1, 0], [1, 1, -1], [1, 1, 1], [0, -1, 1]], np.int8)
        margins = Margins(weights, signs, np.full((4, 3), 5.0))
        out = run(
            tokens,
            factors_of(3),
            np.full(3, 0.3),
            (0, 0, UNIFORM),
            margins=margins,
            closed=(1.3, 0.6, box),
        )
        at = 0
        for d, words in enumerate(tokens):
            z = oracle.tally(out.topics[at : at + len(words)], 3) / max(1, len(words))
            at += len(words)
            for q in range(3):
                expected = 5.0  # a document without tokens keeps its multipliers
                if words:
                    expected = oracle.multiplier_alone(1.3, signs[d, q], weights[q], z, 0.6, box)
                assert margins.multipliers[d, q] == pytest.approx(expected, rel=1e-12)

    def test_a_box_of_zero_keeps_those_given(self):
        margins = label_case(2, 1)
        given = margins.multipliers.copy()
        run([[0, 1]], factors_of(2), np.ones(2), (2, 0, UNIFORM), margins=margins)
        np.testing.assert_array_equal(margins.multipliers, given)


TOKENS = [[0, 0, 1, 3], [], [2], [1, 1, 1, 1, 1, 1, 2, 3], [], [0, 3]]
STARTS = np.cumsum([0, *map(len, TOKENS)])


class TestSchedule:
    def test_dropped_sweeps_are_the_first(self):
        factors, alpha = factors_of(3), np.full(3, 0.4)
        margins = label_case(3, len(TOKENS))
        all_of_them = run(TOKENS, factors, alpha, (5, 0, UNIFORM), margins=margins)
        late = run(TOKENS, factors, alpha, (5, 2, UNIFORM), margins=margins)
        np.testing.assert_array_equal(late.kept, all_of_them.kept[2:])
        np.testing.assert_array_equal(late.kept[-1], late.topics)
        for out in (all_of_them, late):
            for d, words in enumerate(TOKENS):
                inside = out.kept[:, STARTS[d] : STARTS[d] + len(words)]
                np.testing.assert_array_equal(out.totals[d], oracle.tally(inside.ravel(), 3))

    @pytest.mark.parametrize("start", [UNIFORM, PREDICTIVE])
    def test_continuing_equals_a_single_run(self, start):
        factors, alpha = factors_of(3), np.full(3, 0.4)
        keys = stream_keys(8, 0, 0, len(TOKENS))
        margins = label_case(3, len(TOKENS))
        whole = run(TOKENS, factors, alpha, (6, 2, start), margins=margins, keys=keys)
        begun = run(TOKENS, factors, alpha, (0, 0, start), margins=margins, keys=keys)
        later = []
        for key, words in zip(keys, TOKENS, strict=True):
            stream = oracle.Stream(key)
            for _ in words:
                stream.uniform()
            later.append(stream.word)
        rest = run(
            TOKENS,
            factors,
            alpha,
            (6, 2, CONTINUE),
            margins=margins,
            keys=np.array(later, np.uint64),
            z=begun.topics,
        )
        np.testing.assert_array_equal(rest.kept, whole.kept)
        np.testing.assert_array_equal(rest.totals, whole.totals)

    def test_draws_of_a_document_do_not_depend_on_other_documents(self):
        factors, alpha = factors_of(3), np.full(3, 0.4)
        keys = stream_keys(9, 0, 0, len(TOKENS))
        margins = label_case(3, len(TOKENS))
        whole = run(TOKENS, factors, alpha, (3, 1, UNIFORM), margins=margins, keys=keys)
        for d, words in enumerate(TOKENS):
            alone = run(
                [words],
                factors,
                alpha,
                (3, 1, UNIFORM),
                margins=label_case(3, 1),
                keys=keys[d : d + 1],
            )
            inside = slice(STARTS[d], STARTS[d] + len(words))
            np.testing.assert_array_equal(alone.kept, whole.kept[:, inside])
            np.testing.assert_array_equal(alone.totals[0], whole.totals[d])

    def test_labels_without_a_sign_change_nothing(self):
        factors, alpha = factors_of(3), np.full(3, 0.4)
        margins = label_case(3, len(TOKENS))
        margins.signs[:] = 0
        unlabelled = run(
            TOKENS, factors, alpha, (3, 0, UNIFORM), margins=margins, closed=(5.0, 1.0, 9.0)
        )
        np.testing.assert_array_equal(
            unlabelled.kept, run(TOKENS, factors, alpha, (3, 0, UNIFORM)).kept
        )
        assert not margins.multipliers[[0, 2, 3, 5]].any()


class TestExtremes:
    @pytest.mark.parametrize("sign", [1, -1])
    def test_huge_exponents(self, sign):
        """A document of one token, weights of 164, a multiplier of a million."""
        weights = np.array([[164.0, -164.0, 0.0]])
        n = 50
        margins = Margins(weights, np.full((n, 1), sign, np.int8), np.full((n, 1), 1e6))
        out = run([[1]] * n, factors_of(3), np.full(3, 1e-12), (2, 0, UNIFORM), margins=margins)
        assert (out.topics == (0 if sign > 0 else 1)).all()
        assert np.isfinite(out.totals).all()

    def test_one_topic(self):
        out = run(TOKENS, factors_of(1), np.ones(1), (2, 1, PREDICTIVE))
        assert not out.kept.any()
        np.testing.assert_array_equal(out.totals[:, 0], [len(words) for words in TOKENS])

    def test_a_long_document_of_one_word(self):
        out = run([[2] * 40_000], factors_of(3), np.full(3, 0.1), (2, 0, UNIFORM))
        assert out.totals.sum() == 80_000

    def test_words_that_only_one_topic_has(self):
        counts = np.zeros((N_WORDS, 2))
        counts[:2, 0], counts[2:, 1] = 1e9, 1e9
        factors = WordFactors(counts, 1e-9, np.full(2, 0.5e-9))
        out = run([[0, 1, 2, 3]] * 100, factors, np.full(2, 0.1), (1, 0, UNIFORM))
        assert (out.topics.reshape(-1, 4) == [0, 0, 1, 1]).all()


class TestCounts:
    def test_adding_conserves_tokens(self):
        bags = as_bags(Documents.from_tokens(TOKENS))
        kept = np.random.default_rng(0).integers(0, 3, (4, STARTS[-1])).astype(np.uint16)
        before = np.random.default_rng(1).random((N_WORDS, 5))
        counts = before.copy()
        add_topics(bags, kept, 0.5, counts)
        expected = 0.5 * oracle.word_counts(TOKENS, kept, N_WORDS, 5)
        np.testing.assert_allclose(counts - before, expected, atol=1e-13)
        assert expected.sum() == 0.5 * 4 * STARTS[-1]

    def test_tallies_are_those_of_each_document_and_sweep(self):
        bags = as_bags(Documents.from_tokens(TOKENS))
        kept = np.random.default_rng(2).integers(0, 3, (2, STARTS[-1])).astype(np.uint16)
        tallies = tally_topics(bags, kept, 4)
        assert tallies.shape == (2, len(TOKENS), 4)
        for sweep in range(2):
            for d, words in enumerate(TOKENS):
                inside = kept[sweep, STARTS[d] : STARTS[d] + len(words)]
                np.testing.assert_array_equal(tallies[sweep, d], oracle.tally(inside, 4))
