"""A learned tree of components as JSON and arrays, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.components.model import ComponentModel, PathPosterior, PathStats
from everlearn.components.state import OpenRows, TreeState
from everlearn.core.arrays import Mat, Vec
from everlearn.core.priors.nested import NestedPrior, TreeSticks
from everlearn.core.tree import Tree
from everlearn.errors import CheckpointError
from everlearn.estimator.schemas import pack_nodes, unpack_nodes
from everlearn.estimator.tables import LARGEST
from everlearn.store.schema import Arrays, entry, member, require

STATE_KEYS = (
    "depth",
    "concentration",
    "scale",
    "shape",
    "rate",
    "joint",
    "noise_shape",
    "noise_rate",
    "centre_variance",
    "n_batches",
    "next_id",
    "seed",
    "clock",
    "fresh",
)
_CLOSE = 1e-6
_SMALLEST, _LARGEST = 1e-250, 1e250


def pack_state(state: TreeState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The state as a header and arrays."""
    model, q = state.model, state.q
    arrays: dict[str, NDArray[Any]] = {
        **pack_nodes(q.tree),
        "sticks/won": q.sticks.won,
        "sticks/lost": q.sticks.lost,
        "loadings/mean": q.mean,
        "loadings/covariance": q.covariance,
        "centre": q.centre,
    }
    _pack_stats(arrays, "sealed", state.sealed)
    for index, batch in enumerate(state.batches):
        arrays[f"batch{index}/X"] = batch.X
        if batch.slots is not None:
            arrays[f"batch{index}/r"] = batch.slots
        _pack_stats(arrays, f"batch{index}", batch.stats)
    header = {
        "depth": q.tree.depth,
        "concentration": model.paths.gamma,
        "scale": model.scale,
        "shape": model.shape,
        "rate": model.rate,
        "joint": model.joint,
        "noise_shape": q.shape,
        "noise_rate": q.rate,
        "centre_variance": q.centre_variance,
        "n_batches": len(state.batches),
        "next_id": state.next_id,
        "seed": state.seed,
        "clock": state.clock,
        "fresh": state.fresh,
    }
    return header, arrays


def unpack_state(header: Mapping[str, Any], arrays: Arrays) -> tuple[TreeState, Vec]:
    """Inverse of `pack_state`, and the origin; whatever could not have been packed is refused."""
    origin = member(arrays, "origin", (None,), "float64")
    d = len(origin)
    require(d > 0 and (np.abs(origin) <= LARGEST).all(), "origin", f"within {LARGEST:g}")
    model = ComponentModel(
        NestedPrior(entry(header, "concentration", float, 1e-3, 1e6)),
        d,
        entry(header, "scale", float, _SMALLEST, _LARGEST),
        entry(header, "shape", float, _SMALLEST, 1.0),
        entry(header, "rate", float, _SMALLEST, _LARGEST),
        entry(header, "joint", bool),
    )
    next_id = entry(header, "next_id", int, 1, 2**53)
    q = _unpack_posterior(header, arrays, d, next_id)
    sealed = _unpack_stats(arrays, "sealed", q.tree, d)
    n_batches = entry(header, "n_batches", int, 0, len(arrays))
    batches = tuple(_unpack_batch(arrays, f"batch{i}", q.tree, d) for i in range(n_batches))
    state = TreeState(
        model,
        q,
        sealed,
        batches,
        sealed,
        next_id,
        entry(header, "seed", int, 0, 2**53),
        entry(header, "clock", int, 0, 2**53),
        entry(header, "fresh", int, 0, sum(len(b.X) for b in batches)),
    ).resummed()
    if unknown := sorted(set(arrays) - set(pack_state(state)[1]) - {"origin"}):
        raise CheckpointError(f"member {unknown[0]!r} belongs to nothing in the header")
    _check_together(state)
    return state, origin


def _unpack_posterior(
    header: Mapping[str, Any], arrays: Arrays, d: int, next_id: int
) -> PathPosterior:
    tree = unpack_nodes(arrays, entry(header, "depth", int, 1, 100), next_id)
    k = len(tree)
    won = member(arrays, "sticks/won", (k,), "float64")
    lost = member(arrays, "sticks/lost", (k,), "float64")
    require((won >= 1.0 - _CLOSE).all(), "sticks/won", "at least 1")
    require((lost > 0.0).all(), "sticks/lost", "positive")
    covariance = member(arrays, "loadings/covariance", (k, k), "float64")
    require(_definite(covariance), "loadings/covariance", "symmetric and positive definite")
    return PathPosterior(
        tree,
        TreeSticks(won, lost),
        member(arrays, "loadings/mean", (k, d), "float64"),
        covariance,
        member(arrays, "centre", (d,), "float64"),
        entry(header, "centre_variance", float, _SMALLEST, _LARGEST),
        entry(header, "noise_shape", float, _SMALLEST, _LARGEST),
        entry(header, "noise_rate", float, _SMALLEST, _LARGEST),
    )


def _pack_stats(arrays: dict[str, NDArray[Any]], name: str, stats: PathStats) -> None:
    numbers = np.array([stats.n, stats.squares, stats.unseen, stats.entropy])
    arrays |= {
        f"{name}/slots": stats.slots,
        f"{name}/codes": stats.codes,
        f"{name}/second": stats.second,
        f"{name}/cross": stats.cross,
        f"{name}/first": stats.first,
        f"{name}/numbers": numbers,
    }


def _unpack_stats(arrays: Arrays, name: str, tree: Tree, d: int) -> PathStats:
    k = len(tree)
    slots = member(arrays, f"{name}/slots", (k,), "float64")
    codes = member(arrays, f"{name}/codes", (k,), "float64")
    second = member(arrays, f"{name}/second", (k, k), "float64")
    cross = member(arrays, f"{name}/cross", (k, d), "float64")
    first = member(arrays, f"{name}/first", (d,), "float64")
    numbers = member(arrays, f"{name}/numbers", (4,), "float64")
    n, squares, unseen, entropy = (float(x) for x in numbers)
    whole = n >= 0 and abs(n - round(n)) <= _CLOSE and squares >= 0 and unseen >= -_CLOSE
    require(whole, f"{name}/numbers", "a number of rows, squares of them, and entropies")
    require(
        (slots >= 0).all() and abs(slots.sum() - n) <= _CLOSE * (1 + n),
        f"{name}/slots",
        "the rows in each slot",
    )
    mass = tree.through(slots)
    _check_moments(name, n, mass, codes, second, cross, first, squares, tree)
    return PathStats(tree.ids, n, slots, codes, second, cross, first, squares, unseen, entropy)


def _check_moments(
    name: str,
    n: float,
    mass: Vec,
    codes: Vec,
    second: Mat,
    cross: Mat,
    first: Vec,
    squares: float,
    tree: Tree,
) -> None:
    """Cauchy and Schwarz for rows and coordinates."""
    slack = 1.0 + _CLOSE
    require(first @ first <= n * squares * slack + 1e-300, f"{name}/first", "a sum of the rows")
    own = np.diagonal(second)
    together = tree.paths[:, tree.levels] == np.arange(len(tree))
    sound = (second == second.T).all() and (own >= 0).all()
    sound = sound and not second[~(together | together.T)].any()
    sound = sound and np.linalg.eigvalsh(second)[0] >= -_CLOSE * (1e-300 + np.trace(second))
    require(sound, f"{name}/second", "moments of coordinates on the paths")
    require((codes**2 <= mass * own * slack + 1e-300).all(), f"{name}/codes", "sums of coordinates")
    rows = np.einsum("kd,kd->k", cross, cross)
    require((rows <= own * squares * slack + 1e-300).all(), f"{name}/cross", "sums of products")


def _unpack_batch(arrays: Arrays, name: str, tree: Tree, d: int) -> OpenRows:
    X = member(arrays, f"{name}/X", (None, d), "float64")
    require(len(X) and (np.abs(X) <= 2 * LARGEST).all(), f"{name}/X", f"rows within {LARGEST:g}")
    stats = _unpack_stats(arrays, name, tree, d)
    near = np.abs(X.sum(axis=0) - stats.first) <= _CLOSE * (np.abs(X).sum(axis=0) + 1e-300)
    require(near.all() and stats.n == len(X), f"{name}/first", f"the sum of '{name}/X'")
    squares = float(np.einsum("nd,nd->", X, X))
    near = abs(squares - stats.squares) <= _CLOSE * squares
    require(near, f"{name}/numbers", f"those of '{name}/X'")
    r = None
    if f"{name}/r" in arrays:
        r = member(arrays, f"{name}/r", (len(X), len(tree)), "float64")
        sound = (r >= 0).all() and (np.abs(r.sum(axis=1) - 1.0) <= _CLOSE).all()
        require(sound, f"{name}/r", "probabilities of slots")
    return OpenRows(X, stats, r)


def _check_together(state: TreeState) -> None:
    """Refuse beliefs that do not rest on the statistics, or that are not finite."""
    q, model, stats = state.q, state.model, state.total
    expected = model.paths.posterior(q.tree, stats.slots)
    for name, own, right in (
        ("won", q.sticks.won, expected.won),
        ("lost", q.sticks.lost, expected.lost),
    ):
        near = np.abs(own - right)[1:] <= _CLOSE * right[1:] + 0.5
        require(near.all(), f"sticks/{name}", "what the masses of the slots give")
    shape = model.shape + 0.5 * stats.n * model.n_features
    if abs(q.shape - shape) > _CLOSE * shape:
        raise CheckpointError(f"the header's 'noise_shape' must be {shape:g}, got {q.shape:g}")
    size = np.sqrt(stats.squares / max(stats.n, 1.0)) + np.sqrt(model.n_features * model.scale)
    near = np.linalg.norm(q.centre) <= 10.0 * size
    require(near, "centre", f"of size {10 * size:g} at most")
    if not np.isfinite(state.bound()):
        raise CheckpointError("members 'loadings/mean' and 'sealed/second' give no finite bound")


def _definite(matrix: Mat) -> bool:
    if not (matrix == matrix.T).all():
        return False
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True
