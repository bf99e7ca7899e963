"""What every estimator promises, as checks that run on any of them.

A `Case` says how to make an estimator and what to feed it. `checks_of(cases)` pairs every case
with every check:

    @pytest.mark.parametrize(("case", "check"), checks_of(CASES))
    def test_conformance(case, check, tmp_path):
        check(case, tmp_path)

Your own estimator that is saved by a schema can be checked in the same way.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from everlearn.store.archive import read_checkpoint, write_checkpoint
from everlearn.store.schema import Array, Record, Scalar, Schema

Batch = tuple[Any, ...]
"""The arguments of one `partial_fit`: rows, or rows and targets."""
_FAILURES: Final = 16
"""Places in a call of `partial_fit` at which a failure is tried."""


@dataclass(frozen=True)
class Spoilt:
    """Input that must be refused, and words that the error has."""

    batch: Batch
    words: str


@dataclass(frozen=True)
class Case:
    """One estimator to check.

    Attributes
    ----------
    name : of the case
    make : makes the estimator; keyword arguments replace parameters
    batches : at least three batches for `partial_fit`
    probe : what predictions are asked for
    methods : of prediction
    options : further arguments of the first `partial_fit`, such as classes
    spoilt : input that must be refused, by name
    """

    name: str
    make: Callable[..., Any]
    batches: Sequence[Batch]
    probe: Any
    methods: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    spoilt: Mapping[str, Spoilt] = field(default_factory=dict)

    def learned(self, n_batches: int | None = None, **params: Any) -> Any:
        """The estimator after its first batches, or after all of them."""
        model = self.make(**params)
        for number, batch in enumerate(self.batches[:n_batches]):
            self.learn(model, batch, first=number == 0)
        return model

    def learn(self, model: Any, batch: Batch, *, first: bool = False) -> None:
        """One `partial_fit`."""
        model.partial_fit(*batch, **(self.options if first else {}))


Check = Callable[[Case, Path], None]


def checks_of(cases: Sequence[Case]) -> list[Any]:
    """Every case with every check, as `pytest.mark.parametrize` takes them."""
    import pytest  # noqa: PLC0415

    return [
        pytest.param(case, check, id=f"{case.name}-{check.__name__.removeprefix('check_')}")
        for case in cases
        for check in CHECKS
    ]


def file_bytes(model: Any, folder: Path) -> bytes:
    """What `save` writes."""
    path = folder / "bytes.evl"
    with mock.patch("os.fsync"):  # the disk may take its time
        model.save(path)
    return path.read_bytes()


def check_saving_changes_nothing(case: Case, folder: Path) -> None:
    """A model that was saved and loaded goes on as one that never stopped, to the bit."""
    for n_batches in range(1, len(case.batches)):
        model = case.learned(n_batches)
        model.save(folder / "model.evl")
        loaded = load(folder / "model.evl")
        assert type(loaded) is type(model)
        assert file_bytes(loaded, folder) == file_bytes(model, folder)
        for other in (model, loaded):
            case.learn(other, case.batches[n_batches])
        assert file_bytes(loaded, folder) == file_bytes(model, folder)


def check_predictions_change_nothing(case: Case, folder: Path) -> None:
    """Predicting leaves the model as it is, and gives the same answer twice."""
    model = case.learned()
    before, attributes = file_bytes(model, folder), set(vars(model))
    for method in case.methods:
        first, again = (getattr(model, method)(case.probe) for _ in range(2))
        np.testing.assert_equal(_plain(first), _plain(again))
    assert file_bytes(model, folder) == before
    assert set(vars(model)) == attributes


def check_input_is_not_kept(case: Case, folder: Path) -> None:
    """A caller may reuse the arrays of a batch."""
    wanted = file_bytes(case.learned(), folder)
    model = case.make()
    for number, batch in enumerate(case.batches):
        own = copy.deepcopy(batch)
        case.learn(model, own, first=number == 0)
        _scribble(own)
    assert file_bytes(model, folder) == wanted


def check_engines_agree(case: Case, folder: Path) -> None:
    """Threads give the bits of one process."""
    contents = [case.learned(engine=engine).to_checkpoint() for engine in ("serial", "threads")]
    (header, arrays), (other, others) = contents
    assert header["learned"] == other["learned"]
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)


def check_refusals_leave_no_trace(case: Case, folder: Path) -> None:
    """Input that is refused leaves the model as it was, and the error names the estimator."""
    model = case.learned(2)
    before, attributes = file_bytes(model, folder), set(vars(model))
    fresh = set(vars(case.make()))
    for name, spoilt in case.spoilt.items():
        _refuses(model, case, spoilt, name)
        assert file_bytes(model, folder) == before, name
        assert set(vars(model)) == attributes, name
        new = case.make()
        _refuses(new, case, spoilt, name, may_learn=True)
        assert set(vars(new)) in (fresh, attributes), name


def check_failures_leave_no_trace(case: Case, folder: Path) -> None:
    """A `partial_fit` that fails anywhere leaves the model as it was, or has ended."""
    model = case.learned(2)
    model.save(folder / "before.evl")
    before = file_bytes(model, folder)
    with _failing_at(None) as calls:
        case.learn(model, case.batches[2])
    after = file_bytes(model, folder)
    errors = itertools.cycle((MemoryError, KeyboardInterrupt))
    for place in np.unique(np.linspace(1, calls[0], _FAILURES).astype(int)).tolist():
        model, error = load(folder / "before.evl"), next(errors)
        attributes = set(vars(model))
        with suppress(error), _failing_at(place, error):
            case.learn(model, case.batches[2])
        assert set(vars(model)) == attributes
        if file_bytes(model, folder) == before:
            case.learn(model, case.batches[2])
        assert file_bytes(model, folder) == after, f"{error.__name__} in call {place}"


def check_forged_files_are_refused(case: Case, folder: Path) -> None:
    """Whatever a schema rules out is refused with its place, and never becomes a model."""
    path = folder / "model.evl"
    model = case.learned()
    model.save(path)
    file = read_checkpoint(path)
    n_forged = 0
    for place, forge in _forgeries(type(model)._schema, file.header["learned"]):
        header, arrays = copy.deepcopy(dict(file.header)), dict(file.arrays)
        forge(header, arrays)
        write_checkpoint(path, header, arrays)
        error = _raised(lambda: load(path), CheckpointError)
        assert error is not None, f"a file with a wrong {place} was loaded"
        assert place.rpartition("/")[2] in str(error), f"{place}: {error}"
        n_forged += 1
    assert n_forged > 10


CHECKS: Final[tuple[Check, ...]] = (
    check_saving_changes_nothing,
    check_predictions_change_nothing,
    check_input_is_not_kept,
    check_engines_agree,
    check_refusals_leave_no_trace,
    check_failures_leave_no_trace,
    check_forged_files_are_refused,
)


def _plain(value: Any) -> Any:
    return value.toarray() if hasattr(value, "toarray") else value


def _scribble(value: Any) -> None:
    """Overwrite all numbers in the arrays of a batch."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        value[...] = 77
    elif hasattr(value, "data") and hasattr(value, "indptr"):
        value.data[...] = 77
    elif isinstance(value, (tuple, list)):
        for part in value:
            _scribble(part)


def _refuses(model: Any, case: Case, spoilt: Spoilt, name: str, *, may_learn: bool = False) -> None:
    """`may_learn`: input that contradicts what came before is fine as a beginning."""
    error = _raised(lambda: case.learn(model, spoilt.batch, first=may_learn), TypeError, ValueError)
    if error is None:
        assert may_learn, f"{name} was not refused"
        return
    assert may_learn or spoilt.words in str(error), f"{name}: {error}"
    assert type(model).__name__ in str(error), f"{name}: {error}"


def _raised(call: Callable[[], Any], *kinds: type[Exception]) -> Exception | None:
    """The error that a call ends with, if it does."""
    try:
        call()
    except kinds as error:
        return error
    return None


@contextmanager
def _failing_at(place: int | None, error: type[BaseException] = MemoryError) -> Iterator[list[int]]:
    """Raise an error in the `place`-th call of a function of everlearn; count the calls."""
    calls = [0]

    def watch(frame: Any, event: str, _: object) -> None:
        ours = frame.f_globals.get("__name__", "").startswith("everlearn.")
        # A generator is "called" when it is closed, too, where an error would be lost.
        if event == "call" and ours and not frame.f_code.co_flags & inspect.CO_GENERATOR:
            calls[0] += 1
            if calls[0] == place:
                sys.setprofile(None)
                raise error("a failure that a check made")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield calls
    finally:
        sys.setprofile(before)


Forge = Callable[[dict[str, Any], dict[str, NDArray[Any]]], None]


def _forgeries(schema: Schema, learned: Any) -> Iterator[tuple[str, Forge]]:
    """Places of a file, and functions that spoil them in ways that its schema rules out."""
    for leaf, place in schema.leaves(learned, "learned"):
        if isinstance(leaf, Array):
            yield from _wrong_arrays(leaf, place)
        elif isinstance(leaf, Scalar):
            for value in _wrong_scalars(leaf):
                yield place, _setting(place, value)
        elif isinstance(leaf, Record):
            yield place, _setting(f"{place}/no_such_entry", 1)
            for name, part in leaf.fields.items():
                if part.in_header:
                    yield f"{place}/{name}", _dropping(f"{place}/{name}")
    yield "no_such_member", lambda header, arrays: arrays.update(no_such_member=np.zeros(1))


def _wrong_scalars(leaf: Scalar) -> Iterator[Any]:
    yield []
    if leaf.kind is not str:
        yield "text"
    else:
        yield 1 if leaf.choices is None else "a name that no schema has"
    if leaf.kind in (int, float):
        yield from (math.nextafter(v, s) for v, s in ((leaf.low, -math.inf), (leaf.high, math.inf)))
        yield True
    if leaf.kind is int:
        yield from (int(leaf.low) - 1, int(leaf.high) + 1, 0.5)


def _wrong_arrays(leaf: Array, place: str) -> Iterator[tuple[str, Forge]]:
    def change(function: Callable[[NDArray[Any]], NDArray[Any]]) -> Forge:
        return lambda header, arrays: arrays.update({place: function(arrays[place])})

    yield place, lambda header, arrays: arrays.__delitem__(place)
    yield place, change(lambda array: array[None])
    yield place, change(lambda array: np.zeros(array.shape, "<f2"))
    numbers: list[float] = []
    if "float64" in leaf.dtypes:
        numbers = [math.nextafter(leaf.low, -math.inf), math.nextafter(leaf.high, math.inf)]
        numbers += [math.inf] if leaf.nan else [math.inf, math.nan]
    for number in numbers:
        if math.isfinite(number) or not leaf.dtypes[0].startswith("int"):
            yield place, change(lambda array, number=number: _with_entry(array, number))  # type: ignore[misc]


def _with_entry(array: NDArray[Any], value: float) -> NDArray[Any]:
    """The array with its last entry changed; one without numbers gets another shape."""
    if not array.size or array.dtype.kind == "U":
        return array[None]
    changed = array.astype(np.float64)
    changed.flat[-1] = value
    return changed


def _setting(place: str, value: Any) -> Forge:
    def forge(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        holder, key = _holder(header, place)
        holder[key] = value

    return forge


def _dropping(place: str) -> Forge:
    def forge(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        holder, key = _holder(header, place)
        del holder[key]

    return forge


def _holder(header: Any, place: str) -> tuple[Any, Any]:
    """The object or list of the header in which a place is, and its key there."""
    *path, last = place.split("/")
    holder = header
    for key in path:
        holder = holder[int(key) if isinstance(holder, list) else key]
    return holder, int(last) if isinstance(holder, list) else last
