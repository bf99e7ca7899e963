"""The kinds of models that the tool can learn, and their parameters on a command line."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from everlearn.errors import UsageError
from everlearn.registry import ESTIMATORS, Entry, Form, Target


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of model: the estimator for each form of record, and what labels it learns from."""

    name: str
    estimators: Mapping[Form, Entry]
    target: Target | None = None

    def estimator(self, form: Form) -> Any:
        """The estimator's class."""
        if form not in self.estimators:
            wanted = " or ".join(_FORMS[f] for f in self.estimators)
            raise UsageError(
                f"a model of the kind {self.name!r} learns from {wanted}, got {_FORMS[form]}"
            )
        return self.estimators[form].estimator()


_FORMS: Final[Mapping[Form, str]] = {
    "rows": "rows of numbers",
    "documents": "texts",
    "points": "images or lists of points",
}


def _kinds() -> dict[str, Kind]:
    """The kinds of the registry; one may have an estimator for rows and another for texts."""
    kinds: dict[str, Kind] = {}
    for entry in ESTIMATORS:
        if entry.kind is not None and entry.form is not None:
            known = kinds.get(entry.kind)
            others = {} if known is None else known.estimators
            kinds[entry.kind] = Kind(entry.kind, {**others, entry.form: entry}, entry.target)
    return kinds


KINDS: Final[Mapping[str, Kind]] = _kinds()


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


OPTIONS: Final[Mapping[str, str]] = {
    "memory_budget": "--memory",
    "engine": "--engine",
    "random_state": "--seed",
}
"""Parameters that have an option of their own."""
_FORMS_OF_OPTIONS: Final[Mapping[str, Form]] = {
    "text": "documents",
    "columns": "rows",
    "image_side": "points",
}


def check_options(kind: Kind, given: Collection[str]) -> None:
    """Refuse options on how to read records, by their names in `Layout`, that are of no use."""
    for name in given:
        if lacking := _lacking(kind, name):
            raise UsageError(
                f"--{name.replace('_', '-')} is of no use to a model of the kind {kind.name!r}, "
                f"which does not learn from {lacking}"
            )


def _lacking(kind: Kind, option: str) -> str | None:
    """What an option is about that a kind of model does not learn from."""
    if option == "classes":
        return None if kind.target == "class" else "classes"
    if option == "label":  # rows without the label are columns of a model without labels too
        return None if kind.target or "rows" in kind.estimators else "labels"
    form = _FORMS_OF_OPTIONS.get(option)
    return None if form is None or form in kind.estimators else _FORMS[form]


def constructor_params(
    estimator: Any, settings: Mapping[str, Any], model: Any = None
) -> dict[str, Any]:
    """Settings of a command line as the estimator's parameters, or a UsageError.

    Fields of options have plain names on a command line: `max_features` is a part of `text`.
    Other fields stay as they are in `model`, if it is the one that gets the parameters.
    """
    name, options = estimator.__name__, getattr(estimator, "_options", {})
    known = estimator().get_params(deep=False) if model is None else model.get_params(deep=False)
    homes = {field.name: home for home, kind in options.items() for field in fields(kind)}
    params = {key: value for key, value in settings.items() if key not in homes}
    for unknown in sorted(set(params) - set(known)):
        if unknown in OPTIONS:
            raise UsageError(f"{name} cannot be given {OPTIONS[unknown]}{_who_has(unknown)}")
        names = ", ".join(sorted({*known, *homes} - set(options)))
        raise UsageError(f"{name} has no parameter {unknown!r}; it has {names}")
    try:
        for home, kind in options.items():
            own = {key: value for key, value in settings.items() if homes.get(key) == home}
            if own:
                whole = kind.of(params.get(home, known[home]), name, home)
                params[home] = replace(whole, **own)
        estimator(**{**known, **params})._check_params()
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error
    return params


def _who_has(parameter: str) -> str:
    """The kinds of models that a parameter is for."""
    kinds = [
        kind.name
        for kind in KINDS.values()
        if any(parameter in kind.estimator(form)().get_params() for form in kind.estimators)
    ]
    return f", which is for the kinds {', '.join(kinds)}" if kinds else ""
