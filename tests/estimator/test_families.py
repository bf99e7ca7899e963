"""Neither the unit of a feature nor the place of its zero matters, as far as numbers reach."""

import numpy as np
import pytest

from everlearn.engine.rows import Rows
from everlearn.estimator.families import Moments
from everlearn.mixture.estimator import DPMixture
from support.streams import rows_of

X = rows_of("diagonal", 600, np.random.default_rng(0))
"""Three clusters."""


@pytest.mark.parametrize("family", ["diagonal", "full"])
@pytest.mark.parametrize(
    ("offset", "unit"),
    [
        (0.0, 1e-9),
        (1e6, 1e-6),
        (1e9, 1.0),
        (1.75e9, 1e-3),  # seconds since 1970, in steps of a millisecond
        (1.75e12, 1000.0),  # and milliseconds
        (1.75e12, 1.0),
        (1e15, 1.0),
        (-1e15, 8.0),
    ],
)
def test_offsets_and_units_do_not_matter(family: str, offset: float, unit: float) -> None:
    model = DPMixture(family=family, random_state=0)
    plain = model.fit_predict(X)
    rows = offset + unit * X
    assert (model.fit_predict(rows) == plain).mean() > 0.99
    assert model.n_components_ == 3
    means = (np.sort(model.means_, axis=0) - offset) / unit
    np.testing.assert_allclose(means[:, 0], [-9, 0, 9], atol=0.5)
    for batch in np.array_split(rows, 4):
        model.partial_fit(batch)
    assert model.n_components_ == 3


@pytest.mark.parametrize("family", ["diagonal", "full"])
@pytest.mark.parametrize(("offset", "unit"), [(1.75e12, 1000.0), (1e14, 1.0)])
def test_nor_do_they_in_single_precision(family: str, offset: float, unit: float) -> None:
    """Rows are float64, the work on them is not."""
    model = DPMixture(family=family, dtype="float32", random_state=0).fit(offset + unit * X)
    assert model.n_components_ == 3
    means = (np.sort(model.means_, axis=0) - offset) / unit
    np.testing.assert_allclose(means[:, 0], [-9, 0, 9], atol=0.5)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 / 3, -1.75e12 / 7, 1e90 / 3, 1e-200])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_equal_values_have_no_spread(value: float, dtype: type) -> None:
    if dtype is np.float32 and abs(value) > 1e30:
        return
    rows = np.full((100_003, 1), value, dtype)
    weights = np.random.default_rng(0).uniform(0.1, 3, len(rows))
    for given in (Rows(rows), Rows(rows, weights)):
        assert Moments.of(given).variance == 1.0


def test_rounding_is_no_spread() -> None:
    nearly = np.where(np.arange(50) % 2, 0.1 + 0.2, 0.3)[:, None]
    assert nearly.min() < nearly.max()
    assert Moments.of(Rows(nearly)).variance == 1.0


def test_large_numbers_in_single_precision() -> None:
    """Their sum is not finite in float32, but they are."""
    rows = (1e36 * (X + 100)).astype(np.float32)
    assert DPMixture(random_state=0).fit(rows).n_components_ == 3
