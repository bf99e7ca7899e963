"""Constraint tables: what each parameter of an estimator may be.

An estimator lists one constraint per parameter; `check_params` compares and reports the first
violation with the parameter, its owner, what was expected and what came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Final, Protocol

import numpy as np

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


class Constraint(Protocol):
    """One way a value can be right."""

    def allows(self, value: Any) -> bool:
        """Whether the value is right."""

    def __str__(self) -> str:
        """What is expected, to follow the words "must be"."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A finite number between two ends; `low_open` leaves the lower end out."""

    low: float
    high: float = np.inf
    integer: bool = False
    low_open: bool = False

    def allows(self, value: Any) -> bool:
        kind = Integral if self.integer else Real
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        above = number > self.low if self.low_open else number >= self.low
        return bool(np.isfinite(number) and above and number <= self.high)

    def __str__(self) -> str:
        kind = "an integer" if self.integer else "a finite number"
        low = f"above {self.low:g}" if self.low_open else f"at least {self.low:g}"
        high = "" if self.high == np.inf else f" and at most {self.high:g}"
        return f"{kind} {low}{high}"


@dataclass(frozen=True, slots=True)
class Options:
    """One of a few names, which may include None."""

    values: tuple[str | None, ...]

    def allows(self, value: Any) -> bool:
        return (value is None or isinstance(value, str)) and value in self.values

    def __str__(self) -> str:
        names = ", ".join(repr(v) for v in self.values)
        return names if len(self.values) == 1 else f"one of {names}"


@dataclass(frozen=True, slots=True)
class Subset:
    """A sequence of names out of a few, each at most once."""

    values: tuple[str, ...]

    def allows(self, value: Any) -> bool:
        if isinstance(value, str) or not isinstance(value, (tuple, list, set, frozenset)):
            return False
        names = [v for v in value if isinstance(v, str) and v in self.values]
        return len(set(names)) == len(value)

    def __str__(self) -> str:
        return "a sequence of names out of " + ", ".join(repr(v) for v in self.values)


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a type, described in words."""

    types: tuple[type, ...]
    words: str

    def allows(self, value: Any) -> bool:
        return isinstance(value, self.types)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True)
class ByteSize:
    """A number of bytes, or text such as "64MB" or "1.5GiB"."""

    def allows(self, value: Any) -> bool:
        try:
            return parse_bytes(value) > 0
        except (OverflowError, TypeError, ValueError):
            return False

    def __str__(self) -> str:
        return 'a positive number of bytes or text such as "64MB"'


def parse_bytes(value: int | float | str) -> int:
    """Bytes meant by a number or by text with a unit (kB, MB, GB are powers of 1000).

    Examples
    --------
    >>> parse_bytes("64MB"), parse_bytes("1KiB"), parse_bytes(1000)
    (64000000, 1024, 1000)
    """
    if isinstance(value, (bool, np.bool_)):
        raise TypeError("a truth value is not a number of bytes")
    if not isinstance(value, str):
        return int(value)
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value)
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError(f"{value!r} is not a number of bytes")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def check_params(
    owner: str, params: Mapping[str, Any], table: Mapping[str, tuple[Constraint, ...]]
) -> None:
    """Raise for the first parameter that none of its constraints allows."""
    for name, constraints in table.items():
        value = params[name]
        if any(c.allows(value) for c in constraints):
            continue
        expected = ", or ".join(str(c) for c in constraints)
        kind = TypeError if isinstance(value, (type, bytes)) else ValueError
        raise kind(f"the {name!r} parameter of {owner} must be {expected}. Got {value!r} instead.")


def check_unchanged(owner: str, name: str, now: object, began: object) -> None:
    """Refuse to continue with another value of a parameter than learning began with."""
    if now != began:
        raise ValueError(
            f"the {name!r} parameter of {owner} was {began!r} when learning began and cannot "
            f"change without a new fit. Got {now!r} instead."
        )


RATE_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "rate": (Interval(0, 1, low_open=True),)
}
"""Of a `rate` in (0, 1]: of intervals, or of rows to flag."""
