"""The bound of the whole mixture: definition, identities, ascent, and the true evidence above."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from everlearn.core.priors.dp import DPPrior
from everlearn.core.stats import Permute, Stats
from everlearn.mixture.model import Mixture, by_mass
from oracles import mixture as oracle
from oracles.cases import DIAGONAL, local_step, responsibilities, statistics

ALPHA = 0.8


@pytest.fixture
def mixture(case):
    return Mixture(case.family, DPPrior(ALPHA))


class TestDefinition:
    @pytest.mark.parametrize("k", [1, 4])
    def test_bound_is_the_sum_of_expectations(self, case, mixture, k):
        R = responsibilities(len(case), k)
        slow = oracle.elbo(case.oracle, case.dense, R, ALPHA)
        assert_allclose(mixture.bound(statistics(case.family, case.X, R)), slow, rtol=1e-11)

    def test_bound_at_other_globals(self, case, mixture):
        R, E = (responsibilities(len(case), 3, seed) for seed in (1, 2))
        a, b = (statistics(case.family, case.X, r) for r in (R, E))
        slow = oracle.elbo(case.oracle, case.dense, R, ALPHA, evidence=E)
        assert_allclose(mixture.bound_at(a, b), slow, rtol=1e-10)
        assert mixture.bound_at(a, b) < mixture.bound(a)

    def test_bound_at_its_own_globals(self, case, mixture):
        s = statistics(case.family, case.X, responsibilities(len(case), 3))
        assert_allclose(mixture.bound_at(s, s), mixture.bound(s), rtol=1e-13)

    def test_bound_at_refuses_other_components(self, case, mixture):
        R = responsibilities(len(case), 2)
        a = statistics(case.family, case.X, R)
        b = statistics(case.family, case.X, R, ids=[5, 6])
        with pytest.raises(ValueError, match="cannot be combined"):
            mixture.bound_at(a, b)

    def test_scores_and_sticks(self, case, mixture):
        R = responsibilities(len(case), 3)
        s = statistics(case.family, case.X, R, ids=[4, 9, 2])
        posterior = mixture.posterior(s)
        assert_array_equal(posterior.ids, [4, 9, 2])
        assert len(posterior) == 3
        features = case.family.features(case.X)
        scores = np.asarray(features @ posterior.eta.T) + posterior.bias
        weights = oracle.expected_log_weights(oracle.sticks(R, ALPHA))
        assert_allclose(mixture.sticks(s).expected_log_weights(), weights, rtol=1e-12)
        base = case.family.log_base(case.X)
        for k in range(3):
            q = case.oracle.posterior(case.dense, R[:, k])
            slow = [case.oracle.expected_log_likelihood(x, q) for x in case.dense]
            assert_allclose(scores[:, k] + base, slow + weights[k], rtol=1e-9, atol=1e-9)


class TestSteps:
    def test_identity_after_a_local_step(self, case, mixture):
        """The bound at the globals used is the rows' normalisers plus the cost of the globals."""
        before = statistics(case.family, case.X, responsibilities(len(case), 3))
        R, normaliser = local_step(mixture, case.X, before)
        after = statistics(case.family, case.X, R)
        nothing = Stats.zeros(before.ids, case.family.n_stats)
        cost = mixture.bound_at(nothing, before)
        base = case.family.log_base(case.X).sum()
        assert_allclose(mixture.bound_at(after, before), normaliser.sum() + base + cost, rtol=1e-12)

    def test_the_local_step_is_optimal(self, case, mixture):
        before = statistics(case.family, case.X, responsibilities(len(case), 3))
        R, _ = local_step(mixture, case.X, before)
        best = mixture.bound_at(statistics(case.family, case.X, R), before)
        for seed in range(5):
            other = 0.95 * R + 0.05 * responsibilities(len(case), 3, seed)
            assert mixture.bound_at(statistics(case.family, case.X, other), before) < best

    @pytest.mark.parametrize("seed", [0, 1])
    def test_batch_learning_never_lowers_the_bound(self, case, mixture, seed):
        s = statistics(case.family, case.X, responsibilities(len(case), 6, seed))
        bounds = [mixture.bound(s)]
        for _ in range(50):
            R, _ = local_step(mixture, case.X, s)
            s = statistics(case.family, case.X, R)
            bounds.append(mixture.bound(s))
        assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[:-1])).all()
        assert bounds[-1] > bounds[0]


class TestEnumeration:
    """Six rows: all 203 partitions and all assignments can be summed."""

    N = 6

    def test_no_responsibilities_beat_the_evidence(self, case, mixture):
        small = case.head(self.N)
        evidence = oracle.log_evidence(case.oracle, small.dense, ALPHA)
        best = -np.inf
        for k in range(1, 6):
            for seed in range(6):
                s = statistics(case.family, small.X, responsibilities(self.N, k, seed))
                for _ in range(15):
                    R, _ = local_step(mixture, small.X, s)
                    assert mixture.bound(s) <= evidence + 1e-10
                    s = statistics(case.family, small.X, R)
                best = max(best, mixture.bound(s))
        assert best > evidence - 6.0  # close below, or the test would say little

    def test_hard_assignments_give_the_joint(self, case, mixture):
        small = case.head(self.N)
        rng = np.random.default_rng(0)
        for k in (1, 2, 4):
            z = rng.integers(k, size=self.N)
            s = statistics(case.family, small.X, np.eye(k)[z])
            joint = oracle.log_joint(case.oracle, small.dense, z, k, ALPHA)
            assert_allclose(mixture.bound(s), joint, rtol=1e-11)

    def test_truncated_evidence_lies_between(self):
        """Bound <= evidence within K sticks <= evidence, and more sticks hold more of it."""
        small, mixture = DIAGONAL.head(5), Mixture(DIAGONAL.family, DPPrior(ALPHA))
        whole = oracle.log_evidence(small.oracle, small.dense, ALPHA)
        within = [
            oracle.log_truncated_evidence(small.oracle, small.dense, k, ALPHA) for k in (1, 2, 3, 4)
        ]
        assert (np.diff([*within, whole]) > 0).all()
        for k, evidence in enumerate(within, start=1):
            s = statistics(small.family, small.X, responsibilities(5, k))
            for _ in range(20):
                s = statistics(small.family, small.X, local_step(mixture, small.X, s)[0])
            assert mixture.bound(s) <= evidence + 1e-10

    def test_the_oracle_counts_partitions(self):
        blocks = list(oracle.set_partitions(list(range(6))))
        assert len(blocks) == 203
        chances = [oracle.log_crp([len(b) for b in p], ALPHA) for p in blocks]
        assert_allclose(logsumexp(chances), 0.0, atol=1e-12)


class TestOrder:
    def test_order_of_rows_does_not_matter(self, case, mixture):
        R = responsibilities(len(case), 3)
        order = np.random.default_rng(0).permutation(len(case))
        a = mixture.bound(statistics(case.family, case.X, R))
        b = mixture.bound(statistics(case.family, case.X[order], R[order]))
        assert_allclose(a, b, rtol=1e-13)

    def test_order_of_components_matters_to_the_sticks_alone(self, case, mixture):
        s = statistics(case.family, case.X, responsibilities(len(case), 4))
        permuted = s.apply(Permute(s.ids[[2, 0, 3, 1]]))
        change = mixture.prior.bound(permuted.n) - mixture.prior.bound(s.n)
        assert_allclose(mixture.bound(permuted), mixture.bound(s) + change, rtol=1e-13)
        terms = mixture.observation_terms(s.n, s.t)
        assert_allclose(
            mixture.observation_terms(permuted.n, permuted.t), terms[[2, 0, 3, 1]], rtol=1e-12
        )

    def test_by_mass_never_lowers_the_bound(self, case, mixture):
        for seed in range(5):
            s = statistics(case.family, case.X, responsibilities(len(case), 4, seed))
            ordered = s.apply(Permute(by_mass(s)))
            assert (np.diff(ordered.n) <= 0).all()
            assert mixture.bound(ordered) >= mixture.bound(s) - 1e-11

    def test_ties_are_settled_by_id(self):
        n = np.array([1.0, 5.0, 1.0, 5.0])
        s = Stats(np.array([8, 7, 2, 3]), n, np.zeros((4, 1)), np.zeros(4))
        assert_array_equal(by_mass(s), [3, 7, 2, 8])
