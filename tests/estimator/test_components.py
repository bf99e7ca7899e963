"""Attributes of models with components, computed from their statistics on access."""

from types import SimpleNamespace
from typing import Any

import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from everlearn.core.moves import LapInfo
from everlearn.estimator.components import ComponentAttributes
from everlearn.estimator.history import History
from oracles.cases import GAUSSIANS, Case, named, posteriors, responsibilities, statistics


class Model(ComponentAttributes, BaseEstimator):  # type: ignore[misc]
    """Has learned the statistics of three components."""

    def fit(self, X: Any) -> "Model":
        """What `check_is_fitted` looks for."""
        return self

    def _components(self) -> Any:
        check_is_fitted(self)
        return self._learned.family, self._learned.stats


def learned(case: Case) -> Model:
    stats = statistics(case.family, case.X, responsibilities(len(case), 3, 1), ids=[4, 9, 2])
    history = History()
    for clock, bound in enumerate((-9.0, -5.5)):
        history = history.after(LapInfo(clock, bound, 3, 24.0, (), False))
    model = Model()
    model._learned = SimpleNamespace(family=case.family, stats=stats, history=history)
    return model


@named(GAUSSIANS)
def test_they_are_those_of_the_posterior(case: Case) -> None:
    model, (q, _) = learned(case), posteriors(case)
    assert model.n_components_ == 3
    assert_array_equal(model.component_ids_, [4, 9, 2])
    assert_allclose(model.means_, case.family.means(q))
    assert_allclose(model.covariances_, case.family.covariances(q))
    assert_array_equal(model.bound_history_, [-9.0, -5.5])
    assert model.history_ is model._learned.history


@pytest.mark.parametrize("name", ["component_ids_", "bound_history_"])
def test_what_a_user_changes_is_a_copy(name: str) -> None:
    model = learned(GAUSSIANS[0])
    before = getattr(model, name).copy()
    getattr(model, name)[:] = -1
    assert_array_equal(getattr(model, name), before)


@pytest.mark.parametrize(
    "name",
    ["n_components_", "component_ids_", "means_", "covariances_", "bound_history_", "history_"],
)
def test_a_model_that_has_learned_nothing_has_none(name: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(Model(), name)
