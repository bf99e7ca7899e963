"""The prior and the price that the first points decide on."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps.prior import PRICE_PER_NUMBER, family_for, fresh_state
from everlearn.clumps.state import Epoch
from support.clumped_data import FAMILIES, documents, settings_of

every = pytest.mark.parametrize("family", FAMILIES)


def points() -> np.ndarray:
    return np.random.default_rng(0).normal([1.0, -50.0, 3.0], [1.0, 20.0, 0.01], (200, 3))


def test_a_topic_has_a_tenth_of_the_variance() -> None:
    X = points()
    full = family_for("full", "data", X).prior
    diagonal = family_for("diagonal", "data", X).prior
    for prior in (full, diagonal):
        assert_allclose(prior.mean, X.mean(axis=0), rtol=1e-12)
        assert prior.mean_precision == 0.1
    # Mean of the inverse Wishart: scale / (dof - d - 1). Of the inverse gamma: rate / (shape - 1).
    assert full.degrees_of_freedom == 5.0
    assert_allclose(full.scale / (5.0 - 3 - 1), np.diag(0.1 * X.var(axis=0)), rtol=1e-10)
    assert_allclose(diagonal.rate / (1.5 - 1.0), 0.1 * X.var(axis=0), rtol=1e-10)


def test_counts_have_a_flat_prior() -> None:
    family = family_for("multinomial", "data", documents("multinomial", 3)[0][0])
    assert len(np.unique(family.prior.counts)) == 1


@pytest.mark.parametrize("family", ["full", "diagonal"])
def test_entries_by_hand_replace_those_of_the_points(family: str) -> None:
    X = points()
    default = family_for(family, "data", X).prior
    own = family_for(family, {"mean": np.zeros(3)}, X).prior
    assert_array_equal(own.mean, np.zeros(3))
    assert own.mean_precision == default.mean_precision


def test_one_point_and_equal_points_have_a_prior() -> None:
    for X in (np.ones((1, 2)), np.full((5, 2), 1e8)):
        for family in ("full", "diagonal"):
            prior = family_for(family, "data", X).prior
            assert_allclose(prior.mean, X[0])
            spread = prior.scale if family == "full" else prior.rate
            assert np.isfinite(spread).all()
            assert (np.atleast_1d(spread.diagonal() if family == "full" else spread) > 0).all()


@every
def test_the_price_grows_with_the_numbers_in_a_document(family: str) -> None:
    """A row of counts is one number: its entries are shares of one total."""
    parts = [part[:n] for part, n in zip(documents(family, 3)[0], (10, 20, 30), strict=True)]
    state = fresh_state(settings_of(family=family), Epoch(parts))
    width = 1 if family == "multinomial" else 3
    assert_allclose(state.price, PRICE_PER_NUMBER * 20 * width)
    assert state.document_groups is None
    given = settings_of(family=family, topic_price=7, track_documents=True)
    state = fresh_state(given, Epoch(parts))
    assert state.price == 7.0
    assert len(state.document_groups) == 0


def test_a_prior_that_cannot_be_is_named() -> None:
    settings = replace(settings_of(), prior={"scale": -1.0})
    with pytest.raises(ValueError, match="'prior' of ClumpedTopicModel"):
        fresh_state(settings, Epoch([points()]))
