"""The conformance suite: what every estimator promises, as checks that run on any of them.

A `Case` says how to make an estimator and what to feed it. `checks_of(cases)` pairs every case
with every check in `CHECKS`:

    @pytest.mark.parametrize(("case", "check"), checks_of(CASES))
    def test_conformance(case, check, tmp_path):
        check(case, tmp_path)

`scikit_learn_checks(estimators)` gives scikit-learn's own checks in the same form:

    @pytest.mark.parametrize(("estimator", "check"), scikit_learn_checks([MyModel()]))
    def test_scikit_learn(estimator, check):
        check(estimator)

Your own estimator that is saved by a schema can be checked in the same way. You need pytest, and
for the checks on a cluster the extra 'dask'.
"""

from __future__ import annotations

import atexit
import copy
import gc
import importlib.util
import inspect
import itertools
import os
import pickle  # noqa: TID251  (to measure and to copy; nothing here reads a pickle from a file)
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest import mock

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from everlearn.errors import CheckpointError
from everlearn.estimator.collections import n_rows_of
from everlearn.estimator.saving import load
from everlearn.store.archive import Checkpoint, read_checkpoint
from everlearn.testing.forging import forgeries

Batch: TypeAlias = tuple[Any, ...]
"""The arguments of one `partial_fit`: rows, or rows and targets."""
_FAILURES: Final = 16
"""Number of places in a call of `partial_fit` at which a failure is simulated."""
_TORN: Final = 24
"""Number of places at which a file is cut, and at which one bit is flipped."""
_ROUNDS: Final = 4
"""Rounds through all batches before memory is measured, and again as many after that."""
_GROWTH: Final = 0.25
"""Allowed growth of a model at each batch, as a share of the batch: histories grow a little."""


@dataclass(frozen=True)
class Spoilt:
    """Input that must be refused, and words that the error must contain."""

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
    small : parameters with which memory is full after a few batches, such as a short window;
        None if the model keeps every batch by design
    """

    name: str
    make: Callable[..., Any]
    batches: Sequence[Batch]
    probe: Any
    methods: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    spoilt: Mapping[str, Spoilt] = field(default_factory=dict)
    small: Mapping[str, Any] | None = field(default_factory=dict)

    def learned(self, n_batches: int | None = None, **params: Any) -> Any:
        """The estimator after its first batches, or after all of them."""
        model = self.make(**params)
        for number, batch in enumerate(self.batches[:n_batches]):
            self.learn(model, batch, first=number == 0)
        return model

    def learn(self, model: BaseEstimator, batch: Batch, *, first: bool = False) -> None:
        """One `partial_fit`."""
        model.partial_fit(*batch, **(self.options if first else {}))


Check: TypeAlias = Callable[[Case, Path], None]


def checks_of(cases: Sequence[Case]) -> list[Any]:
    """Every case with every check, as `pytest.mark.parametrize` takes them."""
    import pytest  # noqa: PLC0415

    return [
        pytest.param(case, check, id=f"{case.name}-{check.__name__.removeprefix('check_')}")
        for case in cases
        for check in CHECKS
    ]


def scikit_learn_checks(
    estimators: Sequence[Any], expected_failures: Mapping[str, str] | None = None
) -> list[Any]:
    """scikit-learn's own checks of the estimators, as `pytest.mark.parametrize` takes them.

    Parameters
    ----------
    estimators : sequence of estimators
        Each is checked with its own parameters.
    expected_failures : mapping of str to str, optional
        Names of checks that cannot pass, and why. A test fails if such a check passes after all,
        and the names must be those of checks.
    """
    import pytest  # noqa: PLC0415
    from sklearn.utils.estimator_checks import estimator_checks_generator  # noqa: PLC0415

    reasons = dict(expected_failures or {})
    found, seen = [], set()
    for estimator in estimators:
        title = re.sub(r"\s+", " ", repr(estimator))
        for _, check in estimator_checks_generator(estimator):
            name = check.func.__name__
            seen.add(name)
            reason = reasons.get(name)
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
            quick = partial(_with_array_api, check)
            found.append(pytest.param(estimator, quick, marks=marks, id=f"{title}-{name}"))
    if unknown := sorted(set(reasons) - seen):
        raise ValueError(f"scikit-learn has no check {unknown[0]!r} for these estimators")
    return found


def _with_array_api(check: Callable[[BaseEstimator], None], estimator: BaseEstimator) -> None:
    with mock.patch.dict(os.environ, SCIPY_ARRAY_API="1"):  # without it a check is skipped
        check(estimator)


def file_bytes(model: BaseEstimator, folder: Path) -> bytes:
    """What `save` writes."""
    path = folder / "bytes.evl"
    with _quick_disk():
        model.save(path)
    return path.read_bytes()


def _quick_disk() -> Any:
    """Files need not survive a power cut here; waiting for the disk would take most of the time."""
    return mock.patch("os.fsync")


def check_saving_changes_nothing(case: Case, folder: Path) -> None:
    """A saved and loaded model continues exactly like one that never stopped."""
    numbers = range(1, len(case.batches))
    begun = [(case.learned(number), case.batches[number]) for number in numbers]
    begun.append((case.make().fit(*case.batches[0]), case.batches[1]))
    if "random_state" in begun[0][0].get_params():  # a file keeps the seed that was drawn
        generator = np.random.RandomState(8)
        begun.append((case.learned(1, random_state=generator), case.batches[1]))
    for model, batch in begun:
        model.save(folder / "model.evl")
        loaded = load(folder / "model.evl")
        assert type(loaded) is type(model)
        assert file_bytes(loaded, folder) == file_bytes(model, folder)
        for method in case.methods:
            answers = [getattr(each, method)(case.probe) for each in (loaded, model)]
            np.testing.assert_equal(_plain(answers[0]), _plain(answers[1]), err_msg=method)
        for other in (model, loaded):
            case.learn(other, batch)
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


def check_predictions_of_parts_agree(case: Case, folder: Path) -> None:
    """A record gets the same prediction alone, among all others, and in another order."""
    model, n = case.learned(), n_rows_of(case.probe)
    backwards = list(range(n))[::-1]
    for method in case.methods:
        predict = getattr(model, method)
        whole = _plain(predict(case.probe))
        if not _has_length(whole, n):  # one number for all records, as `score` gives
            continue
        alone = [_plain(predict(_records(case.probe, [i])))[0] for i in range(n)]
        turned = _plain(predict(_records(case.probe, backwards)))
        for i in range(n):
            _assert_close(alone[i], whole[i], f"{method} of record {i} alone")
            _assert_close(turned[n - 1 - i], whole[i], f"{method} of record {i}, last one first")


def check_input_is_not_kept(case: Case, folder: Path) -> None:
    """A caller may reuse the arrays of a batch."""
    wanted = file_bytes(case.learned(), folder)
    model = case.make()
    for number, batch in enumerate(case.batches):
        own = copy.deepcopy(batch)
        case.learn(model, own, first=number == 0)
        _scribble(own)
    assert file_bytes(model, folder) == wanted


def check_memory_stays_flat(case: Case, folder: Path) -> None:
    """A model hardly grows with the data that it learns.

    The size of a pickle is measured, because a saved file may leave out parts of the model.
    """
    if case.small is None:
        return
    model = case.make(**case.small)
    sizes = []
    for number in range(2 * _ROUNDS):
        for place, batch in enumerate(case.batches):
            case.learn(model, batch, first=number == place == 0)
        sizes.append(len(pickle.dumps(model)))
    grown = sizes[-1] - sizes[_ROUNDS - 1]
    learned = _ROUNDS * sum(len(pickle.dumps(batch)) for batch in case.batches)
    assert grown <= _GROWTH * learned, f"{learned} bytes were learned, and {grown} of them kept"


def check_copies_are_independent(case: Case, folder: Path) -> None:
    """A clone learns the same, and a copy or a pickle continues without its original."""
    model = case.learned(2)
    before = file_bytes(model, folder)
    again = clone(model)
    assert set(vars(again)) == set(vars(clone(case.make())))
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for twin in copies:
        assert file_bytes(twin, folder) == before
        case.learn(twin, case.batches[2])
    assert file_bytes(model, folder) == before
    case.learn(model, case.batches[2])
    for twin in copies:
        assert file_bytes(twin, folder) == file_bytes(model, folder)


def check_fit_starts_anew(case: Case, folder: Path) -> None:
    """`fit` forgets what was learned before, and returns the model."""
    fresh, used = case.make(), case.learned(2)
    for model in (fresh, used):
        assert model.fit(*case.batches[2]) is model
    assert file_bytes(used, folder) == file_bytes(fresh, folder)


def check_engines_agree(case: Case, folder: Path) -> None:
    """Threads and a cluster give the bits of one process."""
    engines = ["serial", "threads", *_clusters()]
    header, arrays = case.learned(engine="serial").to_checkpoint()
    for engine in engines[1:]:
        other, others = case.learned(engine=engine).to_checkpoint()
        assert header["learned"] == other["learned"], engine
        assert arrays.keys() == others.keys(), engine
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, others[name], err_msg=f"{name}, {engine}")


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
    """After a failure in `partial_fit`, the model has learned all of the batch or nothing."""
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
    """Loading refuses every violation of the schema, and the error names the place."""
    path = folder / "model.evl"
    model = case.learned()
    model.save(path)
    file = read_checkpoint(path)
    n_forged = 0
    # There are hundreds of forgeries, and most of the time would go to writing files.
    with mock.patch("everlearn.estimator.saving.read_checkpoint") as read:
        for place, forge in forgeries(type(model)._schema, file.header["learned"]):
            header, arrays = copy.deepcopy(dict(file.header)), dict(file.arrays)
            forge(header, arrays)
            read.return_value = Checkpoint(header, arrays)
            error = _raised(lambda: load(path), CheckpointError)
            assert error is not None, f"a file with a wrong {place} was loaded"
            assert place.rpartition("/")[2] in str(error), f"{place}: {error}"
            n_forged += 1
    assert n_forged > 10


def check_torn_files_are_refused(case: Case, folder: Path) -> None:
    """Loading refuses a truncated file or a flipped bit, and the error names the file."""
    path = folder / "torn.evl"
    whole = file_bytes(case.learned(), folder)
    places = np.unique(np.linspace(0, len(whole) - 1, _TORN).astype(int)).tolist()
    for place in places:
        flipped = bytes([whole[place] ^ 0x10])
        for torn in (whole[:place], whole[:place] + flipped + whole[place + 1 :]):
            path.write_bytes(torn)
            error = _raised(lambda: load(path), CheckpointError)
            assert error is not None, f"a file torn at byte {place} was loaded"
            assert path.name in str(error)


CHECKS: Final[tuple[Check, ...]] = (
    check_saving_changes_nothing,
    check_predictions_change_nothing,
    check_predictions_of_parts_agree,
    check_input_is_not_kept,
    check_memory_stays_flat,
    check_copies_are_independent,
    check_fit_starts_anew,
    check_engines_agree,
    check_refusals_leave_no_trace,
    check_failures_leave_no_trace,
    check_forged_files_are_refused,
    check_torn_files_are_refused,
)


@cache
def _clusters() -> tuple[Any, ...]:
    """A client of two workers in this process, if Dask is installed. It is open until exit."""
    if importlib.util.find_spec("distributed") is None:
        return ()
    from everlearn.engine.dask import local_workers  # noqa: PLC0415

    stack = ExitStack()
    with warnings.catch_warnings():  # Dask leaves sockets to the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        client = stack.enter_context(local_workers(2, processes=False))
        gc.collect()
    atexit.register(stack.close)
    return (client,)


def _plain(value: Any) -> Any:
    return value.toarray() if sparse.issparse(value) else value


def _records(table: Any, positions: list[int]) -> Any:
    """The records at these positions, in the form of the table."""
    if hasattr(table, "iloc"):
        return table.iloc[positions]
    if hasattr(table, "shape"):
        return table[np.asarray(positions)]
    return [table[i] for i in positions]


def _has_length(answer: Any, n: int) -> bool:
    if isinstance(answer, np.ndarray):
        return answer.ndim > 0 and len(answer) == n
    return isinstance(answer, list) and len(answer) == n


def _assert_close(found: Any, wanted: Any, what: str) -> None:
    """Numbers agree up to rounding, which depends on the size of a block. Names are equal."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    if wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-7, err_msg=what)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=what)


def _scribble(value: Any) -> None:
    """Overwrite all numbers in the arrays of a batch."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        value[...] = 77
    elif sparse.issparse(value):
        value.data[...] = 77
    elif isinstance(value, (tuple, list)):
        for part in value:
            _scribble(part)


def _refuses(
    model: BaseEstimator, case: Case, spoilt: Spoilt, name: str, *, may_learn: bool = False
) -> None:
    """The model refuses spoilt input. With `may_learn`, a model without data may accept it."""
    error = _raised(lambda: case.learn(model, spoilt.batch, first=may_learn), TypeError, ValueError)
    if error is None:
        assert may_learn, f"{name} was not refused"
        return
    assert may_learn or spoilt.words in str(error), f"{name}: {error}"
    assert type(model).__name__ in str(error), f"{name}: {error}"


def _raised(call: Callable[[], Any], *kinds: type[Exception]) -> Exception | None:
    """The error that a call raises, or None."""
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
        # Closing a generator also counts as a call, but Python would drop the error there.
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
