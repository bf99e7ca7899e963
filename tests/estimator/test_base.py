"""What every estimator shares: a call that fails changes nothing, and errors name their owner."""

import copy
import pickle
from typing import Any, ClassVar

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin, named_errors
from everlearn.registry import ESTIMATORS


class Counter(LearnerMixin, BaseEstimator):  # type: ignore[misc]
    """Counts calls, until one fails half way."""

    _constraints: ClassVar = COMMON_CONSTRAINTS

    def __init__(self, engine: Any = None, random_state: Any = 0, verbose: Any = 0) -> None:
        self.engine, self.random_state, self.verbose = engine, random_state, verbose

    def count(self, error: BaseException | None = None) -> "Counter":
        with self._unchanged_on_error() as undos:
            self.n_ = getattr(self, "n_", 0) + 1
            self.counts_ = getattr(self, "counts_", np.zeros(2))
            self.counts_ += 1.0
            undos.append(lambda counts=self.counts_: np.subtract(counts, 1.0, out=counts))
            self.verbose = 7
            if error is not None:
                raise error
            self.verbose = 0
        return self


def interrupt_of_compiled_code() -> SystemError:
    error = SystemError("returned a result with an exception set")
    error.__cause__ = KeyboardInterrupt()
    return error


class TestUnchanged:
    @pytest.mark.parametrize(
        ("error", "raised"),
        [
            (ValueError("bad"), ValueError),
            (KeyboardInterrupt(), KeyboardInterrupt),
            (SystemError("a bug"), SystemError),
            (interrupt_of_compiled_code(), KeyboardInterrupt),
        ],
        ids=["error", "interrupt", "bug", "interrupt of compiled code"],
    )
    def test_an_error_restores_attributes_and_shared_arrays(
        self, error: BaseException, raised: type[BaseException]
    ) -> None:
        model = Counter().count()
        before, shared = dict(vars(model)), model.counts_
        with pytest.raises(raised):
            model.count(error)
        assert vars(model) == before
        assert model.counts_ is shared
        assert shared.tolist() == [1.0, 1.0]

    def test_a_first_call_that_fails_leaves_no_attribute(self) -> None:
        model = Counter()
        with pytest.raises(ValueError, match="bad"):
            model.count(ValueError("bad"))
        assert not hasattr(model, "n_")

    def test_without_an_error_nothing_is_undone(self) -> None:
        assert Counter().count().count().counts_.tolist() == [2.0, 2.0]

    def test_a_matrix_that_has_no_factor_is_about_data_and_prior(self) -> None:
        with pytest.raises(ValueError, match=r"Counter cannot learn from X .*: singular\. Scale X"):
            Counter().count(np.linalg.LinAlgError("singular"))


class TestNamedErrors:
    @pytest.mark.parametrize("error", [OverflowError, TypeError, ValueError])
    def test_argument_and_owner_are_added(self, error: type[Exception]) -> None:
        kind = TypeError if error is TypeError else ValueError
        for owner in (Counter(), "Counter"):
            with (
                pytest.raises(kind, match="'X' of Counter cannot be used: it is odd") as caught,
                named_errors(owner, "X"),
            ):
                raise error("it is odd")
            assert isinstance(caught.value.__cause__, error)

    @pytest.mark.parametrize("message", ["X of Counter is odd", "the 'X' that Counter got"])
    def test_a_message_that_has_both_stays(self, message: str) -> None:
        error = ValueError(message)
        with pytest.raises(ValueError, match=message) as caught, named_errors("Counter", "X"):
            raise error
        assert caught.value is error

    def test_a_letter_within_a_word_is_no_argument(self) -> None:
        with (
            pytest.raises(ValueError, match="'X' of Counter cannot be used: Counter has MAX 3"),
            named_errors("Counter", "X"),
        ):
            raise ValueError("Counter has MAX 3")

    def test_gaps_are_explained(self) -> None:
        with (
            pytest.raises(ValueError, match=r"'X' of Counter contains NaN .* DPMixture and"),
            named_errors("Counter", "X"),
        ):
            raise ValueError("Input X contains NaN.")

    def test_other_errors_go_through(self) -> None:
        with pytest.raises(KeyError), named_errors("Counter", "X"):
            raise KeyError("x")


class TestParameters:
    @pytest.mark.parametrize(
        ("params", "words"),
        [
            ({"engine": "gpu"}, "'engine' parameter of Counter must be one of None, 'serial'"),
            ({"engine": ["serial"]}, "'engine'"),
            ({"random_state": -1}, "'random_state' parameter of Counter must be"),
            ({"random_state": 2**32}, "'random_state'"),
            ({"random_state": np.random.default_rng(0)}, "a RandomState instance"),
            ({"verbose": -1}, "'verbose'"),
            ({"verbose": 0.5}, "an integer at least 0, or a truth value"),
        ],
    )
    def test_those_that_all_have(self, params: dict[str, Any], words: str) -> None:
        with pytest.raises(ValueError, match=words):
            Counter(**params)._check_params()

    @pytest.mark.parametrize(
        "params",
        [
            {"engine": "tcp://host:8786"},
            {"random_state": None},
            {"random_state": np.random.RandomState(0)},
            {"random_state": 2**32 - 1},
            {"verbose": True},
        ],
        ids=["an address", "no seed", "a generator", "the largest seed", "a truth value"],
    )
    def test_what_they_may_be(self, params: dict[str, Any]) -> None:
        Counter(**params)._check_params()

    @pytest.mark.parametrize(
        "entry", [e for e in ESTIMATORS if e.kind], ids=lambda entry: entry.name
    )
    def test_every_estimator_has_them(self, entry: Any) -> None:
        own = entry.estimator()._constraints
        assert {name: own[name] for name in COMMON_CONSTRAINTS} == COMMON_CONSTRAINTS

    def test_seeds(self) -> None:
        assert Counter(random_state=3)._new_seed() == Counter(random_state=3)._new_seed()
        shared = Counter(random_state=np.random.RandomState(3))
        assert shared._new_seed() != shared._new_seed()


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, clone, lambda m: pickle.loads(pickle.dumps(m))],
    ids=["copy", "deepcopy", "clone", "pickle"],
)  # fmt: skip
def test_copies_keep_an_engine_that_is_a_name(copied: Any) -> None:
    assert copied(Counter(engine="tcp://host:8786")).engine == "tcp://host:8786"
