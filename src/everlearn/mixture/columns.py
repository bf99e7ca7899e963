"""Columns of a table: what kind each one is, and the codes of its categories.

The rule, for the first rows that are learned:

- text, truth values and categorical columns are categories;
- a column of numbers is categories too if it has at most `FEW_VALUES` different values, and each
  comes `ROWS_PER_VALUE` times on average;
- other whole numbers of 0 or more are counts if their mean is at most `LARGEST_MEAN_COUNT`;
- all others are numbers;
- a column is categories without values until a row has one.

Users may name the kind of a column instead. A table in memory has one number for each entry: that
of a category is its code, which is 0 for all values that have no code of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
_SHOWN_VALUES: Final = 6
_SURELY_CATEGORIES: Final = 20
"""Text with at most this many different values is categories, however few rows there are."""


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

    def __str__(self) -> str:
        shown = ", ".join(self.values[:_SHOWN_VALUES])
        more = len(self.values) - _SHOWN_VALUES
        rest = f" and {more} more" if more > 0 else ""
        return f"{self.kind}: {shown}{rest}" if shown else self.kind

    @property
    def n_codes(self) -> int:
        """Number of codes, with that of other values."""
        return len(self.values) + 1

    @property
    def is_unknown(self) -> bool:
        """Whether no row has had a value: it may be text or a number."""
        return self.kind == "categories" and not self.values

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


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """Counts that decide the kind and the values of a column. Summaries of parts can be added.

    Attributes
    ----------
    counts : rows with each value; None for numbers with too many values for categories
    n_seen : rows that have a value
    low, total, whole : smallest number, sum, and whether all are whole numbers
    """

    counts: Mapping[str, int] | None
    n_seen: int
    low: float = np.inf
    total: float = 0.0
    whole: bool = True

    @classmethod
    def of(cls, column: Column, entries: Vec, *, all_values: bool) -> ColumnSummary:
        """Summarize entries. With `all_values`, values are counted however many there are."""
        seen = entries[~np.isnan(entries)]
        distinct, counts = np.unique(seen, return_counts=True)
        if not column.numeric:
            pairs = zip(distinct.tolist(), counts.tolist(), strict=True)
            named = {column.values[int(code) - 1]: n for code, n in pairs if code >= 1}
            return cls(named, len(seen))
        few = len(distinct) <= FEW_VALUES or all_values
        texts = map(text_of, distinct) if few else ()
        return cls(
            dict(zip(texts, counts.tolist(), strict=True)) if few else None,
            len(seen),
            float(seen.min(initial=np.inf)),
            float(seen.sum()),
            bool((seen == np.rint(seen)).all()),
        )

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        counts = None
        if self.counts is not None and other.counts is not None:
            counts = dict(Counter(self.counts) + Counter(other.counts))
        return ColumnSummary(
            counts,
            self.n_seen + other.n_seen,
            min(self.low, other.low),
            self.total + other.total,
            self.whole and other.whole,
        )

    def kind(self) -> str:
        """The kind of a column of numbers, by the rule above."""
        n_values = np.inf if self.counts is None else len(self.counts)
        if n_values <= min(FEW_VALUES, self.n_seen / ROWS_PER_VALUE):
            return "categories"
        small = self.low >= 0 and self.total <= LARGEST_MEAN_COUNT * self.n_seen
        return "counts" if self.whole and small else "numbers"

    def values(self, *, numeric: bool) -> tuple[str, ...]:
        """The most frequent values, sorted, so that the order of rows plays no part."""
        counts = self.counts or {}
        ordered = sorted(counts, key=float) if numeric else sorted(counts)
        kept = set(sorted(ordered, key=lambda value: -counts[value])[:MAX_VALUES])
        return tuple(value for value in ordered if value in kept)


def choose_kinds(
    owner: str, columns: Columns, X: Mat, given: Mapping[str, str]
) -> tuple[Columns, Mat]:
    """Choose the kind and the values of each column. Returns the columns, and the recoded rows.

    Parameters
    ----------
    owner : name of the estimator
    columns : the columns as read, before their kinds are chosen
    X : all rows so far, as numbers and provisional codes
    given : kinds that the user named, by column
    """
    summaries, out = summaries_of(columns, X, given), X.copy()
    chosen = chosen_columns(owner, columns, summaries, given)
    for j, (old, new) in enumerate(zip(columns, chosen, strict=True)):
        entries = _numbers(old, X[:, j])
        check_counts(owner, new, entries)
        if new.kind == "categories":
            entries = recoded(entries, None if old.numeric else old, new)
        out[:, j] = entries
    return chosen, out


def summaries_of(columns: Columns, X: Mat, given: Mapping[str, str]) -> list[ColumnSummary]:
    """A summary of each column of these rows."""
    return [
        ColumnSummary.of(
            column,
            _numbers(column, X[:, j]),
            all_values=given.get(column.name) == "categories",
        )
        for j, column in enumerate(columns)
    ]


def chosen_columns(
    owner: str, columns: Columns, summaries: Sequence[ColumnSummary], given: Mapping[str, str]
) -> Columns:
    """The columns with the kinds and values that their summaries show."""
    chosen, texts = [], []
    for column, found in zip(columns, summaries, strict=True):
        kind = given.get(column.name) or (found.kind() if column.numeric else "categories")
        values = found.values(numeric=column.numeric) if kind == "categories" else ()
        n_values = len(found.counts or ())
        is_text = not column.numeric and column.name not in given
        if is_text and n_values > max(_SURELY_CATEGORIES, found.n_seen // 2):
            texts.append((column.name, n_values, found.n_seen, next(iter(found.counts or ()))))
        numeric = column.numeric or kind != "categories"
        chosen.append(replace(column, kind=kind, values=values, numeric=numeric))
    if texts:
        raise _too_many_values(owner, texts)
    return tuple(chosen)


def merged_columns(every: list[Columns]) -> Columns:
    """The columns of several models as one: the values of all, up to `MAX_VALUES`.

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


def limit_values(columns: Columns, X: Mat) -> tuple[Columns, Mat]:
    """Keep `MAX_VALUES` values of each column, and give all others the code 0."""
    if all(len(column.values) <= MAX_VALUES for column in columns):
        return columns, X
    most = np.array([MAX_VALUES if c.kind == "categories" else np.inf for c in columns])
    kept = tuple(replace(column, values=column.values[:MAX_VALUES]) for column in columns)
    return kept, np.where(most < X, 0.0, X)


def recoded(entries: Vec, old: Column | None, new: Column) -> Vec:
    """Entries with the codes of `new`, from codes of `old`, or from numbers if that is None."""
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
    """Refuse entries of a column of counts that are not whole numbers from 0 on."""
    if column.kind == "counts" and len(wrong := no_counts(entries)):
        raise ValueError(
            f"X of {owner} must have whole numbers from 0 on in column {column.name!r}, which "
            f"holds counts, got {wrong[0]:g}. Use family={{{column.name!r}: 'numbers'}} and a new "
            "fit."
        )


def no_counts(entries: Vec) -> Vec:
    """The entries that are neither counts nor missing."""
    wrong = (entries < 0) | (entries != np.rint(entries)) & ~np.isnan(entries)
    return np.asarray(entries[wrong])


def _numbers(column: Column, entries: Vec) -> Vec:
    """Entries as numbers: codes of numbers are decoded, those of text stay."""
    if not column.numeric or column.kind != "categories":
        return entries
    numbers = np.array([np.nan, *map(float, column.values)])
    seen = ~np.isnan(entries)
    return np.where(seen, numbers[np.where(seen, entries, 0.0).astype(np.int64)], np.nan)


def _too_many_values(owner: str, texts: list[tuple[str, int, int, str]]) -> UsageError:
    names = [name for name, *_ in texts]
    each = "; ".join(
        f"{name!r} has {n:,} different values in {rows:,} rows, such as {example!r:.30}"
        for name, n, rows, example in texts
    )
    return UsageError(
        f"X of {owner} has text in which most values are different, such as names, ids, dates "
        f"or sentences: column {each}. Leave {'it' if len(names) == 1 else 'them'} out: "
        f"X.drop(columns={names}), or --columns on the command line. Turn numbers that are "
        f"written as text into numbers. Learn from sentences with TopicModel. If these are "
        f"categories, say so: family={{{names[0]!r}: 'categories'}}."
    )
