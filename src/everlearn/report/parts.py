"""The table of the parts of a model in `everlearn report`: descriptions, shares and examples.

`report/mixture.py` has the table of `write_report`, which also knows the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from everlearn.report.charts import share_bar
from everlearn.report.page import Html, paragraph, table
from everlearn.stream.summary import Part

MAX_LINES: Final = 200
"""Lines of a table at most. A last line counts the rest."""

_WEIGHT: Final = re.compile(r"([+-])([\d.]+(?:e[+-]\d+)?)$")
"""Matches the weight after the name of a column."""
_MAX_HEAD: Final = 40
"""Maximum length of the column names in the head of a table."""


class Heads(NamedTuple):
    """What a page calls the parts of a model, and the heads of the columns that describe them.

    `weights` says that columns with weights describe a part, such as "x0+0.5".
    """

    part: str
    parts: str
    about: str
    separator: str = ", "
    share: str = "share"
    weights: bool = False


def part_table(
    found: Sequence[Part],
    heads: Heads,
    *,
    permanent: bool = True,
    examples: Mapping[int | str, Sequence[str]] | None = None,
    columns_of_rows: Sequence[str] = (),
    strips: Mapping[int, Html] | None = None,
) -> str:
    """A line for each part. Columns that would be empty are left out.

    Parameters
    ----------
    found : the parts, largest first
    heads : names of the columns
    permanent : whether ids are permanent, and shown with a #
    examples : typical records by id or class
    columns_of_rows : names of the numbers of an example
    strips : densities by id, in place of words
    """
    examples, strips = examples or {}, strips or {}
    shown = found[:MAX_LINES]
    named = any(part.speaks_for for part in shown)
    mark = "#" if permanent else ""
    columns: list[tuple[str, Callable[[Part], str]]] = []
    if permanent or not named:
        columns.append((heads.part, lambda part: f"{mark}{part.id}"))
    if named:
        columns.append(("speaks for" if permanent else heads.part, lambda p: p.speaks_for or "–"))
    if strips:
        columns.append(
            ("mean ± spread", lambda part: strips.get(part.id) or described(part.about, heads))
        )
    elif any(part.about for part in shown):
        columns.append((heads.about, lambda part: described(part.about, heads)))
    if any(part.share is not None for part in shown):
        most = max((part.share or 0.0 for part in shown), default=0.0)
        columns.append((heads.share, lambda part: share_bar(part.share or 0.0, most)))
    if any(_examples_of(part, examples) for part in shown):
        names = ", ".join(columns_of_rows)
        head = f"examples ({names})" if 0 < len(names) <= _MAX_HEAD else "examples"
        columns.append((head, lambda part: example_list(_examples_of(part, examples))))
    more = len(found) - MAX_LINES
    order = ", largest first" if any(part.share is not None for part in shown) else ""
    return table(
        f"{heads.parts.capitalize()}{order}",
        [head for head, _ in columns],
        [[cell(part) for _, cell in columns] for part in shown],
        text_columns=len(columns),
        kind="parts",
    ) + (paragraph(f"and {more:,} smaller ones.") if more > 0 else "")


def described(about: Sequence[str], heads: Heads) -> str:
    """The description of a part as one line."""
    if heads.weights:
        about = [_WEIGHT.sub(_spaced, text) for text in about]
    return heads.separator.join(about)


def _spaced(found: re.Match[str]) -> str:
    sign = "+" if found[1] == "+" else "\N{MINUS SIGN}"
    return f"\N{NO-BREAK SPACE}{sign}{found[2]}"


def _examples_of(part: Part, examples: Mapping[int | str, Sequence[str]]) -> Sequence[str]:
    found = examples.get(part.id, ())
    return found or examples.get(part.speaks_for or "", ())


def example_list(texts: Sequence[str]) -> Html:
    """Records as a short list."""
    if not texts:
        return Html("–")
    return Html(f'<ul class="examples">{"".join(f"<li>{escape(t)}</li>" for t in texts)}</ul>')
