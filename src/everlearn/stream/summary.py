"""Summarize a model in a few lines: its parts, its size and its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.text import megabytes
from everlearn.estimator.tree_view import FittedTree
from everlearn.registry import BY_KEY, imported
from everlearn.stream.class_topics import weights_of
from everlearn.stream.models import (
    AxesModel,
    ClassTopicsModel,
    GaussianModel,
    LinearModel,
    StreamModel,
    TableModel,
    TopicsModel,
    TreeModel,
    has_bound,
    has_classes,
    has_component_loadings,
    has_components,
    has_memory_report,
    has_points,
    has_scores,
    has_tokens,
    has_tree,
)

_MAX_WORDS: Final = 8
_MAX_COLUMNS: Final = 4
_VISIBLE: Final = 0.01
"""Weights below this fraction of the largest one are not shown."""


@dataclass(frozen=True, slots=True)
class Part:
    """One component, topic, node, axis or class.

    Attributes
    ----------
    id : number, which is permanent if `has_permanent_ids`
    share : share of the data from 0 to 1; None for linear scores
    about : what describes it, best first
    parent : id of the node above it in a tree
    speaks_for : the class for which it has the most weight, in a classifier
    """

    id: int
    share: float | None
    about: tuple[str, ...] = ()
    parent: int | None = None
    speaks_for: str | None = None


Columns: TypeAlias = Sequence[str] | None
"""Names of the columns of rows, if they are known."""


def parts_of(model: StreamModel, columns: Columns = None) -> list[Part]:
    """What the model has found, the largest first; in a tree, parents before children.

    `columns` are the names of the columns of rows, if the model does not know them itself.
    """
    place = BY_KEY[model.checkpoint_key].parts
    if place is None:
        raise TypeError(f"{type(model).__name__} has no parts in the registry")
    parts: Callable[[StreamModel, Columns], list[Part]] = imported(place)
    return parts(model, columns)


def has_permanent_ids(model: StreamModel) -> bool:
    """Whether the ids of parts mean the same in every state of the model."""
    return has_components(model)


def tree_of(model: StreamModel, columns: Columns = None) -> FittedTree | None:
    """The tree of the model, if it is one; nodes of rows are described by their loadings."""
    if not has_tree(model):
        return None
    tree = model.tree_
    if not has_component_loadings(model):
        return tree
    about = _largest_weights(model.components_, model, columns)
    words = dict(zip(model.component_ids_.tolist(), about, strict=True))
    return FittedTree(tuple(replace(node, words=words[node.id]) for node in tree))


def columns_of(model: StreamModel) -> dict[str, str]:
    """How each column of a table is learned; empty for models of other records."""
    found = getattr(model, "columns_", ())
    return {column.name: str(column) for column in found}


def scores_of(model: StreamModel) -> dict[str, Vec] | None:
    """Weights of the columns by class, or by "value"; None if the model has no linear scores."""
    if not has_scores(model):
        return None
    weights = np.atleast_2d(model.coef_)
    names = [str(name) for name in model.classes_] if has_classes(model) else []
    if len(names) == 2 and len(weights) == 1:  # one score for two classes
        weights = np.concatenate([-weights, weights])
    if not names:
        names = ["value"] if len(weights) == 1 else [f"value {k}" for k in range(len(weights))]
    return dict(zip(names, weights, strict=True))


def facts_of(model: StreamModel) -> dict[str, int | float]:
    """Numbers that say how large the model is, by their names."""
    samples = "rows" if BY_KEY[model.checkpoint_key].form == "rows" else "documents"
    facts: dict[str, int | float] = {}
    if has_components(model):
        facts["components"] = int(model.n_components_)
    facts[f"{samples} seen"] = int(model.n_samples_seen_)
    if has_points(model):
        facts["points seen"] = int(model.n_points_seen_)
    if has_tokens(model):
        facts["tokens seen"] = int(model.n_tokens_seen_)
    if has_bound(model):
        facts["bound, nats"] = float(model.bound_)
    return facts


def memory_of(model: StreamModel) -> Mapping[str, int | None]:
    """Bytes by purpose, from the model's own report; empty if it has none."""
    return model.memory_report() if has_memory_report(model) else {}


def told_size(name: str, value: int) -> str:
    """An entry of a memory report as people read it: bytes, or a count."""
    return f"{value:,}" if name.startswith(("n_", "max_", "window_")) else megabytes(value)


def column_names(model: StreamModel, columns: Columns, n_columns: int) -> Sequence[str]:
    """Names of the columns of a model: its own, those given, or "x0", "x1" and so on."""
    # scikit-learn's convention: the attribute is there if the model has seen names.
    names = getattr(model, "feature_names_in_", columns)
    if names is None or len(names) != n_columns:
        names = [str(j) for j in range(n_columns)]
    if all(name.isdecimal() for name in names):  # "x3=0.5" reads better than "3=0.5"
        return [f"x{name}" for name in names]
    return list(names)


# Each of the following functions lists the parts of some estimators; the registry names them.


def gaussian_parts(model: GaussianModel, columns: Columns) -> list[Part]:
    """Components, described by the columns in which they differ most from the others."""
    means = model.means_
    names = column_names(model, columns, means.shape[1])
    spread = means.std(axis=0) + np.finfo(float).tiny
    distance = np.abs(means - means.mean(axis=0)) / spread
    about = []
    for k, mean in enumerate(means):
        order = np.argsort(-distance[k], kind="stable")[:_MAX_COLUMNS]
        about.append([f"{names[j]}={mean[j]:.4g}" for j in order])
    return _by_share(model.component_ids_, model.weights_, about)


def mixture_parts(model: TableModel, columns: Columns) -> list[Part]:
    """Components of a mixture. Those of a table are described by the columns that differ most."""
    if not model.columns_:
        return gaussian_parts(model, columns)
    profiles, about = model.profiles(), []
    for component in model.component_ids_.tolist():
        own = [str(one) for one in profiles if one.component == component]
        about.append(own[:_MAX_COLUMNS])
    return _by_share(model.component_ids_, model.weights_, about)


def topic_parts(model: TopicsModel, columns: Columns) -> list[Part]:
    """Topics, described by their top words."""
    words = [[str(word) for word in line] for line in model.top_words(_MAX_WORDS)]
    return _by_share(model.component_ids_, model.topic_shares_, words)


def class_topic_parts(model: ClassTopicsModel, columns: Columns) -> list[Part]:
    """Topics with the class that each speaks for, if its weight is positive for any."""
    weights, classes = weights_of(model), [str(name) for name in model.classes_]
    order = np.argsort(-model.topic_shares_, kind="stable")
    named = []
    for part, k in zip(topic_parts(model, columns), order, strict=True):
        best = int(weights[:, k].argmax())
        named.append(replace(part, speaks_for=classes[best] if weights[best, k] > 0 else None))
    return named


def tree_parts(model: TreeModel, columns: Columns) -> list[Part]:
    """Nodes of a tree."""
    tree = tree_of(model, columns) or model.tree_
    whole = max(tree.root.mass, np.finfo(float).tiny)
    return [Part(n.id, n.mass / whole, n.words[:_MAX_WORDS], n.parent) for n in tree]


def score_parts(model: LinearModel, columns: Columns) -> list[Part]:
    """Linear scores: which columns speak for each class, or for a large value."""
    scores = scores_of(model) or {}
    about = _largest_weights(np.array(list(scores.values())), model, columns)
    return [
        Part(k, None, described, speaks_for=name)
        for k, (name, described) in enumerate(zip(scores, about, strict=True))
    ]


def axis_parts(model: AxesModel, columns: Columns) -> list[Part]:
    """Principal axes with their shares of the variance, or members of a mixture with theirs."""
    if model.n_mixtures_ > 1:
        return [Part(k, float(share)) for k, share in enumerate(model.weights_)]
    about = _largest_weights(model.components_, model, columns)
    shares = model.explained_variance_ratio_
    return [
        Part(k, float(share), described)
        for k, (share, described) in enumerate(zip(shares, about, strict=True))
    ]


def _by_share(ids: IntVec, shares: Vec, about: Sequence[Sequence[str]]) -> list[Part]:
    order = np.argsort(-np.asarray(shares), kind="stable")
    return [Part(int(ids[k]), float(shares[k]), tuple(about[k])) for k in order]


def _largest_weights(weights: Mat, model: StreamModel, columns: Columns) -> list[tuple[str, ...]]:
    """The columns with the largest weights in each line of a table, with these weights."""
    names = column_names(model, columns, weights.shape[1])
    order = np.argsort(-np.abs(weights), axis=1, kind="stable")[:, :_MAX_COLUMNS]
    largest = float(np.abs(weights).max(initial=0.0))
    form = "+.2f" if 0.5 <= largest < 1e4 else "+.2g"
    return [
        tuple(f"{names[j]}{line[j]:{form}}" for j in top if abs(line[j]) > _VISIBLE * largest)
        for line, top in zip(weights, order, strict=True)
    ]
