"""`OnlinePPCA` against scikit-learn's PCA, planted truths and itself learned in other ways."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, IncrementalPCA

from everlearn.ppca.estimator import OnlinePPCA
from support.ppca_data import SETTINGS, WIDTH, model_of, rows_of, taught
from support.streams import file_of

every = pytest.mark.parametrize("setting", SETTINGS)


def test_fit_is_principal_components() -> None:
    X = rows_of(80)
    model, peer = OnlinePPCA(2).fit(X), PCA(2).fit(X)
    ratio = 79 / 80
    assert_allclose(model.mean_, peer.mean_)
    assert_allclose(np.abs(np.sum(model.components_ * peer.components_, axis=1)), 1)
    assert_allclose(model.explained_variance_, peer.explained_variance_ * ratio)
    assert_allclose(model.explained_variance_ratio_, peer.explained_variance_ratio_)
    assert model.noise_variance_ == pytest.approx(peer.noise_variance_ * ratio)
    assert_allclose(model.get_covariance(), peer.get_covariance() * ratio)
    assert_allclose(model.get_precision() @ model.get_covariance(), np.eye(WIDTH), atol=1e-9)
    projected = peer.inverse_transform(peer.transform(X))
    assert_allclose(model.inverse_transform(model.transform(X)), projected, atol=1e-9)


def test_equal_weights_are_incremental_pca_of_the_same_rank() -> None:
    X = load_digits().data / 16.0
    model, peer = OnlinePPCA(8, options={"kept_components": 8}), IncrementalPCA(8)
    for start in range(0, 900, 50):
        model.partial_fit(X[start : start + 50])
        peer.partial_fit(X[start : start + 50])
    assert_allclose(model.mean_, peer.mean_, atol=1e-12)
    overlap = np.linalg.svd(model.components_ @ peer.components_.T, compute_uv=False)
    assert overlap.min() > 0.99


@pytest.mark.parametrize("params", [{}, {"constraint": "task"}])
def test_gaps_are_learned_and_filled(params: dict[str, Any]) -> None:
    whole, X = rows_of(800), rows_of(800, gaps=0.2)
    truth = OnlinePPCA(2).fit(whole)
    online = OnlinePPCA(2, batch_size=50, **params).partial_fit(X)
    fitted = OnlinePPCA(2, max_iter=1000, **params).fit(X)
    for model in (online, fitted):
        assert model.score(whole) > truth.score(whole) - 0.5
        filled, gaps = model.impute(X), np.isnan(X)
        assert_array_equal(filled[~gaps], X[~gaps])
        error = np.sqrt(np.mean((filled - whole)[gaps] ** 2))
        assert error < 0.5 * whole.std(axis=0).mean()
    alone = np.full((1, WIDTH), np.nan)
    assert fitted.score_samples(alone)[0] == pytest.approx(0)
    assert_allclose(fitted.impute(alone)[0], fitted.mean_)


def test_a_stream_adds_planes_as_they_come() -> None:
    model = OnlinePPCA(2, n_mixtures=5, batch_size=20)
    for seed in range(3):
        model.partial_fit(rows_of(300, seed))
    assert model.n_mixtures_ in (3, 4)
    assert len(model.reference_) == model.n_mixtures_
    most = []
    for seed in range(3):
        counts = np.bincount(model.predict(rows_of(100, seed)))
        assert counts.max() > 70
        most.append(int(counts.argmax()))
    assert len(set(most)) == 3


def test_samples_come_from_the_model() -> None:
    model = OnlinePPCA(2, random_state=3).fit(rows_of(100))
    X, y = model.sample(40_000)
    assert_allclose(X.mean(axis=0), model.mean_, atol=0.1)
    assert_allclose(np.cov(X.T), model.get_covariance(), rtol=0.03, atol=0.5)
    assert not y.any()
    assert_array_equal(X, model.sample(40_000)[0])
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)


@every
def test_engines_agree_on_many_blocks(setting: str) -> None:
    ends = []
    for engine in (None, "serial", "threads"):
        model = taught(setting, 5, engine=engine, batch_size=None)
        X = rows_of(3000, 1, gaps=0.02)
        model.partial_fit(X)
        for method in ("transform", "score_samples", "impute"):
            assert np.isfinite(getattr(model, method)(X)).all()
        ends.append(file_of(model.set_params(engine=None)))
    assert ends[0] == ends[1] == ends[2]


@every
def test_batches_are_what_calls_are(setting: str) -> None:
    one, many = model_of(setting, batch_size=16), model_of(setting, batch_size=None)
    for seed in range(2):
        X = rows_of(96, seed)
        one.partial_fit(X, task=seed)
        for start in range(0, 96, 16):
            many.partial_fit(X[start : start + 16], task=seed)
    assert file_of(one.set_params(batch_size=None)) == file_of(many)


@every
def test_names_of_tasks_consolidate(setting: str) -> None:
    named, called = model_of(setting), model_of(setting)
    for seed in range(3):
        named.partial_fit(rows_of(48, seed), task=f"task {seed}")
        called.partial_fit(rows_of(48, seed))
        called.consolidate()
    named.consolidate()
    assert named.task_ == "task 2"
    assert_array_equal(named.mean_, called.mean_)
    assert_array_equal(named.loadings_, called.loadings_)


def test_the_reference_counts_rows() -> None:
    model = OnlinePPCA(2, constraint="task").partial_fit(rows_of(30), task=0)
    assert model.reference_ is None
    model.partial_fit(rows_of(50, 1), task=1)
    assert model.reference_.n_rows == 30
    assert model.consolidate().reference_.n_rows == 80
    assert model.n_samples_seen_ == 80
    limited = OnlinePPCA(2, max_reference_rows=40).partial_fit(rows_of(60))
    assert limited.reference_.n_rows == 40
    assert OnlinePPCA(2, constraint=None).fit(rows_of(60)).reference_ is None


@pytest.mark.parametrize("setting", ["step", "task", "weighted"])
def test_weights_are_repetitions(setting: str) -> None:
    rng = np.random.default_rng(0)
    weighted, repeated = model_of(setting, batch_size=None), model_of(setting, batch_size=None)
    for seed in range(2):
        X, w = rows_of(40, seed), rng.integers(0, 4, 40)
        weighted.partial_fit(X, sample_weight=w, task=seed)
        repeated.partial_fit(X.repeat(w, axis=0), task=seed)
    assert_allclose(weighted.get_covariance(), repeated.get_covariance(), atol=1e-9)


@every
def test_fit_is_followed_by_partial_fit(setting: str) -> None:
    params = {"tol": 0.5} if "mixture" in setting else {}
    model = model_of(setting, **params).fit(np.concatenate([rows_of(90, s) for s in range(3)]))
    before = model.score(rows_of(50, 1))
    for _ in range(3):
        model.partial_fit(rows_of(48, 1))
    assert model.n_samples_seen_ == 270 + 144
    assert np.isfinite(model.score(rows_of(50, 1)))
    assert model.score(rows_of(50, 1)) > before - 3.0


@every
def test_one_row_at_a_time_and_awkward_rows(setting: str) -> None:
    model = model_of(setting, batch_size=1)
    model.partial_fit(np.zeros((3, WIDTH)))  # nothing varies
    model.partial_fit(np.full((1, WIDTH), np.nan))  # nothing is known
    model.partial_fit(rows_of(60))
    assert np.isfinite(model.score_samples(rows_of(5, 1))).all()
    assert model.n_samples_seen_ == 64


@every
def test_what_is_kept_does_not_grow(setting: str) -> None:
    model, sizes = model_of(setting, batch_size=1, n_mixtures=1), []
    for n in (60, 240):
        model.partial_fit(rows_of(n))
        sizes.append(sum(array.nbytes for array in model.to_checkpoint()[1].values()))
    assert sizes[0] == sizes[1]


def test_names_of_features_and_frames() -> None:
    frame = pd.DataFrame(rows_of(30), columns=list("abcde"))
    model = OnlinePPCA(2).fit(frame).set_output(transform="pandas")
    assert model.transform(frame).columns.tolist() == ["onlineppca0", "onlineppca1"]
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame.rename(columns={"a": "z"}))


def test_progress_is_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    OnlinePPCA(2, verbose=1, batch_size=10).partial_fit(rows_of(40))
    assert "40 rows" in capsys.readouterr().out
    OnlinePPCA(2, batch_size=10).partial_fit(rows_of(40))
    assert capsys.readouterr().out == ""


PARAMS: list[tuple[dict[str, Any], str]] = [
    ({"n_components": 0}, "n_components"),
    ({"n_components": WIDTH + 1}, f"n_features={WIDTH}"),
    ({"constraint": "class"}, "constraint"),
    ({"constraint_weight": 0.0}, "constraint_weight"),
    ({"constraint_weight": "many"}, "constraint_weight"),
    ({"constraint": "previous"}, "constraint_weight"),
    ({"max_reference_rows": 0}, "max_reference_rows"),
    ({"options": {"kept_components": 1}}, "kept_components"),
    ({"options": {"step_size": 1.5}}, "step_size"),
    ({"options": {"step_power": 0.5}}, "step_power"),
    ({"options": {"step_offset": -1}}, "step_offset"),
    ({"options": {"novelty": 0}}, "novelty"),
    ({"options": {"colour": "red"}}, "no entry 'colour'"),
    ({"n_mixtures": 0}, "n_mixtures"),
    ({"batch_size": 0}, "batch_size"),
    ({"fit_method": "svd"}, "fit_method"),
    ({"fit_method": "exact", "n_mixtures": 2}, "fit_method"),
    ({"max_iter": 0}, "max_iter"),
    ({"tol": -1.0}, "tol"),
    ({"engine": "gpu"}, "engine"),
    ({"random_state": "now"}, "random_state"),
    ({"verbose": -1}, "verbose"),
]


@pytest.mark.parametrize("case", range(len(PARAMS)))
def test_bad_parameters_are_named(case: int) -> None:
    params, words = PARAMS[case]
    with pytest.raises(ValueError, match=words) as caught:
        OnlinePPCA(**params).fit(rows_of(20))
    assert "OnlinePPCA" in str(caught.value)


def test_gaps_have_no_closed_form() -> None:
    with pytest.raises(ValueError, match=r"'fit_method'.*missing values"):
        OnlinePPCA(fit_method="exact").fit(rows_of(20, gaps=0.2))
