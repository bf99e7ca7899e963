"""Choose the columns of records that a model learns from, by the first of them.

A column of numbers among texts, dates and row numbers is learned. The others are left out
and named. What a kind of model can learn is `LEARNED`; what a column holds is `look_of`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

from everlearn.io.dialects import FEW
from everlearn.io.numbers import is_missing, is_number

Look: TypeAlias = Literal["numbers", "texts", "dates", "lists", "ids", "nothing", "rare"]
"""What a column holds."""
LEARNED: Final[frozenset[Look]] = frozenset({"numbers"})
"""What models of rows learn from."""
_ADVICE: Final[Mapping[Look, str]] = {
    "numbers": "numbers",
    "texts": "texts",
    "dates": "dates; add columns of numbers, such as the hour or days since the last visit",
    "lists": "lists or objects",
    "ids": "ids or row numbers",
    "nothing": "empty",
    "rare": "only some records have it",
}
_MAX_TOLD: Final = 20
"""Columns that a message names."""
_DATE: Final = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2}(?:\d\d)?(?:[T ,].*)?"
    r"|\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\.?)?"
    r"|\[?\d{1,2}[-/ .]{1,2}[A-Za-z]{3,9}\.?[-/ ]\d{2,4}.*"
)
_ID_NAME: Final = re.compile(r"(?:.*[_ .-])?(?:id|uuid|guid)|.*[a-z](?:Id|ID)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Choice:
    """The columns to learn from, and what the others hold.

    Attributes
    ----------
    columns : names of the columns to learn from, in order
    left_out : what each other column holds
    longest : the column with the longest texts, if there are texts
    examples : a text of each column of texts
    """

    columns: tuple[str, ...]
    left_out: Mapping[str, Look]
    longest: str | None = None
    examples: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The option that makes this choice, ready to type."""
        return f"option 'columns' {shlex.quote(','.join(map(_quoted, self.columns)))}"

    def told_left_out(self, *, examples: bool = False) -> str:
        """The columns that are left out, and why."""
        shown = self.examples if examples else {}
        told = [
            f"{name} ({_ADVICE[look]}{f' such as {shown[name]!r:.40}' if name in shown else ''})"
            for name, look in self.left_out.items()
        ]
        more = [f"and {len(told) - _MAX_TOLD} more"] if len(told) > _MAX_TOLD else []
        return ", ".join(told[:_MAX_TOLD] + more)


def choose_columns(columns: Mapping[str, Sequence[Any]], decimal: str, n_records: int) -> Choice:
    """Choose among columns by the values of the first records; empty `columns` if none fits.

    Objects may have fields that others have not: a column has the values of those that have it.
    """
    looks: dict[str, Look] = {
        name: "rare" if 2 * len(values) <= n_records else look_of(name, values, decimal)
        for name, values in columns.items()
    }
    lengths = {
        name: sum(len(value) for value in columns[name] if isinstance(value, str))
        for name, look in looks.items()
        if look == "texts"
    }
    return Choice(
        tuple(name for name, look in looks.items() if look in LEARNED),
        {name: look for name, look in looks.items() if look not in LEARNED},
        max(lengths, key=lengths.__getitem__, default=None),
        {
            name: next(v for v in columns[name] if isinstance(v, str) and v)
            for name in lengths
            if lengths[name]
        },
    )


def look_of(name: str, values: Sequence[Any], decimal: str) -> Look:
    """What most values of a column are."""
    held = [value for value in values if not is_missing(value)]
    if not held:
        return "nothing" if len(values) >= FEW else "numbers"
    numbers = [value for value in held if is_number(value, decimal)]
    if 2 * len(numbers) > len(held):
        return "ids" if _ID_NAME.fullmatch(name) or _counts_up(values) else "numbers"
    if 2 * sum(isinstance(value, (list, tuple, dict)) for value in held) > len(held):
        return "lists"
    return "dates" if 2 * sum(map(_is_date, held)) > len(held) else "texts"


def _counts_up(values: Sequence[Any]) -> bool:
    """Whether the values number the records: each is one more than the one before."""
    if len(values) < FEW:
        return False
    try:
        numbers = [int(value) for value in values]
    except (TypeError, ValueError):
        return False
    return all(b == a + 1 for a, b in pairwise(numbers))


def _is_date(value: Any) -> bool:
    if isinstance(value, str):
        return _DATE.fullmatch(value.strip()) is not None
    return isinstance(value, (date, time))


def _quoted(name: str) -> str:
    """A name as `--columns` reads it."""
    if '"' in name or "," in name or name != name.strip():
        return '"' + name.replace('"', '""') + '"'
    return name
