"""Topics under the Gibbs loss and under live word counts, against the joint density."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.core.documents import Documents
from everlearn.kernels.draws import LARGEST_INVERSE, stream_keys
from everlearn.topics.batches import as_bags
from everlearn.topics.kernels import choices, collapsed
from everlearn.topics.kernels import hinges as kernels
from everlearn.topics.kernels.collapsed import (
    LiveCounts,
    sweep_collapsed,
    sweep_collapsed_with_hinges,
)
from everlearn.topics.kernels.gibbs import sample_augmented
from everlearn.topics.kernels.hinges import Hinges
from everlearn.topics.kernels.sampler import CONTINUE, PREDICTIVE, UNIFORM, Samples, WordFactors
from everlearn.topics.weights import no_hinges
from oracles import bayespa as oracle
from support.kernels import from_python

live_row = from_python(collapsed._live_row)
N_WORDS = 4
LIMIT = 4.5
"""Standard deviations that a chi-square may lie above its mean."""
STARTS = {"uniform": UNIFORM, "predictive": PREDICTIVE}
TOKENS = [[0, 0, 1, 3], [], [2], [1, 1, 1, 2, 3], [0, 2, 2], [], [3, 3]]
EDGES = np.cumsum([0, *map(len, TOKENS)])


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


NO_BAGS = as_bags(Documents.from_tokens([[]]))


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


def flat(topics):
    return [k for z in topics for k in z]


def frequencies(topics, n_tokens, n_topics):
    places = np.asarray(topics, int).reshape(-1, n_tokens) @ n_topics ** np.arange(n_tokens)[::-1]
    return np.bincount(places, minlength=n_topics**n_tokens)


class TestConditionals:
    """Property 6: weights of every token against the joint density, to 1e-12."""

    def prepared(self, z, alpha, inverses, labels):
        s = kernels.scratch(NO_BAGS, len(alpha), len(inverses))
        s.tally[:] = oracle.tally(z, len(alpha))
        s.masses[:] = alpha + s.tally
        hinges = make_hinges([labels])
        kernels.set_exponent(0, len(z), inverses, hinges, s)
        return s, hinges

    def compare(self, words, z, factors, alpha, inverses, labels, s):
        def log_joint(z):
            plain = oracle.log_allocation(z, alpha) + oracle.log_words(words, z, table_of(factors))
            return plain + labels.log_given(z, inverses)

        for i, old in enumerate(z):
            held = alpha + oracle.tally(z, len(alpha))
            held[old] -= 1.0
            rows = np.ascontiguousarray(table_of(factors))
            expected = oracle.conditional(log_joint, z, i, len(alpha))
            for weigh, a, b in (
                (choices.weigh, s.gains, s.boosts),
                (choices.weigh_exactly, s.exponent, s.couplings),
            ):
                weights = np.empty(len(alpha))
                total = weigh(a, b, old, held, rows, words[i], weights)
                assert total == pytest.approx(weights.sum(), rel=1e-13)
                np.testing.assert_allclose(weights / total, expected, rtol=0.0, atol=1e-12)

    @pytest.mark.parametrize("n_topics", [2, 3])
    @pytest.mark.parametrize("n_tasks", [1, 3])
    @pytest.mark.parametrize("words", [[1], [0, 0, 2], [0, 1, 3], [2, 2, 2, 2]])
    def test_every_token(self, words, n_tasks, n_topics):
        factors, alpha = factors_of(n_topics), np.linspace(0.3, 0.8, n_topics)
        rng = np.random.default_rng(len(words))
        for seed in range(4):
            labels = labels_of(n_topics, n_tasks, seed=seed, missing=[1] if n_tasks > 1 else [])
            z = rng.integers(0, n_topics, len(words)).tolist()
            inverses = rng.gamma(1.0, 2.0, n_tasks) + 0.01
            s, _ = self.prepared(z, alpha, inverses, labels)
            self.compare(words, z, factors, alpha, inverses, labels, s)

    def test_after_tokens_have_moved(self):
        words, n_topics = [0, 1, 1, 3], 3
        factors, alpha, labels = factors_of(3), np.full(3, 0.4), labels_of(3, 2)
        rng = np.random.default_rng(6)
        inverses, z = np.array([0.7, 2.5]), [0, 0, 1, 1]
        s, hinges = self.prepared(z, alpha, inverses, labels)
        for _ in range(12):
            i, new = rng.integers(4), int(rng.integers(n_topics))
            if new != z[i]:
                s.tally[z[i]] -= 1.0
                s.tally[new] += 1.0
                if not s.ready[new]:
                    kernels.make_coupling(new, hinges, s)
                kernels.scale_gains(s.gains, s.boosts, s.inverse_boosts, z[i], new)
                assert kernels.least_of(s.gains) == s.gains.min()
                z[i] = new
                gains = s.gains.copy()
                kernels.refresh(s)
                assert np.ptp(np.log(gains / s.gains)) < 1e-11
                s.gains[:] = gains
            self.compare(words, z, factors, alpha, inverses, labels, s)

    def test_words_of_the_other_tokens(self):
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


class TestInverses:
    def draw(self, labels, z, mean_only=True, key=3):
        s = kernels.scratch(NO_BAGS, labels.mean.shape[1], len(labels.signs))
        s.tally[:] = oracle.tally(z, labels.mean.shape[1])
        found = np.full(len(labels.signs), np.nan)
        hinges = make_hinges([labels], mean_only)
        word = kernels.draw_inverses(0, len(z), np.uint64(key), hinges, found, s)
        return found, word

    @pytest.mark.parametrize("z", [[0], [2, 2, 2], [0, 1, 2, 1]])
    def test_means(self, z):
        labels = labels_of(3, 4, missing=[2])
        found, word = self.draw(labels, z)
        np.testing.assert_allclose(found, labels.inverse_means(z), rtol=1e-11)
        assert found[2] == 0.0
        assert word == 3

    def test_draws_take_three_numbers_for_each_label(self):
        labels = labels_of(3, 4, missing=[2])
        z, stream = [0, 1, 1], oracle.Stream(12345)
        found, word = self.draw(labels, z, mean_only=False, key=12345)
        expected = [stream.inverse_gaussian(m) if m > 0 else 0.0 for m in labels.inverse_means(z)]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert word == stream.word

    def test_at_the_margin_without_spread(self):
        labels = oracle.GibbsLabels(
            np.array([1]), np.array([2.0]), np.full((1, 2), 2.0), np.zeros((1, 2, 2)), 1.0
        )
        found, _ = self.draw(labels, [0, 1])
        assert found[0] == pytest.approx(1e6)
        for key in stream_keys(0, 0, 0, 400):
            found, _ = self.draw(labels, [0, 1], mean_only=False, key=int(key))
            assert 0 < found[0] <= LARGEST_INVERSE


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
        """The last of 25 sweeps in 20,000 chains, augmentation variables integrated out."""
        factors, alpha = factors_of(n_topics), np.linspace(0.4, 0.9, n_topics)
        labels = labels_of(n_topics, 2, seed=8)
        hinges = make_hinges([labels] * 20_000)
        out, _, _ = run([words] * 20_000, factors, alpha, hinges, (25, 24, UNIFORM))

        def log_joint(z):
            plain = oracle.log_allocation(z, alpha) + oracle.log_words(words, z, table_of(factors))
            return plain + labels.log_marginal(z)

        observed = frequencies(out.topics, len(words), n_topics)
        expected = oracle.distribution(log_joint, len(words), n_topics)
        assert oracle.deviations(observed, expected) < LIMIT


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
