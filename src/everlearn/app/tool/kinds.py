"""The kinds of models that the tool can learn, and their parameters on a command line."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from everlearn.core.params import check_params

Form: TypeAlias = Literal["rows", "documents", "points"]
"""What a record is: numbers in columns, words, or points that make one document."""
Target: TypeAlias = Literal["class", "number"]


class UsageError(ValueError):
    """Something on the command line does not fit the model or the data."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of model: the estimator for each form of record, and what labels it learns from."""

    name: str
    estimators: Mapping[Form, tuple[str, str]]
    target: Target | None = None

    def estimator(self, form: Form) -> Any:
        """The estimator's class."""
        if form not in self.estimators:
            wanted = " or ".join(_FORMS[f] for f in self.estimators)
            raise UsageError(
                f"a model of the kind {self.name!r} learns from {wanted}, got {_FORMS[form]}"
            )
        module, name = self.estimators[form]
        return getattr(importlib.import_module(f"everlearn.estimators.{module}"), name)


_FORMS: Final[Mapping[Form, str]] = {
    "rows": "rows of numbers",
    "documents": "texts",
    "points": "images or lists of points",
}

KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("mixture", {"rows": ("mixture", "DPMixture")}),
        Kind("topics", {"documents": ("topics", "TopicModel")}),
        Kind("tree", {"documents": ("topic_tree", "TopicTree")}),
        Kind(
            "classifier",
            {
                "documents": ("supervised", "MedLDAClassifier"),
                "rows": ("passive_aggressive", "BayesianPassiveAggressiveClassifier"),
            },
            "class",
        ),
        Kind(
            "regressor",
            {
                "documents": ("supervised_regression", "MedLDARegressor"),
                "rows": ("passive_aggressive_regression", "BayesianPassiveAggressiveRegressor"),
            },
            "number",
        ),
        Kind("clumped", {"points": ("clumped", "ClumpedTopicModel")}),
        Kind("components", {"rows": ("component_tree", "ComponentTree")}),
        Kind("ppca", {"rows": ("ppca", "OnlinePPCA")}),
    )
}


def parse_settings(settings: Sequence[str]) -> dict[str, Any]:
    """``["n_topics=20", "family=full"]`` as parameters; values are JSON, or else text.

    Examples
    --------
    >>> parse_settings(["n_topics=20", "family=full", "shuffle=false"])
    {'n_topics': 20, 'family': 'full', 'shuffle': False}
    """
    params: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise UsageError(f"a parameter is set by NAME=VALUE, got {setting!r}")
        try:
            params[name] = json.loads(value)
        except ValueError:
            params[name] = value
    return params


def check_settings(estimator: Any, params: Mapping[str, Any]) -> None:
    """Refuse parameters that the estimator's own table of constraints does not allow."""
    name = estimator.__name__
    known = estimator().get_params(deep=False)
    for unknown in sorted(set(params) - set(known)):
        raise UsageError(f"{name} has no parameter {unknown!r}; it has {', '.join(sorted(known))}")
    try:
        check_params(name, {**known, **params}, estimator._constraints)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error
