"""What a `ClumpedTopicModel` begins with and keeps for life: family, prior and price of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.core.families import DiagGaussian, Family, FullGaussian, Multinomial
from everlearn.core.priors import LearnedDirichlet
from everlearn.estimators.base import named_errors
from everlearn.estimators.mixture_families import Measured, Moments, resolve_family
from everlearn.inference.clumped_state import ClumpedState, Epoch
from everlearn.inference.clumped_topics import GroupedModel
from everlearn.inference.rows import Rows

_FAMILY_NAMES: dict[type, str] = {
    DiagGaussian: "diagonal",
    FullGaussian: "full",
    Multinomial: "multinomial",
}
PRICE_PER_NUMBER = 0.015
"""Nats a topic must earn for each number in a typical document, if no price is given."""
RELATIVE_PRICE = 1e-5
"""Share of the bound that a split must gain with the published rule."""
_WITHIN = 0.1
"""Share of the variance of all points that a topic is expected to have."""
_MEAN_PRECISION = 0.1


@dataclass(frozen=True, slots=True)
class Asked:
    """What the parameters were when learning began, of which the state has what came of it."""

    topic_price: float | str
    prior: str | Mapping[str, Any]

    @classmethod
    def of(cls, params: Any) -> Asked:
        """What the parameters are now; the prior's arrays may change later."""
        return cls(params.topic_price, deepcopy(params.prior))


def fresh_state(params: Any, epoch: Epoch) -> ClumpedState:
    """A model that has seen nothing, with a prior and a price that suit the first epoch."""
    price = params.topic_price
    if price == "auto":
        width = 1 if params.family == "multinomial" else epoch.parts[0].shape[1]
        price = PRICE_PER_NUMBER * (epoch.n_points * width) / epoch.n_documents
    elif price == "relative":
        price = 0.0  # beside the share of the bound
    with named_errors(params, "prior"):
        family = clumped_family(params.family, params.prior, np.concatenate(epoch.parts))
    state = ClumpedState.fresh(GroupedModel(family, LearnedDirichlet()), float(price))
    documents = np.empty(0, np.int32) if params.track_documents else None
    return replace(state, document_groups=documents)


def clumped_family(family: str, prior: str | Mapping[str, Any], X: Mat) -> Family[Any]:
    """The family; its prior expects a topic to have a tenth of the variance of the points X."""
    rows = Rows(X)
    given = {} if isinstance(prior, str) else dict(prior)
    d = X.shape[1]
    if family == "multinomial":
        return resolve_family(family, given, Measured.here(rows))
    moments = Moments.of(rows)
    within = _WITHIN * moments.variance
    defaults = {"mean": moments.mean, "mean_precision": _MEAN_PRECISION}
    if family == "full":
        defaults |= {"degrees_of_freedom": d + 2.0, "scale": np.diag(within)}
    else:
        defaults |= {"shape": 1.5, "rate": 0.5 * within}
    return resolve_family(family, defaults | given, Measured.here(rows))


def check_same_model(params: Any, asked: Asked, state: ClumpedState) -> None:
    """Refuse to go on with another family, prior or price than learning began with.

    What was found for "auto" or "data" may be given in so many numbers; numbers that were given
    stay.
    """
    _check_unchanged(params, "family", params.family, _FAMILY_NAMES[type(state.model.family)])
    price = params.topic_price
    if price == "relative" == asked.topic_price:
        _check_unchanged(params, "topic_price", state.price, 0.0)
    elif price != asked.topic_price or not isinstance(price, str):
        then = state.price if asked.topic_price == "auto" else asked.topic_price
        _check_unchanged(params, "topic_price", price, then)
        _check_unchanged(params, "topic_price", price, state.price)
    if params.track_documents and state.document_groups is None:
        _check_unchanged(params, "track_documents", True, False)
    _check_prior(params, asked, state.model.family)


def _check_prior(params: Any, asked: Asked, known: Any) -> None:
    now, then = _names(params.prior), _names(asked.prior)
    if then and now != then:
        given = f"a prior with {now}" if now else "data"
        _check_unchanged(params, "prior", given, f"a prior with {then}")
    if not now:
        return
    with named_errors(params, "prior"):
        ones = np.ones((1, known.n_features))
        own: Any = clumped_family(params.family, params.prior, ones)
    for name in now:
        value, old = getattr(own.prior, name), getattr(known.prior, name)
        if not np.array_equal(value, old):
            _check_unchanged(params, "prior", f"{name}: {value}", f"{name}: {old}")


def _names(prior: str | Mapping[str, Any]) -> list[str]:
    """Entries that are given by hand."""
    return [] if isinstance(prior, str) else sorted(prior)


def _check_unchanged(params: Any, name: str, now: Any, then: Any) -> None:
    if now != then:
        raise ValueError(
            f"the {name!r} parameter of {type(params).__name__} was {then!r} when learning "
            f"began and cannot change without a new fit. Got {now!r} instead."
        )
