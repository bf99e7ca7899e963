"""What a model has found, in the same few words for every kind of model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from everlearn.app.tool.class_topics import weights_of

_WORDS: Final = 8
_NUMBERS: Final = 4


@dataclass(frozen=True, slots=True)
class Part:
    """One component, topic, node or class.

    Attributes
    ----------
    id : permanent number
    share : of the data, from 0 to 1; None where parts do not share the data out
    about : what describes it, best first
    parent : id of the node above it, in a tree
    speaks_for : the class that a topic of a classifier has the largest weight for
    """

    id: int
    share: float | None
    about: tuple[str, ...] = ()
    parent: int | None = None
    speaks_for: str | None = None


def parts_of(model: Any, columns: Sequence[str] | None = None) -> list[Part]:
    """What the model has found, the largest first; in a tree, parents before children.

    `columns` are the names of the columns of rows, if the model does not know them itself.
    """
    if model.checkpoint_key in _OF_ROWS:
        return _OF_ROWS[model.checkpoint_key](model, columns)
    return _PORTRAITS[model.checkpoint_key](model)


def facts_of(model: Any) -> dict[str, int | float]:
    """Numbers that say how large the model is."""
    facts: dict[str, int | float] = {}
    for label, name in _COUNTS.items():
        value = getattr(model, name, None)
        if value is not None:
            facts[label] = int(value)
    bound = getattr(model, "bound_", None)
    if bound is not None:
        facts["bound, nats"] = float(bound)
    return facts


def memory_of(model: Any) -> Mapping[str, int | None]:
    """Bytes by what they are for, if the model keeps such an account."""
    report = getattr(model, "memory_report", None)
    return {} if report is None else report()


_COUNTS: Final = {
    "components": "n_components_",
    "rows seen": "n_rows_seen_",
    "documents seen": "n_documents_seen_",
    "points seen": "n_points_seen_",
    "tokens seen": "n_tokens_seen_",
}


def _by_share(ids: Any, shares: Any, about: Sequence[Sequence[str]]) -> list[Part]:
    order = np.argsort(-np.asarray(shares), kind="stable")
    return [Part(int(ids[k]), float(shares[k]), tuple(about[k])) for k in order]


def _column_names(model: Any, columns: Sequence[str] | None, n_columns: int) -> Sequence[str]:
    names = getattr(model, "feature_names_in_", columns)
    if names is None or len(names) != n_columns:
        return [f"x{j}" for j in range(n_columns)]
    return names


def _gaussian(model: Any, columns: Sequence[str] | None) -> list[Part]:
    means = model.means_
    names = _column_names(model, columns, means.shape[1])
    spread = means.std(axis=0) + np.finfo(float).tiny
    apart = np.abs(means - means.mean(axis=0)) / spread
    about = []
    for k, mean in enumerate(means):
        told = np.argsort(-apart[k], kind="stable")[:_NUMBERS]
        about.append([f"{names[j]}={mean[j]:.4g}" for j in told])
    return _by_share(model.component_ids_, model.weights_, about)


def _topics(model: Any) -> list[Part]:
    words = [[str(word) for word in line] for line in model.top_words(_WORDS)]
    return _by_share(model.component_ids_, model.topic_shares_, words)


def _topics_of_classes(model: Any) -> list[Part]:
    """Topics with the class that each speaks for, if it speaks for any."""
    weights, classes = weights_of(model), [str(name) for name in model.classes_]
    order = np.argsort(-model.topic_shares_, kind="stable")
    named = []
    for part, k in zip(_topics(model), order, strict=True):
        best = int(weights[:, k].argmax())
        named.append(replace(part, speaks_for=classes[best] if weights[best, k] > 0 else None))
    return named


def _tree(model: Any) -> list[Part]:
    tree = model.tree_
    whole = max(tree.root.mass, np.finfo(float).tiny)
    return [Part(n.id, n.mass / whole, n.words[:_WORDS], n.parent) for n in tree]


def _classes(model: Any) -> list[Part]:
    names = getattr(model, "classes_", ["value"])
    return [Part(k, None, (str(name),)) for k, name in enumerate(names)]


def _directions(model: Any, columns: Sequence[str] | None) -> list[Part]:
    """The axes with their shares of the variance, or the members of a mixture with theirs."""
    if model.n_mixtures_ > 1:
        return [Part(k, float(share)) for k, share in enumerate(model.weights_)]
    axes, parts = model.components_, []
    names = _column_names(model, columns, axes.shape[1])
    for k, share in enumerate(model.explained_variance_ratio_):
        told = np.argsort(-np.abs(axes[k]), kind="stable")[:_NUMBERS]
        about = tuple(f"{names[j]}{axes[k, j]:+.2f}" for j in told)
        parts.append(Part(k, float(share), about))
    return parts


_OF_ROWS: Final[Mapping[str, Callable[[Any, Sequence[str] | None], list[Part]]]] = {
    "clumped-topic-model": _gaussian,
    "dp-mixture": _gaussian,
    "online-ppca": _directions,
}
_PORTRAITS: Final[Mapping[str, Callable[[Any], list[Part]]]] = {
    "bayesian-pa-classifier": _classes,
    "bayesian-pa-regressor": _classes,
    "component-tree": _tree,
    "medhdp-classifier": _topics_of_classes,
    "medlda-classifier": _topics_of_classes,
    "medlda-regressor": _topics,
    "topic-model": _topics,
    "topic-tree": _tree,
}
