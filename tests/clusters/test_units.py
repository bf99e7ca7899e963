"""Units are chosen by one rule, which does not depend on the data's own units."""

import numpy as np
import pytest

from everlearn.clusters.units import LENGTH, PLAIN, STANDARD, choose_units, effective_dimension
from everlearn.core.arrays import Mat

RNG = np.random.default_rng(0)
ROUND = RNG.normal(size=(300, 6))
LATENT = RNG.normal(size=(300, 40))
KINDS = {
    "few columns alike": (ROUND, PLAIN),
    "far from the origin": (ROUND + 1e6, PLAIN),
    "grams and kilometres": (ROUND * [1, 1000, 1, 0.01, 1, 1], STANDARD),
    "principal components": (ROUND * [1000, 100, 10, 1, 0.1, 0.01], PLAIN),
    "embeddings": (LATENT, LENGTH),
    "embeddings around a far mean": (LATENT + 5, PLAIN),
    "one value": (np.ones((20, 3)), PLAIN),
    "a constant column": (np.hstack([ROUND, np.ones((300, 1))]), PLAIN),
}


@pytest.mark.parametrize("name", KINDS)
def test_kind(name: str) -> None:
    rows, kind = KINDS[name]
    assert choose_units(rows).kind == kind


@pytest.mark.parametrize("name", KINDS)
def test_any_common_factor_gives_the_same_kind(name: str) -> None:
    rows, kind = KINDS[name]
    assert choose_units(rows * 1e-7).kind == kind


def test_standardised_columns_have_unit_variance() -> None:
    rows = KINDS["grams and kilometres"][0]
    measured = choose_units(rows).measured(rows)
    np.testing.assert_allclose(measured.std(axis=0), 1.0)
    np.testing.assert_allclose(measured.mean(axis=0), 0.0, atol=1e-12)


def test_unit_lengths_and_rows_of_zeros() -> None:
    measured = choose_units(LATENT).measured(np.vstack([LATENT[:3], np.zeros(40)]))
    np.testing.assert_allclose(np.linalg.norm(measured, axis=1), [1, 1, 1, 0])


def test_many_columns_are_projected_on_axes_that_keep_distances() -> None:
    rows: Mat = RNG.normal(size=(200, 20)) @ RNG.normal(size=(20, 150))
    units = choose_units(rows)
    measured = units.measured(rows)
    assert measured.shape == (200, 100)
    whole = rows / np.linalg.norm(rows, axis=1)[:, None]
    wanted = np.linalg.norm(whole[0] - whole[1])
    assert np.linalg.norm(measured[0] - measured[1]) == pytest.approx(wanted)


def test_effective_dimension() -> None:
    spread = np.array([3.0, 2.0, 2.0, 1.0, 1.0, 0.0])
    rows = np.random.default_rng(1).normal(size=(5000, 6)) * spread
    wanted = (spread**2).sum() ** 2 / (spread**4).sum()
    assert effective_dimension(rows) == pytest.approx(wanted, rel=0.1)
    assert effective_dimension(np.zeros((2, 2))) == 0
    assert effective_dimension(np.zeros((1, 2))) == 0


def test_far_more_columns_than_rows() -> None:
    rows = RNG.normal(size=(60, 3000))
    units = choose_units(rows)
    assert units.kind == LENGTH
    assert units.measured(rows).shape == (60, 60)
