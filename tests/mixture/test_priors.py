"""Priors with a spread that is learned: "auto" and "shared", and how one of them is chosen."""

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.estimator.history import PriorChoice
from everlearn.estimator.saving import load
from everlearn.metrics.clustering import clustering_scores
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.priors import STIFFNESS, neighbour_spread
from everlearn.store.archive import read_checkpoint, write_checkpoint
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
    with pytest.raises(
        ValueError, match=r"expected one of 'auto', 'data', 'wishart' for family='full'"
    ):
        DPMixture(family="full", prior="shared").fit(np.eye(3))


# ------------------------------------------------------------------------- choice


def compact_classes(seed=0):
    """Ten classes of 30 rows with 100 features."""
    rng = RNG(seed)
    labels = np.repeat(np.arange(10), 30)
    return rng.normal(0, 2, (10, 100))[labels] + rng.normal(size=(300, 100)), labels


def choice_of(model):
    return model.history_.prior


def test_few_rows_of_many_features_share_a_spread():
    for seed in range(3):
        X, labels = compact_classes(seed)
        model = DPMixture(random_state=seed).fit(X)
        assert choice_of(model) == PriorChoice("shared", 300 / model.n_components_, 100)
        assert clustering_scores(labels, model.labels_).ami > 0.95
        assert model._learned.state.model.family.prior.shape == 0.5 * STIFFNESS


def test_other_rows_have_spreads_of_their_own():
    """Enough rows for a choice to be made, and so many that none is."""
    X, _ = compact_classes()
    few = DPMixture(random_state=0).fit(X[:, :5])
    assert choice_of(few).name == "learned"
    assert choice_of(few).rows_each is not None
    many = DPMixture(random_state=0).fit(
        np.repeat(X[:, :2], 4, axis=0) + RNG(1).normal(size=(1200, 2))
    )
    assert choice_of(many) == PriorChoice("learned")
    assert choice_of(DPMixture(family="full").fit(X[:, :5])) == PriorChoice("learned")


@pytest.mark.parametrize("learner", ["memoized", "stochastic"])
def test_streams_never_share_a_spread_by_themselves(learner):
    X, _ = compact_classes()
    model = DPMixture(learner=learner, random_state=0)
    for start in range(0, 300, 60):
        model.partial_fit(X[start : start + 60])
        assert choice_of(model) == PriorChoice("learned")
    model = DPMixture(learner=learner, prior="shared", random_state=0).partial_fit(X)
    assert choice_of(model).name == "shared"


@pytest.mark.parametrize(
    ("prior", "name"),
    [
        ("data", "data"),
        ("wishart", "wishart"),
        ("par-ingmm", "par-ingmm"),
        ({"rate": 1.0}, "given"),
    ],
)
def test_other_priors_are_not_learned(prior, name):
    X = clusters()
    learned = [
        DPMixture(prior=prior, random_state=0, moves=moves).fit(X) for moves in ((), ("merge",))
    ]
    assert {choice_of(model) for model in learned} == {PriorChoice(name)}
    np.testing.assert_array_equal(spread_of(learned[0]), spread_of(learned[1]))


def test_the_choice_is_printed_and_saved(tmp_path):
    X, _ = compact_classes()
    for model in (DPMixture(random_state=0), DPMixture(prior="data", random_state=0)):
        model.fit(X).save(tmp_path / "model.evl")
        back = load(tmp_path / "model.evl")
        assert choice_of(back) == choice_of(model)
        assert f"prior: {choice_of(model)}" in str(back.history_).splitlines()
        assert choice_of(back.partial_fit(X[:5])) == choice_of(model)
    assert str(PriorChoice("data")) == "data"
    assert str(PriorChoice("shared", 30.0, 100)) == (
        "shared (30 rows a component, fewer than 100 features)"
    )
    assert str(PriorChoice("learned", 1200.0, 5)) == (
        "learned (1,200 rows a component, enough for 5 features)"
    )


@pytest.mark.parametrize(
    "forged",
    [
        {"name": "magic"},
        {"name": 3},
        {"rows_each": -1.0},
        {"rows_each": "many"},
        {"n_features": -1},
        {"n_features": 2**40},
        {"colour": "red"},
    ],
    ids=str,
)
def test_a_forged_choice_is_refused(tmp_path, forged):
    X, _ = compact_classes()
    path = tmp_path / "model.evl"
    DPMixture(random_state=0).fit(X).save(path)
    checkpoint = read_checkpoint(path)
    checkpoint.header["learned"]["history"]["prior"].update(forged)
    write_checkpoint(path, checkpoint.header, checkpoint.arrays)
    with pytest.raises(CheckpointError, match="prior"):
        load(path)


def test_learned_spreads_in_other_units():
    X = clusters()
    a = DPMixture(random_state=0).fit(X)
    b = DPMixture(random_state=0).fit(1024.0 * X - 3.0)
    assert a.n_components_ == b.n_components_ > 5
    np.testing.assert_allclose(1024.0**2 * spread_of(a), spread_of(b), rtol=1e-6)


# -------------------------------------------------------------------------- parts


def test_neighbours_against_all_distances():
    X = RNG(0).normal(size=(40, 3)) * [1, 2, 3]
    distance = ((X[:, None] - X) ** 2).sum(axis=2)
    nearest = np.argsort(distance, axis=1)[:, 1:6]
    expected = 0.5 * ((X[:, None] - X[nearest]) ** 2).mean(axis=(0, 1))
    np.testing.assert_allclose(neighbour_spread(X), expected)


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
