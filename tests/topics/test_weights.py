"""How weights take in a batch: optimality of the dual, and sums under the Gibbs loss."""

import numpy as np
import pytest

from everlearn.engine.local import ThreadEngine
from everlearn.topics import weights as topic_weights
from everlearn.topics.batches import Targets
from everlearn.topics.settings import Loss
from everlearn.topics.state import FixedSpread, Gaussians
from everlearn.topics.weights import (
    add_evidence,
    first_multipliers,
    make_hinges,
    no_hinges,
    solve_dual,
    tilts,
)
from oracles import bayespa as oracle
from oracles.passive_aggressive import best_tau, dual_value

AVERAGING = Loss("averaging", margin=1.5, c=0.4, variance=0.7)
GIBBS = Loss("gibbs", margin=1.5, c=0.4, variance=0.7)


def batch(n=9, k=4, q=3, seed=0):
    """Topic frequencies with an empty document, and targets with missing labels."""
    rng = np.random.default_rng(seed)
    z = rng.dirichlet(np.full(k, 0.4), n)
    z[2] = 0.0
    signs = rng.choice([-1, 0, 1], (n, q), p=[0.5, 0.2, 0.3]).astype(np.int8)
    return z, Targets(signs, np.full((n, q), 1.5))


def gaussians(k=4, q=3, seed=1):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(q, k, k))
    precision = root @ root.transpose(0, 2, 1) + np.eye(k)
    return Gaussians(precision, rng.normal(size=(q, k)))


class TestAveraged:
    @pytest.mark.parametrize("box", [0.3, 4.0, 20.0])
    def test_optimum(self, box):
        """Weights of their form, slopes as complementary slackness asks, the value of a solver."""
        z, targets = batch()
        before = FixedSpread(0.3 * np.random.default_rng(2).normal(size=(3, 4)))
        after, tau = solve_dual(AVERAGING, before, z, targets, box, np.zeros((9, 3)))
        y = targets.signs
        step = AVERAGING.variance * (tau * y).T @ z
        np.testing.assert_allclose(after.mean, before.mean + step, atol=1e-12)
        assert (tau >= 0).all()
        assert (tau <= box).all()
        assert not tau[y == 0].any()
        assert not tau[2].any()
        slope = (1.5 - y * (z @ after.mean.T))[y != 0]
        inner = tau[y != 0]
        some = np.repeat(z.any(axis=1)[:, None], 3, axis=1)[y != 0]
        slack = 30 * 1e-3 * 1.5
        assert (slope[some & (inner == 0)] <= slack).all()
        assert (slope[some & (inner == box)] >= -slack).all()
        for q in range(3):
            known = (y[:, q] != 0) & z.any(axis=1)
            args = z[known], y[known, q].astype(float), before.mean[q]
            best = dual_value(*args, best_tau(*args, 1.5, 0.7, box), 1.5, 0.7)
            found = dual_value(*args, tau[known, q], 1.5, 0.7)
            assert found == pytest.approx(best, rel=2e-3)

    @pytest.mark.parametrize("box", [0.5, 100.0])
    def test_one_document_is_the_closed_form(self, box):
        z, targets = batch()
        before = FixedSpread(0.3 * np.random.default_rng(3).normal(size=(3, 4)))
        for d in (0, 1, 5):
            after, tau = solve_dual(
                AVERAGING, before, z[d : d + 1], targets[d : d + 1], box, np.zeros((1, 3))
            )
            for q, sign in enumerate(targets.signs[d]):
                expected = oracle.multiplier_alone(1.5, sign, before.mean[q], z[d], 0.7, box)
                assert tau[0, q] == pytest.approx(expected, rel=1e-12)
                np.testing.assert_allclose(
                    after.mean[q], before.mean[q] + 0.7 * expected * sign * z[d], rtol=1e-12
                )

    def test_met_margins_change_no_bit(self):
        z, _ = batch()
        z[2] = z[3]
        before = FixedSpread(np.full((1, 4), 1.6))
        known = Targets(np.ones((9, 1), np.int8), np.full((9, 1), 1.5))
        after, tau = solve_dual(AVERAGING, before, z, known, 5.0, np.zeros((9, 1)))
        np.testing.assert_array_equal(after.mean, before.mean)
        assert not tau.any()

    def test_inputs_stay_and_a_start_does_not_count_twice(self):
        z, targets = batch()
        mean, start = np.zeros((3, 4)), np.full((9, 3), 0.2)
        cold, _ = solve_dual(AVERAGING, FixedSpread(mean), z, targets, 0.8, np.zeros((9, 3)))
        warm, tau = solve_dual(AVERAGING, FixedSpread(mean), z, targets, 0.8, start)
        assert not mean.any()
        assert (start == 0.2).all()
        np.testing.assert_allclose(
            warm.mean, 0.7 * (tau * targets.signs).T @ z, atol=1e-12
        )  # whatever it started from
        scores = targets.signs * (z @ np.stack([cold.mean, warm.mean]).transpose(0, 2, 1))
        losses = np.maximum(1.5 - scores, 0).sum(axis=1)
        np.testing.assert_allclose(losses[0], losses[1], rtol=0.05, atol=0.05)

    @pytest.mark.parametrize("box", [0.2, 30.0])
    def test_numbers_in_a_tube(self, box):
        """Signed multipliers: at rest inside the tube, at the limit beyond it."""
        loss = Loss("averaging", margin=0.3, c=1.0, variance=0.7, regression=True)
        z, _ = batch(n=6)
        rng = np.random.default_rng(7)
        targets = Targets(rng.integers(0, 2, (6, 2)).astype(np.int8), rng.normal(size=(6, 2)))
        before = FixedSpread(0.1 * rng.normal(size=(2, 4)))
        after, tau = solve_dual(loss, before, z, targets, box, np.zeros((6, 2)))
        np.testing.assert_allclose(after.mean, before.mean + 0.7 * tau.T @ z, atol=1e-12)
        assert (np.abs(tau) <= box).all()
        assert not tau[targets.signs == 0].any()
        rest = targets.values - z @ after.mean.T
        some = (targets.signs != 0) & z.any(axis=1)[:, None]
        slack = 30 * 1e-3 * 0.3
        assert (np.abs(rest[some & (tau == 0)]) <= 0.3 + slack).all()
        held = some & (np.abs(tau) == box)
        assert (rest[held] * np.sign(tau[held]) >= 0.3 - slack).all()
        free = some & (tau != 0) & ~held
        np.testing.assert_allclose(rest[free] * np.sign(tau[free]), 0.3, atol=slack)
        assert some.any()
        assert held.any() or free.any()

    def test_one_document_with_a_number_is_the_closed_form(self):
        loss = Loss("averaging", margin=0.3, c=1.0, variance=0.7, regression=True)
        z = np.array([[0.25, 0.75]])
        before = FixedSpread(np.array([[1.0, 0.0], [0.0, 1.0]]))
        targets = Targets(np.ones((1, 2), np.int8), np.array([[-1.0, 0.9]]))
        after, tau = solve_dual(loss, before, z, targets, 5.0, np.zeros((1, 2)))
        assert tau[0] == pytest.approx([-(1.25 - 0.3) / (0.7 * 0.625), 0.0])
        assert z @ after.mean[0] == pytest.approx(-0.7)
        np.testing.assert_array_equal(after.mean[1], before.mean[1])


class TestFirstMultipliers:
    @pytest.mark.parametrize("box", [0.1, 2.0, 1e5])
    def test_as_if_each_document_came_alone(self, box):
        z, targets = batch()
        mean = np.random.default_rng(4).normal(size=(3, 4))
        tau = first_multipliers(AVERAGING, mean, z, targets.signs, box)
        for d in range(9):
            if not z[d].any():
                continue
            for q in range(3):
                expected = oracle.multiplier_alone(
                    1.5, targets.signs[d, q], mean[q], z[d], 0.7, box
                )
                assert tau[d, q] == pytest.approx(expected, rel=1e-12)
        assert np.isfinite(tau).all()


class TestTilts:
    def test_ratios_are_those_of_the_label_term(self):
        rng = np.random.default_rng(5)
        mean, n = rng.normal(size=(3, 4)), 5
        signs = np.array([[1, -1, 0]], np.int8)
        tau = np.array([[3.0, 2.0, 100.0]])
        found = tilts(mean, signs, tau, np.array([float(n)]))[0]
        logs = [oracle.log_averaging([k, *[0] * (n - 1)], signs[0], tau[0], mean) for k in range(4)]
        np.testing.assert_allclose(np.log(found / found[0]), np.array(logs) - logs[0], rtol=1e-10)
        assert found.max() == 1.0

    def test_huge_exponents_and_no_tasks(self):
        found = tilts(
            np.array([[164.0, -164.0]]), np.array([[1]], np.int8), np.array([[1e9]]), np.ones(1)
        )
        np.testing.assert_array_equal(found, [[1.0, 0.0]])
        none = tilts(np.zeros((0, 2)), np.zeros((3, 0), np.int8), np.zeros((3, 0)), np.ones(3))
        np.testing.assert_array_equal(none, np.ones((3, 2)))


class TestHinges:
    def test_classes(self):
        weights, (_, targets) = gaussians(), batch()
        hinges = make_hinges(GIBBS, weights, targets)
        mean = np.linalg.solve(weights.precision, weights.shift[..., None])[..., 0]
        np.testing.assert_allclose(hinges.weights, mean, rtol=1e-9)
        for q in range(3):
            second = np.linalg.inv(weights.precision[q]) + np.outer(mean[q], mean[q])
            np.testing.assert_allclose(hinges.seconds[:, q], second, rtol=1e-9)
            np.testing.assert_allclose(hinges.squares[q], np.diag(second), rtol=1e-9)
        np.testing.assert_array_equal(hinges.signs, targets.signs)
        np.testing.assert_array_equal(hinges.offsets, 1.5)
        assert hinges.c == GIBBS.c
        assert all(a.flags.c_contiguous for a in hinges[:7])

    @pytest.mark.parametrize("n_workers", [2, 3, 5])
    def test_tasks_may_be_shared_out(self, n_workers, monkeypatch):
        weights, (_, targets) = gaussians(), batch()
        alone = make_hinges(GIBBS, weights, targets)
        monkeypatch.setattr(topic_weights, "_WORTH_SHARING", 0)
        with ThreadEngine(n_workers) as engine:
            shared = make_hinges(GIBBS, weights, targets, engine)
        for one, other in zip(alone[:5], shared[:5], strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(alone.squares, shared.squares)

    def test_drawn_weights_have_no_spread(self):
        """Spec 8: (29) with w for the mean and nothing for the covariance."""
        weights, (_, targets) = gaussians(), batch()
        hinges = make_hinges(GIBBS, weights, targets, rng=np.random.default_rng(5))
        w = weights.draw(np.random.default_rng(5))
        np.testing.assert_array_equal(hinges.weights, w)
        for q in range(3):
            np.testing.assert_allclose(hinges.seconds[:, q], np.outer(w[q], w[q]), rtol=1e-12)
            np.testing.assert_allclose(hinges.squares[q], w[q] ** 2, rtol=1e-12)

    def test_a_tube_is_two_hinges(self):
        loss = Loss("gibbs", margin=0.3, c=0.4, variance=1.0, regression=True, mean_only=True)
        values = np.array([[1.0, -2.0], [0.1, 5.0]])
        targets = Targets(np.array([[1, 1], [0, 1]], np.int8), values)
        hinges = make_hinges(loss, gaussians(q=2), targets)
        assert hinges.mean_only
        np.testing.assert_array_equal(hinges.weights[:2], hinges.weights[2:])
        np.testing.assert_array_equal(hinges.seconds[:, :2], hinges.seconds[:, 2:])
        for score in (-3.0, 0.9, 1.2, 8.0):
            losses = np.maximum(hinges.offsets - hinges.signs * score, 0.0)
            both = (losses[:, :2] + losses[:, 2:])[targets.signs > 0]
            expected = np.maximum(np.abs(values - score) - 0.3, 0.0)[targets.signs > 0]
            np.testing.assert_allclose(both, expected, atol=1e-12)
        assert not hinges.signs[1, [0, 2]].any()

    def test_none(self):
        hinges = no_hinges(3, 5)
        assert hinges.signs.shape == (3, 0)
        assert hinges.weights.shape == (0, 5)
        assert hinges.seconds.shape == (5, 0, 5)


class TestAccumulated:
    def case(self, loss, q=3, n_kept=2):
        rng = np.random.default_rng(6)
        z = rng.multinomial(12, rng.dirichlet(np.full(4, 0.4), 7), (n_kept, 7)) / 12.0
        signs = rng.choice([-1, 0, 1], (7, q)).astype(np.int8)
        values = np.full((7, q), loss.margin)
        if loss.regression:
            signs, values = np.abs(signs), rng.normal(size=(7, q))
        weights, targets = gaussians(q=q), Targets(signs, values)
        inverses = rng.gamma(1.0, 1.0, (n_kept, 7, q * (1 + loss.regression)))
        return weights, targets, z, inverses

    def after(self, loss, weights, targets, z, inverses, ghosts=1):
        lengths = np.full(7, 12.0)
        return add_evidence(loss, weights, targets, 12.0 * z, inverses, lengths, ghosts)

    @pytest.mark.parametrize("ghosts", [1, 10])
    @pytest.mark.parametrize("n_kept", [1, 3])
    def test_sums(self, ghosts, n_kept):
        weights, targets, z, inverses = self.case(GIBBS, n_kept=n_kept)
        hinges = make_hinges(GIBBS, weights, targets)
        after = self.after(GIBBS, weights, targets, z, inverses, ghosts)
        precision, shift = oracle.gibbs_statistics(
            z, inverses, hinges.signs, hinges.offsets, GIBBS.c, ghosts
        )
        np.testing.assert_allclose(after.precision, weights.precision + precision, rtol=1e-12)
        np.testing.assert_allclose(after.shift, weights.shift + shift, rtol=1e-11, atol=1e-12)
        np.testing.assert_array_equal(after.precision, after.precision.transpose(0, 2, 1))

    def test_numbers_have_two_variables_each(self):
        loss = Loss("gibbs", margin=0.3, c=0.4, variance=1.0, regression=True)
        weights, targets, z, inverses = self.case(loss, q=2)
        hinges = make_hinges(loss, weights, targets)
        after = self.after(loss, weights, targets, z, inverses)
        precision, shift = weights.precision.copy(), weights.shift.copy()
        for j in range(2):
            for d in range(7):
                for q in range(2):
                    if hinges.signs[d, q]:
                        one, two = inverses[j, d, q], inverses[j, d, q + 2]
                        y, x = hinges.offsets[d, q] + 0.3, z[j, d]
                        precision[q] += loss.c**2 * (one + two) * np.outer(x, x) / 2
                        shift[q] += loss.c**2 * ((y - 0.3) * one + (y + 0.3) * two) * x / 2
        np.testing.assert_allclose(after.precision, precision, rtol=1e-12)
        np.testing.assert_allclose(after.shift, shift, rtol=1e-10, atol=1e-12)

    def test_spread_never_grows(self):
        weights, targets, z, inverses = self.case(GIBBS)
        after = self.after(GIBBS, weights, targets, z, inverses)
        gained = np.linalg.eigvalsh(after.precision - weights.precision)
        assert gained.min() > -1e-12
        assert gained.max() > 0.01
        lost = np.linalg.eigvalsh(weights.moments()[1] - after.moments()[1])
        assert lost.min() > -1e-12

    def test_products_are_averaged_not_averages_multiplied(self):
        weights, targets, z, inverses = self.case(GIBBS)
        after = self.after(GIBBS, weights, targets, z, inverses)
        mean, inverse = z.mean(0, keepdims=True), inverses.mean(0, keepdims=True)
        flat = self.after(GIBBS, weights, targets, mean, inverse)
        assert np.abs(after.precision - flat.precision).max() > 1e-3

    def test_missing_labels_add_nothing(self):
        weights, targets, z, inverses = self.case(GIBBS)
        silent = Targets(np.zeros_like(targets.signs), targets.values)
        inverses[:] = np.nan
        after = self.after(GIBBS, weights, silent, z, inverses)
        np.testing.assert_array_equal(after.precision, weights.precision)
        np.testing.assert_array_equal(after.shift, weights.shift)
