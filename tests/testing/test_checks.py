"""Every check of the conformance suite fails on an estimator with the fault that it is for.

The estimators below are the skeleton of `docs/skeletons/estimator.py` with one fault each.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from everlearn import registry
from everlearn.estimator.saving import SaveMixin
from everlearn.store.schema import Record, Scalar
from everlearn.testing import checks
from everlearn.testing.checks import CHECKS, Case, Check, Spoilt, scikit_learn_checks
from support.skeletons import skeleton

ESTIMATOR = skeleton("estimator")
X = np.random.default_rng(0).normal(size=(90, 3))


class Sound(ESTIMATOR.StreamingMean):
    """Without a fault."""


class LosesWhatItCounted(Sound):
    """A step is as large as the number of calls, which no file holds."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        super().partial_fit(X)
        self._n_calls = getattr(self, "_n_calls", 0) + 1
        return self._change(sums=self._learned.sums * (1 + self._n_calls))

    def _change(self, **fields: Any) -> Any:
        known = {name: getattr(self._learned, name) for name in self._learned.__slots__}
        self._learned = type(self._learned)(**known | fields)
        return self


class LearnsFromPredictions(Sound):
    """Counts the rows that it predicts."""

    def score_samples(self, X: Any) -> Any:
        found = super().score_samples(X)
        LosesWhatItCounted._change(self, n_samples=self._learned.n_samples + len(found))
        return found


class ScoresAreRelative(Sound):
    """A score depends on the rows beside it."""

    def score_samples(self, X: Any) -> Any:
        found = super().score_samples(X)
        return found - found.mean()


class KeepsTheArray(Sound):
    """Learns a batch when the next one is there, from the caller's array."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        late = getattr(self, "_late", None)
        self._late = X
        return super().partial_fit(X if late is None else late)


class RemembersAll(Sound):
    """Keeps a copy of every batch."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        super().partial_fit(X)
        self._past = [*getattr(self, "_past", []), np.array(X)]
        return self


class CopiesAreTheSame(Sound):
    """A copy is the original."""

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class NeverForgets(Sound):
    """`fit` goes on."""

    def fit(self, X: Any, y: Any = None) -> Any:
        return self.partial_fit(X)


class ThreadsRound(Sound):
    """Threads add up in another order."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        super().partial_fit(X)
        if self.engine == "threads":
            LosesWhatItCounted._change(self, sums=np.nextafter(self._learned.sums, np.inf))
        return self


class ClustersRound(Sound):
    """A cluster adds up in another order."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        super().partial_fit(X)
        if not isinstance(self.engine, str | None):
            LosesWhatItCounted._change(self, sums=np.nextafter(self._learned.sums, np.inf))
        return self


class CountsRefusals(Sound):
    """Notes the call before the rows are checked."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        self._tried = True
        return super().partial_fit(X)


class HidesItsName(Sound):
    """Errors do not say which estimator they are from."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        try:
            return super().partial_fit(X)
        except (TypeError, ValueError) as error:
            raise ValueError(str(error).replace(type(self).__name__, "?")) from None


class ForgivesNaN(Sound):
    """Takes what must be refused."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        return super().partial_fit(X if X is None else np.nan_to_num(X))


class StopsHalfWay(Sound):
    """Learns in two steps, of which the second may fail."""

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        super().partial_fit(X[: len(X) // 2])
        return super().partial_fit(X[len(X) // 2 :])


class Careless(Scalar):
    """A scalar that takes any number."""

    def unpack(self, found: Any, place: str, file: Any) -> Any:
        return self.kind(found) if isinstance(found, int | float) else found


class TakesAnyFile(Sound):
    """Its schema does not check the mass."""

    _schema: ClassVar[Record] = Record(
        ESTIMATOR.MeanFit,
        {**ESTIMATOR.SCHEMA.fields, "mass": Careless(float, 1.0, 2**53)},
    )


FAULTS: dict[type, Check] = {
    LosesWhatItCounted: checks.check_saving_changes_nothing,
    LearnsFromPredictions: checks.check_predictions_change_nothing,
    ScoresAreRelative: checks.check_predictions_of_parts_agree,
    KeepsTheArray: checks.check_input_is_not_kept,
    RemembersAll: checks.check_memory_stays_flat,
    CopiesAreTheSame: checks.check_copies_are_independent,
    NeverForgets: checks.check_fit_starts_anew,
    ThreadsRound: checks.check_engines_agree,
    ClustersRound: checks.check_engines_agree,
    CountsRefusals: checks.check_refusals_leave_no_trace,
    HidesItsName: checks.check_refusals_leave_no_trace,
    ForgivesNaN: checks.check_refusals_leave_no_trace,
    StopsHalfWay: checks.check_failures_leave_no_trace,
    TakesAnyFile: checks.check_forged_files_are_refused,
}
SEVERAL = {
    LosesWhatItCounted: {checks.check_failures_leave_no_trace},
    KeepsTheArray: {
        checks.check_saving_changes_nothing,
        checks.check_refusals_leave_no_trace,
        checks.check_failures_leave_no_trace,
    },
    CountsRefusals: {checks.check_failures_leave_no_trace},
    StopsHalfWay: {checks.check_refusals_leave_no_trace},
}
"""Further checks that a fault does not pass."""


@pytest.fixture
def case_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], Case]:
    """Makes the case of an estimator, and registers it so that its files can be loaded."""

    def made(kind: type) -> Case:
        entry = registry.Entry(kind.__name__, kind.__module__, "streaming-mean")
        monkeypatch.setattr(registry.Entry, "estimator", lambda self: kind)
        monkeypatch.setitem(registry.BY_KEY, entry.key, entry)
        return Case(
            kind.__name__,
            lambda **params: kind(**{"retention": 0.9, "random_state": 0} | params),
            [(X[:30],), (X[30:60],), (X[60:],)],
            X[:5],
            ("score_samples",),
            spoilt={
                "nan": Spoilt((np.full((4, 3), np.nan),), "NaN"),
                "nothing": Spoilt((None,), "X"),
            },
        )

    return made


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_estimator_passes(check: Check, case_of: Any, tmp_path: Path) -> None:
    check(case_of(Sound), tmp_path)


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_a_fault_fails_its_check_and_passes_the_others(
    kind: type, case_of: Any, tmp_path: Path
) -> None:
    failed = set()
    for check in CHECKS:
        folder = tmp_path / check.__name__
        folder.mkdir()
        try:
            check(case_of(kind), folder)
        except AssertionError:
            failed.add(check)
    assert failed == {FAULTS[kind]} | SEVERAL.get(kind, set())


def test_a_reader_that_skips_the_seal_is_found(
    case_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everlearn.store.archive._seal_faults", lambda file, size: [])
    with pytest.raises(AssertionError, match="torn at byte"):
        checks.check_torn_files_are_refused(case_of(Sound), tmp_path)


def test_every_check_has_a_fault() -> None:
    assert {*FAULTS.values(), checks.check_torn_files_are_refused} == set(CHECKS)


def test_a_model_that_keeps_its_batches_by_design_is_not_measured(
    case_of: Any, tmp_path: Path
) -> None:
    case = case_of(RemembersAll)
    kept = Case(case.name, case.make, case.batches, case.probe, case.methods, small=None)
    checks.check_memory_stays_flat(kept, tmp_path)


# --------------------------------------------------------------- scikit-learn's own checks


def _failed(estimator: Any) -> list[str]:
    found = []
    for part in scikit_learn_checks([estimator]):
        model, check = part.values
        try:
            check(model)
        except Exception:
            found.append(part.id.rpartition("-")[2])
    return found


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_finds_a_parameter_that_the_constructor_changes() -> None:
    class Hasty(Sound):
        def __init__(self, *, retention: float = 1.0) -> None:
            super().__init__(retention=retention / 2)

    assert not _failed(Sound())
    assert "check_parameters_default_constructible" in _failed(Hasty())


def test_expected_failures_must_be_checks() -> None:
    with pytest.raises(ValueError, match="has no check 'check_nothing'"):
        scikit_learn_checks([Sound()], {"check_nothing": "a reason"})


def test_an_expected_failure_that_passes_is_a_failure() -> None:
    parts = scikit_learn_checks([Sound()], {"check_fit2d_1sample": "it fails, we believed"})
    marked = [part for part in parts if part.marks]
    assert marked
    assert all(mark.kwargs["strict"] for part in marked for mark in part.marks)
    assert SaveMixin in type(parts[0].values[0]).__mro__
