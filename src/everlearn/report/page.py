"""HTML of reports: sections, tables, key numbers, and whole pages.

Functions escape the text that they get. Arguments that are HTML already say so.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from sklearn.base import BaseEstimator

import everlearn
from everlearn.core.text import megabytes
from everlearn.store.archive import replacement
from everlearn.stream.models import StreamModel
from everlearn.stream.summary import memory_of, told_size


class Html(str):
    """Text that is HTML already, so that it is not escaped again."""

    __slots__ = ()


def section(anchor: str, title: str, *content: str) -> str:
    """A part of the page with a title. `content` is HTML already; empty parts are left out."""
    inner = "\n".join(part for part in content if part)
    name = escape(anchor)
    return (
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(title)}</h2>\n'
        f"{inner}\n</section>"
    )


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph. `kind` is its class in the style sheet."""
    attribute = f' class="{escape(kind)}"' if kind else ""
    return f"<p{attribute}>{escape(text)}</p>"


def numbers(pairs: Iterable[tuple[str, str]]) -> str:
    """A box of numbers with their names."""
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs
    )
    return f'<dl class="numbers">{cells}</dl>'


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    text_columns: int = 1,
    kind: str = "",
) -> str:
    """A table. The first `text_columns` columns are text; the others are numbers, aligned right.

    Cells may be `Html`. `kind` is the class of the table in the style sheet.
    """
    first, *others = (
        f'<th scope="col"{_align(i, text_columns)}>{escape(name)}</th>'
        for i, name in enumerate(head)
    )
    lines = [_row(cells, head, text_columns) for cells in rows]
    attribute = f' class="{escape(kind)}"' if kind else ""
    return (
        f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0">'
        f"<table{attribute}><caption>{escape(caption)}</caption>"
        f"<thead><tr>{first}{''.join(others)}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def minus(number: str) -> str:
    """A formatted number with a minus sign in place of a hyphen."""
    return number.replace("-", "\N{MINUS SIGN}")


def details(summary: str, content: str) -> str:
    """Content that the reader can unfold. `content` is HTML already."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def _row(cells: Sequence[str], heads: Sequence[str], text_columns: int) -> str:
    first, *rest = map(html_of, cells)
    names = [escape(head.partition(" (")[0]) for head in heads]  # shown on narrow screens
    inner = "".join(
        f'<td{_align(i, text_columns)} data-head="{names[i]}">{cell}</td>'
        for i, cell in enumerate(rest, start=1)
    )
    return f'<tr><th scope="row">{first}</th>{inner}</tr>'


def html_of(text: str) -> str:
    """The text as HTML; `Html` stays as it is."""
    return text if isinstance(text, Html) else escape(text)


def _align(column: int, text_columns: int) -> str:
    return "" if column < text_columns else ' class="number"'


_SIZE_NAMES: Final[Mapping[str, str]] = {
    "statistics": "statistics of components",
    "pair_entropies": "overlap of pairs of components",
    "open_rows": "recent rows",
    "total": "total",
    "bytes_per_component": "statistics of one component",
    "max_components": "limit of components",
    "window_rows": "limit of recent rows",
}


def memory_section(model: StreamModel) -> str:
    """How much memory the parts of a model take. Empty for models without `memory_report`."""
    report = memory_of(model)
    if not report:
        return ""
    window, total = report.get("window_rows"), report.get("total")
    text = "" if total is None else f"The model holds {megabytes(total)}."
    if window is not None:
        text = (
            f"New components can form from the latest {window:,} rows. Of earlier rows the model "
            "keeps sums only, so its memory does not grow with the stream."
        )
    rows = [
        (_size_name(key), "no limit" if value is None else told_size(key, value))
        for key, value in report.items()
    ]
    return section(
        "memory",
        "Memory",
        paragraph(text) if text else "",
        table("Memory that the model holds", ("part", "size"), rows),
    )


def _size_name(key: str) -> str:
    """An entry of `memory_report` in words."""
    words = key.removeprefix("n_").replace("_", " ")
    return _SIZE_NAMES.get(key, f"number of {words}" if key.startswith("n_") else words)


def settings_section(model: BaseEstimator, notes: Sequence[str] = ()) -> str:
    """Notes, the version of Python, and the parameters that differ from their defaults."""
    defaults = type(model)().get_params(deep=False)
    changed = [
        (name, repr(value))
        for name, value in model.get_params(deep=False).items()
        if _canonical(value) != _canonical(defaults[name])
    ]
    machine = f"Python {platform.python_version()} on {platform.machine()}."
    items = "".join(f"<li>{escape(note)}</li>" for note in (*notes, machine))
    caption = f"Parameters of {type(model).__name__} that differ from their defaults"
    return section(
        "settings",
        "Settings",
        f'<ul class="notes">{items}</ul>',
        table(caption, ("parameter", "value"), changed, text_columns=2) if changed else "",
    )


def _canonical(value: object) -> object:
    """Sets, lists and tuples compare equal if they have the same items: moves have no order."""
    return tuple(sorted(value)) if isinstance(value, (list, set, tuple)) else value


def page(
    title: str,
    lead: str,
    key_numbers: Iterable[tuple[str, str]],
    sections: Iterable[str],
    notice: str = "",
) -> str:
    """A whole page in one file. `sections` are HTML; a `notice` is what the reader must see first.

    Its security policy forbids the browser to fetch anything and to run scripts.
    """
    folder = files(__package__)
    template = Template(folder.joinpath("page.html").read_text("utf-8"))
    return template.substitute(
        title=escape(title),
        lead=escape(lead),
        numbers=numbers(key_numbers),
        content="\n".join(part for part in sections if part),
        version=escape(everlearn.__version__),
        style=folder.joinpath("page.css").read_text("utf-8"),
        notice=paragraph(notice, "notice") if notice else "",
    )


def save_page(html: str, path: Path) -> None:
    """Write a page to a file. If that fails, an older file stays as it was."""
    with replacement(os.path.realpath(path)) as file:
        file.write(html.encode("utf-8"))
