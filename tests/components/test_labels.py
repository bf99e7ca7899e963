"""A label means the same node for life."""

from pathlib import Path

import numpy as np
from numpy.testing import assert_array_equal

from everlearn.components.estimator import ComponentTree
from everlearn.estimator.saving import load

SHARED, OWN = np.eye(10)[0] * 6, np.eye(10)[[2, 4, 6, 8]] * 4


def rows(seed: int, shares: list[float]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x, path = rng.normal(size=(800, 2)), rng.choice(4, 800, p=shares)
    x[:, 1] += np.sign(x[:, 1])  # no row near the centre, where branches meet
    return np.asarray(x[:, :1] * SHARED + x[:, 1:] * OWN[path] + rng.normal(size=(800, 10)) * 0.3)


OLD, NEW = rows(0, [0.2, 0.3, 0.5, 0.0]), rows(1, [0.0, 0.4, 0.0, 0.6])


def grown() -> ComponentTree:
    return ComponentTree(depth=2, random_state=0).fit(OLD)


def test_fit_numbers_nodes_from_0_the_largest_first() -> None:
    model = grown()
    assert_array_equal(model.component_ids_, np.arange(model.n_components_))
    assert model.tree_.root.id == 0
    mass = {node.id: node.mass for node in model.tree_}
    assert_array_equal(sorted(mass, key=lambda i: -mass[i]), model.component_ids_)
    numbers = {i for move in model.history_.moves for i in (*move.removed, *move.added)}
    assert set(model.component_ids_[1:].tolist()) <= numbers | {1}
    assert max(numbers) < model._learned.state.next_id


def test_labels_stay_when_sizes_and_the_tree_change(tmp_path: Path) -> None:
    model = grown()
    before, ids = model.predict(OLD), model.component_ids_
    loadings = model.components_
    model.partial_fit(NEW)
    born = np.setdiff1d(model.component_ids_, ids)
    assert len(born)
    assert born.min() > ids.max()
    assert (np.diff(model.component_ids_) > 0).all()
    assert (model.predict(OLD) == before).mean() > 0.98
    kept = model.components_[np.searchsorted(model.component_ids_, ids)]
    cosines = np.abs(np.sum(kept * loadings, axis=1))
    cosines /= np.linalg.norm(kept, axis=1) * np.linalg.norm(loadings, axis=1)
    assert (cosines > 0.95).all()
    model.save(tmp_path / "model.evl")
    assert_array_equal(load(tmp_path / "model.evl").predict(NEW), model.predict(NEW))


def test_columns_follow_the_ids() -> None:
    model = grown().partial_fit(NEW)
    k, ids = model.n_components_, model.component_ids_
    assert_array_equal(model.get_feature_names_out()[:k], [f"path{i}" for i in ids])
    codes = model.transform(NEW)
    assert_array_equal(ids[codes[:, :k].argmax(axis=1)], model.predict(NEW))
    np.testing.assert_allclose(codes[:, :k].sum(axis=1), 1.0)
    np.testing.assert_allclose(model.weights_.sum(), 1.0)
    near = np.linalg.norm(model.inverse_transform(codes) - NEW, axis=1)
    assert near.mean() < 0.3 * np.linalg.norm(NEW, axis=1).mean()
    assert np.isfinite(model.score(NEW))
