"""Detect how a file of lines is written: its encoding, delimiter and decimal mark.

The first records decide, once for the whole file. What they showed is saved with the place in the
file, so that later runs read the same file alike.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Final

from everlearn.errors import CheckpointError, SourceError, UsageError
from everlearn.io.encodings import (
    UTF8,
    UTF16_MARKS,
    check_lines,
    checked_encoding,
    decoded,
    why_undecodable,
)
from everlearn.io.formats import LineFormat
from everlearn.io.numbers import decimal_of, is_missing, is_number
from everlearn.io.splitter import BLOCK, Read

FIRST_RECORDS: Final = 100
"""Number of records from which the dialect is detected."""
FEW: Final = 10
"""With fewer records than this, the dialect of the others is uncertain."""
_DELIMITERS: Final = ("\t", ";", "|", ",")
"""What may separate the fields of ``.csv`` files. If several fit, the first one does."""
_DECLARED: Final = re.compile(r"sep=(.)\r?")
"""A first line that Excel understands."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file of lines is written.

    Attributes
    ----------
    encoding : encoding of the text
    delimiter : what separates the fields of a table; empty if lines are no rows of a table
    decimal : decimal mark of numbers in a table, "." or ","
    skipped : bytes before the first line, such as Excel's ``sep=;``
    has_names : whether the first line of a table names its columns
    """

    encoding: str = UTF8
    delimiter: str = ""
    decimal: str = "."
    skipped: int = 0
    has_names: bool = True

    def __str__(self) -> str:
        """What is not as usual, in words."""
        fields = {"\t": "tabs", ";": "semicolons", "|": "bars"}.get(self.delimiter)
        decimals = "decimal commas" if self.decimal == "," else None
        encoding = None if self.encoding == UTF8 else self.encoding
        return ", ".join(filter(None, (encoding, fields, decimals)))

    def to_json(self) -> list[Any]:
        """The dialect as plain JSON."""
        return list(asdict(self).values())

    @classmethod
    def from_json(cls, data: Any) -> Dialect:
        """Inverse of `to_json`; a CheckpointError if it is none."""
        try:
            encoding, delimiter, decimal, skipped, has_names = data
            fits = (
                bool(checked_encoding(encoding))
                and delimiter in ("", *_DELIMITERS)
                and decimal in (".", ",")
                and type(skipped) is int
                and 0 <= skipped < BLOCK
                and type(has_names) is bool
            )
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"{str(data)[:80]} does not say how a file is written") from error
        if not fits:
            raise CheckpointError(f"{str(data)[:80]} does not say how a file is written")
        return cls(encoding, delimiter, decimal, skipped, has_names)


@dataclass(frozen=True, slots=True)
class Writing:
    """What users say about the text of new files. None means that the first records decide."""

    encoding: str = UTF8
    decimal: str | None = None


AS_SHOWN: Final = Writing()
"""UTF-8, and what the first records show."""


def first_block(read: Read, n_lines: int = FIRST_RECORDS + 2) -> bytes:
    """The first lines of a file, and perhaps more; all of a short one."""
    head = b""
    while len(head) < BLOCK and head.count(b"\n") < n_lines and (block := read(BLOCK)):
        head += block
    return head


def dialect_of(head: bytes, form: LineFormat, writing: Writing, name: str) -> Dialect:
    """What the first lines of a file show; a SourceError if it is written in another encoding.

    Parameters
    ----------
    head : the first lines, from `first_block`
    form : what the lines are
    writing : what the user says
    name : the name of the file, for messages
    """
    encoding = writing.encoding
    check_lines(encoding, name)
    is_table = form in ("csv", "tsv")
    lines = head.split(b"\n")[: FIRST_RECORDS + 2]
    if len(lines) > 1:
        lines.pop()  # it may be cut
    _check_encoding(lines, encoding, is_table)
    if not is_table:
        return Dialect(encoding, decimal=writing.decimal or ".")
    text = b"\n".join(lines).decode(encoding, "replace").removeprefix("\ufeff")
    declared = _DECLARED.fullmatch(text.partition("\n")[0]) if form == "csv" else None
    skipped = 0
    if declared is not None and declared[1] in _DELIMITERS:
        text = text.partition("\n")[2]
        skipped, delimiter = len(lines[0]) + 1, declared[1]
    else:
        delimiter = "\t" if form == "tsv" else _delimiter_of(text)
    rows = _rows(text, delimiter)
    has_names = _has_names(rows)
    decimal = writing.decimal or decimal_of(rows[1:] if has_names else rows, delimiter)
    return Dialect(encoding, delimiter, decimal, skipped, has_names)


def checked_decimal(mark: str) -> str:
    """A decimal mark as users give it."""
    if mark not in (".", ","):
        raise UsageError(f"option 'decimal' must be . or ',', got {mark!r}")
    return mark


def _check_encoding(lines: list[bytes], encoding: str, is_table: bool) -> None:
    """Refuse a file whose first line or many of whose first lines are in another encoding.

    A single broken line among many is a bad record, not another encoding.
    """
    bad = []
    for i, line in enumerate(lines):
        try:
            decoded(line, encoding)
        except ValueError:
            bad.append(i)
    others = sum(not line.isascii() for line in lines) - len(bad)
    is_first = bad[:1] == [0] and (is_table or lines[0].startswith(UTF16_MARKS))
    if bad and others == 0 and (len(bad) > 1 or is_first):
        raise SourceError(why_undecodable(b"\n".join(lines[i] for i in bad), encoding))


def _delimiter_of(text: str) -> str:
    """What separates the fields: nearly all rows have as many as the first one.

    A SourceError if nearly all have several, and the first one has not.
    """
    tables = {mark: _rows(text, mark) for mark in _DELIMITERS}
    widths = {mark: [len(row) for row in rows] for mark, rows in tables.items()}
    for mark, found in widths.items():
        if found and found[0] > 1 and _is_usual(found[0], found):
            return mark
    for mark, found in widths.items():
        (width, _), *_ = Counter(found[1:]).most_common(1) or [(0, 0)]
        if found[:1] == [1] and width > 1 and len(found) > FEW and _is_usual(width, found[1:]):
            if mark == "," and all(is_number(line, ",") for line in text.splitlines()[1:]):
                continue  # one column, with decimal commas
            raise SourceError(
                f"the first line must name the columns. It is {tables[mark][0][0]!r:.60}, but the "
                f"lines below have {width} fields. Remove the lines above the names"
            )
    if all(found[:1] in ([], [1]) for found in widths.values()):
        return next((mark for mark in (",", ";", "\t", "|") if _is_usual(1, widths[mark])), ",")
    return max(_DELIMITERS, key=lambda mark: (widths[mark][:1], mark == ","))


def _is_usual(width: int, found: list[int]) -> bool:
    return found.count(width) >= 0.9 * len(found)


def _has_names(rows: list[list[str]]) -> bool:
    """Whether the first line names the columns.

    It does not if it has numbers only, or numbers and words that come again below them.
    """
    if not rows:
        return True
    words = [
        j for j, cell in enumerate(rows[0]) if not is_number(cell, ".") and not is_number(cell, ",")
    ]
    if len(words) == len(rows[0]) or all(map(is_missing, rows[0])):
        return True
    return any(rows[0][j] not in {row[j] for row in rows[1:] if j < len(row)} for j in words)


def _rows(text: str, delimiter: str) -> list[list[str]]:
    """The first rows of a table; rows after one that cannot be read are left out."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            if row:
                rows.append(row)
            if len(rows) > FIRST_RECORDS:
                break
    except csv.Error:
        pass
    return rows
