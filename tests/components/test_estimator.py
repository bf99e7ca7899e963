"""`ComponentTree` as its users see it."""

import copy
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA

from components.test_conformance import SPOILT
from everlearn.components.estimator import ComponentTree
from everlearn.components.state import ComponentTreeState
from everlearn.core.priors.nested import TreeSticks
from everlearn.errors import NotConvergedWarning
from support.component_data import assert_same, content, model_of, rows_of, streamed


@pytest.fixture(scope="module")
def fitted():
    return model_of().fit(rows_of(400))


def error(X, back):
    return np.mean(np.sum((X - back) ** 2, axis=1))


class TestFitted:
    def test_attributes_fit_together(self, fitted):
        k = fitted.n_components_
        assert fitted.components_.shape == (k, 8)
        assert len(fitted.component_ids_) == k == len(set(fitted.component_ids_)) <= 10
        assert fitted.weights_.sum() == pytest.approx(1.0)
        assert fitted.n_samples_seen_ == 400
        assert fitted.bound_ == pytest.approx(fitted.bound_history_[-1])
        assert (np.diff(fitted.bound_history_) >= -1e-6 * 400).all()
        assert fitted.noise_variance_ == pytest.approx(0.09, rel=0.2)
        assert fitted.converged_

    def test_the_tree_has_the_nodes_and_all_rows(self, fitted):
        tree = fitted.tree_
        assert {node.id for node in tree} == set(fitted.component_ids_)
        assert tree.root.mass == pytest.approx(400)
        for node in tree:
            children = tree.children(node.id)
            assert sum(child.mass for child in children) <= node.mass + 1e-6
            masses = [child.mass for child in children]
            assert masses == sorted(masses, reverse=True)
        assert len(str(tree).splitlines()) == len(tree)

    def test_a_graph_has_the_same_edges(self, fitted):
        pytest.importorskip("networkx")
        edges = {(node.parent, node.id) for node in fitted.tree_ if node.parent is not None}
        assert set(fitted.to_networkx().edges) == edges

    def test_the_history_has_births(self, fitted):
        born = {i for move in fitted.history_.moves for i in move.added}
        gone = {i for move in fitted.history_.moves for i in move.removed}
        assert set(fitted.component_ids_) <= born | {0, 1, 2}
        assert not gone & set(fitted.component_ids_)

    def test_what_is_shown_is_a_copy(self, fitted):
        before = content(fitted)
        fitted.components_[:] = fitted.mean_[:] = fitted.weights_[:] = 7.0
        fitted.component_ids_[:] = 9
        assert_same(content(fitted), before)


class TestPredictions:
    def test_transform_is_paths_then_levels(self, fitted):
        X = rows_of(50, seed=1)
        Z = fitted.transform(X)
        k = fitted.n_components_
        assert Z.shape == (50, k + 3)
        assert_allclose(Z[:, :k].sum(axis=1), 1.0)
        names = fitted.get_feature_names_out()
        paths = [f"path{i}" for i in fitted.component_ids_]
        assert names.tolist() == [*paths, "level0", "level1", "level2"]
        assert_array_equal(fitted.predict(X), fitted.component_ids_[Z[:, :k].argmax(axis=1)])

    def test_reconstruction_is_a_projection(self, fitted):
        X = rows_of(50, seed=1)
        back = fitted.reconstruct(X)
        assert_array_equal(back, fitted.inverse_transform(fitted.transform(X)))
        position = {i: p for p, i in enumerate(fitted.component_ids_)}
        for row, last, found in zip(X, fitted.predict(X), back, strict=True):
            own = fitted.components_[[position[node.id] for node in fitted.tree_.path(last)]]
            basis = np.linalg.qr(own.T)[0]
            centred = row - fitted.mean_
            assert_allclose(found - fitted.mean_, basis @ (basis.T @ centred), atol=1e-8)

    def test_it_reconstructs_better_than_as_many_principal_components(self, fitted):
        X = rows_of(300, seed=1)
        pca = PCA(3).fit(rows_of(400))
        plain = error(X, pca.inverse_transform(pca.transform(X)))
        assert error(X, fitted.reconstruct(X)) < 0.3 * plain

    def test_densities_are_those_of_a_mixture_of_gaussians(self, fitted):
        X = rows_of(20, seed=1)
        state = fitted._learned.state
        loadings, noise = state.model.path_covariances(state.q)
        density = sum(
            w * multivariate_normal(fitted.mean_, a.T @ a + s * np.eye(8)).pdf(X)
            for w, a, s in zip(fitted.weights_, loadings, noise, strict=True)
        )
        assert_allclose(fitted.score_samples(X), np.log(density), rtol=1e-8)
        assert fitted.score(X) == pytest.approx(np.log(density).mean())

    def test_nodes_at_their_prior_change_no_density(self, fitted):
        X = np.vstack([rows_of(20, seed=1), rows_of(5, seed=2) * 10.0])
        before = fitted.score_samples(X)
        state = fitted._learned.state
        q, model = state.q, state.model
        for parent in np.flatnonzero(q.tree.n_unseen > 0):
            n = int(q.tree.n_unseen[parent])
            ids = range(state.next_id, state.next_id + n)
            sticks = TreeSticks(np.ones(n), np.full(n, model.paths.gamma))
            grown = q.append(
                q.tree.grown(int(parent), list(ids)),
                np.zeros((n, 8)),
                model.scale * np.eye(n),
                sticks,
            )
            more = copy.copy(fitted)
            more._learned = replace(fitted._learned, state=replace(state, q=grown))
            assert_allclose(more.score_samples(X), before, rtol=1e-9)

    def test_new_rows_are_as_likely_as_those_learned(self, fitted):
        assert fitted.score(rows_of(400, seed=9)) > fitted.score(rows_of(400)) - 0.5
        assert fitted.score(rows_of(400, seed=9) + 20.0) < -100

    def test_nothing_is_changed_by_predictions(self, fitted):
        before, X = content(fitted), rows_of(30)
        same = X.copy()
        for method in (fitted.predict, fitted.transform, fitted.reconstruct, fitted.score_samples):
            method(X)
        assert_array_equal(X, same)
        assert_same(content(fitted), before)


class TestLearning:
    def test_engines_give_the_same_bits(self, monkeypatch):
        monkeypatch.setattr("everlearn.components.local.BLOCK_ROWS", 64)
        found = []
        for engine in ("serial", "threads", None):
            model = model_of(engine=engine).fit(rows_of(200))
            model.partial_fit(rows_of(150, seed=1))
            header, arrays = content(model)
            header["params"]["engine"] = None
            found.append((header, arrays))
        assert_same(found[0], found[1])
        assert_same(found[0], found[2])

    def test_the_same_seed_gives_the_same_model(self):
        one, two = (model_of().fit(rows_of(150)) for _ in range(2))
        assert_same(content(one), content(two))

    def test_units_do_not_matter(self):
        X = rows_of(200)
        one, two = model_of().fit(X), model_of().fit(1000.0 * X + 5e4)
        assert_array_equal(one.predict(X), two.predict(1000.0 * X + 5e4))
        assert one.noise_variance_ == pytest.approx(two.noise_variance_ / 1e6, rel=1e-3)

    def test_fit_begins_anew(self):
        X = rows_of(150)
        model = model_of().fit(rows_of(100, seed=5))
        assert_same(content(model.fit(X)), content(model_of().fit(X)))

    def test_batches_and_starts(self):
        X = rows_of(300)
        one = model_of(n_init=1).fit(X)
        best = model_of(n_init=3).fit(X)
        assert best.bound_ >= one.bound_ - 1e-9 * abs(one.bound_)
        small = model_of(batch_size=64).fit(X)
        assert small.bound_ > one.bound_ - 0.1 * abs(one.bound_)

    def test_a_stream_keeps_few_rows_and_counts_all(self):
        model = streamed(500)
        assert model._learned.state.n_open <= 120
        assert model.n_samples_seen_ == 500
        assert model.tree_.root.mass == pytest.approx(500)
        X = rows_of(300, seed=7)
        assert model.score(X) > model_of(moves=()).fit(rows_of(500)).score(X)

    def test_a_stream_goes_on_after_fit(self):
        model = model_of().fit(rows_of(200))
        ids = set(model.component_ids_)
        model.partial_fit(rows_of(200, seed=2))
        assert model.n_samples_seen_ == 400
        assert ids <= set(model.component_ids_)

    def test_the_first_rows_of_a_stream_set_the_scale(self):
        X = rows_of(200)
        model = model_of()
        for start in range(0, 200, 10):
            model.partial_fit(X[start : start + 10])
        scale = float(X.var(axis=0).mean())
        assert model.prior_scale_ == pytest.approx(scale, rel=0.25)
        assert model.component_ids_.min() > 0  # the first trees are gone, and their ids with them

    def test_a_tree_never_has_more_nodes_than_allowed(self):
        assert model_of(max_nodes=5).fit(rows_of(200)).n_components_ <= 5
        with pytest.raises(ValueError, match="'max_nodes' parameter of ComponentTree must be"):
            model_of(max_nodes=2).fit(rows_of(50))
        assert model_of(depth=1).fit(rows_of(50)).n_components_ == 1

    def test_moves_can_be_forbidden(self):
        model = model_of(moves=("merge",)).fit(rows_of(100))
        assert model.n_components_ <= 3
        assert set(model.history_.counts) <= {"merge accepted", "merge refused"}

    def test_what_does_not_settle_says_so(self):
        with pytest.warns(NotConvergedWarning, match="max_iter=1 "):
            model_of(max_iter=1, tol=0.0).fit(rows_of(100))
        model = model_of(max_iter=1, tol=0.0)
        with pytest.raises(NotConvergedWarning):  # in tests every warning is an error
            model.fit(rows_of(100))
        assert not model.__sklearn_is_fitted__()

    def test_names_of_columns_are_kept(self):
        X = pd.DataFrame(rows_of(60), columns=list("abcdefgh"))
        model = model_of().fit(X)
        assert model.feature_names_in_.tolist() == list("abcdefgh")
        with pytest.raises(ValueError, match="feature names"):
            model.predict(X.rename(columns={"a": "z"}))


@pytest.mark.parametrize(
    "X",
    [
        np.full((5, 3), 2.0),
        np.zeros((1, 4)),
        np.eye(4)[[0, 1, 2, 3] * 5] * 1e-9,
        np.outer(np.arange(30.0), np.ones(3)),
        np.random.default_rng(0).normal(size=(40, 2)) * 1e80,
        np.random.default_rng(0).normal(size=(40, 1)),
    ],
    ids=["constant", "one row", "tiny", "a line", "huge", "one column"],
)
def test_odd_data_do_no_harm(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        model = model_of(max_iter=5).fit(X)
    model.partial_fit(X)
    assert np.isfinite(model.bound_)
    assert np.isfinite(model.score_samples(X)).all()
    scale = 1e-300 + np.abs(X).max()
    assert (np.abs(model.reconstruct(X) - X) <= 20 * scale).all()


# ---------------------------------------------------------------------- refusals


@pytest.fixture(scope="module")
def taught():
    return model_of().fit(rows_of(120)).partial_fit(rows_of(60, seed=1))


@pytest.fixture
def streaming(taught):
    return copy.deepcopy(taught)


def assert_refused(model, call, *words):
    before, attributes = content(model), dict(model.__dict__)
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    for word in ("ComponentTree", *words):
        assert word in str(caught.value)
    assert_same(content(model), before)
    assert model.__dict__ == attributes


@pytest.mark.parametrize("poison", SPOILT)
def test_fit_and_predictions_refuse_bad_rows(streaming, poison):
    bad, word = SPOILT[poison]
    model = streaming
    for method in (model.predict, model.transform, model.score, model.reconstruct):
        assert_refused(model, lambda method=method: method(bad), word)
    assert_refused(model, lambda: model.score_samples(bad), word)
    if poison not in ("too wide", "too narrow"):
        assert_refused(model, lambda: model.fit(bad), word)


CODES = {
    "too wide": lambda Z: np.hstack([Z, Z]),
    "too narrow": lambda Z: Z[:, 1:],
    "nan": lambda Z: np.where(np.eye(*Z.shape) > 0, np.nan, Z),
    "huge": lambda Z: np.where(np.eye(*Z.shape) > 0, 1e200, Z),
    "text": lambda Z: np.where(np.eye(*Z.shape) > 0, "x", Z.astype(object)),
    "one row": lambda Z: Z[0],
    "nothing": lambda Z: None,
}


@pytest.mark.parametrize("poison", CODES)
def test_bad_codes_are_refused(streaming, poison):
    bad = CODES[poison](streaming.transform(rows_of(20)))
    assert_refused(streaming, lambda: streaming.inverse_transform(bad), "Z")


PARAMETERS = {
    "depth": [0, -1, 2.5, "deep", None, 101],
    "max_nodes": [0, 1.5, None],
    "concentration": [0.0, -1.0, np.nan, "much"],
    "prior_scale": [0.0, -1.0, np.inf, "wide", None],
    "moves": ["birth", ("grow",), None, ("birth", "birth")],
    "n_init": [0, None],
    "batch_size": [0, -1, 1.5],
    "max_iter": [0, None, 10**6],
    "tol": [-1.0, np.nan],
    "birth_window": [0, None, 2.5],
    "engine": ["gpu", 2],
    "verbose": [-1, "yes"],
    "random_state": [-1, "x"],
    "options": [3, {"colour": "red"}, {"loadings": "full"}, {"local": "row"}, {"local": None},
        {"min_gain": -0.1}, {"min_gain": np.nan}, {"patience": 0}, {"patience": 1.5}],
}  # fmt: skip


def test_every_parameter_has_bad_values():
    assert set(PARAMETERS) == set(model_of().get_params())


@pytest.mark.parametrize("name", PARAMETERS)
def test_bad_parameters_are_refused(streaming, name):
    model, good, before = streaming, streaming.get_params()[name], content(streaming)
    for value in PARAMETERS[name]:
        entry = next(iter(value)) if isinstance(value, dict) else name
        for method in (model.partial_fit, model.fit):
            model.set_params(**{name: value})
            with pytest.raises((ValueError, TypeError), match="ComponentTree") as caught:
                method(rows_of(20))
            assert entry in str(caught.value)
            model.set_params(**{name: good})
            assert_same(content(model), before)


@pytest.mark.parametrize(
    "params",
    [
        {"depth": 2},
        {"concentration": 2.0},
        {"prior_scale": 3.0},
    ],
)
def test_what_learning_began_with_cannot_change(streaming, params):
    before, old = content(streaming), {name: streaming.get_params()[name] for name in params}
    streaming.set_params(**params)
    for method in (streaming.partial_fit, streaming.predict):
        with pytest.raises(ValueError, match="cannot change without a new fit"):
            method(rows_of(20))
    assert_same(content(streaming.set_params(**old)), before)


def test_numbers_out_of_range_are_refused(streaming, monkeypatch):
    before = content(streaming)
    monkeypatch.setattr(ComponentTreeState, "bound", lambda self: float("nan"))
    with pytest.raises(ValueError, match=r"ComponentTree cannot learn from X.*nan"):
        streaming.partial_fit(rows_of(20, seed=1))
    monkeypatch.undo()
    assert_same(content(streaming), before)


@pytest.mark.data("optdigits")
def test_digits_are_reconstructed_better_than_by_pca(shared_data):
    with np.load(shared_data / "optdigits" / "optdigits.npz") as file:
        X, test = file["X_train"][::2].astype(float), file["X_test"].astype(float)
    model = ComponentTree(
        depth=2, max_nodes=9, random_state=0, options={"patience": 2}, tol=1e-4
    ).fit(X)
    assert model.n_components_ <= 9
    assert error(test, model.reconstruct(test)) < 620  # PCA of two components: 878
