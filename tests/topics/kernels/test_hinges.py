"""Pulls of labels on tokens, and augmentation variables, against the joint density."""

import numpy as np
import pytest

from everlearn.kernels.draws import LARGEST_INVERSE, stream_keys
from everlearn.topics.kernels import choices
from everlearn.topics.kernels import hinges as kernels
from oracles import bayespa as oracle
from oracles.gibbs_runs import NO_BAGS, factors_of, labels_of, make_hinges, table_of


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


class TestSmallLoops:
    @pytest.mark.parametrize("n", [1, 2, 9])
    def test_exponentials_of_a_row(self, n):
        x, out = np.random.default_rng(n).normal(0.0, 300.0, (3, n)), np.full((3, n), 7.0)
        for row in range(3):
            least = kernels.exponentials(x, row, out)
            apart = x[row] - x[row].max()
            assert least == apart.min()
            np.testing.assert_allclose(out[row], np.exp(np.maximum(apart, choices.DEEPEST)))
        assert out.max() == 1.0

    @pytest.mark.parametrize("row", [[3.0], [0.5, 0.5], [1e-300, 2.0, 1e300], [0.0, 5e-324, 1.0]])
    def test_least_and_largest_of_positive_numbers(self, row):
        rows = np.array([[9e99] * len(row), row])
        assert kernels.least_of(np.array([row])) == min(row)
        assert kernels.largest_of(rows, 1) == max(row)

    @pytest.mark.parametrize("n_tasks", [1, 2, 3, 4, 5, 9])
    def test_exponents_are_those_of_the_equation(self, n_tasks):
        """Tasks are summed two and four at a time; the rest must not be lost."""
        n_topics, labels = 4, labels_of(4, n_tasks, missing=[0] if n_tasks > 1 else [])
        z, inverses = [0, 2, 2, 3, 0], np.random.default_rng(0).gamma(1.0, 1.0, n_tasks)
        s = kernels.scratch(NO_BAGS, n_topics, n_tasks)
        s.tally[:] = oracle.tally(z, n_topics)
        kernels.set_exponent(0, 5, inverses, make_hinges([labels]), s)
        second = labels.covariance + labels.mean[:, :, None] * labels.mean[:, None, :]
        a, m = np.zeros(n_topics), np.zeros((n_topics, n_topics))
        for q in range(n_tasks):
            if labels.signs[q]:
                force = 1.0 + labels.c * labels.offsets[q] * inverses[q]
                a += labels.c * labels.signs[q] * force * labels.mean[q] / 5
                m += labels.c**2 * inverses[q] * second[q] / 25
        want = a - 0.5 * np.diagonal(m) - m @ s.tally
        np.testing.assert_allclose(s.exponent[0], want, rtol=1e-10, atol=1e-12)
        np.testing.assert_array_equal(s.ready, s.tally > 0)
        np.testing.assert_allclose(s.couplings[s.ready], m[s.ready], rtol=1e-10, atol=1e-12)
