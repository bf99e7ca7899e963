"""Check that models can be merged: one class, the same parameters, features and base."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from everlearn.core.arrays import Mat
from everlearn.registry import BY_KEY, ESTIMATORS

Amount = TypeVar("Amount", int, float, Mat)
_NOT_COMPARED = {"engine", "random_state", "verbose"}
ROUNDING = 1e-9
"""Relative rounding error by which a sum may seem smaller than one of its parts."""


def listed(models: Any) -> list[Any]:
    """The models as a list. A single model is refused, also a pipeline, which has a length."""
    if hasattr(models, "get_params") or not isinstance(models, Iterable):
        raise TypeError(
            f"merge needs a list of models. Got a {type(models).__name__}: merge([one, other])"
        )
    return list(models)


def check_alike(models: list[BaseEstimator], base: BaseEstimator | None) -> None:
    """Refuse models that cannot be merged, or of other parameters or features."""
    if len(models) < 2:
        raise ValueError(f"merge needs at least two models. Got {len(models)}.")
    first, every = models[0], [*models, *([] if base is None else [base])]
    for model in every:
        if isinstance(model, (str, os.PathLike)):
            raise TypeError(
                f"merge needs models. Got the path {str(model)!r}: read it first, "
                f"by everlearn.load({str(model)!r})"
            )
        if type(model) is not type(first):
            raise TypeError(
                f"merge needs models of one class. Got {type(first).__name__} and "
                f"{type(model).__name__}."
            )
        entry = BY_KEY.get(getattr(model, "checkpoint_key", ""))
        if entry is None or entry.merge is None:
            known = ", ".join(entry.name for entry in ESTIMATORS if entry.merge)
            raise TypeError(
                f"merge cannot join {type(model).__name__}: what it keeps is not a sum over its "
                f"data. It joins {known}."
            )
        if not hasattr(model, "_learned"):
            raise ValueError(f"merge needs fitted models. Got a {type(model).__name__} that is not")
        params, own = first.get_params(deep=False), model.get_params(deep=False)
        for name in sorted(set(params) - _NOT_COMPARED):
            if not _same(params[name], own[name]):
                raise ValueError(
                    f"merge needs models with the same parameters. Got {name!r} of "
                    f"{params[name]!r:.60} and {own[name]!r:.60}."
                )
        _check_same_data(first, model)


def _check_same_data(first: object, model: object) -> None:
    """Refuse a model whose columns or classes are not those of the first."""
    widths = [getattr(m, "n_features_in_", None) for m in (first, model)]
    if None not in widths and widths[0] != widths[1]:
        raise ValueError(
            "merge needs models of rows of the same width. Got "
            f"{widths[0]} and {widths[1]} features."
        )
    for what, name in (("feature names", "feature_names_in_"), ("classes", "classes_")):
        both = [getattr(m, name, None) for m in (first, model)]
        if both[0] is None or both[1] is None:  # rows without names do not contradict any
            continue
        one, two = (np.asarray(part).tolist() for part in both)
        if one != two:
            raise ValueError(
                f"merge needs models with the same {what}, in the same order. Got "
                f"{one!r:.60} and {two!r:.60}."
            )


def _same(one: Any, two: Any) -> bool:
    """Whether two parameters are equal; they may be arrays, or mappings with arrays in them."""
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    try:
        return bool(np.array_equal(one, two))
    except (TypeError, ValueError):
        return bool(one == two)


def refused(model: object, parameter: str, needed: str) -> ValueError:
    """The error for a parameter value under which the state is not a sum over the data."""
    return ValueError(
        f"merge can join {type(model).__name__} only with {parameter}={needed}: otherwise what it "
        f"keeps is no sum over its data. Got {getattr(model, parameter)!r}."
    )


def not_descended(position: int, why: str) -> ValueError:
    """The error for a model that did not start as a copy of the base."""
    return ValueError(
        f"merge needs a 'base' that all models began as copies of. Model {position} did not: "
        f"{why}. Merge without a base."
    )


def check_grown(position: int, own: Mapping[str, float], base: Mapping[str, float]) -> None:
    """Refuse a model with another seed than the base, or that has seen less than it.

    Both say under the same names how much they have seen; one of them is "seed".
    """
    if own["seed"] != base["seed"]:
        raise not_descended(position, "its seed is another")
    for name, value in base.items():
        if own[name] < value:
            raise not_descended(position, f"it has {own[name]} {name}, the base {value}")


def check_contains(position: int, own: Mat, base: Mat, what: str) -> None:
    """Refuse a model that lacks some of the counts of the base; rounding aside."""
    slack = ROUNDING * max(1.0, float(np.abs(base).max(initial=0.0)))
    if own.shape != base.shape or (own < base - slack).any():
        raise not_descended(position, f"it does not contain {what} of the base")


def totals(parts: list[Amount], base: Any) -> Amount:
    """The sum of parts, in each of which the base is contained."""
    whole = sum(parts[1:], parts[0])
    return whole if base is None else whole - (len(parts) - 1) * base
