"""Learning trees of components: PCA, growth, memoized batches and streams."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from everlearn.components.local import PathRunner, prepare_slots, score_slots
from everlearn.components.model import ComponentModel
from everlearn.components.search import (
    grow_tree,
    learn_stream,
    open_batches,
    sample_rows,
    seal_all,
    start_path,
)
from everlearn.components.settings import ComponentTreeSettings
from everlearn.components.state import rescale, sweep
from everlearn.core.priors.nested import NestedPrior
from everlearn.engine.local import SerialEngine
from oracles.component_runs import chain_of, planted, state_of

NO_MOVES = ComponentTreeSettings(
    moves=frozenset(), max_nodes=20, birth_window=16, max_iter=5, tol=0.0
)


def ignore(info):
    pass


def begun(X, depth=3, max_nodes=20, seed=0, pieces=1):
    scale = float(X.var(axis=0).mean())
    model = ComponentModel(NestedPrior(1.0), X.shape[1], scale, 1e-3, 1e-3 * scale)
    settings = ComponentTreeSettings(depth=depth, max_nodes=max_nodes)
    state = start_path(model, sample_rows(X, seed, SerialEngine()), settings, seed)
    return open_batches(state, np.array_split(X, pieces)), PathRunner(model, SerialEngine())


def test_one_path_is_principal_component_analysis():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6)) * np.array([8.0, 5.0, 3.0, 0.5, 0.5, 0.5])
    X = X @ np.linalg.qr(rng.normal(size=(6, 6)))[0] + 3.0
    state = chain_of(X - X.mean(axis=0), 3)
    runner = PathRunner(state.model, SerialEngine())
    for _ in range(200):
        state = rescale(sweep(state, runner))
    pca = PCA(3).fit(X)
    assert subspace_angles(state.q.mean.T, pca.components_.T).max() < 1e-3
    basis = np.linalg.qr(state.q.mean.T)[0]
    ours = (X - X.mean(axis=0)) @ basis @ basis.T + X.mean(axis=0)
    assert_allclose(ours, pca.inverse_transform(pca.transform(X)), atol=1e-2)


def test_a_planted_tree_is_found():
    found = []
    for seed in range(10):
        X, path = planted(600, seed)
        X = X - X.mean(axis=0)
        state, runner = begun(X, seed=seed)
        settings = ComponentTreeSettings(max_nodes=20, max_iter=30)
        state, _ = grow_tree(state, runner, settings, ignore)
        slots = score_slots(prepare_slots(state.model, state.q), X).scores.argmax(axis=1)
        # Rows with a small last coordinate could be on several paths: no tree gets beyond 0.9.
        found.append(adjusted_rand_score(path, slots) > 0.75 and len(state.tree) <= 9)
    assert sum(found) >= 9


def test_bounds_of_rounds_never_fall():
    X, _ = planted(300)
    state, runner = begun(X - X.mean(axis=0), max_nodes=10)
    seen = []
    settings = ComponentTreeSettings(max_nodes=10, max_iter=20, tol=1e-6)
    grow_tree(state, runner, settings, seen.append)
    bounds = np.array([info.bound for info in seen])
    assert (np.diff(bounds) >= -1e-6 * 300).all()
    assert max(info.n_components for info in seen) <= 10


def test_a_full_tree_exchanges_branches():
    X, _ = planted(400, seed=3)
    state, runner = begun(X - X.mean(axis=0), max_nodes=5)
    moves = []
    settings = ComponentTreeSettings(max_nodes=5, max_iter=20, tol=1e-6)
    state, _ = grow_tree(state, runner, settings, lambda info: moves.extend(info.moves))
    assert len(state.tree) <= 5
    exchanged = [move for move in moves if move.removed and move.added]
    assert exchanged
    assert all(len(move.added) <= len(move.removed) for move in exchanged)


def test_nothing_grows_that_is_not_allowed():
    X, _ = planted(200)
    state, runner = begun(X, max_nodes=2)
    assert len(state.tree) == 2
    state, converged = grow_tree(state, runner, NO_MOVES, ignore)
    assert len(state.tree) == 2
    assert not converged


def test_a_stream_comes_close_to_the_batch():
    X, _ = planted(1500, seed=2)
    X = X - X.mean(axis=0)
    state, runner = begun(X)
    settings = ComponentTreeSettings(max_nodes=7, max_iter=50, tol=1e-6, birth_window=600)
    batch, _ = grow_tree(state, runner, settings, ignore)
    streamed = replace(begun(X[:100])[0], batches=())
    for start in range(0, len(X), 100):
        piece = X[start : start + 100]
        streamed = learn_stream(streamed, piece, runner, settings, ignore)
        assert streamed.n_open <= 600
    assert streamed.total.n == 1500
    assert streamed.bound() > batch.bound() - 0.02 * abs(batch.bound())
    again = sweep(open_batches(replace(seal_all(streamed)), [X]), runner)
    assert np.isfinite(again.bound())


def test_sealing_changes_no_bound():
    X, _ = planted(200)
    state = state_of(X, pieces=3)
    runner = PathRunner(state.model, SerialEngine())
    state = sweep(state, runner, 3)
    sealed = seal_all(state)
    assert_allclose(sealed.bound(), state.bound(), rtol=1e-12)
    assert sealed.n_open == 0


def test_rows_one_by_one_make_batches():
    X, _ = planted(30)
    state, runner = begun(X)
    state = replace(state, batches=())
    for row in X:
        state = learn_stream(state, row[None], runner, NO_MOVES, ignore)
    assert state.total.n == 30
    assert state.n_open <= 16
    assert max(len(batch.X) for batch in state.batches) <= 4
