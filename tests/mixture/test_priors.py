"""The prior "shared" finds the spread of components, and does not cut them into pieces."""

import numpy as np
import pytest

from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from everlearn.estimator.saving import load
from everlearn.metrics.clustering import clustering_scores
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.priors import STIFFNESS, neighbour_spread
from mixture.test_estimator_memory import measured

RNG = np.random.default_rng
WITHIN = np.linspace(0.5, 2.0, 30)


def clusters(k=8, n=40, d=30, seed=0):
    """Clusters with one spread for each feature, apart in a third of them."""
    rng = RNG(seed)
    means = np.zeros((k, d))
    means[:, : d // 3] = rng.normal(0, 5, (k, d // 3))
    labels = np.repeat(np.arange(k), n)
    return means[labels] + rng.normal(size=(k * n, d)) * np.sqrt(WITHIN[:d])


def spread_of(model):
    prior = model._learned.state.model.family.prior
    return prior.rate / prior.shape


def test_the_spread_is_found():
    X = clusters()
    model = DPMixture(prior="shared", random_state=0).fit(X)
    assert model.n_components_ == 8
    np.testing.assert_allclose(spread_of(model), WITHIN, rtol=0.3)
    assert np.mean(spread_of(model) / WITHIN) == pytest.approx(1.0, abs=0.05)


def test_classes_of_few_rows_in_many_dimensions_are_neither_mixed_nor_cut():
    """Rows of uneven loudness, as those of networks are: priors scaled to all rows fail."""
    rng = RNG(0)
    labels = np.repeat(np.arange(8), 30)
    means = np.zeros((8, 60))
    means[:, :15] = rng.normal(0, 3, (8, 15))
    X = means[labels] + rng.normal(size=(240, 60)) * np.exp(rng.normal(0, 0.3, (240, 1)))
    X /= X.std()
    shared, data, wishart = (
        clustering_scores(labels, DPMixture(prior=prior, random_state=0).fit_predict(X))
        for prior in ("shared", "data", "wishart")
    )
    assert shared.ami > 0.95
    assert shared.n_clusters <= 12
    assert data.ami < shared.ami
    assert wishart.n_clusters == 1


def test_units_do_not_matter():
    X = clusters()
    a = DPMixture(prior="shared", random_state=0).fit(X)
    b = DPMixture(prior="shared", random_state=0).fit(1024.0 * X - 3.0)
    pairs = set(zip(a.predict(X).tolist(), b.predict(1024.0 * X - 3.0).tolist(), strict=True))
    assert len(pairs) == a.n_components_ == b.n_components_ == 8
    np.testing.assert_allclose(1024.0**2 * spread_of(a), spread_of(b), rtol=1e-6)


def test_seeds_and_engines(tmp_path):
    X = clusters()
    files = []
    for engine in (None, "serial", "threads"):
        model = DPMixture(prior="shared", random_state=3, engine=engine).fit(X)
        model.set_params(engine=None).save(tmp_path / "model.evl")
        files.append((tmp_path / "model.evl").read_bytes())
    assert files[0] == files[1] == files[2]
    back = load(tmp_path / "model.evl")
    assert back.prior == "shared"
    np.testing.assert_array_equal(spread_of(back), spread_of(model))
    for one in (back, model):
        one.partial_fit(X[::3] + 0.1)
    np.testing.assert_array_equal(back.means_, model.means_)


def test_a_stream_takes_it_from_its_first_rows():
    X = clusters(n=60)
    X = X[RNG(1).permutation(len(X))]
    model = DPMixture(prior="shared", random_state=0)
    for start in range(0, len(X), 120):
        model.partial_fit(X[start : start + 120])
    first = spread_of(model)
    model.partial_fit(X[:10])
    np.testing.assert_array_equal(spread_of(model), first)
    assert np.mean(first / WITHIN) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1.0, 2.0]]),
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        np.zeros((30, 2)),
        np.column_stack([np.arange(30.0), np.zeros(30)]),
        np.where(RNG(0).random((50, 4)) < 0.2, np.nan, RNG(1).normal(size=(50, 4))),
    ],
    ids=["one row", "two rows", "equal rows", "a flat feature", "missing values"],
)
def test_odd_rows_do_no_harm(X):
    model = DPMixture(prior="shared", random_state=0).fit(X)
    assert np.isfinite(model.bound_)
    assert (spread_of(model) > 0).all()


def test_a_budget_holds_while_the_spread_is_found():
    X = clusters(n=200)
    DPMixture(prior="shared", random_state=0).fit(X[:50])  # compiles
    with measured() as meter:
        DPMixture(prior="shared", memory_budget="2MB", random_state=0).fit(X)
        assert meter.peak < 2_000_000


def test_other_families_do_not_know_it():
    with pytest.raises(ValueError, match=r"expected one of 'data', 'wishart' for family='full'"):
        DPMixture(family="full", prior="shared").fit(np.eye(3))


# -------------------------------------------------------------------------- parts


def test_neighbours_against_all_distances():
    X = RNG(0).normal(size=(40, 3)) * [1, 2, 3]
    distance = ((X[:, None] - X) ** 2).sum(axis=2)
    nearest = np.argsort(distance, axis=1)[:, 1:6]
    expected = 0.5 * ((X[:, None] - X[nearest]) ** 2).mean(axis=(0, 1))
    np.testing.assert_allclose(neighbour_spread(X), expected)


def family(missing=False):
    prior = NormalGammaPrior(np.zeros(3), 0.1, 2.0, np.array([2.0, 4.0, 6.0]))
    return DiagGaussian(prior, np.array([0.5, -0.5, 0.0]), missing)


@pytest.mark.parametrize("missing", [False, True])
def test_shared_spread_is_the_pooled_variance(missing):
    rng = RNG(0)
    X = rng.normal(size=(30, 3))
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    labels = np.repeat([0, 1, 2, 3], [10, 12, 7, 1])
    model = family(missing)
    t = np.array([model.features(X[labels == k]).sum(axis=0) for k in range(4)])
    n = np.bincount(labels).astype(float)
    expected = []
    for d in range(3):
        parts = [X[labels == k, d] for k in range(4)]
        parts = [part[~np.isnan(part)] for part in parts]
        squares = sum(((part - part.mean()) ** 2).sum() for part in parts if len(part))
        expected.append(squares / sum(max(len(part) - 1, 0) for part in parts))
    np.testing.assert_allclose(model.shared_spread(n, t), expected)


def test_shared_spread_of_single_rows_is_the_priors():
    model = family()
    t = model.features(RNG(0).normal(size=(5, 3)))
    np.testing.assert_allclose(model.shared_spread(np.ones(5), t), [1.0, 2.0, 3.0])


def test_a_component_needs_many_rows_for_a_spread_of_its_own():
    X = clusters()
    model = DPMixture(prior="shared", random_state=0).fit(X)
    assert model._learned.state.model.family.prior.shape == 0.5 * STIFFNESS
    ratio = model.covariances_ / spread_of(model)
    assert np.abs(np.log(ratio)).max() < 0.1


def test_the_sample_is_what_it_is_found_from():
    """More rows than the sample holds: the spread is still that of components."""
    X = clusters(n=300)
    model = DPMixture(prior="shared", random_state=0).fit(X)
    assert np.mean(spread_of(model) / WITHIN) == pytest.approx(1.0, abs=0.1)
