"""Numbers to predict, as a column for each task."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from everlearn.linear.regressor import BayesianPassiveAggressiveRegressor as Regressor
from everlearn.linear.targets import read_numbers

Y = np.arange(6.0)


@pytest.mark.parametrize(
    "form",
    [lambda y: y, np.ndarray.tolist, pd.Series, lambda y: y.astype(np.int16),
     lambda y: np.repeat(y, 2)[::2], lambda y: np.ma.array(y, mask=False)],
)  # fmt: skip
def test_one_number_a_row_is_a_column(form: Any) -> None:
    table, kind = read_numbers(Regressor(), form(Y), 6)
    assert_array_equal(table, Y[:, None])
    assert table.dtype == np.float64
    assert kind == (1, True)
    assert str(kind) == "a number for each row"


@pytest.mark.parametrize("form", [lambda y: y, pd.DataFrame, np.asfortranarray, np.ndarray.tolist])
def test_several_numbers_a_row_stay_a_matrix(form: Any) -> None:
    wide = Y.reshape(3, 2)
    table, kind = read_numbers(Regressor(), form(wide), 3)
    assert_array_equal(table, wide)
    assert table.flags.c_contiguous
    assert str(kind) == "a matrix with 2 columns"
    single, flat = read_numbers(Regressor(), Y[:, None], 6)
    assert_array_equal(single, Y[:, None])
    assert flat == (1, False)  # predictions are a matrix then


def test_as_many_numbers_as_rows() -> None:
    for y, shape in (
        (Y[:5], r"\(5,\)"),
        (Y[None], r"\(1, 6\)"),
        (Y[:, None, None], r"\(6, 1, 1\)"),
    ):
        with pytest.raises(ValueError, match=rf"'y'.*Regressor.*each of 6 rows, got shape {shape}"):
            read_numbers(Regressor(), y, 6)
