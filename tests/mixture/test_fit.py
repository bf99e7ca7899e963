"""Ways of working that must not matter, or matter as they say: engines, precision, purity."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from everlearn.mixture.estimator import DPMixture
from support.streams import FAMILIES, batches_of, file_of, rows_of

RNG = np.random.default_rng


def mixture(family: str = "diagonal", **params: Any) -> DPMixture:
    return DPMixture(**{"family": family, "random_state": 0} | params)


# Engines and precision


@pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
@pytest.mark.parametrize("family", ["diagonal", "full", "multinomial"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_engines_give_the_same_bits(family: str, method: str) -> None:
    width = 60 if family == "diagonal" else 15
    X = rows_of(family, 9000, RNG(0), width)  # several blocks a batch
    files = set()
    for engine in ("serial", "threads", None):
        model = mixture(family, engine=engine, batch_size=9000, max_laps=3)
        getattr(model, method)(X)
        files.add(file_of(model.set_params(engine=None)))
    assert len(files) == 1


@pytest.mark.parametrize("n_rows", [300, 1500, 5000])
@pytest.mark.parametrize("family", [*FAMILIES, "csr", "missing"])
def test_single_precision_is_close(family: str, n_rows: int) -> None:
    """The same components and the bound within a millionth, whatever was tried on the way."""
    kind = {"csr": "multinomial", "missing": "diagonal"}.get(family, family)
    X: Any = rows_of(kind, n_rows, RNG(0))
    if family == "csr":
        X = sparse.csr_array(X)
    if family == "missing":
        X[RNG(1).random(X.shape) < 0.1] = np.nan
    double, single = (mixture(kind, dtype=d).fit(X) for d in ("float64", "float32"))
    assert single.n_components_ == double.n_components_
    np.testing.assert_allclose(single.bound_, double.bound_, rtol=1e-6)
    probabilities = single.predict_proba(X)
    assert probabilities.dtype == np.float64
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-9)
    assert (single.predict(X) == double.predict(X)).mean() > 0.995


@pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
@pytest.mark.parametrize("n_rows", [300, 1500, 5000])
@pytest.mark.parametrize("family", FAMILIES)
def test_single_precision_takes_the_same_steps(family: str, n_rows: int) -> None:
    """From one start and without moves both go the same way, within a millionth."""
    X = rows_of(family, n_rows, RNG(0))
    steps = {"max_components": 5, "moves": (), "max_laps": 4, "batch_size": 500}
    double, single = (mixture(family, dtype=d, **steps).fit(X) for d in ("float64", "float32"))
    np.testing.assert_allclose(single.bound_history_, double.bound_history_, rtol=1e-6)
    np.testing.assert_allclose(single.means_, double.means_, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("family", ["diagonal", "full"])
def test_single_precision_far_from_zero(family: str) -> None:
    X = rows_of(family, 900, RNG(0)) + 1e7
    double, single = (mixture(family, dtype=d).fit(X) for d in ("float64", "float32"))
    assert single.n_components_ == double.n_components_ == 3
    np.testing.assert_allclose(np.sort(single.means_, 0), np.sort(double.means_, 0), atol=1e-2)
    np.testing.assert_allclose(single.score(X), double.score(X), atol=1e-4)


# Input arrays


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["float64", "float32", "fortran", "sliced"])
def test_the_callers_arrays_are_neither_changed_nor_kept(family: str, kind: str) -> None:
    X = rows_of(family, 120, RNG(0))
    given = {
        "float64": X.copy(),
        "float32": X.astype(np.float32),
        "fortran": np.asfortranarray(X),
        "sliced": np.repeat(X, 2, axis=1)[:, ::2],
    }[kind]
    copy, weights = given.copy(), RNG(1).uniform(0.5, 2, 120)
    model, twin = mixture(family), mixture(family)
    twin.partial_fit(copy.copy(), sample_weight=weights.copy())
    model.partial_fit(given, sample_weight=weights)
    np.testing.assert_array_equal(given, copy)
    given[:], weights[:] = 7.0, 9.0
    assert file_of(model) == file_of(twin)
    for X_next in batches_of(family, [50, 300], seed=2):
        model.partial_fit(X_next)
        twin.partial_fit(X_next.copy())
    assert file_of(model) == file_of(twin)


def test_sparse_arrays_of_the_caller_stay_as_they_are() -> None:
    untidy = sparse.csr_array(  # columns out of order, and one of them twice
        (np.array([1.0, 2.0, 3.0, 4.0]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3)
    )
    for method in ("fit", "partial_fit", "predict"):
        X = untidy.copy()
        model = mixture("multinomial").partial_fit(untidy.toarray())
        getattr(model, method)(X)
        np.testing.assert_array_equal(X.indices, untidy.indices)
        np.testing.assert_array_equal(X.data, untidy.data)
    model = mixture("multinomial").partial_fit(X)
    before = file_of(model)
    X.data[:] = 99.0
    assert file_of(model) == before
    assert file_of(mixture("multinomial").fit(untidy)) == file_of(
        mixture("multinomial").fit(sparse.csr_array(untidy.toarray()))
    )


def test_read_only_rows_are_fine() -> None:
    X = rows_of("diagonal", 50, RNG(0))
    own = mixture().fit(X).partial_fit(X)
    X.flags.writeable = False
    model = mixture().fit(X).partial_fit(X)
    assert file_of(model) == file_of(own)
    np.testing.assert_array_equal(model.predict(X), own.predict(X))


# Progress and reports


def test_a_progress_bar_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    X = rows_of("diagonal", 100, RNG(0))
    mixture().fit(X).partial_fit(X)
    assert capsys.readouterr() == ("", "")
    for method in ("fit", "partial_fit"):
        model = getattr(mixture(verbose=1), method)(X)
        shown = capsys.readouterr().out
        assert "lap" in shown
        assert "bound" in shown
        assert f"{model.n_components_} components" in shown


@pytest.mark.parametrize("family", FAMILIES)
def test_memory_report(family: str) -> None:
    model = mixture(family, memory_budget="3MB")
    for X in batches_of(family, [50, 200, 300]):
        model.partial_fit(X)
    report = model.memory_report()
    parts = ("statistics", "pair_entropies", "open_rows", "scores")
    assert report["total"] == sum(report[part] for part in parts)
    assert report["budget"] == 3_000_000
    assert 0 < report["total"] < report["budget"]
    assert model.n_components_ <= report["max_components"]
    state = model._learned.state
    assert state.n_open <= report["window_rows"]
    assert report["bytes_per_component"] * model.n_components_ == state.total.nbytes
    assert report["open_rows"] >= sum(b.rows.nbytes for b in state.batches)
    free = mixture(family).fit(rows_of(family, 50, RNG(0))).memory_report()
    assert free["budget"] is None
    assert free["open_rows"] == 0  # fit lets go of its rows
    assert free["scores"] == 50 * 24  # a score, a weight and a count for each row
    assert free["max_components"] == 1000
