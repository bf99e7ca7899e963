"""Predict new records, one JSON object for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from everlearn.core.arrays import IntVec, Vec
from everlearn.errors import SourceError
from everlearn.io.ledger import Ledger, Progress
from everlearn.io.reader import Reader
from everlearn.io.sources import Source
from everlearn.registry import BY_KEY, imported
from everlearn.stream.models import (
    AxesModel,
    ClustersModel,
    LabelModel,
    MixtureModel,
    TopicsModel,
    TreeModel,
    ValueModel,
    allows_missing,
    allows_texts,
)
from everlearn.stream.prepared import Origin, PreparedBatch, apply_to_good
from everlearn.stream.records import RecordPreparer
from everlearn.stream.session import Session

_MAX_TOPICS: Final = 3
Answer: TypeAlias = dict[str, Any]


def batches_of(
    session: Session, sources: Sequence[Source], *, labelled: bool = False
) -> Iterator[PreparedBatch]:
    """All records of the sources from their start, as the model reads them.

    Files that it has learned from are read as they were then.
    """
    missing, texts = allows_missing(session.model), allows_texts(session.model)
    preparer = RecordPreparer(
        session.layout, lambda _: missing, allows_texts=lambda _: texts, labelled=labelled
    )
    ledger = Ledger({source.key: _start_of(source, session.ledger) for source in sources})
    reader = Reader(sources, ledger, session.layout.batch, preparer, idle=0.2)
    for ready in reader.batches():
        yield ready.prepared


def _start_of(source: Source, ledger: Ledger) -> Progress:
    """The start of a source, with what its first records showed if it was learned from."""
    start = Progress(source.key)
    if not source.rewinds or source.key not in ledger.sources:
        return start
    try:
        known = source.resume(ledger.of(source.key))
    except (OSError, SourceError):  # reading will say what is wrong
        return start
    return replace(start, dialect=known.dialect)


def predictions(session: Session, sources: Sequence[Source]) -> Iterator[Answer]:
    """An answer for each record, with its source and place, or the error of a bad record."""
    model = session.model
    place = BY_KEY[model.checkpoint_key].answers
    if place is None:
        raise TypeError(f"{type(model).__name__} has no answers in the registry")
    answer: Callable[[Any, Any], list[Answer]] = imported(place)
    for batch in batches_of(session, sources):
        answers: dict[Origin, Answer] = {origin: {"error": bad.reason} for origin, bad in batch.bad}
        if len(batch):
            parts, refused = apply_to_good(
                batch, lambda part: zip(part.origins, answer(model, part.X), strict=True)
            )
            answers |= dict(pair for part in parts for pair in part)
            answers |= {origin: {"error": bad.reason} for origin, bad in refused}
        for origin in batch.order:
            source = sources[origin.source]
            yield {"source": source.name, "place": source.where(origin.place), **answers[origin]}


# Each of the following functions answers for some estimators; the registry names them.


def component_answers(model: MixtureModel, X: Any) -> list[Answer]:
    """The likeliest component of each row."""
    proba = model.predict_proba(X)
    best = proba.argmax(axis=1)
    likelihood = model.score_samples(X)
    return [
        {
            "component": int(model.component_ids_[k]),
            "probability": float(p[k]),
            "log_likelihood": float(ll),
        }
        for k, p, ll in zip(best, proba, likelihood, strict=True)
    ]


def cluster_answers(model: ClustersModel, X: Any) -> list[Answer]:
    """The cluster of each row."""
    return [{"cluster": int(cluster)} for cluster in model.predict(X)]


def topic_answers(model: TopicsModel, X: Any) -> list[Answer]:
    """The largest topics of each document."""
    ids = model.component_ids_
    return [{"topics": _largest(ids, shares)} for shares in model.transform(X)]


def _largest(ids: IntVec, shares: Vec) -> list[dict[str, Any]]:
    order = np.argsort(-shares, kind="stable")[:_MAX_TOPICS]
    return [{"id": int(ids[k]), "share": round(float(shares[k]), 6)} for k in order]


def label_answers(model: LabelModel, X: Any) -> list[Answer]:
    """The label of each record and its score, or the list of its labels."""
    labels = model.predict(X)
    if np.ndim(labels) == 2:
        names = np.asarray(model.classes_)
        return [{"label": names[np.flatnonzero(row)].tolist()} for row in labels]
    scores = model.decision_function(X)
    best = np.abs(scores) if np.ndim(scores) == 1 else np.max(scores, axis=1)
    return [
        {"label": str(label), "score": round(float(score), 6)}
        for label, score in zip(labels, best, strict=True)
    ]


def value_answers(model: ValueModel, X: Any) -> list[Answer]:
    """The predicted number of each record."""
    return [{"value": float(value)} for value in model.predict(X)]


def path_answers(model: TreeModel, X: Any) -> list[Answer]:
    """The path of each record through the tree, from the root on."""
    tree = model.tree_
    paths = {node.id: [n.id for n in tree.path(node.id)] for node in tree}
    return [{"path": paths[int(node)]} for node in model.predict(X)]


def coordinate_answers(model: AxesModel, X: Any) -> list[Answer]:
    """The coordinates of each row on the principal axes."""
    likelihood = model.score_samples(X)
    return [
        {"coordinates": [round(float(v), 6) for v in row], "log_likelihood": float(ll)}
        for row, ll in zip(model.transform(X), likelihood, strict=True)
    ]
