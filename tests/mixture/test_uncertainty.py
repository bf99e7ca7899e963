"""Draws of parameters against closed-form moments, and intervals by their coverage."""

from typing import Any

import numpy as np
import pytest

from everlearn import DPMixture
from everlearn.core.priors.dp import SticksPosterior
from everlearn.mixture.uncertainty import draw_weights
from support.streams import FAMILIES, rows_of

RNG = np.random.default_rng
DRAWS = 20_000


def mixture(family: str = "diagonal", **params: Any) -> DPMixture:
    return DPMixture(**{"family": family, "random_state": 0, "engine": "serial"} | params)


def check_mean(drawn: np.ndarray, want: Any, errors: float = 4.5) -> None:
    """The mean over draws is the wanted one, within so many standard errors."""
    error = drawn.std(axis=0) / np.sqrt(len(drawn)) + 1e-12
    assert (np.abs(drawn.mean(axis=0) - want) <= errors * error).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_have_the_moments_of_the_posterior(family: str) -> None:
    model = mixture(family).fit(rows_of(family, 300, RNG(0)))
    draws = model.sample_posterior(DRAWS)
    k, d = model.means_.shape
    assert draws.weights.shape == (DRAWS, k)
    assert draws.means.shape == (DRAWS, k, d)
    assert draws.covariances.shape == (DRAWS, *model.covariances_.shape)
    np.testing.assert_array_equal(draws.component_ids, model.component_ids_)
    np.testing.assert_allclose(draws.weights.sum(axis=1), 1.0)
    check_mean(draws.means, model.means_)
    if family == "multinomial":
        np.testing.assert_allclose(draws.means.sum(axis=2), 1.0)
        return
    # `covariances_` are inverse expected precisions.
    if family == "diagonal":
        check_mean(1.0 / draws.covariances, 1.0 / model.covariances_)
    else:
        check_mean(np.linalg.inv(draws.covariances), np.linalg.inv(model.covariances_))


@pytest.mark.parametrize("family", ["diagonal", "full"])
def test_means_vary_as_their_student_t_does(family: str) -> None:
    model = mixture(family).fit(rows_of(family, 300, RNG(0)))
    state = model._learned.state
    q = state.model.family.posterior(state.total.n, state.total.t)
    draws = model.sample_posterior(DRAWS)
    if family == "diagonal":
        dof = 2.0 * np.broadcast_to(q.shape, q.rate.shape)
        scale = q.rate / (q.shape * q.mean_precision)
    else:
        dof = (q.wishart.dof - q.wishart.dim + 1.0)[:, None]
        scale = np.diagonal(q.wishart.scale, axis1=1, axis2=2)
        scale = scale / (dof * q.mean_precision[:, None])
    check_mean((draws.means - model.means_) ** 2, scale * dof / (dof - 2.0))


def test_weights_have_the_moments_of_broken_sticks() -> None:
    """Among components that hold all but a little of the mass."""
    won, lost = np.array([40.0, 25.0, 30.0]), np.array([55.0, 31.0, 1e-3])
    sticks = SticksPosterior(won, lost)
    drawn = draw_weights(sticks, 200_000, RNG(0))
    first, second = won / (won + lost), won * (won + 1) / ((won + lost) * (won + lost + 1))
    rest = lost * (lost + 1) / ((won + lost) * (won + lost + 1))
    mean = first * np.cumprod(np.concatenate([[1.0], lost / (won + lost)]))[:-1]
    square = second * np.cumprod(np.concatenate([[1.0], rest]))[:-1]
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=2e-3)
    np.testing.assert_allclose(drawn.var(axis=0), square - mean**2, rtol=0.03)


@pytest.mark.parametrize("family", ["diagonal", "full", "multinomial"])
def test_intervals_hold_the_truth_as_often_as_they_say(family: str) -> None:
    """Planted clusters far apart: the share of intervals that hold the truth, over 60 sets."""
    rate, inside_means, inside_weights = 0.9, [], []
    truth = np.array([0.5, 0.3, 0.2])
    for seed in range(60):
        rng = RNG(seed)
        z = rng.choice(3, 400, p=truth)
        if family == "multinomial":
            places = np.array(
                [[0.8, 0.1, 0.05, 0.05], [0.1, 0.8, 0.05, 0.05], [0.1, 0.1, 0.4, 0.4]]
            )
            X = np.array([rng.multinomial(60, places[k]) for k in z], float)
        else:
            places = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0]])
            X = places[z] + rng.normal(size=(400, 2))
        prior = "data" if family == "multinomial" else "wishart"
        model = mixture(family, prior=prior, max_components=3, moves=("merge", "delete")).fit(X)
        found = model.credible_intervals(rate)
        if model.n_components_ != 3:
            continue
        for k, mean in enumerate(model.means_):
            own = int(np.argmin(((places - mean) ** 2).sum(axis=1)))
            low, high = found.means[k].T
            inside_means += ((low < places[own]) & (places[own] < high)).tolist()
            inside_weights.append(found.weights[k, 0] < truth[own] < found.weights[k, 1])
    for inside in (inside_means, inside_weights):
        assert len(inside) > 100
        error = np.sqrt(rate * (1 - rate) / len(inside))
        assert abs(np.mean(inside) - rate) < 4 * error


@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_contain_what_is_expected_and_grow_with_the_rate(family: str) -> None:
    model = mixture(family).fit(rows_of(family, 300, RNG(0)))
    narrow, wide = model.credible_intervals(0.5), model.credible_intervals(0.99)
    for found in (narrow, wide):
        assert (
            (found.weights[:, 0] <= model.weights_) & (model.weights_ <= found.weights[:, 1])
        ).all()
        low, high = found.means[..., 0], found.means[..., 1]
        assert ((low <= wide.means[..., 1]) & (wide.means[..., 0] <= high)).all()
        if family != "multinomial":  # a Beta's median may be far from its mean
            assert ((low <= model.means_) & (model.means_ <= high)).all()
    assert (np.diff(wide.weights, axis=1) > np.diff(narrow.weights, axis=1)).all()
    if family == "zero-mean":
        assert not wide.means.any()
    else:
        assert (np.diff(wide.means, axis=2) > np.diff(narrow.means, axis=2)).all()


def test_more_rows_make_intervals_narrower() -> None:
    widths = []
    for n in (100, 10_000):
        model = mixture().fit(RNG(0).normal(size=(n, 2)))
        widths.append(np.diff(model.credible_intervals().means, axis=2).mean())
    assert widths[1] == pytest.approx(widths[0] / 10, rel=0.3)


def test_draws_follow_the_seed_and_intervals_change_nothing() -> None:
    model = mixture().fit(rows_of("diagonal", 100, RNG(0)))
    np.testing.assert_array_equal(model.sample_posterior(3).means, model.sample_posterior(3).means)
    np.testing.assert_array_equal(
        model.credible_intervals().weights, model.credible_intervals().weights
    )


@pytest.mark.parametrize(("method", "value"), [("sample_posterior", 0), ("credible_intervals", 2)])
def test_bad_arguments_are_refused(method: str, value: Any) -> None:
    model = mixture().fit(rows_of("diagonal", 100, RNG(0)))
    with pytest.raises(ValueError, match=f"DPMixture.{method}"):
        getattr(model, method)(value)


def test_parameters_of_a_table() -> None:
    """Numbers and counts as in their own families; categories have no mean."""
    rng = RNG(0)
    numbers = rng.normal(3.0, 1.0, 400)
    counts = rng.poisson(6.0, 400)
    plan = np.where(rng.random(400) < 0.3, "pro", "free").astype(object)
    X = np.rec.fromarrays([numbers, plan, counts], names="size,plan,visits")
    kinds = {"size": "numbers", "plan": "categories", "visits": "counts"}
    model = mixture(family=kinds).fit(X)
    draws, intervals = model.sample_posterior(DRAWS), model.credible_intervals()
    assert model.n_components_ == 1
    assert np.isnan(draws.means[:, 0, 1]).all()
    assert np.isnan(intervals.means[0, 1]).all()
    check_mean(draws.means[:, 0, [0, 2]], model.means_[0, [0, 2]])
    for column, truth in ((0, 3.0), (2, 6.0)):
        low, high = intervals.means[0, column]
        drawn = np.quantile(draws.means[:, 0, column], [0.025, 0.975])
        np.testing.assert_allclose([low, high], drawn, rtol=0.01)
        assert low < truth < high
