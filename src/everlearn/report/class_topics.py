"""The topics of each class, as pictures and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final, TypeAlias

import numpy as np

from everlearn.core.arrays import IntVec, Mat
from everlearn.report.charts import Figure, chart, heat_table
from everlearn.report.page import minus, paragraph, section, table
from everlearn.stream.class_topics import (
    LEAST,
    ClassTopics,
    Stage,
    columns_of,
    has_class_topics,
    stages,
    weights_of,
)

_CLASSES: Final = 60
_TOPICS: Final = 60
_TOLD: Final = 2
_WORDS: Final = 6
_WIDEST: Final = 20
_ROW: Final = 17
_SEEN: Final = 0.05
Words: TypeAlias = dict[tuple[str, int], str]
_NOBODY: Final = ClassTopics(0, {}, ())


def topics_by_class(model: Any, log: Sequence[dict[str, Any]]) -> str:
    """What each class is about, by what the run log tells, or else by the weights of the topics.

    Nothing for models without classes or without topics.
    """
    if not has_class_topics(model):
        return ""
    found = stages(log)
    parts = _by_shares(model, found) if found else _by_weights(model)
    return section("classes", "Topics of the classes", *parts)


def _by_shares(model: Any, found: Sequence[Stage]) -> list[str]:
    """Average topics of the documents of each class, at several times."""
    last = found[-1].classes
    most = set(sorted(last, key=lambda name: -last[name].n_documents)[:_CLASSES])
    names = [str(name) for name in model.classes_ if str(name) in most]
    told = [stage.classes.get(name, _NOBODY) for stage in found for name in names]
    topics = np.array(sorted({topic for one in told for topic in one.shares}), dtype=np.int64)
    tables = [_shares(stage, names, topics) for stage in found]
    columns, pictures = _chosen(tables, _SEEN), []
    darkest = max(float(np.nanmax(one, initial=LEAST)) for one in tables)
    for i, (stage, one) in enumerate(zip(found, tables, strict=True)):
        figure = _heat(one[:, columns] / darkest, one[:, columns], names, topics[columns])
        label = f"Topics of each class, {_when(stage)}; a table below lists the main ones."
        pictures.append(f"<h3>{_when(stage).capitalize()}</h3>")
        pictures.append(chart(f"chart-classes-{i}", figure, label))
    how = (
        "Average topics of the documents of each class in batches that came while the model was "
        "learning, as they were before these were learned. A topic has the same place in every "
        f"picture. The darkest cell is {darkest:.0%}; shares under {LEAST:.0%} are not kept."
    )
    words = _words(model)
    rows = [_share_row(words, found, name) for name in names]
    heads: tuple[str, ...] = ("class", "main topics", "top words of the first of them")
    heads += (f"with {found[0].last:,} records",)
    if len(found) == 1:
        heads, rows = heads[:3], [row[:3] for row in rows]
    listed = table(f"Main topics, {_when(found[-1])}", heads, rows, text_columns=len(heads))
    return [paragraph(how), *pictures, listed, _left_out(model, names)]


def _by_weights(model: Any) -> list[str]:
    """How much topics speak for each class."""
    names = [str(name) for name in model.classes_][:_CLASSES]
    own, weights = columns_of(model), weights_of(model)
    topics = model.component_ids_[own[0]]  # the numbers of its topics are the same for each class
    table_of = np.array([weights[q, own[q]] for q in range(len(names))])
    columns = _chosen([table_of], -np.inf)
    shades = np.clip(table_of[:, columns] / max(float(table_of.max()), LEAST), 0.0, None)
    figure = _heat(shades, table_of[:, columns], names, topics[columns], "{:+.2f} margins")
    rows, words = [], _words(model)
    for name, line in zip(names, table_of, strict=True):
        best = [k for k in np.argsort(-line, kind="stable")[:_TOLD] if line[k] > 0]
        told = minus(", ".join(f"#{topics[k]}\N{NO-BREAK SPACE}{line[k]:+.2f}" for k in best))
        rows.append((name, told, words[name, int(topics[best[0]])] if best else ""))
    how = (
        "How much each topic speaks for each class: what a document that fills the topic would add "
        "to the score, in units of the margin. Cells are blank where it speaks against the class."
    )
    label = "Weights of the topics for each class; a table below lists the largest."
    heads = ("class", "topics of largest weight", "top words of the first of them")
    return [
        paragraph(how),
        chart("chart-classes-0", figure, label),
        table("Topics that speak for a class", heads, rows, text_columns=3),
        _left_out(model, names),
    ]


def _when(stage: Stage) -> str:
    since = f"{stage.first:,} to " if stage.first < stage.last else ""
    return f"with {since}{stage.last:,} records learned"


def _shares(stage: Stage, names: Sequence[str], topics: IntVec) -> Mat:
    """Shares (classes, topics), NaN for classes of which there was no document."""
    found = np.full((len(names), len(topics)), np.nan)
    for row, name in enumerate(names):
        one = stage.classes.get(name)
        if one is not None:
            found[row] = [one.shares.get(topic, 0.0) for topic in topics.tolist()]
    return found


def _chosen(tables: Sequence[Mat], least: float) -> IntVec:
    """Columns of at least this value, in the order of the rows in which they end up largest."""
    highest = np.nan_to_num(np.stack(tables)).max(axis=(0, 1))
    seen = np.argsort(-highest, kind="stable")[:_TOPICS]
    seen = seen[highest[seen] >= least]
    late = np.sum([np.nan_to_num(one) * 100.0**i for i, one in enumerate(tables)], axis=0)
    return np.asarray(seen[np.argsort(late[:, seen].argmax(axis=0), kind="stable")])


def _heat(
    shades: Mat,
    values: Mat,
    names: Sequence[str],
    topics: IntVec,
    told: str = "{:.1%} of its documents",
) -> Figure:
    """Classes against topics, without numbers in the cells, which are small."""
    columns = [f"#{topic}" for topic in topics.tolist()]
    rows = [escape(_short(name)) for name in names]
    if len(set(rows)) < len(rows):
        rows = [escape(name) for name in names]
    hover = [
        [
            f"{escape(name)}, topic {column}<br>"
            + ("no document" if np.isnan(v) else told.format(v))
            for column, v in zip(columns, line, strict=True)
        ]
        for name, line in zip(names, values.tolist(), strict=True)
    ]
    blank = [[""] * len(columns)] * len(rows)
    figure = heat_table(np.nan_to_num(shades), blank, rows, columns, hover, ("", ""))
    figure["layout"] |= {
        "margin": {"l": 8, "r": 8, "t": 36, "b": 8},
        "height": 62 + _ROW * len(rows),
    }
    figure["layout"]["yaxis"] |= {"tickfont": {"color": "--muted", "size": 12}, "dtick": 1}
    figure["data"][0] |= {"xgap": 1, "ygap": 1}
    return figure


def _short(name: str) -> str:
    """The name with its middle left out if it is too long for a phone."""
    half = _WIDEST // 2
    return name if len(name) <= _WIDEST else f"{name[:half]}…{name[-half:]}"


def _share_row(words: Words, found: Sequence[Stage], name: str) -> tuple[str, ...]:
    one = found[-1].classes[name]
    largest = sorted(one.shares, key=lambda topic: -one.shares[topic])[:_TOLD]
    told = ", ".join(f"#{topic}\N{NO-BREAK SPACE}{one.shares[topic]:.0%}" for topic in largest)
    now = words.get((name, largest[0]), "") if largest else ""
    return name, told, now, " ".join(found[0].classes.get(name, _NOBODY).words)


def _words(model: Any) -> Words:
    """Top words of each topic of a class, as they are now."""
    words = [" ".join(map(str, line)) for line in model.top_words(_WORDS)]
    ids, own = model.component_ids_.tolist(), columns_of(model)
    return {
        (str(name), ids[k]): words[k]
        for name, columns in zip(model.classes_, own, strict=True)
        for k in columns
    }


def _left_out(model: Any, names: Sequence[str]) -> str:
    more = len(model.classes_) - len(names)
    return paragraph(f"and {more} more classes.") if more else ""
