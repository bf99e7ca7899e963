"""Priors that follow from the settings and the rows."""

import pytest

from everlearn.components.settings import ComponentTreeSettings


def test_priors_have_the_scale_of_the_rows() -> None:
    one, large = (ComponentTreeSettings(concentration=2.0).model(5, v) for v in (1.0, 1e6))
    assert (one.n_features, one.paths.gamma) == (5, 2.0)
    assert (one.scale, large.scale) == (1.0, 1e6)
    assert one.shape == large.shape
    assert large.rate == pytest.approx(1e6 * one.rate)


def test_a_given_scale_says_nothing_of_the_noise() -> None:
    given = ComponentTreeSettings(prior_scale=7.0).model(5, 100.0)
    assert given.scale == 7.0
    assert given.rate == ComponentTreeSettings().model(5, 100.0).rate


@pytest.mark.parametrize("variance", [0.0, 1e-300, float("nan")])
def test_rows_without_spread_have_the_prior_of_variance_1(variance: float) -> None:
    settings = ComponentTreeSettings()
    assert settings.model(3, variance) == settings.model(3, 1.0)
