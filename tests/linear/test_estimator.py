"""What users of the linear estimators rely on."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from support.linear_data import KINDS, VARIANTS, model_of, options, rows, targets
from support.streams import file_of


@pytest.mark.parametrize("begun", ["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_first_rows_say_what_zeros_mean(variant: str, kind: str, begun: str) -> None:
    X, scores = rows()
    y = targets(kind, scores)
    first = sparse.csr_array(X[:32]) if begun == "sparse" else X[:32]
    dense, thin = (model_of(kind, variant) for _ in range(2))
    for model, table in ((dense, X), (thin, sparse.coo_array(X).tocsr())):
        model.partial_fit(first, y[:32], **options(kind))
        model.partial_fit(table[32:], y[32:])
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(thin.intercept_, dense.intercept_, rtol=1e-9, atol=1e-12)
    predicted, again = dense.predict(X), dense.predict(sparse.coo_array(X))
    if kind.startswith("number"):
        np.testing.assert_allclose(again, predicted, atol=1e-12)
    else:
        np.testing.assert_array_equal(again, predicted)


@pytest.mark.parametrize("kind", ["multiclass", "number"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_sparse_columns_are_divided_by_their_entries(kind: str, variant: str) -> None:
    """Units of sparse columns do not matter, and rare columns do not become long."""
    X, scores = rows(200)
    X[:, 4] *= np.random.default_rng(3).random(200) < 0.05
    y = targets(kind, scores)
    factors = 10.0 ** np.array([-20.0, 3.0, 0.0, 5.0, -4.0])
    models = [model_of(kind, variant).fit(sparse.csr_array(X * u), y) for u in (1.0, factors)]
    units = models[0]._learned.state.units
    sizes = [np.sqrt(np.square(column[column != 0]).mean()) for column in X.T]
    wanted = np.array(sizes) * np.sqrt((X != 0).sum(axis=1).mean())
    if variant not in ("hard", "sampled"):  # these pass once, in units that follow
        np.testing.assert_allclose(units.unit, wanted, rtol=1e-9)
    assert not units.origin.any()
    factor_pair = zip(models, (1, factors), strict=True)
    one, two = (model.predict(sparse.csr_array(X * factor)) for model, factor in factor_pair)
    if kind == "number":
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(two, one)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_learns_and_the_seed_and_engine_say_how(kind: str, variant: str) -> None:
    X, scores = rows(300)
    y = targets(kind, scores)
    model = model_of(kind, variant).fit(X[:200], y[:200])
    enough = 0.6 if kind == "multilabel" or variant == "sampled" else 0.75
    assert model.score(X[200:], y[200:]) > enough
    again = model_of(kind, variant, engine="threads").fit(X[:200], y[:200])
    np.testing.assert_array_equal(again.coef_, model.coef_)
    before = file_of(model)
    model.predict(X)
    assert file_of(model) == before
    assert model.n_samples_seen_ == 200


# ------------------------------------------------------------------ passes and units


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_units_of_columns_and_numbers_do_not_matter(kind: str, variant: str) -> None:
    """Predictions in other units are the same predictions, after `fit` and in a stream."""
    X, scores = rows()
    y = targets(kind, scores)
    numbers = kind.startswith("number")
    units, level = 10.0 ** np.array([-20.0, 3.0, 0.0, 5.0, -4.0]), 5.0 * (variant != "no intercept")
    factor, origin = (1e6, 1e7 * (variant != "no intercept")) if numbers else (1, 0)
    moved_y = factor * y + origin if numbers else y
    moved = (X + level) * units
    for stream in (False, True):
        one, two = model_of(kind, variant), model_of(kind, variant)
        for model, table, goals in ((one, X, y), (two, moved, moved_y)):
            if not stream:
                model.fit(table, goals)
                continue
            for start in range(0, 120, 40):
                piece = slice(start, start + 40)
                model.partial_fit(table[piece], goals[piece], **options(kind))
        if numbers:
            got = (two.predict(moved) - origin) / factor
            np.testing.assert_allclose(got, one.predict(X), rtol=1e-4, atol=1e-4)
            shown = moved @ np.atleast_2d(two.coef_).T + two.intercept_
            np.testing.assert_allclose(np.squeeze(shown), two.predict(moved), rtol=1e-6)
        else:
            assert np.mean(two.predict(moved) == one.predict(X)) > 0.99


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("kind", "y", "words"),
    [
        ("multiclass", ["ash"] * 29 + ["pine"], "pine"),
        ("multiclass", [0.5] * 30, "continuous"),
        ("multiclass", np.eye(30)[:, :3], "shape"),
        ("multiclass", None, "requires y"),
        ("multilabel", np.full((30, 3), 2), "indicator"),
        ("multilabel", np.zeros((30, 4)), "3 columns"),
        ("numbers", np.zeros((30, 2)), "3 columns"),
        ("numbers", np.zeros(30), "3 columns"),
        ("number", [np.nan] * 30, "NaN"),
        ("number", ["1"] * 30, "expected numbers"),
        ("number", [1e200] * 30, "at most"),
        ("number", np.ma.array(np.zeros(30), mask=[1] * 30), "masked"),
        ("number", sparse.csr_array(np.zeros((30, 1))), "dense"),
        ("number", None, "requires y"),
        ("number", 3.0, "rows|scalar|expected"),
    ],
)
def test_poisoned_targets_leave_no_trace(kind: str, y: Any, words: str) -> None:
    X, scores = rows(30)
    model = model_of(kind, "diag").fit(X, targets(kind, scores))
    before = file_of(model)
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        model.partial_fit(X, y)
    assert type(model).__name__ in str(caught.value)
    assert file_of(model) == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss": "hinge"}, "loss"),
        ({"loss": "averaging"}, "began to learn with loss='gibbs' and covariance='full'"),
        ({"covariance": "diag"}, "covariance='diag' instead"),
        ({"fit_intercept": False}, "fit_intercept"),
        ({"slack": "none"}, "slack.*gibbs"),
        ({"slack": "squared", "inference": "sampled"}, "slack.*sampled"),
        ({"C": 0.0}, "'C'"),
        ({"batch_size": 2000}, "batch_size"),
        ({"shuffle": "yes"}, "shuffle"),
    ],
)
def test_parameters_that_do_not_fit(change: dict[str, Any], words: str) -> None:
    X, scores = rows(30)
    model = model_of("binary", "full").fit(X, targets("binary", scores))
    before = file_of(model)
    good = model.get_params()
    model.set_params(**change)
    with pytest.raises(ValueError, match=words):
        model.partial_fit(X, targets("binary", scores))
    model.set_params(**good)
    assert file_of(model) == before
