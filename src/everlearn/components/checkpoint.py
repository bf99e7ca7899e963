"""Checkpoint schema of a `ComponentTree`: what a file must contain."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from everlearn.components.fit import ComponentTreeFit
from everlearn.components.model import ComponentModel, NodePosterior, NodeStats
from everlearn.components.state import ComponentTreeState, OpenRows
from everlearn.core.arrays import Mat
from everlearn.core.priors.nested import NestedPrior, TreeSticks
from everlearn.core.tree import Tree
from everlearn.estimator.schemas import HISTORY, TREE
from everlearn.estimator.tables import LARGEST
from everlearn.store.schema import Array, Many, Record, Scalar, expect

_CLOSE: Final = 1e-6
"""Relative error up to which saved sums count as equal."""
_TINY: Final = 1e-300
_POSITIVE: Final = Scalar(float, 1e-250, 1e250)
_COUNT: Final = Scalar(int, 0, 2**53)


def _check_posterior(q: NodePosterior, place: str) -> None:
    expect(_definite(q.covariance), f"{place}/covariance", "symmetric and positive definite")


def _definite(matrix: Mat) -> bool:
    if not (matrix == matrix.T).all():
        return False
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _check_stats(stats: NodeStats, tree: Tree, place: str) -> None:
    """Refuse sums that no rows and coordinates can have (by the Cauchy-Schwarz inequality)."""
    n, slack = stats.n, 1.0 + _CLOSE
    expect(np.array_equal(stats.ids, tree.ids), f"{place}/ids", "those of the tree")
    expect(abs(n - round(n)) <= _CLOSE, f"{place}/n", "a whole number")
    whole = abs(stats.slots.sum() - n) <= _CLOSE * (1 + n)
    expect(whole, f"{place}/slots", "probabilities that sum to the number of rows")
    size = stats.first @ stats.first
    expect(size <= n * stats.squares * slack + _TINY, f"{place}/first", "a sum of the rows")
    own, mass = np.diagonal(stats.second), tree.through(stats.slots)
    on_path = tree.paths[:, tree.levels] == np.arange(len(tree))
    expect((own >= 0).all(), f"{place}/second", "sums of squares on its diagonal")
    # The two triangles differ by rounding errors.
    apart = np.abs(stats.second - stats.second.T)
    near = (apart <= _CLOSE * np.sqrt(np.outer(own, own)) + _TINY).all()
    expect(near, f"{place}/second", "symmetric")
    elsewhere = stats.second[~(on_path | on_path.T)]
    expect(not elsewhere.any(), f"{place}/second", "zero for nodes that share no path")
    smallest = np.linalg.eigvalsh(stats.second)[0]
    definite = smallest >= -_CLOSE * (_TINY + np.trace(stats.second))
    expect(definite, f"{place}/second", "positive semidefinite")
    bounded = (stats.codes**2 <= mass * own * slack + _TINY).all()
    expect(bounded, f"{place}/codes", "sums of coordinates")
    squares = np.einsum("kd,kd->k", stats.cross, stats.cross)
    bounded = (squares <= own * stats.squares * slack + _TINY).all()
    expect(bounded, f"{place}/cross", "sums of products of coordinates and rows")


def _check_rows(rows: OpenRows, place: str) -> None:
    """Refuse rows whose sums differ from the saved statistics."""
    X, stats = np.asarray(rows.X), rows.stats
    expect(len(X), f"{place}/X", "one or more rows")
    expect(stats.n == len(X), f"{place}/stats/n", "the number of rows in 'X'")
    near = np.abs(X.sum(axis=0) - stats.first) <= _CLOSE * (np.abs(X).sum(axis=0) + _TINY)
    expect(near.all(), f"{place}/stats/first", "the sum of 'X'")
    squares = float(np.einsum("nd,nd->", X, X))
    near = abs(squares - stats.squares) <= _CLOSE * squares
    expect(near, f"{place}/stats/squares", "the sum of squares of 'X'")


def _check_state(state: ComponentTreeState, place: str) -> None:
    """Refuse a posterior that does not follow from the statistics, or is not finite."""
    q, model, stats = state.q, state.model, state.total
    expect(state.tree.ids.max() < state.next_id, f"{place}/next_id", "above the ids of all nodes")
    expect(state.n_new <= state.n_open, f"{place}/n_new", "at most the number of open rows")
    _check_stats(state.sealed, state.tree, f"{place}/sealed")
    for number, batch in enumerate(state.batches):
        _check_stats(batch.stats, state.tree, f"{place}/batches/{number}/stats")
    wanted = model.paths.posterior(q.tree, stats.slots)
    for name, own, right in (
        ("won", q.sticks.won, wanted.won),
        ("lost", q.sticks.lost, wanted.lost),
    ):
        near = np.abs(own - right)[1:] <= _CLOSE * right[1:] + 0.5
        expect(near.all(), f"{place}/q/sticks/{name}", "those of the rows in the slots")
    shape = model.shape + 0.5 * stats.n * model.n_features
    expect(abs(q.shape - shape) <= _CLOSE * shape, f"{place}/q/shape", f"{shape:g}")
    size = np.sqrt(stats.squares / max(stats.n, 1.0)) + np.sqrt(model.n_features * model.scale)
    near = np.linalg.norm(q.centre) <= 10.0 * size
    expect(near, f"{place}/q/centre", f"of size {10 * size:g} at most")
    expect(np.isfinite(state.bound()), place, "a posterior with a finite bound")


def _check_fit(fit: ComponentTreeFit, place: str) -> None:
    n = fit.state.total.n
    expect(abs(fit.n_rows - n) <= 0.5, f"{place}/n_rows", f"{n:g}, as the statistics say")
    early = fit.n_prior_rows <= fit.n_rows
    expect(early, f"{place}/n_prior_rows", "at most the number of rows")


def _state(**fields: Any) -> ComponentTreeState:
    """The saved state with the sum of its statistics, which a file does not contain."""
    return ComponentTreeState(**fields, total=fields["sealed"]).with_total()


_MODEL: Final = Record(
    ComponentModel,
    {
        "paths": Record(NestedPrior, {"gamma": Scalar(float, 1e-3, 1e6)}),
        "n_features": Scalar(int, 1, 2**31),
        "scale": _POSITIVE,
        "shape": Scalar(float, 1e-250, 1.0),
        "rate": _POSITIVE,
    },
    sizes=lambda model: {"features": model.n_features},
)
_POSTERIOR: Final = Record(
    NodePosterior,
    {
        "tree": TREE,
        "sticks": Record(
            TreeSticks,
            {"won": Array("nodes", low=1.0 - _CLOSE), "lost": Array("nodes", low=_TINY)},
        ),
        "mean": Array("nodes", "features"),
        "covariance": Array("nodes", "nodes"),
        "centre": Array("features"),
        "centre_variance": _POSITIVE,
        "shape": _POSITIVE,
        "rate": _POSITIVE,
    },
    _check_posterior,
)
_STATS: Final = Record(
    NodeStats,
    {
        "ids": Array("nodes", dtypes=("int64",), low=0, high=2**62),
        "n": Scalar(float, 0, 2**53),
        "slots": Array("nodes", low=0),
        "codes": Array("nodes"),
        "second": Array("nodes", "nodes"),
        "cross": Array("nodes", "features"),
        "first": Array("features"),
        "squares": Scalar(float, 0),
        "unseen": Scalar(float, -_CLOSE),
        "entropy": Scalar(float),
    },
)
_OPEN_ROWS: Final = Record(
    OpenRows,
    {
        "X": Array("rows", "features", low=-2 * LARGEST, high=2 * LARGEST),
        "stats": _STATS,
    },
    _check_rows,
)
_STATE: Final = Record(
    _state,
    {
        "model": _MODEL,
        "q": _POSTERIOR,
        "sealed": _STATS,
        "batches": Many(_OPEN_ROWS, own_sizes=("rows",)),
        "next_id": Scalar(int, 1, 2**53),
        "seed": Scalar(int, 0, 2**53),
        "clock": _COUNT,
        "n_new": _COUNT,
    },
    _check_state,
)
COMPONENT_TREE_FIT: Final = Record(
    ComponentTreeFit,
    {
        "state": _STATE,
        "origin": Array("features", low=-LARGEST, high=LARGEST),
        "history": HISTORY,
        "n_rows": Scalar(int, 1, 2**53),
        "n_prior_rows": Scalar(int, 1, 2**53),
        "converged": Scalar(bool),
    },
    _check_fit,
)
