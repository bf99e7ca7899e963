"""`ComponentTree` against PCA on optdigits: error of reconstruction, log-density and CPU time."""

import statistics
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.component_figures import tree_of_loadings
from benchmarks.corpora import DATA
from benchmarks.remember import remembered_in
from benchmarks.table import Table
from everlearn import ComponentTree
from everlearn.components import search

SEEDS = 5
NODES = {2: 9, 3: 14, 4: 18, 5: 22}
GROWN = (2, 3, 4)
GROWN_SEEDS = 5
ROOM = 500
STREAM_ROWS = 100
HEAD = """## Trees of components (hierarchical component analysis)

Data: optdigits, 3,823 training rows and 1,797 test rows of other writers, with 64 features from 0
to 16, not scaled. Errors are squared distances: for a tree, from a row to its projection on the
loadings of its likeliest path; for PCA, to its projection on as many components as a path has
levels (L). "Log p" is the log-density of a test row in nats; higher is better.

![Loadings on a tree of depth 3 with 14 nodes](../images/component_tree.png)

The picture shows the loadings of a tree of depth 3, purple where negative and orange where
positive; the signs are arbitrary. The number below each node is the number of rows that pass it.
"""


def tables(measured: set[str]) -> Iterator[Table]:
    yield _reconstruction(measured)
    yield _growth(measured)
    yield _one_pass(measured)
    _picture()


def digits() -> tuple[np.ndarray, np.ndarray]:
    with np.load(DATA / "optdigits" / "optdigits.npz") as file:
        return file["X_train"].astype(float), file["X_test"].astype(float)


def _fitted(**params: Any) -> tuple[ComponentTree, float]:
    X, _ = digits()
    model = ComponentTree(engine="serial", **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ComponentTree(depth=2, max_nodes=3, engine="serial", random_state=0).fit(X[:60])  # compiles
        start = time.process_time()
        model.fit(X)
        return model, time.process_time() - start


def _error(model: ComponentTree | PCA, X: np.ndarray) -> float:
    if isinstance(model, PCA):
        back = model.inverse_transform(model.transform(X))
    else:
        back = model.reconstruct(X)
    return float(np.mean(np.sum((X - back) ** 2, axis=1)))


def _measures(model: ComponentTree, cpu: float) -> dict[str, Any]:
    X, test = digits()
    return {
        "nodes": model.n_components_,
        "train": _error(model, X),
        "test": _error(model, test),
        "log_p": model.score(test),
        "bound": model.bound_,
        "cpu": cpu,
    }


# ------------------------------------------------------------------- reconstruction


def _reconstruction(measured: set[str]) -> Table:
    table = Table(
        "Reconstruction of digits",
        [
            "L",
            "nodes",
            "error, PCA, train",
            "error, PCA, test",
            "error, tree, train",
            "error, tree, test",
            "log p",
            "CPU s",
        ],
        "Trees of all depths have a lower error than PCA. `max_nodes` is the number of nodes of "
        f"the paper's trees. Mean and standard deviation of {SEEDS} seeds.",
    )
    X, test = digits()
    for depth, nodes in NODES.items():
        pca = PCA(depth).fit(X)
        runs = [
            remembered_in(
                measured, "ncrp", f"fixed-{depth}-{seed}", partial(_fixed, depth, nodes, seed)
            )
            for seed in range(SEEDS)
        ]
        table.add(
            depth,
            max(run["nodes"] for run in runs),
            f"{_error(pca, X):.1f}",
            f"{_error(pca, test):.1f}",
            *(_mean(runs, name) for name in ("train", "test")),
            _mean(runs, "log_p", 2),
            f"{_mean(runs, 'cpu')}, most {max(run['cpu'] for run in runs):.1f}",
        )
    return table


def _fixed(depth: int, nodes: int, seed: int) -> dict[str, Any]:
    """A tree of a fixed number of nodes."""
    return _measures(*_fitted(depth=depth, max_nodes=nodes, random_state=seed))


def _mean(runs: list[dict[str, Any]], name: str, digits: int = 1) -> str:
    values = [run[name] for run in runs]
    return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"


# --------------------------------------------------------------------------- growth


def _growth(measured: set[str]) -> Table:
    table = Table(
        "Growth that stops by itself",
        ["L", "seed", "nodes", "test error", "log p", "best log p of the run", "CPU s"],
        f"Growth stops at the right size: with `max_nodes={ROOM}`, every run stops earlier, close "
        "to its best log-density. The best is taken over all rounds of a run with the test rows, "
        "which learning does not see.",
    )
    for depth in GROWN:
        for seed in range(GROWN_SEEDS):
            key = f"grown-{depth}-{seed}"
            run = remembered_in(measured, "ncrp", key, partial(_grown, depth, seed))
            table.add(
                depth, seed, run["nodes"], f"{run['test']:.1f}", f"{run['log_p']:.2f}",
                f"{run['best']:.2f}", f"{run['cpu']:.0f}",
            )  # fmt: skip
    return table


def _grown(depth: int, seed: int) -> dict[str, Any]:
    """One run, scored on the test rows after every round; the time of scoring does not count."""
    X, test = digits()
    rows = test - X.mean(axis=0)
    seen, watching = [], [0.0]

    def watched(*args: Any, **kwargs: Any) -> Any:
        state, moves = grown(*args, **kwargs)
        start = time.process_time()
        seen.append(_score(state, rows))
        watching[0] += time.process_time() - start
        return state, moves

    grown = search.try_growth
    with mock.patch.object(search, "try_growth", watched):
        model, cpu = _fitted(depth=depth, max_nodes=ROOM, random_state=seed)
    result = _measures(model, cpu - watching[0])
    return result | {"best": max(*seen, result["log_p"])}


def _score(state: Any, rows: np.ndarray) -> float:
    """`score` of a state in the middle of a run."""
    model = ComponentTree(depth=state.tree.depth)
    model.n_features_in_ = rows.shape[1]
    model._learned = mock.Mock(state=state, origin=np.zeros(rows.shape[1]))
    return model.score(rows)


# ------------------------------------------------------------------------- one pass


def _one_pass(measured: set[str]) -> Table:
    table = Table(
        "One pass",
        ["L", "nodes", "error, tree, train", "error, tree, test", "log p", "CPU s"],
        "One pass comes close to `fit` above, in less time. "
        f"`partial_fit` sees {STREAM_ROWS} rows at a time, each once. Mean and standard deviation "
        f"of {SEEDS} seeds.",
    )
    for depth in (2, 3):
        runs = [
            remembered_in(measured, "ncrp", f"pass-{depth}-{seed}", partial(_passed, depth, seed))
            for seed in range(SEEDS)
        ]
        table.add(
            depth,
            max(run["nodes"] for run in runs),
            *(_mean(runs, name) for name in ("train", "test")),
            _mean(runs, "log_p", 2),
            _mean(runs, "cpu"),
        )
    return table


def _passed(depth: int, seed: int) -> dict[str, Any]:
    X, _ = digits()
    order = np.random.default_rng(seed).permutation(len(X))
    model = ComponentTree(depth=depth, max_nodes=NODES[depth], engine="serial", random_state=seed)
    start = time.process_time()
    for first in range(0, len(X), STREAM_ROWS):
        model.partial_fit(X[order[first : first + STREAM_ROWS]])
    return _measures(model, time.process_time() - start)


def _picture() -> None:
    model, _ = _fitted(depth=3, max_nodes=NODES[3], random_state=0)
    tree_of_loadings("component_tree", model)
