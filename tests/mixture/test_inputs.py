"""Parameters, priors and rows that are refused, and extreme rows that are not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from everlearn.mixture.estimator import DPMixture
from support.streams import FAMILIES, batches_of, file_of, rows_of

PARAMETERS: dict[str, tuple[Any, ...]] = {
    "family": ("gaussian", "spherical", "tied", None, 3),
    "prior": ("flat", None, 7),
    "concentration": (0.0, -1.0, np.nan, np.inf, "1", True, None),
    "max_components": (0, -1, 2.0, "many", None),
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


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_wrong_parameters_leave_no_trace(method: str) -> None:
    model = DPMixture(random_state=0)
    rows = batches_of("diagonal", [30, 40])
    model.partial_fit(rows[0])
    before, good = file_of(model), model.get_params()
    for name, values in PARAMETERS.items():
        for value in values:
            model.set_params(**{name: value})
            refused(lambda: getattr(model, method)(rows[1]), f"'{name}'")
            refused(lambda: file_of(model), f"'{name}'")
            model.set_params(**good)
            assert file_of(model) == before, name


@pytest.mark.parametrize("family", FAMILIES)
def test_another_family_needs_a_new_fit(family: str) -> None:
    model = DPMixture(family=family, random_state=0)
    model.partial_fit(rows_of(family, 30, np.random.default_rng(0)))
    before = file_of(model)
    for other in FAMILIES:
        if other == family:
            continue
        rows = rows_of(other, 5, np.random.default_rng(0))
        model.set_params(family=other)
        for method in ("partial_fit", "predict", "score_samples"):
            refused(lambda m=method, x=rows: getattr(model, m)(x), "'family'", family, other)
        model.set_params(family=family)
        assert file_of(model) == before


@pytest.mark.parametrize("family", ["spherical", "tied"])
def test_covariance_types_that_do_not_exist_are_explained(family: str) -> None:
    model = DPMixture(family=family)
    refused(lambda: model.fit(np.eye(4)), "'family'", f"'{family}'", "'diagonal' or 'full'")


def test_diag_is_diagonal() -> None:
    """The name in scikit-learn, also for a model that began under the other name."""
    rows = batches_of("diagonal", [30, 40])
    rows[1][3, 1] = np.nan
    short, long = (DPMixture(family=name, random_state=0) for name in ("diag", "diagonal"))
    for model in (short, long):
        model.partial_fit(rows[0]).partial_fit(rows[1])
    assert short.family == "diag"
    assert short.bound_ == long.bound_
    assert short.__sklearn_tags__().input_tags.allow_nan
    long.set_params(family="diag").partial_fit(rows[0])
    assert file_of(long) == file_of(short.partial_fit(rows[0]))


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
