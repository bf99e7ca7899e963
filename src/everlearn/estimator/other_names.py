"""Names from other libraries, and errors that say what everlearn calls them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from sklearn.exceptions import NotFittedError

Ways: TypeAlias = tuple[tuple[str, str], ...]
"""What to use instead: the first pair counts whose name the class has, and its advice is given.

A name is a parameter, an option, a method or an attribute. The advice "" is "use" and the name.
"""

_NUMBER: Final[Ways] = (
    ("n_topics", ""),
    ("topic_price", "it finds the number; a higher topic_price gives fewer topics"),
    ("max_topics", "it finds the number; use max_topics to limit it"),
    ("max_components", "it finds the number; use max_components to limit it"),
    ("max_nodes", "it finds the number; use max_nodes to limit it, and depth for the levels"),
    ("n_mixtures", ""),
    ("n_clusters", ""),
)
_PASSES: Final[Ways] = (
    ("max_iter", ""),
    ("max_laps", ""),
    ("n_passes", ""),
    ("n_sweeps", ""),
    ("topic_price", "it visits each document once"),
)
_SEED: Final[Ways] = (("random_state", ""),)
_DENSITY: Final[Ways] = (
    ("max_components", "it keeps small clusters if they raise the evidence; see max_components"),
    ("levels_", "look at levels_, and use n_clusters or cut for more or fewer clusters"),
)
_START: Final[Ways] = (("birth_window", "it finds where to begin by itself"),)
_CONCENTRATION: Final[Ways] = (("concentration", ""),)
_WORD_PRIOR: Final[Ways] = (("topic_word_prior", ""),)
_COMPONENT_PRIOR: Final[Ways] = (("prior", "use prior, a mapping; see docs/ask/priors.md"),)
_STEP: Final[Ways] = (
    ("retention", "batches count alike; use retention to let old ones fade"),
    ("step_size", ""),
    ("C", "it has no learning rate; a smaller C learns more slowly"),
)
_PARAMETERS: Final[Mapping[str, Ways]] = {
    "n_components": _NUMBER,
    "n_clusters": _NUMBER,
    "n_topics": _NUMBER,
    "num_topics": _NUMBER,
    "k": _NUMBER,
    "max_iter": _PASSES,
    "n_iter": _PASSES,
    "n_epochs": _PASSES,
    "epochs": _PASSES,
    "passes": _PASSES,
    "n_jobs": (("engine", 'use engine: None takes all cores, "serial" takes one'),),
    "seed": _SEED,
    "random_seed": _SEED,
    "warm_start": (("partial_fit", "use partial_fit to go on learning"),),
    "covariance_type": (
        ("family", 'use family="diagonal" or family="full"'),
        ("n_components", "a covariance has n_components directions and equal noise in the others"),
    ),
    "min_cluster_size": _DENSITY,
    "min_samples": _DENSITY,
    "eps": _DENSITY,
    "init": _START,
    "init_params": _START,
    "init_components": _START,
    "n_init": _START,
    "weight_concentration_prior": _CONCENTRATION,
    "gamma": _CONCENTRATION,
    "reg_covar": _COMPONENT_PRIOR,
    "mean_prior": _COMPONENT_PRIOR,
    "mean_precision_prior": _COMPONENT_PRIOR,
    "covariance_prior": _COMPONENT_PRIOR,
    "degrees_of_freedom_prior": _COMPONENT_PRIOR,
    "alpha": (
        ("n_topics", "use options={'doc_topic_prior': ...}"),
        ("topic_price", "it learns alpha, and reports it as alpha_"),
        ("max_topics", "use options={'concentration': ...}"),
        ("level_prior", ""),
        ("C", "use C, which is larger for less regularization, or variance"),
        ("concentration", ""),
    ),
    "eta": _WORD_PRIOR,
    "beta": _WORD_PRIOR,
    "learning_decay": _STEP,
    "learning_offset": _STEP,
    "learning_rate": _STEP,
    "eta0": _STEP,
    "penalty": (("variance", "use variance, the prior variance of a weight"),),
}
"""Parameters of scikit-learn, gensim and papers."""

_MEANS: Final[Ways] = (("means_", ""), ("topic_shares_", "use components_"))
_LABELS: Final[Ways] = (
    ("predict", "use predict(X)"),
    ("assign", "use assign(X)"),
    ("component_ids_", "use component_ids_[transform(X).argmax(axis=1)]"),
)
_EVIDENCE: Final[Ways] = (("bound_", ""), ("score", "use score(X)"))
_WORDS: Final[Ways] = (("top_words", "use top_words(10)"),)
_SHARES: Final[Ways] = (("transform", "use transform(X)"),)
_ATTRIBUTES: Final[Mapping[str, Ways]] = {
    "labels_": _LABELS,
    "predict": (("n_mixtures", "it needs n_mixtures=2 or more"), *_LABELS),
    "fit_predict": (
        ("n_mixtures", "use fit(X).predict(X), with n_mixtures=2 or more"),
        ("predict", "use fit(X).predict(X)"),
        ("assign", "use fit(X).assign(X)"),
        *_LABELS,
    ),
    "predict_proba": (
        ("n_mixtures", "it needs n_mixtures=2 or more"),
        ("decision_function", 'it needs loss="gibbs"; with other losses use decision_function'),
        ("coef_variance_", "use predict(X, return_std=True)"),
        ("epsilon", "it predicts numbers; use predict(X)"),
        *_SHARES,
    ),
    "predict_log_proba": (("predict_proba", "use numpy.log(predict_proba(X))"),),
    "decision_function": (("score_samples", "use score_samples(X)"),),
    "score_samples": (("score", "use score(X)"),),
    "cluster_centers_": _MEANS,
    "components_": (("means_", ""), ("coef_", "")),
    "n_clusters_": (("n_components_", ""),),
    "n_topics_": (("n_components_", ""),),
    "n_features_": (("fit", "use n_features_in_"),),
    "topics_": (("components_", ""), ("means_", "")),
    "print_topics": _WORDS,
    "show_topics": _WORDS,
    "show_topic": _WORDS,
    "get_topics": (("components_", ""),),
    "topic_word_": (("components_", ""),),
    "weights_": (("topic_shares_", ""), ("coef_", "")),
    "precisions_": (("covariances_", "use numpy.linalg.inv(covariances_)"), ("get_precision", "")),
    "covariances_": (("get_covariance", "use get_covariance()"),),
    "singular_values_": (("explained_variance_", ""),),
    "lower_bound_": _EVIDENCE,
    "inertia_": _EVIDENCE,
    "bic": _EVIDENCE,
    "aic": _EVIDENCE,
    "perplexity": (("score", "use score(X)"),),
    "n_iter_": (("history_", ""),),
    "load": (("save", "use everlearn.load(path)"),),
}
"""Attributes and methods of scikit-learn and papers."""


class NameAdvice:
    """A misspelt or foreign name raises an error that says what the estimator has instead."""

    def __new__(cls, *args: Any, **params: Any) -> Self:
        """A blank estimator, if `__init__` takes these arguments."""
        known = list(inspect.signature(cls.__init__).parameters.values())[1:]
        by_place = sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in known)
        if len(args) > by_place:
            own = [p.name for p in known]
            few = ", ".join(f"{name}=..." for name in own[by_place : by_place + 2])
            raise TypeError(
                f"{cls.__name__} takes its parameters by name, such as {cls.__name__}({few}). Got "
                f"{', '.join(f'{value!r:.40}' for value in args[by_place:])} without a name."
            )
        for name in params:
            if message := unknown_parameter(cls, name):
                raise TypeError(message)
        return super().__new__(cls)

    def set_params(self, **params: Any) -> Self:
        """Change parameters; if a name is wrong, nothing changes.

        Parameters
        ----------
        **params : dict
            Names and values.

        Returns
        -------
        self
            The estimator.
        """
        for name in params:
            if message := unknown_parameter(type(self), name):
                raise ValueError(message)
        return super().set_params(**params)  # type: ignore[misc, no-any-return]

    if not TYPE_CHECKING:  # otherwise type checkers would accept every misspelt name

        def __getattr__(self, name: str) -> Any:
            """For names that cannot be found: raise the same error again, or a better one."""
            try:
                return object.__getattribute__(self, name)
            except NotFittedError:
                raise
            except AttributeError as error:
                advice = _advice(type(self), _ATTRIBUTES.get(name, ()), skip=name)
                if advice is None or "has no attribute" not in str(error):
                    raise
                message = f"{type(self).__name__} has no {name}: {advice}"
                raise AttributeError(message, name=name, obj=self) from error


@cache
def own_parameters(cls: type) -> tuple[str, ...]:
    """Names of the parameters of a class."""
    return tuple(inspect.signature(cls.__init__).parameters)[1:]  # type: ignore[misc]


def unknown_parameter(cls: type, name: str) -> str | None:
    """What is wrong with the name of a parameter, and what to use; None if it is right."""
    own, options = own_parameters(cls), _options(cls)
    head, _, rest = name.partition("__")
    if head in own and not (rest and head in options):
        return None
    owner = cls.__name__
    if rest and head in options:
        return f"{owner} has no {name}: use {head}={{{rest!r}: ...}}"
    advice = _advice(cls, ((name, ""), *_PARAMETERS.get(name, ())))
    if advice is None and (close := get_close_matches(name, [*own, *_fields(options)], 1, 0.75)):
        advice = f"did you mean {_used(close[0], options)}?"
    return f"{owner} has no {name}: {advice or 'its parameters are ' + ', '.join(own)}"


def _advice(cls: type, ways: Ways, skip: str | None = None) -> str | None:
    """The advice of the first way whose name the class has."""
    options = _options(cls)
    known = {*own_parameters(cls), *_fields(options)}
    for name, advice in ways:
        if name != skip and (name in known or hasattr(cls, name)):
            return advice or f"use {_used(name, options)}"
    return None


def _options(cls: type) -> Mapping[str, Any]:
    """The parameters that hold options, and their classes."""
    found: Mapping[str, Any] = getattr(cls, "_options", {})
    return found


def _fields(options: Mapping[str, Any]) -> Iterable[str]:
    return [field.name for kind in options.values() for field in fields(kind)]


def _used(name: str, options: Mapping[str, Any]) -> str:
    """How a parameter or an option is written."""
    for parameter, kind in options.items():
        if name in (field.name for field in fields(kind)):
            return f"{parameter}={{{name!r}: ...}}"
    return name
