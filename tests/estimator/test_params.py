"""What a parameter may be, and what the message says if it is something else."""

from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from everlearn.estimator.params import (
    ByteSize,
    Constraint,
    Instance,
    Interval,
    Options,
    Subset,
    check_params,
    check_unchanged,
    parse_bytes,
)

NUMBER, RATE = Interval(0, 9, integer=True), Interval(0, 1, low_open=True)
MOVES = Subset(("birth", "merge"))


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        (NUMBER, [0, 9, np.int8(3), np.uint64(9)]),
        (RATE, [1, 1.0, 1e-300, np.float32(0.5), Fraction(1, 3)]),
        (Interval(-1), [-1, 1e300, 10**300]),
        (Options((None, "em")), [None, "em", np.str_("em")]),
        (MOVES, [(), ["birth"], ("merge", "birth"), {"birth"}, frozenset({"merge"})]),
        (Instance((int, str), "a key"), [3, "x"]),
        (ByteSize(), [1, 64e6, "64MB", " 1.5 gib ", "1B", "7"]),
    ],
    ids=str,
)
def test_what_is_allowed(constraint: Constraint, values: list[Any]) -> None:
    for value in values:
        assert constraint.allows(value), value


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        (NUMBER, [-1, 10, 3.0, True, np.True_, "3", None, np.array([3, 4])]),
        (RATE, [0, -0.0, 1.0000001, np.nan, np.inf, True, "0.5", Decimal("0.5"), [0.5], 1j]),
        (Interval(-1), [np.inf, 10**400, -(10**400), -1.1]),
        (Options((None, "em")), ["EM", "", 0, False, ["em"], np.array("em")]),
        (MOVES, ["birth", ["birth", "birth"], ["split"], None, 3, ["birth", None], [["birth"]]]),
        (Instance((int, str), "a key"), [3.0, None]),
        (ByteSize(), [0, -1, 0.5, "0MB", "64 XB", "MB", "-1MB", "", None, True, np.inf, np.nan]),
    ],
    ids=str,
)
def test_what_is_not(constraint: Constraint, values: list[Any]) -> None:
    for value in values:
        assert not constraint.allows(value), value


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (NUMBER, "an integer at least 0 and at most 9"),
        (RATE, "a finite number above 0 and at most 1"),
        (Interval(1), "a finite number at least 1"),
        (Options(("em",)), "'em'"),
        (Options((None, "em")), "one of None, 'em'"),
        (MOVES, "a sequence of names out of 'birth', 'merge'"),
        (Instance((int,), "a key"), "a key"),
        (ByteSize(), 'a positive number of bytes or text such as "64MB"'),
    ],
    ids=str,
)
def test_what_is_expected_in_words(constraint: Constraint, words: str) -> None:
    assert str(constraint) == words


class TestCheck:
    TABLE: ClassVar = {"n": (NUMBER,), "rate": (Options((None,)), RATE)}

    def test_one_of_the_constraints_is_enough(self) -> None:
        for rate in (None, 0.5):
            check_params("Oven", {"n": 3, "rate": rate, "other": object()}, self.TABLE)

    @pytest.mark.parametrize(
        ("value", "error"),
        [(0, ValueError), ("x", ValueError), (float, TypeError), (b"1", TypeError)],
    )
    def test_the_message_has_parameter_owner_expectation_and_value(
        self, value: Any, error: type[Exception]
    ) -> None:
        with pytest.raises(error) as caught:
            check_params("Oven", {"n": 3, "rate": value}, self.TABLE)
        assert str(caught.value) == (
            "the 'rate' parameter of Oven must be None, or a finite number above 0 and at most 1. "
            f"Got {value!r} instead."
        )

    def test_the_first_of_the_table_is_named(self) -> None:
        with pytest.raises(ValueError, match="'n' parameter"):
            check_params("Oven", {"rate": 7, "n": -1}, self.TABLE)

    def test_what_learning_began_with_stays(self) -> None:
        check_unchanged("Oven", "n", 3, 3.0)
        with pytest.raises(ValueError, match=r"'n' parameter of Oven was 3 when .* Got 4 instead"):
            check_unchanged("Oven", "n", 4, 3)


@pytest.mark.parametrize(
    ("value", "n_bytes"),
    [
        (7, 7), (7.9, 7), ("7", 7), ("1kB", 1000), ("1KIB", 1024), ("1.5 MB", 1_500_000),
        ("2GiB", 2**31), ("1tb", 10**12), ("1TiB", 2**40),
    ],
)  # fmt: skip
def test_sizes_in_words(value: Any, n_bytes: int) -> None:
    assert parse_bytes(value) == n_bytes


@pytest.mark.parametrize("value", ["1 000", "1,5MB", "0x10", "1e6", "MB1"])
def test_words_that_are_no_size(value: str) -> None:
    with pytest.raises(ValueError, match="is not a number of bytes"):
        parse_bytes(value)
