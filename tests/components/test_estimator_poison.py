"""Whatever is thrown at a `ComponentTree`, it says what is wrong and stays as it was."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from everlearn.components import fit as component_tree_learning
from everlearn.components import search as learner
from support.component_data import WIDTH, assert_same, content, model_of, rows_of

NAME = "ComponentTree"


def with_entry(value: Any, dtype: Any = float) -> Callable[[Any], Any]:
    def spoil(X: Any) -> Any:
        X = X.astype(dtype)
        X[3, 2] = value
        return X

    return spoil


POISONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "nan": (with_entry(np.nan), "NaN"),
    "inf": (with_entry(np.inf), "infinity"),
    "huge": (with_entry(1e200), "1e+200"),
    "text": (with_entry("many", object), "many"),
    "complex": (with_entry(1j, complex), "omplex"),
    "an object": (with_entry(object(), object), "X"),
    "too wide": (lambda X: np.hstack([X, X]), f"{2 * WIDTH} features"),
    "too narrow": (lambda X: X[:, 1:], f"{WIDTH - 1} features"),
    "no columns": (lambda X: X[:, :0], "0 feature(s)"),
    "no rows": (lambda X: X[:0], "0 sample(s)"),
    "one dimension": (lambda X: X[0], "1D array"),
    "three dimensions": (lambda X: X[None], "dim 3"),
    "sparse": (sparse.csr_array, "parse"),
    "dates": (lambda X: np.full(X.shape, "2020-01-01", "M8[D]"), "dtype"),
    "ragged": (lambda X: [[1.0, 2.0], [1.0]], "X"),
    "nothing": (lambda X: None, "X"),
    "a text": (lambda X: "text", "X"),
    "a frame of text": (lambda X: pd.DataFrame([["no"] * WIDTH]), "no"),
}


@pytest.fixture(scope="module")
def model() -> Any:
    return model_of().fit(rows_of(120)).partial_fit(rows_of(60, seed=1))


def assert_refused(model: Any, call: Callable[[], Any], *words: str) -> None:
    before, attributes = content(model), dict(model.__dict__)
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    message = str(caught.value)
    for word in (NAME, *words):
        assert word in message, message
    assert_same(content(model), before)
    assert model.__dict__ == attributes


@pytest.mark.parametrize("poison", POISONS)
def test_bad_rows_are_refused(model: Any, poison: str) -> None:
    spoil, word = POISONS[poison]
    bad = spoil(rows_of(20, seed=2))
    methods = (model.partial_fit, model.predict, model.transform, model.score, model.reconstruct)
    for method in (*methods, model.score_samples):
        assert_refused(model, lambda method=method: method(bad), word)
    if poison not in ("too wide", "too narrow"):
        assert_refused(model, lambda: model.fit(bad), word)


CODES: dict[str, Callable[[Any], Any]] = {
    "too wide": lambda Z: np.hstack([Z, Z]),
    "too narrow": lambda Z: Z[:, 1:],
    "nan": with_entry(np.nan),
    "huge": with_entry(1e200),
    "text": with_entry("x", object),
    "one row": lambda Z: Z[0],
    "nothing": lambda Z: None,
}


@pytest.mark.parametrize("poison", CODES)
def test_bad_codes_are_refused(model: Any, poison: str) -> None:
    bad = CODES[poison](model.transform(rows_of(20)))
    assert_refused(model, lambda: model.inverse_transform(bad), "Z")


PARAMETERS: dict[str, list[Any]] = {
    "depth": [0, -1, 2.5, "deep", None, 101],
    "max_nodes": [0, 1.5, None],
    "concentration": [0.0, -1.0, np.nan, "much"],
    "prior_scale": [0.0, -1.0, np.inf, "wide", None],
    "loadings": ["full", None, 3],
    "local": ["row", None],
    "moves": ["birth", ("grow",), None, ("birth", "birth")],
    "min_gain": [-0.1, np.nan, None],
    "patience": [0, 1.5],
    "n_init": [0, None],
    "batch_size": [0, -1, 1.5],
    "max_sweeps": [0, None],
    "tol": [-1.0, np.nan],
    "birth_window": [0, None, 2.5],
    "engine": ["gpu", 2],
    "verbose": [-1, "yes"],
    "random_state": [-1, "x"],
}


def test_every_parameter_is_looked_at() -> None:
    assert set(PARAMETERS) == set(model_of().get_params())


@pytest.mark.parametrize("name", PARAMETERS)
def test_bad_parameters_are_refused(model: Any, name: str) -> None:
    good, before = model.get_params()[name], content(model)
    for value in PARAMETERS[name]:
        for method in (model.partial_fit, model.fit):
            model.set_params(**{name: value})
            with pytest.raises((ValueError, TypeError), match=NAME) as caught:
                method(rows_of(20))
            assert name in str(caught.value)
            model.set_params(**{name: good})
            assert_same(content(model), before)


@pytest.mark.parametrize(
    "params",
    [{"depth": 2}, {"concentration": 2.0}, {"loadings": "factorised"}, {"prior_scale": 3.0}],
)
def test_what_learning_began_with_cannot_change(model: Any, params: dict[str, Any]) -> None:
    before, old = content(model), {name: model.get_params()[name] for name in params}
    model.set_params(**params)
    for method in (model.partial_fit, model.predict):
        with pytest.raises(ValueError, match="cannot change without a new fit"):
            method(rows_of(20))
    assert_same(content(model.set_params(**old)), before)


class Halt(BaseException):
    """Something that no handler expects."""


@pytest.mark.parametrize("error", [ValueError, Halt, KeyboardInterrupt])
def test_a_failure_in_the_middle_is_undone(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    X = rows_of(240)
    model = model_of().partial_fit(X[:120])
    before, real, calls = content(model), learner.grown, 0

    def fail(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise error("stop")
        return real(*args, **kwargs)

    monkeypatch.setattr(learner, "grown", fail)
    with pytest.raises(error, match="stop"):
        model.partial_fit(X[120:])
    assert calls == 2
    assert_same(content(model), before)
    monkeypatch.undo()
    model.partial_fit(X[120:])
    assert_same(content(model), content(model_of().partial_fit(X[:120]).partial_fit(X[120:])))


def test_numbers_out_of_range_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of().partial_fit(rows_of(60))
    before = content(model)
    monkeypatch.setattr(component_tree_learning.TreeState, "bound", lambda self: float("nan"))
    with pytest.raises(ValueError, match=r"ComponentTree cannot learn from X.*nan"):
        model.partial_fit(rows_of(20, seed=1))
    monkeypatch.undo()
    assert_same(content(model), before)


def test_rows_are_neither_kept_nor_changed() -> None:
    X = rows_of(60)
    copy = X.copy()
    model = model_of().partial_fit(X)
    before = content(model)
    np.testing.assert_array_equal(X, copy)
    X[:] = 7.0
    assert_same(content(model), before)
