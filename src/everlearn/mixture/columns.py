"""Columns of a table: what kind each one is, and the codes of its categories.

The rule, for the first rows that are learned:

- text, truth values and categorical columns are categories;
- a column of numbers is categories too if it has at most `FEW_VALUES` different values, and each
  comes `ROWS_PER_VALUE` times on average;
- other whole numbers of 0 or more are counts if their mean is at most `LARGEST_MEAN_COUNT`;
- all others are numbers.

Users may name the kind of a column instead. A table in memory has one number for each entry: that
of a category is its code, which is 0 for all values that have no code of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from everlearn.core.arrays import Mat, Vec
from everlearn.errors import UsageError

KINDS: Final = ("numbers", "categories", "counts")
FEW_VALUES: Final = 10
ROWS_PER_VALUE: Final = 5
LARGEST_MEAN_COUNT: Final = 10.0
MAX_VALUES: Final = 256
"""Most values of a column that have a code of their own. All others count as one more value."""
_SURELY_CATEGORIES: Final = 20
"""So many different values may be categories, however few rows there are."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : its name; that of a column without a name is its position
    kind : "numbers", "categories" or "counts"
    values : of categories, the values that have a code, as texts
    numeric : whether its entries are numbers, from which the kind was chosen
    """

    name: str
    kind: str
    values: tuple[str, ...] = ()
    numeric: bool = False

    @property
    def n_codes(self) -> int:
        """Number of codes, with that of other values."""
        return len(self.values) + 1

    def value(self, number: float) -> str | float | None:
        """An entry of the table as users gave it; None if it is missing or has no code."""
        if np.isnan(number):
            return None
        if self.kind != "categories":
            return float(number)
        text = self.values[int(number) - 1] if number >= 1 else None
        return float(text) if self.numeric and text is not None else text


Columns: TypeAlias = tuple[Column, ...]


def text_of(value: object) -> str:
    """A category as text; equal numbers have equal texts, whatever their type."""
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def settled(owner: str, columns: Columns, X: Mat, given: Mapping[str, str]) -> tuple[Columns, Mat]:
    """The columns with kinds and values chosen from all rows so far, and these rows.

    Parameters
    ----------
    owner : name of the estimator
    columns : as they were when the rows were read
    X : the rows
    given : kinds that the user named, by column
    """
    chosen, out, texts = [], X.copy(), []
    for j, column in enumerate(columns):
        plain, entries = _decoded(column, X[:, j])
        kind = given.get(column.name) or _kind_of(plain, entries)
        if kind == "categories":
            found, n_seen = _values_of(plain, entries), int((~np.isnan(entries)).sum())
            n_found = len(found)
            if column.name not in given and n_found > max(_SURELY_CATEGORIES, n_seen // 2):
                texts.append((column.name, n_found, n_seen))
            plain = replace(plain, kind=kind, values=_most_frequent(plain, entries, found))
            entries = recoded(entries, column if not plain.numeric else None, plain)
        else:
            plain = replace(plain, kind=kind)
            check_counts(owner, plain, entries)
        chosen.append(plain)
        out[:, j] = entries
    if texts:
        raise _too_many_values(owner, texts)
    return tuple(chosen), out


def joined(every: list[Columns]) -> Columns:
    """The columns of the first model with the values of all, as many as get a code.

    Raises a ValueError if columns are not the same.
    """
    first = every[0]
    values = [dict.fromkeys(column.values) for column in first]
    for position, columns in enumerate(every[1:], 1):
        for own, other, known in zip(first, columns, values, strict=False):
            if (own.name, own.kind, own.numeric) != (other.name, other.kind, other.numeric):
                raise ValueError(
                    f"merge needs tables with the same columns. Column {own.name!r} holds "
                    f"{own.kind} in the first model, but column {other.name!r} of model {position} "
                    f"holds {other.kind}. Say so when learning: family={{{own.name!r}: "
                    f"{own.kind!r}}}."
                )
            known.update(dict.fromkeys(other.values))
    return tuple(
        replace(column, values=tuple(known)[:MAX_VALUES])
        for column, known in zip(first, values, strict=True)
    )


def capped(columns: Columns, X: Mat) -> tuple[Columns, Mat]:
    """The columns with at most `MAX_VALUES` values each, and rows in which all others are 0."""
    if all(len(column.values) <= MAX_VALUES for column in columns):
        return columns, X
    most = np.array([MAX_VALUES if c.kind == "categories" else np.inf for c in columns])
    kept = tuple(replace(column, values=column.values[:MAX_VALUES]) for column in columns)
    return kept, np.where(most < X, 0.0, X)


def recoded(entries: Vec, old: Column | None, new: Column) -> Vec:
    """Entries with the codes of another column; without an old one, of plain numbers."""
    codes = {value: float(code) for code, value in enumerate(new.values, 1)}
    if old is None:
        distinct, where = np.unique(entries, return_inverse=True)
        texts = [text_of(number) for number in distinct]
        found = [np.nan if t == "nan" else codes.get(t, 0.0) for t in texts]
        return np.asarray(found, np.float64)[where] if len(distinct) else entries
    table = np.array([0.0, *(codes.get(value, 0.0) for value in old.values)])
    seen = ~np.isnan(entries)
    return np.where(seen, table[np.where(seen, entries, 0.0).astype(np.int64)], np.nan)


def check_counts(owner: str, column: Column, entries: Vec) -> None:
    """Refuse counts that are none."""
    if column.kind != "counts":
        return
    wrong = entries[(entries < 0) | (entries != np.rint(entries)) & ~np.isnan(entries)]
    if len(wrong):
        raise ValueError(
            f"X of {owner} must have whole numbers from 0 on in column {column.name!r}, which "
            f"holds counts, got {wrong[0]:g}. Use family={{{column.name!r}: 'numbers'}} and a new "
            "fit."
        )


def _decoded(column: Column, entries: Vec) -> tuple[Column, Vec]:
    """A column of numbers without codes; others stay."""
    if not column.numeric or column.kind != "categories":
        return column, entries
    numbers = np.array([np.nan, *map(float, column.values)])
    seen = ~np.isnan(entries)
    plain = np.where(seen, numbers[np.where(seen, entries, 0.0).astype(np.int64)], np.nan)
    return replace(column, kind="numbers", values=()), plain


def _kind_of(column: Column, entries: Vec) -> str:
    """The kind by the rule above."""
    if not column.numeric:
        return "categories"
    seen = entries[~np.isnan(entries)]
    if len(seen) == 0:
        return "numbers"
    n_values = len(np.unique(seen))
    if n_values <= FEW_VALUES and n_values * ROWS_PER_VALUE <= len(seen):
        return "categories"
    whole = bool((seen == np.rint(seen)).all())
    small = seen.min() >= 0 and seen.mean() <= LARGEST_MEAN_COUNT
    return "counts" if whole and small else "numbers"


def _values_of(column: Column, entries: Vec) -> list[str]:
    """All values of a column, sorted, so that the order of rows plays no part."""
    if column.numeric:
        return [text_of(number) for number in np.unique(entries[~np.isnan(entries)])]
    return sorted(column.values)


def _most_frequent(column: Column, entries: Vec, values: list[str]) -> tuple[str, ...]:
    """The values that get a code: all, or the most frequent ones in the same order."""
    if len(values) <= MAX_VALUES:
        return tuple(values)
    whole = replace(column, kind="categories", values=tuple(values))
    codes = recoded(entries, None if column.numeric else column, whole)
    counts = np.bincount(codes[~np.isnan(codes)].astype(np.int64), minlength=len(values) + 1)[1:]
    kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_VALUES])
    return tuple(values[i] for i in kept)


def _too_many_values(owner: str, texts: list[tuple[str, int, int]]) -> UsageError:
    names = [name for name, _, _ in texts]
    each = "; ".join(f"{name!r} has {n:,} different values in {rows:,}" for name, n, rows in texts)
    return UsageError(
        f"X of {owner} has text in which most values are different, such as names, ids, dates "
        f"or sentences: column {each} rows. Leave {'it' if len(names) == 1 else 'them'} out: "
        f"X.drop(columns={names}), or --columns on the command line. Learn from sentences with "
        f"TopicModel. If these are categories, say so: family={{{names[0]!r}: 'categories'}}."
    )
