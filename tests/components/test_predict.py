"""Codes, projections and densities, against one path at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from scipy.stats import multivariate_normal

from everlearn.components.local import prepare_slots
from everlearn.components.predict import encode, path_densities, projector
from oracles.component_runs import beliefs
from oracles.components import slot_evidence

shapes = pytest.mark.parametrize(("n_branches", "depth"), [(0, 1), (0, 2), (1, 2), (4, 3)])


def beliefs_of(n_branches, depth):
    model, q = beliefs(5, 3, n_branches, depth)
    return model, q, prepare_slots(model, q)


@pytest.mark.parametrize(("n_branches", "depth"), [(0, 1), (3, 2)])
def test_codes_are_probabilities_and_expected_coordinates(n_branches, depth):
    model, q, slots = beliefs_of(n_branches, depth)
    X, k = np.random.default_rng(0).normal(size=(4, 3)) * 2, len(q.tree)
    codes = encode(slots, X)
    assert codes.shape == (4, k + depth)
    for row, code in zip(X, codes, strict=True):
        found = [slot_evidence(model, q, s, row) for s in range(k)]
        want = softmax(slots.weights + [log_density for log_density, _ in found])
        assert_allclose(code[:k], want, rtol=1e-7, atol=1e-12)
        assert_allclose(code[k:], found[int(want.argmax())][1], rtol=1e-7, atol=1e-12)


def test_levels_without_a_node_have_no_coordinate():
    model, q = beliefs(2, 3, 4, 3)
    slots = prepare_slots(model, q)
    X = np.random.default_rng(0).normal(size=(200, 3)) * 4
    codes, k = encode(slots, X), len(q.tree)
    last = q.tree.levels[codes[:, :k].argmax(axis=1)]
    assert len(np.unique(last)) > 1
    beyond = np.arange(3) > last[:, None]
    assert (codes[:, k:][beyond] == 0.0).all()
    assert (codes[:, k:][~beyond] != 0.0).all()
    assert encode(slots, X[:0]).shape == (0, k + 3)


@shapes
def test_projections_undo_the_shrinking_of_coordinates(n_branches, depth):
    """Coordinates of a row on a path become the projection of the row on its loadings."""
    _, q, slots = beliefs_of(n_branches, depth)
    t = np.random.default_rng(1).normal(size=3)
    for slot, path in enumerate(q.tree.paths):
        own = path[path >= 0]
        pull = np.zeros(depth)
        pull[: len(own)] = q.precision * q.mean[own] @ t
        x = slots.covariances[slot] @ pull
        basis = np.linalg.qr(q.mean[own].T)[0]
        assert_allclose(x @ projector(slots, slot), basis @ (basis.T @ t), atol=1e-10)


def test_a_loading_twice_is_projected_once():
    """Loadings of one direction have no inverse, but a projection."""
    model, q = beliefs(5, 3, 1, 2)
    q.mean[1] = q.mean[0]
    slots = prepare_slots(model, q)
    t = np.array([1.0, -2.0, 0.5])
    slot = int(q.tree.levels.argmax())
    own = q.tree.paths[slot][q.tree.paths[slot] >= 0]
    pull = np.zeros(2)
    pull[: len(own)] = q.precision * q.mean[own] @ t
    unit = q.mean[0] / np.linalg.norm(q.mean[0])
    projected = slots.covariances[slot] @ pull @ projector(slots, slot)
    assert_allclose(projected, unit * (unit @ t), atol=1e-8)


@shapes
def test_densities_are_those_of_gaussians(n_branches, depth):
    model, q, _ = beliefs_of(n_branches, depth)
    loadings, noise = model.path_covariances(q)
    centred = np.random.default_rng(2).normal(size=(6, 3)) * 3
    want = [
        multivariate_normal(np.zeros(3), a.T @ a + s * np.eye(3)).logpdf(centred)
        for a, s in zip(loadings, noise, strict=True)
    ]
    assert_allclose(path_densities(centred, loadings, noise), np.transpose(want), rtol=1e-9)
    assert path_densities(centred[:0], loadings, noise).shape == (0, len(q.tree))
