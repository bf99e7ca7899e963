"""The Dirichlet whose parameters are learned: its steps only ever go up (M8)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln, psi

from everlearn.core.priors.learned_dirichlet import GroupCounts, LearnedDirichlet

PRIOR = LearnedDirichlet()


def entries_of(counts, sizes=None):
    counts = np.asarray(counts, float)
    return GroupCounts.of(counts, np.ones(len(counts)) if sizes is None else np.asarray(sizes))


@st.composite
def corpora(draw):
    """Counts of groups, many of them fractions or zero, and an alpha to start from."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k, groups = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    scale = 10.0 ** draw(st.floats(-3, 3))
    counts = rng.gamma(0.5, scale, (groups, k)) * (rng.random((groups, k)) < draw(st.floats(0, 1)))
    alpha = np.maximum(rng.gamma(0.4, 10.0 ** draw(st.floats(-4, 2)), k), 1e-10)
    return counts, rng.integers(1, 20, groups).astype(float), alpha


@given(corpora(), st.sampled_from([1.0, 3.7, 1e6]))
def test_m8_steps_never_lower_the_bound(given_corpus, copies):
    counts, sizes, alpha = given_corpus
    entries = entries_of(counts, sizes)
    for _ in range(4):
        before = PRIOR.bound(alpha, entries, copies)
        alpha = PRIOR.improved(alpha, entries, copies)
        after = PRIOR.bound(alpha, entries, copies)
        assert np.isfinite(alpha).all()
        assert (alpha >= 1e-10).all()
        # gammaln itself rounds by parts of its largest value
        size = 1.0 + copies * (sizes @ np.abs(gammaln(entries.lengths + alpha.sum())))
        assert after >= before - 1e-12 * abs(before) - 1e-13 * size


@given(corpora())
def test_m8_the_safe_steps_never_lower_the_bound(given_corpus):
    counts, sizes, alpha = given_corpus
    entries = entries_of(counts, sizes)
    before = PRIOR.bound(alpha, entries)
    after = PRIOR.bound(PRIOR._steps(alpha, entries, 1.0, safe=True), entries)
    size = 1.0 + sizes @ np.abs(gammaln(entries.lengths + alpha.sum()))
    assert after >= before - 1e-11 * abs(before) - 1e-12 * size


@pytest.mark.parametrize("safe", [False, True])
def test_m8_where_steps_end_the_bound_is_flat(safe):
    rng = np.random.default_rng(3)
    entries = entries_of(rng.gamma(0.6, 2.0, (20, 4)), rng.integers(1, 4, 20))
    alpha = np.ones(4)
    for _ in range(2000):
        alpha = PRIOR._steps(alpha, entries, 1.0, safe=safe)
    for k in range(4):
        step = 1e-5 * alpha[k] * np.eye(4)[k]
        up, down = PRIOR.bound(alpha + step, entries), PRIOR.bound(alpha - step, entries)
        assert abs(up - down) / (2e-5 * alpha[k]) < 1e-4
        assert up < PRIOR.bound(alpha, entries) > down


def test_m8_the_slow_form_is_taken_when_the_quick_one_fails(monkeypatch):
    entries, alpha = entries_of([[0.4, 2.0], [0.1, 3.0]]), np.array([0.3, 0.9])
    real = LearnedDirichlet._steps

    def steps(self, alpha, counts, copies, *, safe):
        return real(self, alpha, counts, copies, safe=True) if safe else 1e6 * alpha

    monkeypatch.setattr(LearnedDirichlet, "_steps", steps)
    better = PRIOR.improved(alpha, entries)
    assert_array_equal(better, real(PRIOR, alpha, entries, 1.0, safe=True))


def test_topics_nobody_uses_go_to_the_floor_and_stay():
    entries = entries_of([[4.0, 0.0], [3.0, 0.0]])
    alpha = PRIOR.improved(np.array([1.0, 1.0]), entries)
    assert alpha[1] == 1e-10
    assert PRIOR.improved(alpha, entries)[1] == 1e-10
    alone = PRIOR.bound(alpha[:1], entries_of([[4.0], [3.0]]))
    assert_allclose(PRIOR.bound(alpha, entries), alone, atol=1e-8)


def test_a_topic_at_the_floor_comes_back_when_it_is_used():
    alpha, entries = np.array([1.0, 1e-10]), entries_of([[4.0, 9.0], [3.0, 8.0]])
    for _ in range(200):
        alpha = PRIOR.improved(alpha, entries)
    assert alpha[1] > 0.1


def test_expected_log_is_psi_everywhere():
    rng = np.random.default_rng(0)
    counts = rng.poisson(1.0, (5, 3)).astype(float)
    sizes, alpha = np.array([1.0, 2, 3, 1, 1]), np.array([0.1, 1e-10, 3.0])
    want = psi(alpha + counts / sizes[:, None])
    assert_allclose(PRIOR.expected_log(alpha, counts, sizes), want, rtol=1e-14)


def test_no_documents_leave_the_prior_of_alpha():
    entries = GroupCounts.of(np.empty((0, 2)), np.empty(0))
    assert PRIOR.bound(np.array([1.0, 2.0]), entries) == -1.5
    assert PRIOR.expected_log(np.ones(2), np.empty((0, 2)), np.empty(0)).shape == (0, 2)
