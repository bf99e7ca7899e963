"""Whatever is thrown at an `OnlinePPCA`, it says what is wrong and stays as it was."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from everlearn.ppca import fit as ppca_learning
from everlearn.ppca.estimator import OnlinePPCA
from support.ppca_data import SETTINGS, WIDTH, model_of, rows_of, taught
from support.streams import file_of

NAME = "OnlinePPCA"


def with_entry(value: Any, dtype: Any = float) -> Callable[[Any], Any]:
    def spoil(X: Any) -> Any:
        X = X.astype(dtype)
        X[-1, -1] = value
        return X

    return spoil


POISONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "inf": (with_entry(np.inf), "infinity"),
    "minus inf": (with_entry(-np.inf), "infinity"),
    "huge": (with_entry(1e300), r"1e\+300"),
    "text": (with_entry("many", object), "many"),
    "complex": (with_entry(1j, complex), "omplex"),
    "too wide": (lambda X: np.hstack([X, X]), f"{2 * WIDTH} features"),
    "too narrow": (lambda X: X[:, 1:], f"{WIDTH - 1} features"),
    "no rows": (lambda X: X[:0], "0 sample"),
    "one dimension": (lambda X: X[0], "1D array"),
    "a number": (lambda X: 7.0, "scalar"),
    "nothing": (lambda X: None, "X"),
    "sparse": (sparse.csr_array, "parse"),
    "dates": (lambda X: np.full(X.shape, "2020-01-01", "M8[D]"), "dtype"),
    "a frame of text": (lambda X: pd.DataFrame([["no"] * WIDTH]), "no"),
}


@pytest.mark.parametrize("poison", POISONS)
@pytest.mark.parametrize("method", ["partial_fit", "transform", "score_samples", "fit"])
def test_poison_is_named_and_leaves_no_trace(poison: str, method: str) -> None:
    model = taught("mixture", 4)
    before = file_of(model)
    spoil, words = POISONS[poison]
    if method == "fit" and poison in ("too wide", "too narrow"):
        return
    with pytest.raises((TypeError, ValueError), match=words) as caught:
        getattr(model, method)(spoil(rows_of(9)))
    assert "X" in str(caught.value) or NAME in str(caught.value)
    assert file_of(model) == before
    model.partial_fit(rows_of(9))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.zeros(9), "non-zero|9 zeros"),
        (-np.ones(9), "egative"),
        (np.full(9, np.nan), "NaN"),
        (np.ones(8), "sample_weight"),
        (np.full(9, 1e260), "at most"),
    ],
)
def test_bad_weights_are_named_and_leave_no_trace(weights: Any, words: str) -> None:
    model = taught()
    before = file_of(model)
    with pytest.raises(ValueError, match=words):
        model.partial_fit(rows_of(9), sample_weight=weights)
    assert file_of(model) == before


@pytest.mark.parametrize("task", [1.5, True, [], 2**60, b"x"])
def test_bad_names_of_tasks_are_refused(task: Any) -> None:
    model = taught()
    before = file_of(model)
    with pytest.raises(ValueError, match="'task' of OnlinePPCA"):
        model.partial_fit(rows_of(9), task=task)
    assert file_of(model) == before


PARAMS: list[tuple[dict[str, Any], str]] = [
    ({"n_components": 0}, "n_components"),
    ({"n_components": WIDTH + 1}, f"n_features={WIDTH}"),
    ({"constraint": "class"}, "constraint"),
    ({"constraint_form": "l2"}, "constraint_form"),
    ({"constraint_weight": 0.0}, "constraint_weight"),
    ({"constraint_weight": "many"}, "constraint_weight"),
    ({"constraint_form": "printed"}, "constraint_weight"),
    ({"constraint": "previous"}, "constraint_weight"),
    ({"max_reference_rows": 0}, "max_reference_rows"),
    ({"kept_components": 1}, "kept_components"),
    ({"step_size": 1.5}, "step_size"),
    ({"step_power": 0.5}, "step_power"),
    ({"step_offset": -1}, "step_offset"),
    ({"statistics": "raw data"}, "statistics"),
    ({"fisher": None}, "fisher"),
    ({"clip": 1}, "clip"),
    ({"align": "yes"}, "align"),
    ({"n_mixtures": 0}, "n_mixtures"),
    ({"n_mixtures": 2, "constraint_form": "gain"}, "constraint_form"),
    ({"novelty": 0}, "novelty"),
    ({"batch_size": 0}, "batch_size"),
    ({"fit_method": "svd"}, "fit_method"),
    ({"fit_method": "exact", "n_mixtures": 2}, "fit_method"),
    ({"max_iter": 0}, "max_iter"),
    ({"tol": -1.0}, "tol"),
    ({"engine": "gpu"}, "engine"),
    ({"random_state": "now"}, "random_state"),
    ({"verbose": -1}, "verbose"),
]


@pytest.mark.parametrize("case", range(len(PARAMS)))
def test_bad_parameters_are_named(case: int) -> None:
    params, words = PARAMS[case]
    with pytest.raises(ValueError, match=words) as caught:
        OnlinePPCA(**params).fit(rows_of(20))
    assert NAME in str(caught.value)


def test_gaps_have_no_closed_form() -> None:
    with pytest.raises(ValueError, match=r"'fit_method'.*missing values"):
        OnlinePPCA(fit_method="exact").fit(rows_of(20, gaps=0.2))


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_failure_within_leaves_no_trace(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = taught(setting, 4)
    before = file_of(model)
    calls = []

    def fails(estimator: Any, state: Any) -> Any:
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return state

    monkeypatch.setattr(ppca_learning, "_checked", fails)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(rows_of(96), task="new")
    assert file_of(model) == before


def test_a_constraint_that_diverges_is_refused() -> None:
    params = {"constraint": "previous", "constraint_weight": 1e6, "clip": False}
    model = model_of("printed", batch_size=5, **params).partial_fit(rows_of(25))
    before = file_of(model)
    X = np.concatenate([rows_of(100, seed) for seed in range(20)])
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="OnlinePPCA cannot learn"):
        model.partial_fit(X)
    assert file_of(model) == before


@pytest.mark.parametrize("setting", ["gain", "ewc", "printed"])
@pytest.mark.parametrize("size", [1e78, 1e98])
def test_rows_too_large_for_a_form_are_refused_by_name(setting: str, size: float) -> None:
    model = taught(setting, 4)
    if setting == "printed":  # fails only when the reference is large as well
        model.partial_fit(size * rows_of(60), task=7).partial_fit(size * rows_of(60, 1), task=8)
    before = file_of(model)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="OnlinePPCA cannot learn"):
        model.partial_fit(size * rows_of(60, 2), task=9)
    assert file_of(model) == before
