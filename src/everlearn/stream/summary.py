"""What a batch did to a model, for its line of the run log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np

from everlearn.core.arrays import IntVec, Mat
from everlearn.core.text import megabytes
from everlearn.estimator.tree_view import FittedTree
from everlearn.registry import BY_KEY
from everlearn.stream.class_topics import weights_of


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Ids of a model's components, and moves that it has accepted so far, as far as it tells."""

    ids: IntVec
    n_moves: int

    @classmethod
    def of(cls, model: Any) -> Self:
        """As it is now."""
        counts = getattr(getattr(model, "history_", None), "counts", {})
        n_moves = sum(n for name, n in counts.items() if name.endswith("accepted"))
        return cls(np.asarray(getattr(model, "component_ids_", ()), np.int64), n_moves)

    def changes(self, model: Any) -> dict[str, Any]:
        """Components that have come and gone since, and the moves that did it."""
        now, line = Standing.of(model), {}
        if not np.array_equal(self.ids, now.ids):
            born, gone = np.setdiff1d(now.ids, self.ids), np.setdiff1d(self.ids, now.ids)
            line = {"born": born.tolist()} if len(born) else {}
            line |= {"gone": gone.tolist()} if len(gone) else {}
        if new := now.n_moves - self.n_moves:
            line["moves"] = [
                {"kind": m.kind, "removed": list(m.removed), "added": list(m.added), "gain": m.gain}
                for m in model.history_.moves[-new:]
            ]
        return line


_WORDS: Final = 8
_NUMBERS: Final = 4
_SEEN: Final = 0.01
"""Weights below this part of the largest one are not worth telling."""


@dataclass(frozen=True, slots=True)
class Part:
    """One component, topic, node or class.

    Attributes
    ----------
    id : number, which is permanent if `has_permanent_ids`
    share : of the data, from 0 to 1; None where parts do not share the data out
    about : what describes it, best first
    parent : id of the node above it, in a tree
    speaks_for : the class that a topic of a classifier, or a linear score, has most weight for
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


def has_permanent_ids(model: Any) -> bool:
    """Whether the numbers of parts mean the same in every state of the model."""
    return hasattr(model, "component_ids_") or hasattr(model, "tree_")


def tree_of(model: Any, columns: Sequence[str] | None = None) -> FittedTree | None:
    """The model's tree, if it is one; nodes of rows have no words, but their loadings."""
    tree: FittedTree | None = getattr(model, "tree_", None)
    if tree is None or model.checkpoint_key != "component-tree":
        return tree
    told = _largest(model.components_, model, columns)
    words = dict(zip(model.component_ids_.tolist(), told, strict=True))
    return FittedTree(tuple(replace(node, words=words[node.id]) for node in tree))


def scores_of(model: Any) -> dict[str, Any] | None:
    """Weights of the columns by class, or by "value"; None if the model has no linear scores."""
    if model.checkpoint_key not in _LINEAR:
        return None
    weights = np.atleast_2d(model.coef_)
    names = [str(name) for name in getattr(model, "classes_", ())]
    if len(names) == 2 and len(weights) == 1:  # one score that tells two classes
        weights = np.concatenate([-weights, weights])
    if not names:
        names = ["value"] if len(weights) == 1 else [f"value {k}" for k in range(len(weights))]
    return dict(zip(names, weights, strict=True))


def facts_of(model: Any) -> dict[str, int | float]:
    """Numbers that say how large the model is."""
    samples = "rows" if BY_KEY[model.checkpoint_key].form == "rows" else "documents"
    counts = {
        "components": "n_components_",
        f"{samples} seen": "n_samples_seen_",
        "points seen": "n_points_seen_",
        "tokens seen": "n_tokens_seen_",
    }
    facts: dict[str, int | float] = {}
    for label, name in counts.items():
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


def told_size(name: str, value: int) -> str:
    """An entry of a model's account of its memory: bytes, or a count."""
    return f"{value:,}" if name.startswith(("n_", "max_", "window_")) else megabytes(value)


_LINEAR: Final = frozenset({"bayesian-pa-classifier", "bayesian-pa-regressor"})


def _by_share(ids: Any, shares: Any, about: Sequence[Sequence[str]]) -> list[Part]:
    order = np.argsort(-np.asarray(shares), kind="stable")
    return [Part(int(ids[k]), float(shares[k]), tuple(about[k])) for k in order]


def _column_names(model: Any, columns: Sequence[str] | None, n_columns: int) -> Sequence[str]:
    names = getattr(model, "feature_names_in_", columns)
    if names is None or len(names) != n_columns:
        names = [str(j) for j in range(n_columns)]
    if all(name.isdecimal() for name in names):  # beside its value, a number is no name
        return [f"x{name}" for name in names]
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


def _largest(weights: Mat, model: Any, columns: Sequence[str] | None) -> list[tuple[str, ...]]:
    """The columns of largest weight of each line of a table, with weights that can be seen."""
    names = _column_names(model, columns, weights.shape[1])
    order = np.argsort(-np.abs(weights), axis=1, kind="stable")[:, :_NUMBERS]
    largest = float(np.abs(weights).max(initial=0.0))
    form = "+.2f" if 0.5 <= largest < 1e4 else "+.2g"
    return [
        tuple(f"{names[j]}{line[j]:{form}}" for j in told if abs(line[j]) > _SEEN * largest)
        for line, told in zip(weights, order, strict=True)
    ]


def _tree(model: Any, columns: Sequence[str] | None) -> list[Part]:
    tree = tree_of(model, columns) or model.tree_
    whole = max(tree.root.mass, np.finfo(float).tiny)
    return [Part(n.id, n.mass / whole, n.words[:_WORDS], n.parent) for n in tree]


def _classes(model: Any, columns: Sequence[str] | None) -> list[Part]:
    """Linear scores: what speaks for each class, and for a large value."""
    scores = scores_of(model) or {}
    told = _largest(np.array(list(scores.values())), model, columns)
    return [
        Part(k, None, about, speaks_for=name)
        for k, (name, about) in enumerate(zip(scores, told, strict=True))
    ]


def _directions(model: Any, columns: Sequence[str] | None) -> list[Part]:
    """The axes with their shares of the variance, or the members of a mixture with theirs."""
    if model.n_mixtures_ > 1:
        return [Part(k, float(share)) for k, share in enumerate(model.weights_)]
    told = _largest(model.components_, model, columns)
    shares = enumerate(model.explained_variance_ratio_)
    return [Part(k, float(share), about) for (k, share), about in zip(shares, told, strict=True)]


_OF_ROWS: Final[Mapping[str, Callable[[Any, Sequence[str] | None], list[Part]]]] = {
    "bayesian-pa-classifier": _classes,
    "bayesian-pa-regressor": _classes,
    "clumped-topic-model": _gaussian,
    "component-tree": _tree,
    "dp-mixture": _gaussian,
    "online-ppca": _directions,
    "topic-tree": _tree,
}
_PORTRAITS: Final[Mapping[str, Callable[[Any], list[Part]]]] = {
    "medhdp-classifier": _topics_of_classes,
    "medlda-classifier": _topics_of_classes,
    "medlda-regressor": _topics,
    "topic-model": _topics,
}
