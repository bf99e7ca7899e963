"""The section of a report that shows the topics of each class of a document classifier.

If the run log holds average topics of the classes, they become pictures and a table. Otherwise the
section shows the weights of the topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from everlearn.core.arrays import IntVec, Mat
from everlearn.report.charts import heat_table
from everlearn.report.page import minus, paragraph, section, table
from everlearn.stream.class_topics import (
    LEAST,
    ClassTopics,
    Stage,
    columns_of,
    stages,
    weights_of,
)
from everlearn.topics.medlda import MedHDPClassifier, MedLDAClassifier

TopicClassifier: TypeAlias = MedLDAClassifier | MedHDPClassifier
TopWords: TypeAlias = dict[tuple[str, int], str]
"""Top words by the name of the class and the id of the topic."""
_MAX_CLASSES: Final = 60
_MAX_TOPICS: Final = 60
_MAIN_TOPICS: Final = 2
"""Topics that the table lists for each class."""
_N_WORDS: Final = 6
_MAX_NAME: Final = 20
"""Longer names are shortened beside a picture, so that it fits on a phone."""
_MIN_SHARE: Final = 0.05
"""Pictures leave out topics that have less than this share in every class."""
_NO_DOCUMENTS: Final = ClassTopics(0, {}, ())


def topics_by_class(model: object, log: Sequence[dict[str, Any]]) -> str:
    """HTML of the topics of each class. Empty for models without classes or without topics."""
    if not isinstance(model, TopicClassifier):
        return ""
    found = stages(log)
    parts = _shares_section(model, found) if found else _weights_section(model)
    return section("classes", "Topics of the classes", *parts)


def _shares_section(model: TopicClassifier, found: Sequence[Stage]) -> list[str]:
    """Pictures and a table of the average topics of each class, at several times."""
    last = found[-1].classes
    largest = set(sorted(last, key=lambda name: -last[name].n_documents)[:_MAX_CLASSES])
    names = [str(name) for name in model.classes_ if str(name) in largest]
    topics = np.array(
        sorted({t for s in found for name in names for t in _class_topics(s, name).shares}),
        dtype=np.int64,
    )
    tables = [_share_table(stage, names, topics) for stage in found]
    columns = _main_columns(tables, _MIN_SHARE)
    strongest = max(float(np.nanmax(shares, initial=LEAST)) for shares in tables)
    pictures = []
    for stage, shares in zip(found, tables, strict=True):
        label = f"Topics of each class, {_when(stage)}; a table below lists the main ones."
        pictures.append(f"<h3>{_when(stage).capitalize()}</h3>")
        pictures.append(
            _heat_map(
                shares[:, columns] / strongest,
                shares[:, columns],
                names,
                topics[columns],
                "{:.1%} of its documents",
                label,
            )
        )
    how = (
        "Average shares of the topics in the documents of each class. They come from batches that "
        "the model had not learned yet. A topic has the same column in all pictures. The "
        f"strongest colour is {strongest:.0%}; shares under {LEAST:.0%} count as 0."
    )
    words = _top_words(model)
    heads = ["class", "main topics", "top words of the first"]
    rows = [_share_row(words, found[-1], name) for name in names]
    if len(found) > 1:
        heads.append(f"top words {_when(found[0])}")
        for row, name in zip(rows, names, strict=True):
            row.append(" ".join(_class_topics(found[0], name).words))
    listed = table(f"Main topics, {_when(found[-1])}", heads, rows, text_columns=len(heads))
    return [paragraph(how), *pictures, listed, _classes_left_out(model, names)]


def _weights_section(model: TopicClassifier) -> list[str]:
    """A picture and a table of the weights of the topics for each class."""
    names = [str(name) for name in model.classes_][:_MAX_CLASSES]
    own, weights = columns_of(model), weights_of(model)
    topics = model.component_ids_[own[0]]  # with topics of its own, each class has the same ids
    values = np.array([weights[q, own[q]] for q in range(len(names))])
    columns = _main_columns([values], -np.inf)
    shades = np.clip(values[:, columns] / max(float(values.max()), LEAST), 0.0, None)
    rows, words = [], _top_words(model)
    for name, line in zip(names, values, strict=True):
        best = [k for k in np.argsort(-line, kind="stable")[:_MAIN_TOPICS] if line[k] > 0]
        listed = ", ".join(f"#{topics[k]}\N{NO-BREAK SPACE}{line[k]:+.2f}" for k in best)
        rows.append((name, minus(listed), words[name, int(topics[best[0]])] if best else ""))
    how = (
        "The weight of each topic for each class: what the topic adds to the score of a document "
        "that has no other topic, in units of the margin. Cells with negative weights are blank."
    )
    label = "Weights of the topics for each class; a table below lists the largest."
    heads = ("class", "topics of largest weight", "top words of the first")
    return [
        paragraph(how),
        _heat_map(shades, values[:, columns], names, topics[columns], "{:+.2f} margins", label),
        table("Topics with positive weights", heads, rows, text_columns=3),
        _classes_left_out(model, names),
    ]


def _class_topics(stage: Stage, name: str) -> ClassTopics:
    return stage.classes.get(name, _NO_DOCUMENTS)


def _when(stage: Stage) -> str:
    since = f"{stage.first:,} to " if stage.first < stage.last else ""
    return f"after {since}{stage.last:,} records"


def _share_table(stage: Stage, names: Sequence[str], topics: IntVec) -> Mat:
    """Shares (n_classes, n_topics), NaN for classes without a document."""
    found = np.full((len(names), len(topics)), np.nan)
    for row, name in enumerate(names):
        if name in stage.classes:
            shares = stage.classes[name].shares
            found[row] = [shares.get(topic, 0.0) for topic in topics.tolist()]
    return found


def _main_columns(tables: Sequence[Mat], least: float) -> IntVec:
    """The columns with the largest values, ordered by the row in which each is largest at the end.

    A column needs a value of at least `least` in some table.
    """
    highest = np.nan_to_num(np.stack(tables)).max(axis=(0, 1))
    main = np.argsort(-highest, kind="stable")[:_MAX_TOPICS]
    main = main[highest[main] >= least]
    # Later tables outweigh earlier ones, which only break ties.
    late = np.sum([np.nan_to_num(table) * 100.0**i for i, table in enumerate(tables)], axis=0)
    return np.asarray(main[np.argsort(late[:, main].argmax(axis=0), kind="stable")])


def _heat_map(
    shades: Mat, values: Mat, names: Sequence[str], topics: IntVec, text: str, label: str
) -> str:
    """A heat map of classes and topics. `text` formats the hint of a cell, which is too small."""
    columns = [f"#{topic}" for topic in topics.tolist()]
    rows = [_shortened(name) for name in names]
    if len(set(rows)) < len(rows):
        rows = list(names)
    hints = [
        [
            f"{name}, topic {column}: "
            + ("no document" if np.isnan(value) else minus(text.format(value)))
            for column, value in zip(columns, line, strict=True)
        ]
        for name, line in zip(names, values.tolist(), strict=True)
    ]
    blank = [[""] * len(columns)] * len(rows)
    return heat_table(np.nan_to_num(shades), blank, rows, columns, hints, ("", ""), label)


def _shortened(name: str) -> str:
    """The name, without its middle if it is long."""
    half = _MAX_NAME // 2
    return name if len(name) <= _MAX_NAME else f"{name[:half]}…{name[-half:]}"


def _share_row(words: TopWords, stage: Stage, name: str) -> list[str]:
    """A class, its main topics, and the top words of the first of these."""
    shares = stage.classes[name].shares
    largest = sorted(shares, key=lambda topic: -shares[topic])[:_MAIN_TOPICS]
    listed = ", ".join(f"#{topic}\N{NO-BREAK SPACE}{shares[topic]:.0%}" for topic in largest)
    return [name, listed, words.get((name, largest[0]), "") if largest else ""]


def _top_words(model: TopicClassifier) -> TopWords:
    """Top words of each topic of a class, as they are now."""
    words = [" ".join(map(str, line)) for line in model.top_words(_N_WORDS)]
    ids, own = model.component_ids_.tolist(), columns_of(model)
    return {
        (str(name), ids[k]): words[k]
        for name, columns in zip(model.classes_, own, strict=True)
        for k in columns
    }


def _classes_left_out(model: TopicClassifier, names: Sequence[str]) -> str:
    more = len(model.classes_) - len(names)
    return paragraph(f"and {more} more classes.") if more else ""
