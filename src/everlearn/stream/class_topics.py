"""The topics of each class while documents come, as the run log keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from everlearn.core.arrays import IntVec, Mat

CLASSIFIERS: Final = ("medhdp-classifier", "medlda-classifier")
"""Checkpoint keys of the models that have both classes and topics."""
LEAST: Final = 0.02
"""Smaller shares of a topic are not kept."""
_WORDS: Final = 5
_STAGES: Final = 3


@dataclass(frozen=True, slots=True)
class ClassTopics:
    """Average topics of some documents of a class.

    n_documents : how many
    shares : of the topics, by their permanent numbers
    words : top words that the largest of these topics had then
    """

    n_documents: int
    shares: Mapping[int, float]
    words: tuple[str, ...]

    @property
    def largest(self) -> int | None:
        """The topic with the largest share."""
        return max(self.shares, key=self.shares.__getitem__, default=None)


@dataclass(frozen=True, slots=True)
class Stage:
    """Topics of the classes in batches that were not learned yet.

    first, last : records that were known before the first and before the last of these batches
    classes : by name
    """

    first: int
    last: int
    classes: Mapping[str, ClassTopics]


def has_class_topics(model: Any) -> bool:
    """Whether the model has both classes and topics."""
    return model.checkpoint_key in CLASSIFIERS


def columns_of(model: Any) -> list[IntVec]:
    """Which columns of `transform` are topics of each class: all, unless each has its own."""
    names = model.get_feature_names_out()
    found = []
    for q in range(len(model.classes_)):
        own = [k for k, name in enumerate(names) if name.startswith(f"task{q}_")]
        found.append(np.array(own or range(len(names))))
    return found


def weights_of(model: Any) -> Mat:
    """Weights of the topics for each class, (n_classes, n_topics), also if there are two."""
    weights = model.coef_
    return np.concatenate([-weights, weights]) if len(weights) == 1 else np.asarray(weights)


def class_topics(model: Any, X: Any, y: Any, n_known: int) -> dict[str, Any]:
    """An entry for the run log: average topics of each class in a batch that is not learned yet.

    Empty for other models, before the first of `n_known` records, and if the model cannot take all
    of the batch. Labels say whose topics these are, not what they are.
    """
    if not n_known or not has_class_topics(model):
        return {}
    try:
        shares = model.transform(X)
    except ValueError:
        return {}
    classes, ids, words = model.classes_, model.component_ids_, model.top_words(_WORDS)
    y = np.asarray(y)
    member = y > 0 if y.ndim == 2 else y[:, None] == classes
    told = {}
    for name, rows, columns in zip(classes, member.T, columns_of(model), strict=True):
        if not rows.any():
            continue
        mean = shares[rows][:, columns].mean(axis=0)
        order = [k for k in np.argsort(-mean, kind="stable") if mean[k] >= LEAST]
        told[str(name)] = {
            "n": int(rows.sum()),
            "topics": {str(ids[columns[k]]): round(float(mean[k]), 3) for k in order},
            "words": [str(word) for k in order[:1] for word in words[columns[k]]],
        }
    return {"class_topics": {"records": n_known, "classes": told}} if told else {}


def stages(log: Sequence[Mapping[str, Any]]) -> list[Stage]:
    """Beginning, middle and end of what a run log tells of classes; nothing if it does not.

    The beginning is the first batch that tells of them. The others take in batches of the second
    half of the records up to there, so that there are enough documents of each class.
    """
    lines = [line["class_topics"] for line in log if line.get("class_topics")]
    if not lines:
        return []
    records = np.array([line["records"] for line in lines], dtype=np.float64)
    marks = np.geomspace(records[0], records[-1], _STAGES)
    ends = sorted({int(np.abs(np.log(records / mark)).argmin()) for mark in marks})
    found, begin = [], 0
    for end in ends:
        first = max(begin, int(np.searchsorted(records, records[end] / 2.0, side="right")))
        found.append(_pooled(lines[first : end + 1]))
        begin = end + 1
    return found


def _pooled(lines: Sequence[Mapping[str, Any]]) -> Stage:
    names = sorted({name for line in lines for name in line["classes"]})
    classes = {}
    for name in names:
        told = [line["classes"][name] for line in lines if name in line["classes"]]
        n = sum(one["n"] for one in told)
        shares: dict[int, float] = {}
        for one in told:
            for topic, share in one["topics"].items():
                shares[int(topic)] = shares.get(int(topic), 0.0) + share * one["n"] / n
        classes[name] = ClassTopics(n, shares, tuple(told[-1]["words"]))
    return Stage(int(lines[0]["records"]), int(lines[-1]["records"]), classes)
