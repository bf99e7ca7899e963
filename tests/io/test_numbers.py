"""Numbers as people write them."""

import math

import pytest

from everlearn.io.numbers import decimal_of, is_missing, is_truth_value, number_of


@pytest.mark.parametrize(
    ("text", "decimal", "number"),
    [
        ("1.5", ".", 1.5),
        ("1,5", ",", 1.5),
        (" -3,25 ", ",", -3.25),
        ("1,234.5", ".", 1234.5),
        ("1.234,5", ",", 1234.5),
        ("1.234", ".", 1.234),
        ("1.234", ",", 1234.0),
        ("1,234,567", ".", 1234567.0),
        ("1 234,5", ",", 1234.5),
        ("1\u00a0234\u00a0567", ".", 1234567.0),
        ("1'234.50", ".", 1234.5),
        ("1,5e3", ",", 1500.0),
        (",5", ",", 0.5),
        ("15", ",", 15.0),
        ("TRUE", ".", 1.0),
        ("false", ",", 0.0),
        (True, ".", 1.0),
        (7, ",", 7.0),
    ],
)
def test_a_number_is_read_by_the_decimal_mark_of_its_file(text, decimal, number):
    assert number_of(text, decimal) == number


@pytest.mark.parametrize(
    ("value", "expected"),
    [("TRUE", True), (" false", True), (True, True), ("1", False), (1, False), (None, False)],
)
def test_truth_values_may_be_written_as_text(value, expected):
    assert is_truth_value(value) is expected


@pytest.mark.parametrize("text", ["", " ", "NA", "n/a", "#N/A", "NaN", "null", "None", None])
def test_missing_values_may_be_written_in_many_ways(text):
    assert math.isnan(number_of(text))
    assert is_missing(text)


@pytest.mark.parametrize(
    ("text", "decimal"),
    [
        ("1,5", "."),  # no thousands: it would be 15
        ("1.5", ","),
        ("1,23,456", "."),
        ("1.234 567", ","),
        ("12,345.678", ","),
        ("12 %", "."),
        ("web", "."),
        ("2024-05-01", "."),
    ],
)
def test_text_that_does_not_fit_the_decimal_mark_is_refused(text, decimal):
    with pytest.raises(ValueError, match="is not a number"):
        number_of(text, decimal)


@pytest.mark.parametrize(
    ("rows", "delimiter", "decimal"),
    [
        ([["1,5", "a"], ["2", "b"]], ";", ","),
        ([["1.5", "a"], ["2", "b"]], ";", "."),
        ([["1.234,5"]], ";", ","),
        ([["1,234.5"]], ";", "."),
        ([["1.234", "3,5"]], ";", ","),  # one mark for the whole file
        ([["1.234", "1,234"]], ";", ","),
        ([["1,234"]], ";", ","),
        ([["1,234"]], ",", "."),
        ([["0,123"]], ",", ","),
        ([["1.234"]], ";", "."),
        ([["12.05.2024", "7"]], ";", "."),
        ([["10.0.0.1", "3,5"]], ";", ","),
        ([["192.168.100.100", "1,25"]], ";", ","),
        ([["12.05", "3,5", "4,5"]], ";", ","),
        ([["a", "1"]], ";", "."),
        ([], ",", "."),
    ],
)
def test_the_first_rows_show_the_decimal_mark(rows, delimiter, decimal):
    assert decimal_of(rows, delimiter) == decimal
