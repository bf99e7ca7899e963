"""Records that are typical of the parts of a model, read again from its sources.

A model keeps no records, so the examples come from the files that it has learned from, as far as
these still exist.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import numpy as np

from everlearn.io.opening import open_sources
from everlearn.io.sources import Source
from everlearn.registry import BY_KEY, imported
from everlearn.report.charts import number
from everlearn.stream.predict import batches_of, component_answers, label_answers, path_answers
from everlearn.stream.session import Session

EXAMPLES: Final = 3
"""Examples of each part."""
_MAX_SOURCES: Final = 8
_MAX_RECORDS: Final = 1000
"""Records that are read from all sources together."""
_MAX_LETTERS: Final = 110
_MAX_ENTRIES: Final = 6
Found = tuple[int | str, float, str]
"""Id or class of a part, how typical the record is of it, and the record as text."""


def examples_of(session: Session) -> dict[int | str, list[str]]:
    """The most typical records of each part, by its id or class; empty without sources."""
    best: dict[int | str, list[tuple[float, str]]] = {}
    sources = [] if session.layout.form == "points" else _sources_left(session)
    for source in sources:
        for key, fit, text in _found_in(session, source, _MAX_RECORDS // len(sources)):
            known = best.setdefault(key, [])
            if text not in (other for _, other in known):
                known.append((fit, text))
                known.sort(key=lambda one: -one[0])
                del known[EXAMPLES:]
    return {key: [text for _, text in found] for key, found in best.items()}


def _sources_left(session: Session) -> list[Source]:
    """The latest sources that still exist and can be opened."""
    names = [p.name for p in session.ledger.sources.values()]
    names = [name for name in names if os.path.isfile(name) or os.path.isdir(name)]  # no pipes
    found = []
    for name in names[-_MAX_SOURCES:]:
        try:
            found += open_sources([name], label=session.layout.label)
        except (OSError, ValueError):  # it has changed since
            continue
    return found[-_MAX_SOURCES:]


def _found_in(session: Session, source: Source, n_records: int) -> Iterator[Found]:
    size = max(1, min(session.layout.batch, n_records))
    small = replace(session, layout=replace(session.layout, batch=size))
    n_batches = max(1, n_records // size)
    with closing(batches_of(small, [source])) as batches:  # type: ignore[type-var]
        try:
            for batch in islice(batches, n_batches):
                texts = _as_text(batch.X)
                if texts is None or not len(batch):
                    return
                for (key, fit), origin, text in zip(
                    _parts_of_records(session.model, batch.X), batch.origins, texts, strict=True
                ):
                    where = source.where(origin.place)
                    name = f"{where}: " if isinstance(where, str) else ""
                    if key is not None:
                        yield key, fit, f"{name}{text}"
        except (OSError, ValueError):  # a page is better without examples
            return


def _as_text(X: Any) -> list[str] | None:
    """Records as people read them; None for points and sparse tables."""
    if isinstance(X, list):
        return [_shortened(text) for text in X] if X and isinstance(X[0], str) else None
    if not isinstance(X, np.ndarray) or not (X.ndim == 2 or X.dtype.names):
        return None
    width = X.shape[1] if X.ndim == 2 else len(X.dtype.names or ())
    more = ", …" if width > _MAX_ENTRIES else ""
    return [", ".join(map(_entry, row[:_MAX_ENTRIES])) + more for row in X.tolist()]


def _entry(value: str | float | None) -> str:
    """An entry of a table, in which text may stand beside numbers."""
    if isinstance(value, str):
        return _shortened(value)
    return "missing" if value is None or np.isnan(value) else number(float(f"{value:.4g}"))


def _shortened(text: str) -> str:
    """The beginning of a text on one line."""
    line = " ".join(text[: 20 * _MAX_LETTERS].split())
    if len(line) <= _MAX_LETTERS:
        return line
    cut = line[:_MAX_LETTERS]
    return f"{cut[: cut.rfind(' ')] if ' ' in cut else cut}\N{NO-BREAK SPACE}…"


def _parts_of_records(model: Any, X: Any) -> Sequence[tuple[int | str | None, float]]:
    """The part that each record belongs to most, and how much; None where that means nothing."""
    if hasattr(model, "topic_shares_"):
        ids, shares = model.component_ids_.tolist(), np.asarray(model.transform(X))
        if len(set(ids)) == shares.shape[1]:
            return [(ids[row.argmax()], float(row.max())) for row in shares]
        return [(None, 0.0)] * len(shares)  # each class has topics of its own
    answers = imported(BY_KEY[model.checkpoint_key].answers or "")
    if answers is component_answers:
        # By density: probabilities are largest far from the other components, not in the middle.
        return [(a["component"], a["log_likelihood"]) for a in answers(model, X)]
    if answers is path_answers:
        return [(a["path"][-1], 0.0) for a in answers(model, X)]
    if answers is label_answers:
        return [(str(a["label"]), a.get("score", 0.0)) for a in answers(model, X)]
    return [(None, 0.0)] * len(X)
