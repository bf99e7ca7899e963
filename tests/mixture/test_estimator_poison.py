"""Whatever is thrown at a model, it says what is wrong and stays, bit for bit, what it was."""

from collections.abc import Callable
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from scipy import sparse

from everlearn.mixture.estimator import DPMixture
from support.streams import FAMILIES, WIDTH, file_of, rows_of


class Poison(NamedTuple):
    """How good rows are spoilt, and words that the refusal must have besides "DPMixture"."""

    spoil: Callable[[np.ndarray], Any]
    words: tuple[str, ...]
    families: tuple[str, ...] = FAMILIES


def with_entry(value: Any, dtype: Any = float) -> Callable[[np.ndarray], np.ndarray]:
    def spoil(rows: np.ndarray) -> np.ndarray:
        spoilt = rows.astype(dtype)
        spoilt[-1, -1] = value
        return spoilt

    return spoil


def dates(rows: np.ndarray, frame: Any, count: int = WIDTH) -> Any:
    """A frame whose last columns, so many of them, are dates."""
    days = np.full(len(rows), "2020-01-01", "M8[us]")
    columns = {f"c{i}": rows[:, i] for i in range(WIDTH)}
    return frame(columns | {f"c{i}": days for i in range(WIDTH - count, WIDTH)})


def words(rows: np.ndarray, frame: Any) -> Any:
    """A frame of numbers that are written as text."""
    return frame({f"c{i}": [str(x) for x in rows[:, i]] for i in range(WIDTH)})


GAUSSIANS = ("diagonal", "full", "zero-mean")
ROWS = {
    "nan": Poison(with_entry(np.nan), ("NaN",), ("full", "zero-mean", "multinomial")),
    "inf": Poison(with_entry(np.inf), ("infinity",)),
    "minus inf": Poison(with_entry(-np.inf), ("infinity",)),
    "huge": Poison(with_entry(1e300), ("at most", "1e+300")),
    "huge below zero": Poison(with_entry(-1e300), ("at most", "-1e+300"), GAUSSIANS),
    "overflowing integer": Poison(with_entry(10**400, object), ("int too large",)),
    "negative count": Poison(with_entry(-3.0), ("Negative", "-3"), ("multinomial",)),
    "negative sparse count": Poison(
        lambda x: sparse.csr_array(with_entry(-3.0)(x)), ("Negative", "-3"), ("multinomial",)
    ),
    "sparse rows": Poison(lambda x: sparse.csr_array(x + 1), ("parse",), GAUSSIANS),
    "too wide": Poison(lambda x: np.hstack([x, x]), (f"{2 * WIDTH} features", f"{WIDTH} features")),
    "too narrow": Poison(lambda x: x[:, :1], ("1 features", f"{WIDTH} features")),
    "no columns": Poison(lambda x: x[:, :0], ("0 feature(s)",)),
    "no rows": Poison(lambda x: x[:0], ("0 sample(s)",)),
    "one dimension": Poison(lambda x: x[0], ("2D array", "1D array")),
    "three dimensions": Poison(lambda x: x[None], ("dim 3",)),
    "a number": Poison(lambda x: 7.0, ("scalar array",)),
    "nothing": Poison(lambda x: None, ("X",)),
    "ragged": Poison(lambda x: [*x.tolist(), [1.0]], ("inhomogeneous",)),
    "text": Poison(lambda x: x.astype(str), ("dtype <U",)),
    "words": Poison(with_entry("a lot", object), ("a lot",)),
    "bytes": Poison(lambda x: x.astype("S8"), ("dtype |S8",)),
    "objects": Poison(with_entry(object(), object), ("'object'",)),
    "complex": Poison(with_entry(1j, complex), ("Complex",)),
    "dates": Poison(lambda x: np.full(x.shape, "2020-01-01", "M8[D]"), ("datetime64",)),
    "records": Poison(lambda x: np.zeros(x.shape, [("a", float)]), ("dtype",)),
    "text among objects": Poison(with_entry("1", object), ("'1'",)),
    "dates among objects": Poison(with_entry(date(2020, 1, 1), object), ("datetime.date",)),
    "a frame of dates": Poison(lambda x: dates(x, pd.DataFrame), ("'c0'", "datetime64")),
    "a column of dates": Poison(lambda x: dates(x, pd.DataFrame, 1), ("'c2'", "datetime64")),
    "a polars frame of dates": Poison(lambda x: dates(x, pl.DataFrame), ("'c0'", "datetime64")),
    "a frame of text": Poison(lambda x: words(x, pd.DataFrame), ("'c0'", "numbers")),
    "a polars frame of text": Poison(lambda x: words(x, pl.DataFrame), ("'c0'", "numbers")),
    "masked": Poison(
        lambda x: np.ma.masked_array(x, x == x[0, 0]),
        ("NaN",),
        ("full", "zero-mean", "multinomial"),
    ),
    "a mapping": Poison(lambda x: {"X": x}, ("dict",)),
}
WEIGHTS = {
    "negative": Poison(lambda w: -w, ("Negative",)),
    "nan": Poison(lambda w: w * np.nan, ("NaN",)),
    "inf": Poison(lambda w: w * np.inf, ("infinity",)),
    "huge": Poison(lambda w: w * 1e300, ("at most", "e+300")),
    "zero": Poison(lambda w: w * 0, ("zero",)),
    "too many": Poison(lambda w: np.append(w, 1.0), ("expected",)),
    "two dimensions": Poison(lambda w: w[:, None], ("2D array",)),
    "text": Poison(lambda w: ["heavy"] * len(w), ("heavy",)),
    "complex": Poison(lambda w: w * 1j, ("Complex",)),
}
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "family": ("gaussian", None, 3),
    "prior": ("flat", None, 7),
    "concentration": (0.0, -1.0, np.nan, np.inf, "1", True, None),
    "max_components": (0, -1, 2.0, "many", None),
    "init_components": (0, 1.5, None, "few"),
    "n_init": (0, 1.5),
    "batch_size": (0, -5, 1.5, "all"),
    "birth_window": (0, None, 1e4),
    "max_laps": (0, 1.5, np.inf),
    "tol": (-1e-9, np.nan, "small", None),
    "moves": ("birth", ("split",), ("birth", "birth"), None, [["birth"]]),
    "learner": ("batch", None),
    "dtype": ("float16", np.float32, None),
    "memory_budget": ("64 lions", 0, -1, np.inf, "9" * 400, [1]),
    "engine": ("gpu", 2),
    "random_state": ("seed", -1, 1.5, 2**40, np.random.default_rng(0)),
    "verbose": (-1, "yes", None),
}


def refused(act: Callable[[], Any], *words: str) -> None:
    """The call must fail, and say all of the words."""
    with pytest.raises((ValueError, TypeError)) as caught:
        act()
    said = str(caught.value)
    assert all(word in said for word in ("DPMixture", *words)), said


class PoisonedStream(RuleBasedStateMachine):
    """A model that is fed poison now and then, and its twin that never is."""

    @initialize(
        family=st.sampled_from(FAMILIES),
        learner=st.sampled_from(("memoized", "memoized", "stochastic")),
        dtype=st.sampled_from(("float64", "float32")),
        seed=st.integers(0, 2**20),
    )
    def start(self, family: str, learner: str, dtype: str, seed: int) -> None:
        params = {"family": family, "learner": learner, "dtype": dtype, "random_state": seed}
        params |= {"birth_window": 60, "batch_size": 20, "engine": "serial"}
        self.model, self.twin = DPMixture(**params), DPMixture(**params)
        self.family, self.rng = family, np.random.default_rng(seed)
        self.started = False

    @rule(n=st.integers(1, 50), weighted=st.booleans())
    def learn(self, n: int, weighted: bool) -> None:
        rows = rows_of(self.family, n, self.rng)
        weights = self.rng.uniform(0.1, 3, n) if weighted else None
        for model in (self.model, self.twin):
            model.partial_fit(rows, sample_weight=weights)
        self.started = True

    @precondition(lambda self: self.started)
    @rule(data=st.data(), method=st.sampled_from(("partial_fit", "fit", "predict", "score")))
    def poisoned_rows(self, data: Any, method: str) -> None:
        poison = ROWS[data.draw(st.sampled_from(names(ROWS, self.family)))]
        if method == "fit" and poison in (ROWS["too wide"], ROWS["too narrow"]):
            return  # a new beginning may have another width
        spoilt = poison.spoil(rows_of(self.family, 5, self.rng))
        self.unchanged_by(lambda: getattr(self.model, method)(spoilt), *poison.words)

    @precondition(lambda self: self.started)
    @rule(name=st.sampled_from(sorted(WEIGHTS)), method=st.sampled_from(("partial_fit", "fit")))
    def poisoned_weights(self, name: str, method: str) -> None:
        rows = rows_of(self.family, 5, self.rng)
        weights = WEIGHTS[name].spoil(self.rng.uniform(1, 3, 5))
        self.unchanged_by(
            lambda: getattr(self.model, method)(rows, sample_weight=weights),
            "sample_weight",
            *WEIGHTS[name].words,
        )

    @precondition(lambda self: self.started)
    @rule(data=st.data(), method=st.sampled_from(("partial_fit", "fit")))
    def poisoned_parameters(self, data: Any, method: str) -> None:
        name = data.draw(st.sampled_from(sorted(PARAMETERS)))
        value = data.draw(st.sampled_from(PARAMETERS[name]))
        rows, good = rows_of(self.family, 5, self.rng), self.model.get_params()
        before = file_of(self.model)
        self.model.set_params(**{name: value})
        refused(lambda: getattr(self.model, method)(rows), f"'{name}'")
        refused(lambda: file_of(self.model), f"'{name}'")
        self.model.set_params(**good)
        assert file_of(self.model) == before

    @precondition(lambda self: self.started)
    @rule(family=st.sampled_from(FAMILIES))
    def another_family(self, family: str) -> None:
        if family == self.family:
            return
        rows, before = rows_of(family, 5, self.rng), file_of(self.model)
        self.model.set_params(family=family)
        for method in ("partial_fit", "predict", "score_samples"):
            refused(lambda m=method: getattr(self.model, m)(rows), "'family'", self.family, family)
        self.model.set_params(family=self.family)
        assert file_of(self.model) == before

    def unchanged_by(self, act: Callable[[], Any], *words: str) -> None:
        before = file_of(self.model)
        refused(act, *words)
        assert file_of(self.model) == before

    def teardown(self) -> None:
        if getattr(self, "started", False):
            assert file_of(self.model) == file_of(self.twin)


def names(poisons: dict[str, Poison], family: str) -> list[str]:
    return sorted(name for name, poison in poisons.items() if family in poison.families)


TestPoisonedStream = PoisonedStream.TestCase
TestPoisonedStream.settings = settings(stateful_step_count=15)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_poison_leaves_a_new_model_new(family: str, method: str) -> None:
    rows = rows_of(family, 6, np.random.default_rng(0))
    for name in names(ROWS, family):
        if name in ("too wide", "too narrow"):
            continue
        model = DPMixture(family=family)
        before = dict(vars(model))
        refused(lambda m=model, n=name: getattr(m, method)(ROWS[n].spoil(rows)), *ROWS[name].words)
        assert vars(model) == before, name


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_wrong_parameters_are_named_with_their_value(name: str) -> None:
    for value in PARAMETERS[name]:
        model = DPMixture(**{name: value})
        refused(lambda m=model: m.fit(np.eye(4)), f"'{name}'", repr(value)[:40])
        assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    ("family", "prior"),
    [
        ("diagonal", {"rates": 1.0}),
        ("diagonal", {1: 2.0}),
        ("diagonal", {"rate": "small"}),
        ("diagonal", {"rate": -1.0}),
        ("diagonal", {"mean": [1.0, 2.0]}),
        ("diagonal", {"mean": 1e200}),
        ("diagonal", {"shape": np.nan}),
        ("full", {"scale": [[1.0, 2.0], [2.0, 1.0]]}),
        ("full", {"degrees_of_freedom": 0.5}),
        ("zero-mean", {"scale": np.zeros((3, 3))}),
        ("zero-mean", {"mean": 0.0}),
        ("multinomial", {"counts": [1.0, 0.0, 1.0]}),
        ("multinomial", {"counts": [[1.0], [2.0, 3.0]]}),
    ],
)
def test_impossible_priors_are_refused(family: str, prior: dict[str, Any]) -> None:
    rows = rows_of(family, 20, np.random.default_rng(0))
    model = DPMixture(family=family, prior=prior)
    refused(lambda: model.fit(rows), "prior")
    refused(lambda: model.partial_fit(rows), "prior")
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("family", ["full", "zero-mean"])
@pytest.mark.parametrize("size", [1e6, 1e9, 1e12])
@pytest.mark.parametrize("seed", range(3))
def test_what_was_accepted_does_no_harm_later(family: str, size: float, seed: int) -> None:
    """A few wild rows: whatever they did to the model, it goes on, is saved and draws samples."""
    rng = np.random.default_rng(seed)
    model = DPMixture(family=family, random_state=0).partial_fit(rng.normal(size=(300, 4)))
    model.partial_fit(size * rng.normal(size=(3, 4)))
    for _ in range(3):
        model.partial_fit(rng.normal(size=(100, 4)))
    assert model.n_samples_seen_ == 603
    assert np.isfinite(model.sample(50)[0]).all()
    assert np.isfinite(model.score_samples(rng.normal(size=(9, 4)))).all()
    assert len(file_of(model))


@pytest.mark.parametrize("family", ["full", "zero-mean"])
def test_a_wild_row_is_found_under_a_narrow_prior(family: str) -> None:
    X = np.random.default_rng(0).normal(size=(300, 4))
    X[7] = 1e6
    model = DPMixture(family=family, prior={"scale": 0.1}, random_state=0).fit(X)
    labels = model.predict(X)
    assert (labels == labels[7]).sum() == 1


def test_values_beyond_single_precision_are_refused() -> None:
    rows = rows_of("diagonal", 50, np.random.default_rng(0))
    refused(lambda: DPMixture(dtype="float32").fit(1e-30 * rows), "float32")
    refused(lambda: DPMixture(dtype="float32").fit(1e20 * rows), "float32")
    for scale in (1e-30, 1e20):
        assert DPMixture(random_state=0).fit(scale * rows).n_components_ == 3
