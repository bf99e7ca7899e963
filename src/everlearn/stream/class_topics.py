"""The topics of each class during learning: written to the run log, and read from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from everlearn.core.arrays import IntVec, Mat
from everlearn.stream.models import ClassTopicsModel, StreamModel, has_class_topics

LEAST: Final = 0.02
"""The log leaves out topics with a smaller share."""
_WORDS: Final = 5
_STAGES: Final = 3


@dataclass(frozen=True, slots=True)
class ClassTopics:
    """Average topics of some documents of a class.

    Attributes
    ----------
    n_documents : number of documents
    shares : shares of the topics by their permanent ids
    words : top words of the largest topic at that time
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
    """Topics of the classes in some batches, before these were learned.

    Attributes
    ----------
    first, last : records learned before the first and before the last of the batches
    classes : topics by the name of the class
    """

    first: int
    last: int
    classes: Mapping[str, ClassTopics]


def columns_of(model: ClassTopicsModel) -> list[IntVec]:
    """Which columns of `transform` are topics of each class: all, unless each has its own."""
    names = model.get_feature_names_out()
    found = []
    for q in range(len(model.classes_)):
        own = [k for k, name in enumerate(names) if name.startswith(f"task{q}_")]
        found.append(np.array(own or range(len(names))))
    return found


def weights_of(model: ClassTopicsModel) -> Mat:
    """Weights of the topics for each class, (n_classes, n_topics), also for two classes."""
    weights = model.coef_
    return np.concatenate([-weights, weights]) if len(weights) == 1 else np.asarray(weights)


def class_topics(model: StreamModel, X: Any, y: Any, n_known: int) -> dict[str, Any]:
    """An entry for the run log: average topics of each class in a batch not learned yet.

    Empty for models without classes and topics, before the first record (`n_known` is 0), and if
    the model refuses part of the batch.
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
    found = {}
    for name, rows, columns in zip(classes, member.T, columns_of(model), strict=True):
        if not rows.any():
            continue
        mean = shares[rows][:, columns].mean(axis=0)
        order = [k for k in np.argsort(-mean, kind="stable") if mean[k] >= LEAST]
        found[str(name)] = {
            "n": int(rows.sum()),
            "topics": {str(ids[columns[k]]): round(float(mean[k]), 3) for k in order},
            "words": [str(word) for k in order[:1] for word in words[columns[k]]],
        }
    return {"class_topics": {"records": n_known, "classes": found}} if found else {}


def stages(log: Sequence[Mapping[str, Any]]) -> list[Stage]:
    """Topics of the classes at the beginning, middle and end of a run log, if it has any.

    The first stage is one batch. A later one pools the batches of the second half of the records
    up to its end, so that there are enough documents of each class.
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
        found.append(_pool(lines[first : end + 1]))
        begin = end + 1
    return found


def _pool(lines: Sequence[Mapping[str, Any]]) -> Stage:
    names = sorted({name for line in lines for name in line["classes"]})
    classes = {}
    for name in names:
        entries = [line["classes"][name] for line in lines if name in line["classes"]]
        n = sum(entry["n"] for entry in entries)
        shares: dict[int, float] = {}
        for entry in entries:
            for topic, share in entry["topics"].items():
                shares[int(topic)] = shares.get(int(topic), 0.0) + share * entry["n"] / n
        classes[name] = ClassTopics(n, shares, tuple(entries[-1]["words"]))
    return Stage(int(lines[0]["records"]), int(lines[-1]["records"]), classes)
