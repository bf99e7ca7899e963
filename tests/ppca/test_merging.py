"""PPCA models learned apart become one: moments add up."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.estimator.merging import merge
from everlearn.ppca.estimator import OnlinePPCA

RNG = np.random.default_rng(5)
LABELS = RNG.integers(3, size=900)
POINTS = np.array([-10.0, 0.0, 10.0])[LABELS, None] + RNG.normal(size=(900, 3))


def test_moments_add():
    params = {"n_components": 2, "random_state": 0, "options": {"kept_components": 3}}
    shards = [OnlinePPCA(**params).fit(part) for part in np.split(POINTS, 3)]
    both, whole = merge(shards), OnlinePPCA(**params).fit(POINTS)
    assert_allclose(both.mean_, whole.mean_, rtol=1e-9, atol=1e-12)
    assert_allclose(both.score(POINTS), whole.score(POINTS), rtol=1e-9)


def test_what_does_not_add_up_is_refused():
    def fitted(**params):
        return OnlinePPCA(2, random_state=0, **params).fit(POINTS)

    one, two = fitted(), fitted()
    with pytest.raises(ValueError, match="takes no base for OnlinePPCA"):
        merge([one, two], base=fitted())
    for params, words in (
        ({"n_mixtures": 2}, "n_mixtures=1"),
        ({"constraint_weight": 2.0}, "constraint_weight='count'"),
    ):
        with pytest.raises(ValueError, match=words):
            merge([fitted(**params), fitted(**params)])


def test_merged_models_go_on_with_the_mass_of_all():
    parts = np.split(POINTS, [200, 500])
    shards = [OnlinePPCA(1, random_state=0).partial_fit(part) for part in parts]
    both = merge(shards)
    state = both._learned.state
    assert (state.n_rows, state.mass, state.clock) == (900, 900.0, 3)
    assert both.partial_fit(POINTS).n_samples_seen_ == 1800
