"""Small pieces of HTML. Every function escapes the text it is given."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

import everlearn
from everlearn.core.text import megabytes
from everlearn.store.archive import replacement
from everlearn.stream.summary import memory_of, told_size

__all__ = ["details", "escape", "minus", "numbers", "paragraph", "section", "table"]


def section(anchor: str, title: str, *content: str) -> str:
    """A titled part of the page; `content` is HTML already."""
    inner = "\n".join(part for part in content if part)
    name = escape(anchor)
    return (
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{escape(title)}</h2>\n'
        f"{inner}\n</section>"
    )


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph, with a class if `kind` is given."""
    attribute = f' class="{escape(kind)}"' if kind else ""
    return f"<p{attribute}>{escape(text)}</p>"


def numbers(pairs: Iterable[tuple[str, str]]) -> str:
    """Key numbers with their names."""
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs
    )
    return f'<dl class="numbers">{cells}</dl>'


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1
) -> str:
    """A table whose first `text_columns` are words and whose others are numbers."""
    first, *others = (
        f'<th scope="col"{_align(i, text_columns)}>{escape(name)}</th>'
        for i, name in enumerate(head)
    )
    lines = [_row(cells, text_columns) for cells in rows]
    return (
        f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{first}{''.join(others)}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def minus(number: str) -> str:
    """A number with a real minus sign."""
    return number.replace("-", "\N{MINUS SIGN}")


def details(summary: str, content: str) -> str:
    """Content that opens on demand; `content` is HTML already."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def _row(cells: Sequence[str], text_columns: int) -> str:
    head, *rest = cells
    inner = "".join(
        f"<td{_align(i, text_columns)}>{escape(cell)}</td>" for i, cell in enumerate(rest, start=1)
    )
    return f'<tr><th scope="row">{escape(head)}</th>{inner}</tr>'


def _align(column: int, text_columns: int) -> str:
    return "" if column < text_columns else ' class="number"'


_NAMES: Final[Mapping[str, str]] = {
    "statistics": "statistics of components",
    "pair_entropies": "overlap of pairs",
    "open_rows": "rows still open to new components",
    "total": "in all",
    "bytes_per_component": "one component, in one set of statistics",
    "max_components": "most components allowed",
    "window_rows": "most rows kept open",
}


def memory_section(model: Any) -> str:
    """The model's own account of its memory; nothing if it keeps none."""
    report = memory_of(model)
    if not report:
        return ""
    window, total = report.get("window_rows"), report.get("total")
    told = "" if total is None else f"The model holds {megabytes(total)}."
    if window is not None:
        told = (
            f"The latest {window:,} rows stay open to new components; of earlier ones only sums "
            "remain, so memory does not grow with the length of the stream."
        )
    rows = [
        (_name(key), "none set" if v is None else told_size(key, v)) for key, v in report.items()
    ]
    return section(
        "memory",
        "Memory",
        paragraph(told) if told else "",
        table("Memory held by the model", ("what", "size"), rows),
    )


def _name(key: str) -> str:
    told = key.removeprefix("n_").replace("_", " ")
    return _NAMES.get(key, told if told == key.replace("_", " ") else f"number of {told}")


def making_section(model: Any, notes: Sequence[str] = ()) -> str:
    """What the model was made with and on, and its parameters that are not the default."""
    defaults = type(model)().get_params(deep=False)
    changed = [
        (name, repr(value))
        for name, value in model.get_params(deep=False).items()
        if _canonical(value) != _canonical(defaults[name])
    ]
    machine = f"Python {platform.python_version()} on {platform.machine()}."
    listed = "".join(f"<li>{escape(note)}</li>" for note in (*notes, machine))
    caption = f"Parameters of {type(model).__name__} that are not the default"
    return section(
        "making",
        "How this was made",
        f'<ul class="notes">{listed}</ul>',
        table(caption, ("parameter", "value"), changed) if changed else "",
    )


def _canonical(value: object) -> object:
    """Collections in one order and of one type: moves may be given in any."""
    return tuple(sorted(value)) if isinstance(value, (list, set, tuple)) else value


NO_SCRIPT = (
    '<noscript><p class="notice">The charts need JavaScript; the tables do not.</p></noscript>'
)
"""What a page with charts says to those who see none."""


def page(
    title: str,
    lead: str,
    key_numbers: Iterable[tuple[str, str]],
    sections: Iterable[str],
    scripts: Sequence[str] = (),
) -> str:
    """One HTML page that needs nothing from elsewhere; `sections` are HTML, `scripts` are code.

    The page tells the browser to fetch nothing, and to run nothing if it has no scripts.
    """
    home = files(__package__)
    template = Template(home.joinpath("page.html").read_text("utf-8"))
    return template.substitute(
        title=escape(title),
        lead=escape(lead),
        numbers=numbers(key_numbers),
        content="\n".join(part for part in sections if part),
        version=escape(everlearn.__version__),
        style=home.joinpath("page.css").read_text("utf-8"),
        scripts="\n".join(f"<script>{code}</script>" for code in scripts),
        script_source="'unsafe-inline'" if scripts else "'none'",
    )


def save_page(html: str, path: Path) -> None:
    """Write a page to a file, which stays what it was if that fails."""
    with replacement(os.path.realpath(path)) as file:
        file.write(html.encode("utf-8"))
