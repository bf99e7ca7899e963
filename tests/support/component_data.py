"""Rows for the tests of `ComponentTree`, and what a model is made of."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.components.estimator import ComponentTree
from oracles.component_runs import planted
from support.clumped_data import assert_same

__all__ = ["WIDTH", "assert_same", "content", "model_of", "rows_of", "streamed"]
WIDTH = 8


def rows_of(n: int, seed: int = 0) -> NDArray[np.float64]:
    return planted(n, seed, WIDTH)[0]


def model_of(options: Mapping[str, Any] | None = None, **params: Any) -> ComponentTree:
    given: dict[str, Any] = {"engine": "serial", "random_state": 3, "max_nodes": 10}
    given |= {"birth_window": 120, "tol": 1e-3, "options": {"patience": 2, **(options or {})}}
    return ComponentTree(**given | params)


def streamed(n: int = 300, piece: int = 50, **params: Any) -> ComponentTree:
    model, X = model_of(**params), rows_of(n)
    for start in range(0, n, piece):
        model.partial_fit(X[start : start + piece])
    return model


def content(model: ComponentTree) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    header, arrays = model.to_checkpoint()
    return header, {name: a.copy() for name, a in arrays.items()}
