"""What a model says about new records, one JSON object each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from everlearn.io.ledger import Ledger
from everlearn.io.reader import Reader
from everlearn.io.sources import Source
from everlearn.stream.prepared import Origin, Prepared, by_halves
from everlearn.stream.records import RecordPreparer
from everlearn.stream.session import Session

_TOP: Final = 3
Answer = dict[str, Any]


def batches_of(
    session: Session, sources: Sequence[Source], *, labelled: bool = False
) -> Iterator[Prepared]:
    """All records of the sources as the model reads them, from their start."""
    missing = bool(session.model.__sklearn_tags__().input_tags.allow_nan)
    preparer = RecordPreparer(session.layout, lambda _: missing, labelled=labelled)
    reader = Reader(sources, Ledger(), session.layout.batch, preparer, idle=0.2)
    for arrived in reader.batches():
        yield arrived.prepared


def predictions(session: Session, sources: Sequence[Source]) -> Iterator[Answer]:
    """For each record where it came from, and what the model says about it or is wrong with it."""
    say = _SAYINGS[session.model.checkpoint_key]
    for batch in batches_of(session, sources):
        answers: dict[Origin, Answer] = {origin: {"error": bad.reason} for origin, bad in batch.bad}
        if len(batch):
            parts, refused = by_halves(
                batch, lambda part: zip(part.origins, say(session.model, part.X), strict=True)
            )
            answers |= dict(pair for part in parts for pair in part)
            answers |= {origin: {"error": bad.reason} for origin, bad in refused}
        for origin in batch.order:
            source = sources[origin.source]
            yield {"source": source.name, "place": source.where(origin.place), **answers[origin]}


def _mixture(model: Any, X: Any) -> list[Answer]:
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


def _topics(model: Any, X: Any) -> list[Answer]:
    return [{"topics": _largest(model.component_ids_, row)} for row in model.transform(X)]


def _largest(ids: Any, shares: Any) -> list[dict[str, Any]]:
    order = np.argsort(-shares, kind="stable")[:_TOP]
    return [{"id": int(ids[k]), "share": round(float(shares[k]), 6)} for k in order]


def _classifier(model: Any, X: Any) -> list[Answer]:
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


def _regressor(model: Any, X: Any) -> list[Answer]:
    return [{"value": float(value)} for value in model.predict(X)]


def _path(model: Any, X: Any) -> list[Answer]:
    paths = {node.id: [n.id for n in model.tree_.path(node.id)] for node in model.tree_}
    return [{"path": paths[int(node)]} for node in model.predict(X)]


def _coordinates(model: Any, X: Any) -> list[Answer]:
    likelihood = model.score_samples(X)
    return [
        {"coordinates": [round(float(v), 6) for v in row], "log_likelihood": float(ll)}
        for row, ll in zip(model.transform(X), likelihood, strict=True)
    ]


_SAYINGS: Final[Mapping[str, Callable[[Any, Any], list[Answer]]]] = {
    "bayesian-pa-classifier": _classifier,
    "bayesian-pa-regressor": _regressor,
    "clumped-topic-model": _topics,
    "component-tree": _path,
    "dp-mixture": _mixture,
    "medhdp-classifier": _classifier,
    "medlda-classifier": _classifier,
    "medlda-regressor": _regressor,
    "online-ppca": _coordinates,
    "topic-model": _topics,
    "topic-tree": _path,
}
