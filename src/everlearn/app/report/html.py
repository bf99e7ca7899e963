"""Small pieces of HTML. Every function escapes the text it is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

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
