"""What `DPMixture` predicts: probabilities, densities and samples, against plain formulas."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats
from scipy.special import logsumexp

from everlearn import load, merge
from everlearn.mixture.estimator import DPMixture
from support.streams import FAMILIES, file_of, rows_of

RNG = np.random.default_rng
ALPHA = 0.7
D = 2
PRIORS: dict[str, dict[str, Any]] = {
    "diagonal": {"mean": [1.0, -1.0], "mean_precision": 1e-4, "shape": 1.5, "rate": [2.0, 3.0]},
    "full": {
        "mean": [1.0, -1.0],
        "mean_precision": 1e-4,
        "degrees_of_freedom": 4.0,
        "scale": [[2.0, 0.5], [0.5, 1.0]],
    },
    "zero-mean": {"degrees_of_freedom": 4.0, "scale": [[2.0, 0.5], [0.5, 1.0]]},
    "multinomial": {"counts": [0.5, 2.0]},
}


def mixture(family: str = "diagonal", **params: Any) -> DPMixture:
    return DPMixture(**{"family": family, "random_state": 0} | params)


# Probabilities


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_probabilities_and_labels_agree(family: str, dtype: str) -> None:
    X, new = rows_of(family, 500, RNG(0)), rows_of(family, 5000, RNG(1))
    model = mixture(family, dtype=dtype).fit(X)
    probabilities, labels = model.predict_proba(new), model.predict(new)
    assert probabilities.shape == (5000, model.n_components_)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-9)
    assert (probabilities >= 0).all()
    np.testing.assert_array_equal(model.component_ids_[probabilities.argmax(axis=1)], labels)
    np.testing.assert_array_equal(model.transform(new), probabilities)
    assert labels.dtype.kind == "i"


def test_labels_are_ids_and_columns_are_in_their_order() -> None:
    model = mixture(birth_window=200)
    for seed in range(6):
        model.partial_fit(rows_of("diagonal", 100, RNG(seed)))
    ids = model.component_ids_.tolist()
    assert ids == sorted(ids)
    for centre in (-9.0, 0.0, 9.0):
        row = np.full((1, 3), centre)
        label = model.predict(row)[0]
        column = ids.index(label)
        assert model.predict_proba(row)[0].argmax() == column
        np.testing.assert_allclose(model.means_[column], centre, atol=0.5)
        np.testing.assert_allclose(model.weights_[column], 1 / 3, atol=0.05)
        assert model.get_feature_names_out()[column] == f"component{label}"
    drawn, origin = model.sample(300)
    np.testing.assert_array_equal(model.predict(drawn), origin)


def test_a_label_means_the_same_after_its_cluster_has_overtaken_others() -> None:
    rng = RNG(0)
    X = np.concatenate([rng.normal(c, 1, (n, 3)) for c, n in ((-9, 600), (0, 300), (9, 200))])
    model = mixture().fit(X)
    before = model.predict(X)
    assert model.component_ids_.tolist() == [0, 1, 2]
    assert (np.diff(model.weights_) < 0).all()
    for _ in range(6):
        model.partial_fit(rng.normal(9, 1, (500, 3)))
    assert model.weights_.argmax() == 2
    np.testing.assert_array_equal(model.predict(X), before)


def test_rows_that_were_there_first_keep_their_label_when_a_cluster_splits() -> None:
    rng, model = RNG(0), mixture()
    old, new = rng.normal(0, 1, (300, 3)), rng.normal(30, 1, (900, 3))
    model.partial_fit(old)
    before = model.predict(old)
    model.partial_fit(new)
    assert model.n_components_ == 2
    np.testing.assert_array_equal(model.predict(old), before)
    assert set(model.predict(new)) == {model.component_ids_.max()}


def test_a_first_stream_model_is_numbered_from_zero() -> None:
    model = mixture().partial_fit(rows_of("diagonal", 600, RNG(0)))
    assert model.component_ids_.tolist() == [0, 1, 2]
    held = model._learned.state
    assert set(np.concatenate([batch.labels for batch in held.batches])) == {0, 1, 2}
    for move in model.history_.moves:
        assert max(*move.removed, *move.added) < held.next_id


@pytest.mark.parametrize("learner", ["memoized", "stochastic"])
def test_labels_of_fit_are_predictions(learner: str, tmp_path: Path) -> None:
    X, weights = rows_of("diagonal", 500, RNG(0)), np.ones(500)
    weights[::7] = 0.0
    model = mixture(learner=learner)
    assert not hasattr(model, "labels_")
    labels = model.fit_predict(X, sample_weight=weights)
    np.testing.assert_array_equal(labels, model.labels_)
    np.testing.assert_array_equal(labels, model.predict(X))
    model.save(tmp_path / "m.evl")
    loaded = load(tmp_path / "m.evl")
    assert not hasattr(loaded, "labels_")
    with pytest.raises(AttributeError, match=r"DPMixture has labels_ only after a fit.*predict"):
        _ = loaded.labels_
    if learner == "memoized":
        assert not hasattr(merge([model, loaded]), "labels_")
    assert not hasattr(model.partial_fit(X), "labels_")


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_transform_into_frames(backend: str) -> None:
    X = rows_of("diagonal", 100, RNG(0))
    model = mixture().set_output(transform=backend)
    frame = model.fit_transform(X)
    assert isinstance(frame, pd.DataFrame if backend == "pandas" else pl.DataFrame)
    assert list(frame.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(frame.to_numpy(), model.predict_proba(X))


# Densities


def student(x: np.ndarray, rows: np.ndarray, family: str) -> np.ndarray:
    """Log density of a new row given rows of one component: conjugate updates by the book."""
    p, n = {k: np.asarray(v, float) for k, v in PRIORS[family].items()}, len(rows)
    if family == "multinomial":
        counts = p["counts"] + rows.sum(axis=0)
        return stats.dirichlet_multinomial(counts, x.sum(axis=1).astype(int)).logpmf(x.astype(int))
    if family == "zero-mean":
        dof = p["degrees_of_freedom"] + n - D + 1
        scale = p["scale"] + rows.T @ rows
        return stats.multivariate_t(np.zeros(D), scale / dof, dof).logpdf(x)
    kappa = p["mean_precision"] + n
    mean = (p["mean_precision"] * p["mean"] + rows.sum(axis=0)) / kappa
    centre = rows.mean(axis=0) if n else p["mean"]
    shrunk = p["mean_precision"] * n / kappa
    if family == "full":
        scatter = (rows - centre).T @ (rows - centre)
        scatter = scatter + shrunk * np.outer(centre - p["mean"], centre - p["mean"])
        dof = p["degrees_of_freedom"] + n - D + 1
        scale = (p["scale"] + scatter) * (kappa + 1) / (kappa * dof)
        return stats.multivariate_t(mean, scale, dof).logpdf(x)
    shape = p["shape"] + n / 2
    rate = p["rate"] + 0.5 * ((rows - centre) ** 2).sum(axis=0)
    rate = rate + 0.5 * shrunk * (centre - p["mean"]) ** 2
    spread = np.sqrt(rate * (kappa + 1) / (shape * kappa))
    return stats.t.logpdf(x, 2 * shape, mean, spread).sum(axis=1)


def clusters(family: str) -> list[np.ndarray]:
    """Rows of components that nobody could confuse, the largest first."""
    rng, sizes, shares = RNG(0), (40, 25, 10), (0.0, 1.0, 0.5)
    if family == "multinomial":
        return [
            rng.multinomial(400, [p, 1 - p], n) * 1.0 for p, n in zip(shares, sizes, strict=True)
        ]
    if family == "zero-mean":
        return [rng.normal(size=(60, D))]
    return [rng.normal(40 * c, 1, (n, D)) for c, n in enumerate(sizes)]


@pytest.mark.parametrize("family", FAMILIES)
def test_score_samples_is_the_posterior_predictive(family: str) -> None:
    parts = clusters(family)
    model = mixture(family, prior=PRIORS[family], concentration=ALPHA)
    model.set_params(max_components=len(parts))
    model.fit(np.concatenate(parts))
    sizes = np.array([len(part) for part in parts], float)
    assert model.n_components_ == len(parts)
    sticks = (1 + sizes) / (1 + ALPHA + np.cumsum(sizes[::-1])[::-1])
    weights = sticks * np.cumprod(np.append(1, 1 - sticks[:-1]))
    x = np.concatenate([part[:4] for part in parts])
    x = np.concatenate([x, x + 1])
    known = [np.log(w) + student(x, part, family) for w, part in zip(weights, parts, strict=True)]
    unseen = np.log(1 - weights.sum()) + student(x, x[:0], family)
    want = logsumexp([*known, unseen], axis=0)
    np.testing.assert_allclose(model.score_samples(x), want, rtol=1e-6)
    np.testing.assert_allclose(model.score(x), want.mean(), rtol=1e-6)
    np.testing.assert_allclose(model.weights_, weights / weights.sum(), rtol=1e-9)


@pytest.mark.parametrize("family", ["diagonal", "full", "zero-mean"])
@pytest.mark.parametrize("learner", ["memoized", "stochastic"])
def test_densities_integrate_to_one(family: str, learner: str) -> None:
    model = mixture(family, learner=learner).fit(rows_of(family, 200, RNG(0), width=1))
    angle = np.linspace(-np.pi / 2, np.pi / 2, 200_001)[1:-1]
    x = np.tan(angle)
    density = np.exp(model.score_samples(x[:, None])) * (1 + x**2)
    np.testing.assert_allclose(np.trapezoid(density, angle), 1.0, atol=1e-4)


def test_probabilities_of_counts_sum_to_one() -> None:
    model = mixture("multinomial").fit(rows_of("multinomial", 100, RNG(0)))
    every = [c for c in itertools.product(range(7), repeat=3) if sum(c) == 6]
    np.testing.assert_allclose(np.exp(model.score_samples(every)).sum(), 1.0, rtol=1e-9)


# Missing values


def test_missing_values_are_integrated_out() -> None:
    X = rows_of("diagonal", 300, RNG(0), width=2)
    model = mixture().fit(X)  # has never seen a NaN
    angle = np.linspace(-np.pi / 2, np.pi / 2, 20_001)[1:-1]
    y = np.tan(angle)
    for value in (-9.0, 1.0):
        joint = model.score_samples(np.c_[np.full(len(y), value), y])
        marginal = np.trapezoid(np.exp(joint) * (1 + y**2), angle)
        half = np.array([[value, np.nan]])
        np.testing.assert_allclose(model.score_samples(half)[0], np.log(marginal), atol=1e-4)
        assert model.predict(half)[0] == model.predict([[value, value]])[0]
    nothing = np.full((2, 2), np.nan)
    np.testing.assert_allclose(model.score_samples(nothing), 0.0, atol=1e-12)
    assert np.isfinite(model.predict_proba(nothing)).all()


def test_a_missing_value_may_come_late() -> None:
    model = mixture(birth_window=100, batch_size=50)
    for seed in range(5):
        X = rows_of("diagonal", 60, RNG(seed))
        model.partial_fit(X)
    before = model.predict(X)
    holes = X.copy()
    holes[::2, 0] = np.nan
    model.partial_fit(holes)
    assert model._learned.state.model.family.missing
    assert model.n_components_ == 3
    np.testing.assert_allclose(np.sort(model.means_[:, 0]), [-9, 0, 9], atol=0.5)
    assert (model.predict(X) == before).mean() > 0.99
    model.partial_fit(X)  # and rows without any are still fine
    assert model.n_samples_seen_ == 420


def test_missing_values_say_nothing() -> None:
    """A column that is missing throughout leaves the others' components as they were."""
    X = rows_of("diagonal", 300, RNG(0))
    holes = np.c_[X, np.full(300, np.nan)]
    params = {"prior": {"rate": 1.0, "mean": 0.0, "shape": 2.0}, "max_components": 1}
    with_column, without = mixture(**params).fit(holes), mixture(**params).fit(X)
    np.testing.assert_allclose(with_column.bound_, without.bound_, rtol=1e-9)
    np.testing.assert_allclose(with_column.means_[:, :3], without.means_)
    np.testing.assert_allclose(with_column.means_[:, 3], 0.0)


# Rows out of reach


@pytest.mark.parametrize("method", ["predict", "predict_proba", "transform"])
def test_rows_too_far_for_the_precision_are_refused(method: str) -> None:
    X = 1e-5 * RNG(0).normal(size=(200, 2))
    far = np.array([[1e15, 0.0]])
    model = mixture(dtype="float32").fit(X)
    with pytest.raises(ValueError, match=r"X of DPMixture .* dtype='float32'"):
        getattr(model, method)(far)
    model.set_params(dtype="float64")
    assert np.isfinite(getattr(model, method)(far)).all()


# Samples


@pytest.mark.parametrize("family", FAMILIES)
def test_samples_have_the_moments_of_the_model(family: str) -> None:
    X = rows_of(family, 2000, RNG(0))
    model = mixture(family).fit(X)
    drawn, labels = model.sample(20_000)
    assert drawn.shape == (20_000, 3)
    assert (np.diff(labels) >= 0).all()
    np.testing.assert_allclose(np.bincount(labels) / 20_000, model.weights_, atol=0.02)
    np.testing.assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.03 * X.std() + 0.02)
    if family == "multinomial":
        assert (drawn.sum(axis=1) == round(X.sum(axis=1).mean())).all()
        assert (drawn >= 0).all()
    else:
        np.testing.assert_allclose(np.cov(drawn.T), np.cov(X.T), atol=0.06 * X.var())
        for k in range(model.n_components_):
            own = drawn[labels == k]
            off = max(0.1, 5.0 / np.sqrt(len(own))) * own.std()  # small components have few draws
            np.testing.assert_allclose(own.mean(axis=0), model.means_[k], atol=off + 0.01)


def test_samples_are_reproducible() -> None:
    X = rows_of("diagonal", 100, RNG(0))
    model = mixture().fit(X)
    np.testing.assert_array_equal(model.sample(7)[0], model.sample(7)[0])
    moving = mixture(random_state=np.random.RandomState(0)).fit(X)
    assert not np.array_equal(moving.sample(7)[0], moving.sample(7)[0])
    for wrong in (0, -1, 2.5, "many"):
        with pytest.raises(ValueError, match=r"'n_samples' parameter of DPMixture\.sample"):
            model.sample(wrong)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_is_predicted_alike_in_any_company(family: str) -> None:
    X = rows_of(family, 150, np.random.default_rng(0))
    model = DPMixture(family=family, random_state=0).partial_fit(X)
    before, all_rows = file_of(model), model.predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(X[40:50]), all_rows[40:50], rtol=1e-12)
    model.sample(5), model.memory_report(), model.get_feature_names_out()
    assert file_of(model) == before
