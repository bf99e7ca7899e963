"""Misfits: rows that fit worse than usual raise an event, also where they are no strangers."""

import numpy as np
import pytest

from everlearn import load
from everlearn.estimator.history import MAX_MISFITS, History, Misfit
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.fitness import Baseline, Fitness
from everlearn.mixture.local import Plan
from oracles.runs import model_of, random_posterior, rows_of, runner_of, scores
from support.streams import file_of

RNG = np.random.default_rng


def after(fitness: Fitness, log_density: np.ndarray) -> Fitness:
    return fitness.after(fitness.baseline.deviation_sums(log_density, None))


class TestBaseline:
    def test_sums_are_about_the_mean_and_no_row_counts_for_more_than_the_lowest(self):
        sums = Baseline(-2.0, -5.0).deviation_sums(
            np.array([-1.0, -2.0, -50.0]), np.array([1.0, 2.0, 3.0])
        )
        np.testing.assert_allclose(sums, [6.0, 1.0 - 9.0, 1.0 + 27.0])

    def test_a_step_sums_log_densities_of_its_rows(self, case, weighted):
        model, rows = model_of(case), rows_of(case, weighted)
        posterior = random_posterior(model, rows, 3)
        found = scores(model.family, posterior, rows)
        each = np.logaddexp.reduce(found, axis=1) + model.family.log_base(rows.X)
        baseline = Baseline(float(each.mean()), float(np.quantile(each, 0.2)))
        summary, _ = runner_of(case).run(posterior, Plan(baseline=baseline), rows)
        np.testing.assert_allclose(
            summary.fit, baseline.deviation_sums(each, rows.weights), rtol=1e-8, atol=1e-6
        )


class TestFitness:
    def test_mean_and_variance_are_those_of_the_rows(self):
        values = RNG(0).normal(-9.0, 2.0, 1000)
        fitness = Fitness()
        for part in np.split(values, [100, 150, 240]):
            fitness = after(fitness, part)
        np.testing.assert_allclose(fitness.mean, values.mean())
        np.testing.assert_allclose(fitness.variance, values.var())
        assert fitness.misfit(1000.0) is None

    def test_usual_rows_are_no_misfit_even_with_heavy_tails(self):
        fitness, rng = Fitness(), RNG(0)
        for _ in range(2000):
            fitness = after(fitness, -(rng.exponential(size=10) ** 2))
            assert fitness.misfit(1e9) is None

    def test_worse_rows_are_counted_from_the_first_on(self):
        fitness, rng = Fitness(), RNG(0)
        for _ in range(20):
            fitness = after(fitness, rng.normal(-9.0, 2.0, 100))
        for number in range(1, 9):
            fitness = after(fitness, rng.normal(-13.0, 2.0, 100))
            misfit = fitness.misfit(2000.0 + 100 * number)
            if number > 2:
                assert misfit.since == 2000
                assert misfit.rows == 100 * number
                np.testing.assert_allclose(misfit.drop, 3.8, atol=0.6)
        for _ in range(100):
            fitness = after(fitness, rng.normal(-9.0, 2.0, 100))
        assert fitness.misfit(12_800.0) is None


def test_a_history_keeps_the_latest_misfits():
    history = History()
    for number in range(40):
        history = history.with_misfit(Misfit(1000 * number, 10, 1.0))
        history = history.with_misfit(Misfit(1000 * number, 20, 1.5))
    assert len(history.misfits) == MAX_MISFITS
    assert history.misfits[-1] == Misfit(39_000, 20, 1.5)
    assert str(history.misfits[-1]) == (
        "20 records fit badly since record 39,000 (1.5 nats below the others)"
    )


@pytest.mark.parametrize("learner", ["memoized", "stochastic"])
@pytest.mark.parametrize("way", ["fit", "partial_fit"])
def test_rows_that_a_broad_component_explains_are_a_misfit(learner, way, tmp_path):
    rng = RNG(0)
    model = DPMixture(random_state=0, learner=learner, engine="serial")
    broad = 10.0 * rng.normal(size=(8000, 4))
    for part in [broad] if way == "fit" else np.split(broad, 20):
        getattr(model, way)(part)
    for _ in range(5):
        model.partial_fit(10.0 * rng.normal(size=(100, 4)))
    assert model.history_.misfits == ()
    model.partial_fit(20.0 + rng.normal(size=(20, 4)))
    model.save(tmp_path / "model.evl")
    again = load(tmp_path / "model.evl")
    for _ in range(3):
        X = 20.0 + rng.normal(size=(100, 4))
        for each in (model, again):
            each.partial_fit(X)
    (found,) = model.history_.misfits
    assert found.since == 8500
    assert found.rows == 320
    assert 2.0 < found.drop < 6.0
    assert file_of(again) == file_of(model)
    model.save(tmp_path / "model.evl")
    assert load(tmp_path / "model.evl").history_.misfits == (found,)
