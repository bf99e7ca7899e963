"""The kinds of models that can learn a stream, and checks of the options given for one."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from everlearn.errors import UsageError
from everlearn.registry import ESTIMATORS, Entry, Form, Target
from everlearn.stream.models import StreamModel


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of model: its estimator for each form of record, and what it learns beside a record.

    `target` is "class" for a classifier, "number" for a regressor, None for models without labels.
    """

    name: str
    estimators: Mapping[Form, Entry]
    target: Target | None = None

    def estimator(self, form: Form) -> type[StreamModel]:
        """The class of the estimator for records of this form."""
        if form not in self.estimators:
            wanted = " or ".join(FORM_NAMES[f] for f in self.estimators)
            raise UsageError(
                f"kind {self.name!r} learns from {wanted}, but the records are {FORM_NAMES[form]}"
            )
        estimator: type[StreamModel] = self.estimators[form].estimator()
        return estimator


FORM_NAMES: Final[Mapping[Form, str]] = {
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
_FORM_OF_OPTION: Final[Mapping[str, Form]] = {
    "text": "documents",
    "columns": "rows",
    "decimal": "rows",
    "image_side": "points",
}


_OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "clusters": ("cluster", "clustering", "kmeans", "hdbscan", "groups"),
    "mixture": ("gmm", "density", "anomalies", "outliers"),
    "topics": ("topic", "lda", "texts", "words"),
    "tree": ("hierarchy", "hlda"),
    "classifier": ("classify", "classification", "labels", "svm", "logistic"),
    "regressor": ("regression", "regress", "predict", "linear"),
    "clumped": ("images", "image", "pixels", "points"),
    "ppca": ("pca", "svd", "reduce"),
}
"""Words that people know kinds by."""


def check_kind(name: str) -> None:
    """Refuse an unknown kind of model, and suggest the closest known one."""
    if name in KINDS:
        return
    meant = [kind for kind, words in _OTHER_NAMES.items() if name.lower() in words]
    meant = meant or difflib.get_close_matches(name.lower(), KINDS, 1)
    what_to_do = f"did you mean {meant[0]}?" if meant else f"choose from {', '.join(KINDS)}"
    raise UsageError(f"unknown kind {name!r}; {what_to_do}")


def check_layout_options(kind: Kind, names: Collection[str]) -> None:
    """Refuse options on how to read records that the kind has no use for.

    `names` are fields of `Layout` that were given.
    """
    for name in names:
        if unused := _unused(kind, name):
            raise UsageError(
                f"option {name.replace('_', '-')!r} does not apply to kind {kind.name!r}, which "
                f"does not learn from {unused}"
            )


def _unused(kind: Kind, option: str) -> str | None:
    """What the option is about, if the kind does not learn from that."""
    if option == "classes":
        return None if kind.target == "class" else "classes"
    if option == "label":  # models of rows without labels still leave out the label's column
        return None if kind.target or "rows" in kind.estimators else "labels"
    form = _FORM_OF_OPTION.get(option)
    return None if form is None or form in kind.estimators else FORM_NAMES[form]


def check_params_fit_kind(kind: Kind, params: Mapping[str, Any]) -> None:
    """Refuse parameters that no estimator of the kind has, before any record is read."""
    refusals = []
    for form in kind.estimators:
        try:
            constructor_params(kind.estimator(form), params)
        except UsageError as error:
            refusals.append(error)
    if len(refusals) == len(kind.estimators):
        raise refusals[0]


def constructor_params(
    estimator: type[StreamModel], settings: Mapping[str, Any], model: StreamModel | None = None
) -> dict[str, Any]:
    """Settings as parameters of an estimator, or a UsageError that says what is wrong.

    Parameters
    ----------
    estimator : class of the estimator
    settings : values by name; fields of options have plain names, as `max_features` of `text`
    model : the model that gets the parameters; fields that `settings` do not name stay as in it
    """
    name, options = estimator.__name__, estimator._options
    known = (estimator() if model is None else model).get_params(deep=False)
    homes = {field.name: home for home, kind in options.items() for field in fields(kind)}
    params = {key: value for key, value in settings.items() if key not in homes}
    for unknown in sorted(set(params) - set(known)):
        if owners := _kinds_with(unknown):
            raise UsageError(
                f"{name} has no parameter {unknown!r}, which is for the kinds {', '.join(owners)}"
            )
        names = ", ".join(sorted({*known, *homes} - set(options)))
        raise UsageError(f"{name} has no parameter {unknown!r}; choose from {names}")
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


def _kinds_with(parameter: str) -> list[str]:
    """The kinds that have a parameter."""
    return [
        kind.name
        for kind in KINDS.values()
        if any(parameter in kind.estimator(form)().get_params() for form in kind.estimators)
    ]
