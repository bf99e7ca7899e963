"""Schemas of saved objects, from which packing, checks and forged-file tests follow.

A schema turns a value into JSON for the header and arrays for the members of a file, and back.
Reading refuses what the schema does not allow, so that a damaged or forged file never becomes a
model. The parts:

`Scalar` a number, truth value or name; `Array` a member; `Record` an object with named fields;
`Many` a sequence; `Table` a mapping; `OneOf` one of several classes; `Optional` perhaps None;
`Converted` a value that is saved in another form.

An array's shape may name sizes, as in ``Array("K", "D")``. The first array that has a name sets
the size, and the others must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import CheckpointError

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
T = TypeVar("T")
Check: TypeAlias = Callable[[Any, str], None]
"""Compares the fields of a value, at a place in the file, and raises by `expect`."""
HUGE: Final = 1e300
"""No saved number is larger, unless its schema says so."""
IN_MEMBERS: Final = object()
"""What `pack` returns for an array: the header holds nothing of it."""


@dataclass(slots=True)
class Reading:
    """A file while it is read: its arrays, those that were used, and the sizes known so far."""

    arrays: Arrays
    used: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)


class Schema(Protocol):
    """How a value is saved. `place` says where it is, as in "state/sealed/n"."""

    @property
    def in_header(self) -> bool:
        """Whether the header holds anything of it; of an array it does not."""

    def pack(self, value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
        """The value as JSON; arrays are added to `arrays`."""

    def unpack(self, found: Any, place: str, file: Reading) -> Any:
        """Inverse of `pack`; raises CheckpointError for what cannot have been packed."""

    def leaves(self, found: Any, place: str) -> Iterator[tuple[Schema, str]]:
        """Every scalar, array and record in a packed value, with its place."""


def expect(condition: Any, place: str, what: str) -> None:
    """Refuse a file in which something is not what it must be."""
    if not condition:
        raise CheckpointError(f"{place!r} must be {what}")


def inside(place: str, name: str | int) -> str:
    """The place of a part."""
    return f"{place}/{name}" if place else str(name)


def dtype_name(array: NDArray[Any]) -> str:
    """The dtype as an `Array` names it."""
    return "str" if array.dtype.kind == "U" else array.dtype.name


def shown(value: object) -> str:
    """The value as it may appear in a message."""
    return repr(value)[:80]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number from `low` to `high`, a truth value, or one of the names in `choices`."""

    kind: type
    low: float = -HUGE
    high: float = HUGE
    choices: tuple[str, ...] | None = None
    in_header: ClassVar[bool] = True

    def pack(self, value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
        return self.kind(value)

    def unpack(self, found: Any, place: str, file: Reading) -> Any:
        right = type(found) is self.kind or (self.kind is float and type(found) is int)
        if right and self.kind in (int, float):
            right = self.low <= found <= self.high
        if right and self.choices is not None:
            right = found in self.choices
        expect(right, place, f"{self}, got {shown(found)}")
        return self.kind(found)

    def leaves(self, found: Any, place: str) -> Iterator[tuple[Schema, str]]:
        yield self, place

    def __str__(self) -> str:
        if self.choices is not None:
            return f"one of {', '.join(self.choices)}"
        if self.kind in (int, float):
            kind = "a whole number" if self.kind is int else "a number"
            return f"{kind} from {self.low:g} to {self.high:g}"
        return "true or false" if self.kind is bool else "a text"


class Array:
    """A member of the file.

    Parameters
    ----------
    *shape : str or int
        Named sizes and fixed ones, as in ``Array("K", "D")``.
    dtypes : tuple of str
        What its dtype may be; "str" stands for texts of any fixed width.
    low, high : float
        Range of the entries.
    nan : bool
        Whether entries may be NaN.
    transposed : bool
        Whether the file holds the transpose: some arrays lie in memory column by column, and
        what is computed from them depends on that in the last bit.
    """

    in_header = False

    def __init__(
        self,
        *shape: str | int,
        dtypes: tuple[str, ...] = ("float64",),
        low: float = -HUGE,
        high: float = HUGE,
        nan: bool = False,
        transposed: bool = False,
    ) -> None:
        self.shape, self.dtypes, self.low, self.high = shape, dtypes, low, high
        self.nan, self.transposed = nan, transposed

    def pack(self, value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
        # A copy: learners change some arrays in place after a checkpoint was taken.
        arrays[place] = np.array(value.T if self.transposed else value, order="C")
        return IN_MEMBERS

    def unpack(self, found: Any, place: str, file: Reading) -> Any:
        expect(found is None, place, f"null in the header, got {shown(found)}")
        if place not in file.arrays:
            raise CheckpointError(f"{place!r} is missing")
        array = file.arrays[place]
        file.used.add(place)
        if self.transposed:
            array = array.T
        wanted = [file.sizes.get(n, n) if isinstance(n, str) else n for n in self.shape]
        fits = array.ndim == len(wanted) and all(
            isinstance(n, str) or n == got for n, got in zip(wanted, array.shape, strict=True)
        )
        if not fits or dtype_name(array) not in self.dtypes:
            shape = f"({', '.join(map(str, wanted))})"
            got = f"{dtype_name(array)} of shape {array.shape}"
            expect(False, place, f"{' or '.join(self.dtypes)} of shape {shape}, got {got}")
        for n, got in zip(self.shape, array.shape, strict=True):
            if isinstance(n, str) and file.sizes.setdefault(n, got) != got:
                expect(False, place, f"of {n} = {file.sizes[n]} in each axis called {n}")
        if array.dtype.kind in "iuf":
            # NumPy's own floats, because a Python float would be cast to the array's float32.
            inside_range = (array >= np.float64(self.low)) & (array <= np.float64(self.high))
            if self.nan:
                inside_range |= np.isnan(array)
            expect(inside_range.all(), place, f"numbers from {self.low:g} to {self.high:g}")
        return array

    def leaves(self, found: Any, place: str) -> Iterator[tuple[Schema, str]]:
        yield self, place

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{' or '.join(self.dtypes)} of shape ({shape})"


class Record:
    """An object with named fields.

    Parameters
    ----------
    make : callable
        Called with the fields to make the object; usually its class.
    fields : mapping
        The schema of each attribute that is saved.
    check : callable, optional
        Raises by `expect` if fields contradict each other.
    sizes : callable, optional
        Named sizes that follow from the object.
    """

    in_header = True

    def __init__(
        self,
        make: Callable[..., Any],
        fields: Mapping[str, Schema],
        check: Check | None = None,
        sizes: Callable[[Any], Mapping[str, int]] | None = None,
    ) -> None:
        self.make, self.fields, self.check, self.sizes = make, fields, check, sizes

    def pack(self, value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
        packed = {
            name: schema.pack(getattr(value, name), inside(place, name), arrays)
            for name, schema in self.fields.items()
        }
        return {name: part for name, part in packed.items() if part is not IN_MEMBERS}

    def unpack(self, found: Any, place: str, file: Reading) -> Any:
        check_keys(found, place, [name for name, schema in self.fields.items() if schema.in_header])
        values = {
            name: schema.unpack(found.get(name), inside(place, name), file)
            for name, schema in self.fields.items()
        }
        try:
            value = self.make(**values)
        except (ArithmeticError, TypeError, ValueError, np.linalg.LinAlgError) as error:
            raise CheckpointError(f"{place!r} cannot be: {error}") from error
        if self.sizes is not None:
            file.sizes.update(self.sizes(value))
        if self.check is not None:
            self.check(value, place)
        return value

    def leaves(self, found: Any, place: str) -> Iterator[tuple[Schema, str]]:
        yield self, place
        for name, schema in self.fields.items():
            yield from schema.leaves(found.get(name), inside(place, name))


def check_keys(found: Any, place: str, keys: Sequence[str]) -> None:
    """Refuse what is not an object with these keys."""
    expect(isinstance(found, dict), place, f"an object, got {shown(found)}")
    if wrong := sorted(set(found) ^ set(keys)):
        verb = "have" if wrong[0] in keys else "not have"
        raise CheckpointError(f"{place!r} must {verb} {wrong[0]!r}")


class Many:
    """A sequence of values; names in `own_sizes` are sizes that may differ from value to value."""

    in_header = True

    def __init__(
        self,
        each: Schema,
        *,
        own_sizes: Sequence[str] = (),
        most: int = 2**31,
        make: Callable[[Any], Any] = tuple,
    ) -> None:
        self.each, self.own_sizes, self.most, self.make = each, own_sizes, most, make

    def pack(self, value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
        packed = [self.each.pack(part, inside(place, i), arrays) for i, part in enumerate(value)]
        return [None if part is IN_MEMBERS else part for part in packed]

    def unpack(self, found: Any, place: str, file: Reading) -> Any:
        right = isinstance(found, list) and len(found) <= self.most
        expect(right, place, f"a list of at most {self.most:g} entries, got {shown(found)}")
        values = []
        for i, part in enumerate(found):
            for name in self.own_sizes:
                file.sizes.pop(name, None)
            values.append(self.each.unpack(part, inside(place, i), file))
        return self.make(values)

    def leaves(self, found: Any, place: str) -> Iterator[tuple[Schema, str]]:
        for i, part in enumerate(found):
            yield from self.each.leaves(part, inside(place, i))


class Table:
    """A mapping, as a list of keys and a list of values."""

    in_header = True

    def __init__(self, key: Schema, each: Schema, *, own_sizes: Sequence[str] = ()) -> None:
        self.keys, self.values = Many(key), Many(each, own_sizes=own_sizes)

    def pack(self, value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
        return {
            "keys": self.keys.pack(value.keys(), inside(place, "keys"), arrays),
            "values": self.values.pack(value.values(), inside(place, "values"), arrays),
        }

    def unpack(self, found: Any, place: str, file: Reading) -> Any:
        check_keys(found, place, ["keys", "values"])
        keys = self.keys.unpack(found["keys"], inside(place, "keys"), file)
        values = self.values.unpack(found["values"], inside(place, "values"), file)
        distinct = len(keys) == len(values) == len(set(keys))
        expect(distinct, inside(place, "keys"), "distinct, one for each value")
        return dict(zip(keys, values, strict=True))

    def leaves(self, found: Any, place: str) -> Iterator[tuple[Schema, str]]:
        yield from self.keys.leaves(found["keys"], inside(place, "keys"))
        yield from self.values.leaves(found["values"], inside(place, "values"))


class OneOf:
    """An object of one of several classes; the file names which by its key "kind"."""

    in_header = True

    def __init__(self, kinds: Mapping[str, tuple[type, Record]]) -> None:
        self.kinds = kinds

    def pack(self, value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
        for name, (kind, record) in self.kinds.items():
            if type(value) is kind:
                return {"kind": name, **record.pack(value, place, arrays)}
        raise TypeError(f"no schema for {type(value).__name__}")

    def unpack(self, found: Any, place: str, file: Reading) -> Any:
        expect(isinstance(found, dict) and "kind" in found, place, "an object with a kind")
        record = self._record(found, place)
        return record.unpack({k: v for k, v in found.items() if k != "kind"}, place, file)

    def leaves(self, found: Any, place: str) -> Iterator[tuple[Schema, str]]:
        yield Scalar(str, choices=tuple(self.kinds)), inside(place, "kind")
        yield from self._record(found, place).leaves(found, place)

    def _record(self, found: Any, place: str) -> Record:
        kind = found["kind"]
        known = isinstance(kind, str) and kind in self.kinds
        names = ", ".join(self.kinds)
        expect(known, inside(place, "kind"), f"one of {names}, got {shown(kind)}")
        return self.kinds[kind][1]


class Optional:
    """A value that may be None."""

    in_header = True

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def pack(self, value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
        if value is None:
            return None
        packed = self.schema.pack(value, place, arrays)
        return True if packed is IN_MEMBERS else packed

    def unpack(self, found: Any, place: str, file: Reading) -> Any:
        if found is None:
            return None
        if self.schema.in_header:
            return self.schema.unpack(found, place, file)
        expect(found is True, place, f"true or null in the header, got {shown(found)}")
        return self.schema.unpack(None, place, file)

    def leaves(self, found: Any, place: str) -> Iterator[tuple[Schema, str]]:
        if found is not None:
            yield from self.schema.leaves(found, place)


class Converted:
    """A value that is saved as another one: `save` makes that, and `restore` undoes it."""

    def __init__(
        self, schema: Schema, save: Callable[[Any], Any], restore: Callable[[Any], Any]
    ) -> None:
        self.schema, self.save, self.restore = schema, save, restore
        self.in_header = schema.in_header

    def pack(self, value: Any, place: str, arrays: dict[str, NDArray[Any]]) -> Any:
        return self.schema.pack(self.save(value), place, arrays)

    def unpack(self, found: Any, place: str, file: Reading) -> Any:
        value = self.schema.unpack(found, place, file)
        try:
            return self.restore(value)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise CheckpointError(f"{place!r} cannot be: {error}") from error

    def leaves(self, found: Any, place: str) -> Iterator[tuple[Schema, str]]:
        yield from self.schema.leaves(found, place)
