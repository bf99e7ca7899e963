"""Planted components are found again: their number, and which row belongs to which."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from everlearn.mixture.estimator import DPMixture
from everlearn.testing.data import PlantedMixture, planted_mixture

SHAPES = {"diagonal": "axis-parallel", "full": "oblique"}
CONCENTRATIONS = (0.1, 1.0, 10.0)
CORNERS = list(itertools.product(range(3), CONCENTRATIONS))
SEEDS = range(10)


def planted(family: str, n_features: int, seed: int, n_rows: int = 5000) -> PlantedMixture:
    return planted_mixture(n_rows, n_features, 8, shape=SHAPES[family], random_state=seed)


def finds_all(family: str, n_features: int, concentration: float, seed: int) -> bool:
    truth = planted(family, n_features, seed)
    mixture = DPMixture(family=family, concentration=concentration, random_state=seed).fit(truth.X)
    found = mixture.n_components_ == 8
    if found:
        assert adjusted_rand_score(truth.labels, mixture.predict(truth.X)) > 0.999
    return found


@pytest.mark.parametrize(("number", "concentration"), CORNERS)
@pytest.mark.parametrize(
    ("family", "n_features"), [("diagonal", 2), ("diagonal", 10), ("diagonal", 50), ("full", 2)]
)
def test_the_number_of_components_is_found(
    family: str, n_features: int, number: int, concentration: float
) -> None:
    """Three seeds for each concentration; `slow` has ten."""
    seed = number + 3 * CONCENTRATIONS.index(concentration)
    assert finds_all(family, n_features, concentration, seed)


@pytest.mark.parametrize(("n_features", "concentration"), [(10, 1.0), (10, 0.1), (50, 1.0)])
def test_full_covariances_in_more_dimensions(n_features: int, concentration: float) -> None:
    assert finds_all("full", n_features, concentration, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("concentration", CONCENTRATIONS)
@pytest.mark.parametrize("n_features", [2, 10, 50])
@pytest.mark.parametrize("family", ["diagonal", "full"])
def test_the_number_is_found_on_nine_of_ten_seeds(
    family: str, n_features: int, concentration: float
) -> None:
    hits = [finds_all(family, n_features, concentration, seed) for seed in SEEDS]
    assert sum(hits) >= 9


def recovers_a_large_set(family: str, seed: int) -> bool:
    truth = planted(family, 2, seed, n_rows=25_000)
    mixture = DPMixture(family=family, random_state=seed).fit(truth.X)
    agreement = normalized_mutual_info_score(truth.labels, mixture.predict(truth.X))
    return mixture.n_components_ == 8 and agreement > 0.99


@pytest.mark.parametrize("family", ["diagonal", "full"])
def test_a_large_set_in_the_plane(family: str) -> None:
    assert recovers_a_large_set(family, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["diagonal", "full"])
def test_large_sets_in_the_plane_on_nine_of_ten_seeds(family: str) -> None:
    assert sum(recovers_a_large_set(family, seed) for seed in SEEDS) >= 9


@pytest.mark.parametrize("family", ["diagonal", "full"])
def test_parameters_are_found(family: str) -> None:
    truth = planted(family, 3, seed=1)
    mixture = DPMixture(family=family, random_state=0).fit(truth.X)
    nearest = np.linalg.norm(mixture.means_[:, None] - truth.means, axis=2).argmin(axis=1)
    assert sorted(nearest) == list(range(8))
    np.testing.assert_allclose(mixture.means_, truth.means[nearest], atol=0.2)
    np.testing.assert_allclose(mixture.weights_, truth.weights[nearest], atol=0.02)
    covariances = truth.covariances[nearest]
    if family == "diagonal":
        covariances = np.diagonal(covariances, axis1=1, axis2=2)
    np.testing.assert_allclose(mixture.covariances_, covariances, atol=0.25)


@pytest.mark.parametrize("batch", [1, 50, 1000])
def test_a_stream_finds_them_as_well(batch: int) -> None:
    n_rows = 600 if batch == 1 else 5000
    truth = planted("diagonal", 2, seed=2, n_rows=n_rows)
    mixture = DPMixture(random_state=0)
    for start in range(0, n_rows, batch):
        mixture.partial_fit(truth.X[start : start + batch])
    assert mixture.n_samples_seen_ == n_rows
    assert adjusted_rand_score(truth.labels, mixture.predict(truth.X)) > 0.99
    assert mixture.n_components_ == 8


class TestPlantedMixture:
    @pytest.mark.parametrize("shape", ["round", "axis-parallel", "oblique"])
    @pytest.mark.parametrize("n_features", [1, 2, 7])
    def test_is_what_it_says(self, shape: str, n_features: int) -> None:
        truth = planted_mixture(20_000, n_features, 4, shape=shape, random_state=3)
        for k in range(4):
            rows = truth.X[truth.labels == k]
            np.testing.assert_allclose(rows.mean(axis=0), truth.means[k], atol=0.1)
            covariance = np.cov(rows.T).reshape(n_features, n_features)
            np.testing.assert_allclose(covariance, truth.covariances[k], atol=0.1)
        np.testing.assert_allclose(np.bincount(truth.labels) / 20_000, truth.weights, atol=0.02)

    @pytest.mark.parametrize("separation", [2.0, 8.0])
    def test_the_nearest_centres_are_at_the_distance_asked_for(self, separation: float) -> None:
        truth = planted_mixture(10, 3, 6, separation=separation, shape="oblique", random_state=1)
        gaps = np.linalg.norm(truth.means[:, None] - truth.means, axis=2)[~np.eye(6, dtype=bool)]
        longest = np.linalg.eigvalsh(truth.covariances).max()
        np.testing.assert_allclose(gaps.min() / np.sqrt(longest), separation)

    def test_axes_are_parallel_or_oblique(self) -> None:
        for shape, parallel in (("round", True), ("axis-parallel", True), ("oblique", False)):
            truth = planted_mixture(10, 3, 2, shape=shape, random_state=1)
            off = truth.covariances[:, ~np.eye(3, dtype=bool)]
            assert (np.abs(off).max() < 1e-12) == parallel

    def test_the_seed_says_it_all(self) -> None:
        one, same, other = (planted_mixture(50, random_state=s) for s in (1, 1, 2))
        np.testing.assert_array_equal(one.X, same.X)
        np.testing.assert_array_equal(one.labels, same.labels)
        assert not np.array_equal(one.X, other.X)
        assert planted_mixture(5, 2, 1, random_state=0).means.shape == (1, 2)
