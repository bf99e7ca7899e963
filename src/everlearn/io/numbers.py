"""Parse numbers as people and programs write them: decimal commas, thousands, missing values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

Decimal: TypeAlias = Literal[".", ","]
MISSING: Final = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "<na>"})
"""What stands for a missing value, in lower case."""
_BOOLEANS: Final = {"true": 1.0, "false": 0.0}
_SPACES: Final = " \u00a0\u202f'\u2019"
"""Marks of thousands beside the comma or the point."""


def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    """Whole parts with or without marks of thousands, which must be the same mark each time."""
    grouped = rf"\d{{1,3}}(?P<mark>[{re.escape(thousands)}])\d{{3}}(?:(?P=mark)\d{{3}})*"
    point = re.escape(decimal)
    return re.compile(
        rf"[+-]?(?:{grouped}(?:{point}\d+)?|\d+(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"
    )


_PATTERNS: Final[Mapping[str, re.Pattern[str]]] = {
    ".": _pattern(".", f",{_SPACES}"),
    ",": _pattern(",", f".{_SPACES}"),
}
_SHOWS_DECIMAL: Final = re.compile(
    rf"[+-]?(?:\d{{1,3}}(?:[.,{_SPACES}]\d{{3}})*|\d+)(?P<mark>[.,])\d+(?:[eE][+-]?\d+)?"
)
_DOUBTFUL: Final = re.compile(r"[+-]?(?:[1-9]\d{0,2}(?:[.,]\d{3})+)")
"""Numbers whose last mark may be a decimal one or one of thousands, such as 1,234."""


def number_of(value: Any, decimal: str = ".") -> float:
    """The number that a field holds, NaN for a missing one, or a ValueError.

    A field of text may have marks of thousands, and may be true or false.

    Examples
    --------
    >>> number_of("1,234.5"), number_of("1.234,5", ","), number_of("NA"), number_of("TRUE")
    (1234.5, 1234.5, nan, 1.0)
    """
    if value is None:
        return float("nan")
    if not isinstance(value, str):
        return float(value)
    text = value.strip()
    if decimal == "." or not ("," in text or "." in text):
        try:
            return float(text)
        except ValueError:
            pass
    word = text.casefold()
    if word in MISSING:
        return float("nan")
    if word in _BOOLEANS:
        return _BOOLEANS[word]
    match = _PATTERNS[decimal].fullmatch(text)
    if match is None:
        raise ValueError(f"{value!r:.40} is not a number")
    if match["mark"]:
        text = text.replace(match["mark"], "")
    return float(text.replace(decimal, "."))


def why_no_number(value: Any, decimal: str = ".") -> str:
    """What is wrong with a field that is no number, and what to do about another decimal mark."""
    other = "," if decimal == "." else "."
    if isinstance(value, str) and is_number(value, other):
        mark = "commas" if other == "," else "points"
        return f"not a number: {value!r:.40}. For decimal {mark}, add option 'decimal' {other}"
    return f"not a number: {value!r:.40}"


def is_number(value: Any, decimal: str = ".") -> bool:
    """Whether `number_of` takes the value."""
    try:
        number_of(value, decimal)
    except (TypeError, ValueError):
        return False
    return True


def is_missing(value: Any) -> bool:
    """Whether a field holds nothing."""
    if isinstance(value, str):
        return value.strip().casefold() in MISSING
    return value is None or (isinstance(value, float) and value != value)


def is_truth_value(value: Any) -> bool:
    """Whether a field is true or false, also as a text."""
    return isinstance(value, bool) or (
        isinstance(value, str) and value.strip().casefold() in _BOOLEANS
    )


def decimal_of(rows: Iterable[Sequence[str]], delimiter: str) -> Decimal:
    """The decimal mark of a table, as its first rows show it; one for all columns.

    Each column has a vote. Without any, a comma as in 1,234 is decimal if semicolons separate the
    fields, which is how programs write tables where the comma is decimal.
    """
    votes = {".": 0, ",": 0}
    has_doubtful_comma = False
    for column in zip(*rows, strict=False):
        marks = {mark for cell in column if (mark := _decimal_in(cell.strip()))}
        if len(marks) == 1:
            votes[marks.pop()] += 1
        has_doubtful_comma |= any("," in c and _DOUBTFUL.fullmatch(c.strip()) for c in column)
    if votes["."] == votes[","] == 0:
        return "," if has_doubtful_comma and delimiter == ";" else "."
    if votes["."] == votes[","]:
        return "," if delimiter == ";" else "."
    return "," if votes[","] > votes["."] else "."


def _decimal_in(text: str) -> str:
    """The decimal mark of a number, empty if it shows none without doubt."""
    marks = {mark for mark in ",." if mark in text}
    match = _SHOWS_DECIMAL.fullmatch(text)
    if match is None or (len(marks) == 1 and _DOUBTFUL.fullmatch(text)):
        return ""
    return match["mark"] if text.count(match["mark"]) == 1 else ""
