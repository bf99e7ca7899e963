"""The first rows of a stream, of a task and of a component, however awkward they are."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_info, threadpool_limits

from everlearn.engine import local
from everlearn.estimator.saving import load
from everlearn.ppca.natural_em import NaturalEM
from support.ppca_data import SETTINGS, model_of, rows_of
from support.streams import file_of

every = pytest.mark.parametrize("setting", SETTINGS)
COUNTING = [name for name in SETTINGS if name not in ("weighted", "previous")]
"""Settings in which the first rows all weigh alike."""


@every
def test_a_task_may_end_during_the_warm_up(setting: str, tmp_path: Path) -> None:
    model = model_of(setting).partial_fit(rows_of(10)).consolidate()
    model.save(tmp_path / "model.evl")
    other = load(tmp_path / "model.evl")
    for one in (model, other):
        one.partial_fit(rows_of(60, 1)).consolidate()
    assert file_of(other) == file_of(model)


@pytest.mark.parametrize("setting", COUNTING)
def test_no_row_of_short_tasks_is_forgotten(setting: str) -> None:
    X = np.concatenate([rows_of(8), rows_of(8, 1)])
    model = model_of(setting).partial_fit(X[:8], task=0).partial_fit(X[8:], task=1)
    assert_allclose(model.mean_.reshape(-1), X.mean(axis=0), atol=1e-9)


def test_tasks_end_with_one_thread_of_linear_algebra(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, plain = [], NaturalEM.consolidate

    def watched(self: NaturalEM, state: object) -> object:
        found = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
        threads.append(max(found))
        return plain(self, state)

    monkeypatch.setattr(NaturalEM, "consolidate", watched)
    local._linear_algebra.cache_clear()  # libraries may have been loaded since another test
    with threadpool_limits(2, user_api="blas"):
        model = model_of("task").partial_fit(rows_of(20), task=0)
        model.partial_fit(rows_of(20), task=1).consolidate()
    assert threads == [1, 1]


@pytest.mark.parametrize("batch_size", [1, 20, None])
def test_constant_first_rows_do_not_stop_learning(batch_size: int | None) -> None:
    X, scores = rows_of(500), []
    for first in (X[:20], np.repeat(X[:1], 20, axis=0)):
        model = model_of("plain", batch_size=batch_size)
        for part in (first, X[:240], X[240:]):
            model.partial_fit(part)
        scores.append(model.score(X))
    assert scores[1] > scores[0] - 0.6
    if batch_size != 1:  # online EM of single rows varies
        assert scores[1] > model_of().fit(X).score(X) - 0.6


def test_a_heavy_first_row_does_not_stop_learning() -> None:
    X, weights = rows_of(500), np.ones(500)
    weights[0] = 50.0
    model = model_of("plain", batch_size=20).partial_fit(X[:1], sample_weight=weights[:1])
    model.partial_fit(X[1:], sample_weight=weights[1:])
    assert model.score(X) > model_of().fit(X).score(X) - 1.0


@pytest.mark.parametrize("batch_size", [1, 20])
@pytest.mark.parametrize("setting", ["mixture", "mixture plain"])
def test_constant_first_rows_do_not_stop_growth(setting: str, batch_size: int) -> None:
    A = rows_of(600)
    X = np.concatenate([np.repeat(A[:1], 60, axis=0), A[:300], A[300:] + 60.0])
    model = model_of(setting, batch_size=batch_size).partial_fit(X)
    assert model.n_mixtures_ >= 2
    places = model.predict(X[60:])
    assert not np.isin(places[:300], places[300:]).any()


def test_huge_rows_after_tiny_ones_can_be_saved(tmp_path: Path) -> None:
    model = model_of("mixture").partial_fit(1e-45 * rows_of(80)).partial_fit(1e90 * rows_of(80, 1))
    model.save(tmp_path / "model.evl")
    assert file_of(load(tmp_path / "model.evl")) == file_of(model)


@pytest.mark.parametrize("setting", ["mixture", "mixture plain"])
def test_the_scale_of_weights_does_not_change_what_is_found(setting: str) -> None:
    X = np.concatenate([rows_of(150), rows_of(150, 1), rows_of(150, 2)])
    plain = model_of(setting).partial_fit(X)
    assert plain.n_mixtures_ == 3
    for weight in (1e-3, 1.0, 100.0):
        model = model_of(setting).partial_fit(X, sample_weight=np.full(len(X), weight))
        assert model.n_mixtures_ == 3
        assert_allclose(model.mean_, plain.mean_, rtol=1e-6)
        assert_allclose(model.weights_, plain.weights_, rtol=1e-6)


@pytest.mark.parametrize("setting", ["step", "task", "weighted"])
def test_the_scale_of_weights_does_not_matter_to_gaps(setting: str) -> None:
    X = rows_of(200, gaps=0.3)
    X[:120, 4] = np.nan
    limit = {"max_reference_rows": None}  # which counts rows by their weights
    plain = model_of(setting, **limit).partial_fit(X)
    for weight in (1e-3, 100.0):
        model = model_of(setting, **limit).partial_fit(X, sample_weight=np.full(200, weight))
        assert_allclose(model.get_covariance(), plain.get_covariance(), rtol=1e-6)


def test_rows_that_wait_are_evidence_of_what_they_become() -> None:
    model = model_of("mixture", constraint="task")
    model.partial_fit(rows_of(300)).partial_fit(rows_of(30, 1))  # too few for a component
    model.consolidate()
    assert model.n_mixtures_ == 1
    waiting = model._learned.state.odd.mass
    assert waiting > 25
    # What was odd among the first rows has faded.
    assert model.reference_[0].n_rows == pytest.approx(330 - waiting, abs=20)
    model.partial_fit(rows_of(90, 1)).consolidate()
    assert model.n_mixtures_ == 2
    # Statistics of online EM still hold rows of the task before.
    assert 115 < model.reference_[1].n_rows < 125
