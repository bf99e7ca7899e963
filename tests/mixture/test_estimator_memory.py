"""`memory_budget` is a promise: streams of any length, in any portions, stay within it."""

import gc
import re
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from everlearn.engine.rows import Rows
from everlearn.errors import MemoryBudgetError
from everlearn.mixture.estimator import DPMixture
from support.streams import FAMILIES, file_of, rows_of

MARGIN = 1.1


class Meter:
    """Bytes in use beyond those at the start: now, and at most since the last `reset`."""

    def __init__(self) -> None:
        self._start = tracemalloc.get_traced_memory()[0]

    def reset(self) -> None:
        gc.collect()  # which also frees the small objects that the interpreter keeps for later
        tracemalloc.reset_peak()

    @property
    def now(self) -> int:
        return tracemalloc.get_traced_memory()[0] - self._start

    @property
    def peak(self) -> int:
        return tracemalloc.get_traced_memory()[1] - self._start


@contextmanager
def measured() -> Iterator[Meter]:
    gc.collect()
    gc.freeze()  # so that collecting again is quick
    tracemalloc.start()
    try:
        yield Meter()
    finally:
        tracemalloc.stop()
        gc.unfreeze()


def source(kind: str, width: int, clusters: int, seed: int = 0) -> Any:
    """A function that draws rows of many clusters."""
    rng = np.random.default_rng(seed)
    centres = 8 * rng.normal(size=(clusters, width))
    shares = rng.dirichlet(np.full(width, 0.1), clusters)

    def draw(n: int) -> Any:
        which = rng.integers(clusters, size=n)
        if kind in ("multinomial", "csr"):
            counts = rng.poisson(40 * shares[which]).astype(float)
            return sparse.csr_array(counts) if kind == "csr" else counts
        rows = centres[which] + rng.normal(size=(n, width))
        if kind == "missing":
            rows[rng.random(rows.shape) < 0.1] = np.nan
        return rows

    return draw


def model_for(kind: str, budget: int | str | None, **params: Any) -> DPMixture:
    family = {"csr": "multinomial", "missing": "diagonal"}.get(kind, kind)
    return DPMixture(**{"family": family, "memory_budget": budget, "random_state": 0} | params)


def peaks_of_stream(
    kind: str, width: int, budget: int | str, portions: list[int], clusters: int, **params: Any
) -> tuple[DPMixture, list[int]]:
    """The model, and the most bytes it took for each portion, less the portion itself."""
    draw = source(kind, width, clusters)
    model_for(kind, budget, **params).partial_fit(draw(300)).partial_fit(draw(300))  # compile
    model, peaks = model_for(kind, budget, **params), []
    with measured() as meter:
        for n in portions:
            X = draw(n)
            meter.reset()
            model.partial_fit(X)
            peaks.append(meter.peak - Rows(X).nbytes)
            del X
    return model, peaks


@pytest.mark.parametrize(
    ("kind", "width", "budget"),
    [
        ("diagonal", 50, "1MB"),
        ("diagonal", 50, "2MB"),
        ("diagonal", 50, "4MB"),
        ("diagonal", 50, "16MB"),
        ("missing", 50, "4MB"),
        ("full", 20, "1MB"),
        ("full", 20, "4MB"),
        ("zero-mean", 20, "2MB"),
        ("multinomial", 100, "1MB"),
        ("multinomial", 100, "8MB"),
        ("csr", 300, "3MB"),
    ],
)
def test_a_stream_stays_within_its_budget(kind: str, width: int, budget: str) -> None:
    """More clusters than fit, so that the model grows as far as it may."""
    model, peaks = peaks_of_stream(kind, width, budget, [400] * 6, clusters=80)
    report = model.memory_report()
    assert max(peaks) <= MARGIN * report["budget"]
    assert report["total"] <= report["budget"]
    assert 1 < model.n_components_ <= report["max_components"]


@pytest.mark.parametrize(
    ("engine", "params"),
    [("serial", {"dtype": "float32"}), ("threads", {"learner": "stochastic"}), ("threads", {})],
)
def test_however_it_works(engine: str, params: dict[str, Any]) -> None:
    model, peaks = peaks_of_stream("diagonal", 50, "4MB", [800] * 4, 40, engine=engine, **params)
    assert max(peaks) <= MARGIN * 4_000_000
    assert model.n_components_ > 5


@pytest.mark.parametrize("kind", ["diagonal", "full", "multinomial", "csr"])
def test_a_large_portion_needs_no_more_than_small_ones(kind: str) -> None:
    portions = [15_000, 1, 3000]
    model, peaks = peaks_of_stream(kind, 20, "1MB", portions, clusters=5, max_components=3)
    assert max(peaks) <= MARGIN * 1_000_000
    assert model.n_samples_seen_ == sum(portions)


@pytest.mark.parametrize("kind", ["diagonal", "multinomial"])
def test_ten_times_the_data_take_no_more(kind: str) -> None:
    portions = [500] * 20
    model, peaks = peaks_of_stream(kind, 10, "2MB", portions, clusters=4, birth_window=500)
    assert max(peaks[2:]) <= max(peaks[:2]) + 0.1 * 2_000_000
    assert max(peaks) <= MARGIN * 2_000_000
    assert model.n_samples_seen_ == sum(portions)


@pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
@pytest.mark.parametrize("learner", ["memoized", "stochastic"])
def test_fit_stays_within_the_budget_but_for_labels(learner: str) -> None:
    draw, budget = source("diagonal", 20, 30), 2_000_000
    X = draw(20_000)
    params = {"learner": learner, "max_laps": 4}
    model_for("diagonal", budget, **params).fit(X[:500])
    with measured() as meter:
        model_for("diagonal", budget, **params).fit(X)
        peak = meter.peak
    labels = 4 * len(X)
    assert peak <= MARGIN * budget + 2 * labels


def test_growth_stops_where_the_budget_ends() -> None:
    limits = {}
    for budget in ("1MB", "2MB", "4MB"):
        draw, model = source("diagonal", 50, clusters=80), model_for("diagonal", budget)
        for _ in range(6):
            model.partial_fit(draw(500))
        limits[budget] = model.memory_report()["max_components"]
        assert model.n_components_ == limits[budget]
    assert limits["1MB"] < limits["2MB"] < limits["4MB"] < 80


def test_a_budget_below_what_is_held_is_refused_with_numbers() -> None:
    draw = source("diagonal", 20, clusters=30)
    model = model_for("diagonal", None)
    for _ in range(4):
        model.partial_fit(draw(300))
    k, before = model.n_components_, file_of(model)
    assert k > 20
    with pytest.raises(MemoryBudgetError, match=rf"{k} components and 1,200 open rows") as caught:
        model.set_params(memory_budget="600kB").partial_fit(draw(5))
    assert file_of(model.set_params(memory_budget=None)) == before
    needed = int(re.search(r"at least ([\d,]+) bytes", str(caught.value))[1].replace(",", ""))
    with pytest.raises(MemoryBudgetError):
        model.set_params(memory_budget=needed - 1).partial_fit(draw(5))
    model.set_params(memory_budget=needed).partial_fit(draw(5))
    report = model.memory_report()
    assert model.n_components_ <= report["max_components"]
    assert model._learned.state.n_open <= report["window_rows"]


def test_fewer_components_are_a_limit_for_births() -> None:
    draw = source("diagonal", 5, clusters=6)
    model = model_for("diagonal", None).partial_fit(draw(400))
    k = model.n_components_
    assert k > 2
    assert model.set_params(max_components=2).partial_fit(draw(400)).n_components_ == k


@pytest.mark.parametrize("family", FAMILIES)
def test_a_budget_that_is_too_small_is_refused_with_numbers(family: str) -> None:
    X = rows_of(family, 100, np.random.default_rng(0))
    for method in ("fit", "partial_fit"):
        model = DPMixture(family=family, memory_budget="10kB")
        with pytest.raises(MemoryBudgetError, match=r"got 10,000") as caught:
            getattr(model, method)(X)
        assert not hasattr(model, "n_features_in_")
    needed = int(re.search(r"at least ([\d,]+) bytes", str(caught.value))[1].replace(",", ""))
    assert 10_000 < needed < 1_000_000
    model = DPMixture(family=family, memory_budget=needed).partial_fit(X)
    with pytest.raises(MemoryBudgetError):
        DPMixture(family=family, memory_budget=needed - 1000).partial_fit(X)
    before = file_of(model)
    with pytest.raises(MemoryBudgetError):
        model.set_params(memory_budget=1000).partial_fit(X)
    assert file_of(model.set_params(memory_budget=needed)) == before
