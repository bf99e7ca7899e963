"""`ScaledPCA` keeps the right directions in one unit, in portions as at once, and in its file."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, IncrementalPCA
from sklearn.metrics import roc_auc_score

from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from everlearn.metrics.clustering import adjusted_mutual_information
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.scaled import ScaledPCA
from everlearn.store.archive import read_checkpoint, write_checkpoint
from everlearn.testing.checks import Case, Spoilt, checks_of

RNG = np.random.default_rng


def rows(n=300, d=20, seed=0):
    rng = RNG(seed)
    axes = np.linalg.qr(RNG(99).normal(size=(d, d)))[0]
    return rng.normal(size=(n, d)) * 5.0 ** -np.arange(d) @ axes + 3.0


def test_in_one_portion_it_is_pca_over_one_number():
    X = rows()
    model, peer = ScaledPCA(5).fit(X), PCA(5, svd_solver="full").fit(X)
    np.testing.assert_allclose(model.explained_variance_, peer.explained_variance_)
    np.testing.assert_allclose(np.abs(model.components_ @ peer.components_.T), np.eye(5), atol=1e-6)
    assert model.scale_ == pytest.approx(np.sqrt(peer.explained_variance_.mean()))
    found = model.transform(X)
    assert found.var(axis=0, ddof=1).mean() == pytest.approx(1.0)
    np.testing.assert_allclose(np.abs(found), np.abs(peer.transform(X)) / model.scale_, atol=1e-9)
    np.testing.assert_allclose(
        model.inverse_transform(found), peer.inverse_transform(peer.transform(X)), atol=1e-9
    )


def test_in_portions_it_is_incremental_pca():
    X = rows()
    model, peer = ScaledPCA(5, batch_size=60).fit(X), IncrementalPCA(10, batch_size=60).fit(X)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    np.testing.assert_allclose(model.explained_variance_, peer.explained_variance_[:5])
    cosines = np.abs(model.components_ @ peer.components_[:5].T)
    np.testing.assert_allclose(cosines, np.eye(5), atol=1e-6)
    by_hand = ScaledPCA(5)
    for start in range(0, 300, 60):
        by_hand.partial_fit(X[start : start + 60])
    np.testing.assert_array_equal(by_hand.components_, model.components_)
    assert by_hand.scale_ == model.scale_
    assert by_hand.n_samples_seen_ == 300


def test_portions_lose_little_of_the_unit_even_of_noise():
    """All directions are alike, so that much lies beyond those that are kept."""
    X = RNG(0).normal(size=(3000, 90))
    model, peer = ScaledPCA(30, batch_size=200).fit(X), PCA(30).fit(X)
    found = model.transform(X)
    assert found.shape == (3000, 30)
    assert found.var(axis=0, ddof=1).mean() == pytest.approx(1.0, abs=0.015)
    share = model.explained_variance_.sum() / peer.explained_variance_.sum()
    assert 0.96 < share <= 1.0


def test_all_directions_kept_lose_nothing():
    X = rows(d=6)
    model = ScaledPCA(6, batch_size=11).fit(X)
    np.testing.assert_allclose(model.explained_variance_, PCA(6).fit(X).explained_variance_)
    np.testing.assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-9)


def test_directions_come_as_rows_do():
    """Three rows lie in a plane; a batch of one more adds a direction."""
    X = rows(4, 8)
    model = ScaledPCA(8).fit(X[:3])
    assert model.n_components_ == 2
    assert model.partial_fit(X[3:]).n_components_ == 3
    assert model.transform(X).shape == (4, 3)


def test_equal_rows_have_no_directions_and_do_no_harm():
    model = ScaledPCA(3).fit(np.full((5, 4), 7.0))
    assert model.scale_ == 1.0
    np.testing.assert_array_equal(model.transform(np.full((2, 4), 7.0)), 0.0)


def test_data_are_not_changed_and_fit_forgets():
    X = rows()
    kept = X.copy()
    model = ScaledPCA(4).fit(2 * X).fit(X)
    np.testing.assert_array_equal(X, kept)
    np.testing.assert_array_equal(model.components_, ScaledPCA(4).fit(X).components_)


@pytest.mark.parametrize(
    ("params", "X", "message"),
    [
        ({"n_components": 0}, rows(), "'n_components' parameter of ScaledPCA"),
        ({"batch_size": 0}, rows(), "'batch_size' parameter of ScaledPCA"),
        ({}, np.full((3, 3), np.nan), "NaN"),
        ({}, np.full((3, 3), 1e120), "entries of at most 1e\\+100 in size, got 1e\\+120"),
        ({}, [["a", "b"], ["c", "d"]], "'X' of ScaledPCA cannot be used"),
    ],
)
def test_bad_input_is_refused_and_does_no_harm(params, X, message):
    model = ScaledPCA(4).fit(rows())
    before = model.transform(rows(5))
    with pytest.raises(ValueError, match=message):
        model.set_params(**params).fit(X)
    model.set_params(n_components=4, batch_size=500)
    np.testing.assert_array_equal(model.transform(rows(5)), before)
    with pytest.raises(ValueError, match="expected 4 columns"):
        model.inverse_transform(np.zeros((2, 3)))


def test_a_parameter_changed_after_learning_is_kept_beside_what_was_learned(tmp_path):
    steady = ScaledPCA(5).fit(rows()).set_params(n_components=2)
    steady.save(tmp_path / "pca.evl")
    back = load(tmp_path / "pca.evl")
    assert (back.n_components, back.n_components_) == (2, 5)
    for model in (steady, back):
        model.partial_fit(rows(50, seed=1))
    assert back.n_components_ == 2
    np.testing.assert_array_equal(back.transform(rows()), steady.transform(rows()))


def case():
    wide = np.hstack([rows(9), rows(9)])
    with_nan = np.full((3, 20), np.nan)
    spoilt = {
        "nan": (with_nan, "NaN"),
        "huge": (np.full((3, 20), 1e120), "at most 1e+100"),
        "text": (rows(9).astype(str), "numbers"),
        "wide": (wide, "40 features"),
        "empty": (rows(9)[:0], "0 sample"),
        "nothing": (None, "X"),
    }

    def make(engine=None, **params):  # it has no engine, so all of them agree
        return ScaledPCA(**{"n_components": 3, "batch_size": 70} | params)

    return Case(
        "scaled PCA",
        make,
        [(rows(90, seed=seed),) for seed in range(4)],
        rows(20, seed=9),
        ("transform",),
        spoilt={name: Spoilt((X,), words) for name, (X, words) in spoilt.items()},
    )


@pytest.mark.parametrize(("case", "check"), checks_of([case()]))
def test_conformance(case, check, tmp_path):
    check(case, tmp_path)


def scaled(name, factor):
    return lambda h, a: a.update({f"learned/{name}": factor * a[f"learned/{name}"]})


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda h, a: a.update({"learned/sizes": a["learned/sizes"][::-1].copy()}), "sizes"),
        (scaled("sizes", -1), "sizes"),
        (scaled("directions", 1.5), "directions"),
        (scaled("mean", 1e120), "mean"),
        (lambda h, a: h["learned"].update(n_rows=0), "n_rows"),
        (lambda h, a: h["learned"].update(n_components=7), "n_components"),
        (lambda h, a: h["params"].update(n_components="many"), "n_components"),
        (lambda h, a: h["params"].update(colour="red"), "colour"),
        (lambda h, a: h.update(feature_names=["a"]), "feature_names"),
    ],
)
def test_contradictions_are_refused(spoil, word, tmp_path):
    path = tmp_path / "model.evl"
    ScaledPCA(3).fit(rows(d=6)).save(path)
    file = read_checkpoint(path)
    header, arrays = dict(file.header), dict(file.arrays)
    spoil(header, arrays)
    write_checkpoint(path, header, arrays)
    with pytest.raises(CheckpointError, match=word):
        load(path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
def test_in_its_unit_digits_are_not_split_too_much():
    """What docs/ask/priors.md advises, against the paper's vague prior."""
    X, y = load_digits(return_X_y=True)
    rows = ScaledPCA(30).fit_transform(X)
    found = []
    for seed in range(3):
        vague = DPMixture(prior="par-ingmm", random_state=seed).fit(rows)
        firm = DPMixture(family="full", prior="wishart", random_state=seed).fit(rows)
        ami = [adjusted_mutual_information(y, model.predict(rows)) for model in (vague, firm)]
        found.append((vague.n_components_ >= 50, firm.n_components_ <= 25, ami[1] > 0.7 > ami[0]))
    assert np.all(found), found


# The residual


def test_the_residual_is_the_log_of_the_distance_from_the_projection():
    X = rows()
    plain, model = ScaledPCA(3).fit(X), ScaledPCA(3, residual=True).fit(X)
    found = model.transform(X)
    np.testing.assert_array_equal(found[:, :-1], plain.transform(X))
    apart = X - plain.inverse_transform(plain.transform(X))
    want = np.log(np.linalg.norm(apart, axis=1) / plain.scale_)
    np.testing.assert_allclose(found[:, -1], want, rtol=1e-9)
    np.testing.assert_array_equal(
        model.inverse_transform(found), plain.inverse_transform(found[:, :-1])
    )
    assert model.get_feature_names_out().tolist() == [f"scaledpca{i}" for i in range(4)]


def test_a_residual_of_nothing_is_finite():
    X = rows()
    model = ScaledPCA(X.shape[1], residual=True).fit(X)
    assert np.isfinite(model.transform(np.vstack([X, model.mean_[None]]))).all()


def test_with_the_residual_a_mixture_finds_what_reduction_hides():
    """Rows that differ only in directions that the components leave out."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    known = rng.normal(size=(2000, 3)) @ (5 * basis[:3]) + 0.1 * rng.normal(size=(2000, 40))
    odd = known[:200] + 2.0 * basis[10]
    y = np.repeat([0, 1], [500, 200])
    for residual, low, high in ((False, 0.4, 0.65), (True, 0.999, 1.0)):
        reduce = ScaledPCA(3, residual=residual).fit(known[500:1500])
        model = DPMixture(random_state=0, engine="serial").fit(reduce.transform(known[500:1500]))
        test = reduce.transform(np.vstack([known[1500:], odd]))
        assert low <= roc_auc_score(y, model.outlier_score(test)) <= high


def test_the_residual_must_be_a_truth_value():
    with pytest.raises(ValueError, match="'residual' parameter of ScaledPCA"):
        ScaledPCA(2, residual="yes").fit(rows())
