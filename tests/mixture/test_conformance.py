"""`DPMixture` keeps the promises of all estimators."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.settings import family_of
from everlearn.testing import checks
from everlearn.testing.checks import Batch, Case, Check, Spoilt, checks_of
from support.streams import FAMILIES, WIDTH, batches_of, file_of, rows_of


class Wrong(NamedTuple):
    """How good rows or weights are spoilt, words of the error, and the families it is for."""

    spoil: Callable[[Any], Any]
    words: str
    families: tuple[str, ...] = FAMILIES
    more_words: tuple[str, ...] = ()


def with_entry(value: Any, dtype: Any = float) -> Callable[[np.ndarray], np.ndarray]:
    def spoil(rows: np.ndarray) -> np.ndarray:
        spoilt = rows.astype(dtype)
        spoilt[-1, -1] = value
        return spoilt

    return spoil


def dates(rows: np.ndarray, frame: Any, count: int = WIDTH) -> Any:
    """A frame whose last `count` columns are dates."""
    days = np.full(len(rows), "2020-01-01", "M8[us]")
    columns = {f"c{i}": rows[:, i] for i in range(WIDTH)}
    return frame(columns | {f"c{i}": days for i in range(WIDTH - count, WIDTH)})


def words(rows: np.ndarray, frame: Any) -> Any:
    """A frame of numbers that are written as text."""
    return frame({f"c{i}": [str(x) for x in rows[:, i]] for i in range(WIDTH)})


GAUSSIANS = ("diagonal", "full", "zero-mean")
WITHOUT_NAN = ("full", "zero-mean", "multinomial")
COUNTS = ("multinomial",)
ROWS = {
    "nan": Wrong(with_entry(np.nan), "NaN", WITHOUT_NAN),
    "infinity": Wrong(with_entry(np.inf), "infinity"),
    "minus infinity": Wrong(with_entry(-np.inf), "infinity"),
    "huge": Wrong(with_entry(1e300), "1e+300", more_words=("at most",)),
    "huge below zero": Wrong(with_entry(-1e300), "-1e+300", GAUSSIANS, ("at most",)),
    "a huge integer": Wrong(with_entry(10**400, object), "int too large"),
    "a negative count": Wrong(with_entry(-3.0), "got -3", COUNTS, ("Negative",)),
    "a negative sparse count": Wrong(
        lambda x: sparse.csr_array(with_entry(-3.0)(x)), "got -3", COUNTS, ("Negative",)
    ),
    "sparse rows": Wrong(lambda x: sparse.csr_array(x + 1), "parse", GAUSSIANS),
    "too wide": Wrong(
        lambda x: np.hstack([x, x]), f"{2 * WIDTH} features", more_words=(f"{WIDTH} features",)
    ),
    "too narrow": Wrong(lambda x: x[:, :1], "1 features", more_words=(f"{WIDTH} features",)),
    "no columns": Wrong(lambda x: x[:, :0], "0 feature(s)"),
    "no rows": Wrong(lambda x: x[:0], "0 sample(s)"),
    "one dimension": Wrong(lambda x: x[0], "reshape(-1, 1)", more_words=("table",)),
    "three dimensions": Wrong(lambda x: x[None], "shape (1, "),
    "a number": Wrong(lambda x: 7.0, "got 7.0"),
    "nothing": Wrong(lambda x: None, "X"),
    "ragged": Wrong(lambda x: [*x.tolist(), [1.0]], "number of entries"),
    "text": Wrong(lambda x: x.astype(str), "expected numbers"),
    "words": Wrong(with_entry("a lot", object), "a lot"),
    "bytes": Wrong(lambda x: x.astype("S8"), "expected numbers"),
    "objects": Wrong(with_entry(object(), object), "'object'"),
    "complex": Wrong(with_entry(1j, complex), "Complex"),
    "dates": Wrong(lambda x: np.full(x.shape, "2020-01-01", "M8[D]"), "datetime64"),
    "records": Wrong(lambda x: np.zeros(x.shape, [("a", float)]), "dtype"),
    "text among objects": Wrong(with_entry("1", object), "'1'"),
    "dates among objects": Wrong(with_entry(date(2020, 1, 1), object), "datetime.date"),
    "a frame of dates": Wrong(lambda x: dates(x, pd.DataFrame), "'c0'", more_words=("datetime64",)),
    "a column of dates": Wrong(
        lambda x: dates(x, pd.DataFrame, 1), "'c2'", more_words=("datetime64",)
    ),
    "a polars frame of dates": Wrong(
        lambda x: dates(x, pl.DataFrame), "'c0'", more_words=("datetime64",)
    ),
    "a frame of text": Wrong(lambda x: words(x, pd.DataFrame), "'c0'", more_words=("numbers",)),
    "a polars frame of text": Wrong(
        lambda x: words(x, pl.DataFrame), "'c0'", more_words=("numbers",)
    ),
    "masked": Wrong(lambda x: np.ma.masked_array(x, x == x[0, 0]), "NaN", WITHOUT_NAN),
    "a mapping": Wrong(lambda x: {"X": x}, "dict"),
}
WEIGHTS = {
    "negative": Wrong(lambda w: -w, "Negative"),
    "nan": Wrong(lambda w: w * np.nan, "NaN"),
    "infinity": Wrong(lambda w: w * np.inf, "infinity"),
    "huge": Wrong(lambda w: w * 1e300, "e+300"),
    "zero": Wrong(lambda w: w * 0, "zero"),
    "too many": Wrong(lambda w: np.append(w, 1.0), "expected"),
    "two dimensions": Wrong(lambda w: w[:, None], "2D array"),
    "text": Wrong(lambda w: ["heavy"] * len(w), "heavy"),
    "complex": Wrong(lambda w: w * 1j, "Complex"),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "diagonal": {"family": "diagonal"},
    "full": {"family": "full", "prior": {"mean_precision": 0.5}},
    "zero-mean": {"family": "zero-mean", "prior": "wishart", "dtype": "float32"},
    "counts": {"family": "multinomial"},
    "sparse": {"family": "multinomial"},
    "missing": {"family": "diag"},
    "stochastic": {"family": "diagonal", "learner": "stochastic"},
    "budget": {"family": "diagonal", "memory_budget": "1MB"},
    "table": {},
    "table of known kinds": {"family": {"n": "numbers", "plan": "categories"}},
    "stochastic table": {"family": "table", "learner": "stochastic"},
}


def spoilt_for(family: str) -> dict[str, Spoilt]:
    rng = np.random.default_rng(1)
    rows, weights = rows_of(family, 6, rng), rng.uniform(1, 3, 6)
    spoilt = {
        name: Spoilt((wrong.spoil(rows),), wrong.words)
        for name, wrong in ROWS.items()
        if family in wrong.families
    }
    for name, wrong in WEIGHTS.items():
        spoilt[f"weights: {name}"] = Spoilt((rows, None, wrong.spoil(weights)), wrong.words)
    return spoilt


TABLES: dict[str, Wrong] = {
    "dates": Wrong(lambda x: x.assign(x=pd.Timestamp("2020-01-01")), "'x'"),
    "lists": Wrong(lambda x: x.assign(plan=[[1]] * len(x)), "'plan'"),
    "text for a number": Wrong(lambda x: x.assign(x="a lot"), "'x'"),
    "infinity": Wrong(lambda x: x.assign(x=np.inf), "'x'"),
    "huge": Wrong(lambda x: x.assign(x=1e300), "1e+300"),
    "too narrow": Wrong(lambda x: x[["x", "plan"]], "feature names"),
    "no rows": Wrong(lambda x: x[:0], "got none"),
    "twice a name": Wrong(lambda x: pd.concat([x, x], axis=1), "twice"),
}


def tables_of(sizes: list[int], seed: int) -> list[pd.DataFrame]:
    """Batches of a table with gaps, in which a category comes later than the others."""
    rng = np.random.default_rng(seed)
    tables = []
    for number, size in enumerate(sizes):
        k = rng.integers(2, size=size)
        plans = np.array(["free", "pro", f"late {number}"], object)
        plan = plans[np.where(rng.random(size) < 0.9, k, 2)]
        plan[rng.random(size) < 0.1] = None
        x = np.where(rng.random(size) < 0.1, np.nan, 8.0 * k + rng.normal(size=size))
        tables.append(
            pd.DataFrame(
                {"x": x, "plan": plan, "n": rng.poisson(1 + 9 * k), "old": k + rng.random(size) > 1}
            )
        )
    return tables


def table_case(name: str) -> Case:
    params = {"random_state": 5, "birth_window": 150, "batch_size": 40, **VARIANTS[name]}
    tables = tables_of([20, 40, 300, 50, 60], seed=3)
    good = tables[1]
    spoilt = {key: Spoilt((wrong.spoil(good),), wrong.words) for key, wrong in TABLES.items()}
    if params.get("learner") == "stochastic":  # others choose kinds again after so few rows
        spoilt |= {"no counts": Spoilt((good.assign(n=good["n"] - 0.5),), "'n'")}
    return Case(
        name,
        lambda **changes: DPMixture(**params | changes),
        [(x,) for x in tables],
        tables[-1][:10],
        ("predict", "predict_proba", "transform", "score_samples", "score"),
        spoilt=spoilt,
    )


def case_of(name: str) -> Case:
    if "table" in name:
        return table_case(name)
    params = {"random_state": 5, "birth_window": 60, "batch_size": 20, **VARIANTS[name]}
    family = family_of(params.get("family", "diagonal"))
    # The prior is chosen again with the second batch, and the last batches seal rows.
    rows: list[Any] = batches_of(family, [20, 40, 30, 50], seed=3)
    probe: Any = rows[1][:10]
    if name == "missing":
        rows[2][::4, 1] = np.nan
    if name == "sparse":
        rows, probe = [sparse.csr_array(x) for x in rows], sparse.csr_array(probe)
    batches: list[Batch] = [(x,) for x in rows]
    if name == "full":
        batches = [(x, None, 0.5 + np.arange(len(x)) % 3) for x in rows]
    methods = ("predict", "predict_proba", "transform", "score_samples", "score")
    return Case(
        name,
        lambda **changes: DPMixture(**params | changes),
        batches,
        probe,
        methods,
        spoilt=spoilt_for(family),
    )


@pytest.mark.parametrize(("case", "check"), checks_of([case_of(name) for name in VARIANTS]))
def test_conformance(case: Case, check: Check, tmp_path: Path) -> None:
    check(case, tmp_path)


def test_names_of_batches_are_saved_and_checked(tmp_path: Path) -> None:
    """The same for a model with names of sealed and open batches."""
    rows = batches_of("diagonal", [20, 40, 30, 50, 30], seed=3)
    names = ["a", 7, "a", 7, "b"]

    class Named(Case):
        def learn(self, model: Any, batch: Batch, *, first: bool = False) -> None:
            model.partial_fit(batch[0], batch_id=batch[1])

    case = case_of("diagonal")
    case = Named("names", case.make, list(zip(rows, names, strict=True)), case.probe, case.methods)
    state = case.learned()._learned.state
    assert set(state.named_parts) == {"a", 7}
    assert state.batches[-1].name == "b"
    for name in ("check_saving_changes_nothing", "check_forged_files_are_refused"):
        getattr(checks, name)(case, tmp_path)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "score_samples"])
def test_every_method_refuses_the_same_rows(family: str, method: str) -> None:
    case = case_of({"multinomial": "counts"}.get(family, family))
    model, rows = case.learned(2), rows_of(family, 6, np.random.default_rng(1))
    before = file_of(model)
    for name, wrong in ROWS.items():
        fits = method == "fit" and name in ("too wide", "too narrow")
        if family in wrong.families and not fits:  # a new beginning may have another width
            spoilt = wrong.spoil(rows)
            refuses(model, before, lambda m, x=spoilt: getattr(m, method)(x), wrong)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_wrong_weights_are_refused(family: str, method: str) -> None:
    case = case_of({"multinomial": "counts"}.get(family, family))
    rng = np.random.default_rng(1)
    rows, weights = rows_of(family, 6, rng), rng.uniform(1, 3, 6)
    model = case.learned(2)
    before = file_of(model)
    for wrong in WEIGHTS.values():
        spoilt = wrong.spoil(weights)
        named = wrong._replace(more_words=("sample_weight",))
        refuses(model, before, lambda m, w=spoilt: getattr(m, method)(rows, sample_weight=w), named)


def test_fit_of_wrong_rows_leaves_a_new_model_new() -> None:
    for family in FAMILIES:
        rows = rows_of(family, 6, np.random.default_rng(1))
        for name, wrong in ROWS.items():
            if family in wrong.families and name not in ("too wide", "too narrow"):
                model = DPMixture(family=family)
                before = dict(vars(model))
                with pytest.raises((ValueError, TypeError), match="DPMixture"):
                    model.fit(wrong.spoil(rows))
                assert vars(model) == before, name


def refuses(model: DPMixture, before: bytes, act: Callable[[DPMixture], Any], wrong: Wrong) -> None:
    """The call fails, says all of the words, and leaves the model as it was."""
    with pytest.raises((ValueError, TypeError)) as caught:
        act(model)
    said = str(caught.value)
    assert all(word in said for word in ("DPMixture", wrong.words, *wrong.more_words)), said
    assert file_of(model) == before
