"""Rows of any form for `ComponentTree`."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from everlearn.components.estimator import ComponentTree
from everlearn.components.inputs import checked_chunk, checked_rows

X = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize(
    "form",
    [np.asfortranarray, np.ndarray.tolist, pd.DataFrame, lambda x: x.astype(np.int8),
     lambda x: x.astype(np.float32), lambda x: np.repeat(x, 2, axis=0)[::2]],
)  # fmt: skip
def test_rows_become_float64_side_by_side(form: Any) -> None:
    rows = checked_rows(ComponentTree(), form(X), reset=True)
    assert rows.dtype == np.float64
    assert rows.flags.c_contiguous
    assert_array_equal(rows, X)
    chunk = checked_chunk(ComponentTree(), form(X), reset=True)
    assert_array_equal(chunk.X, X)
    assert chunk.weights is None


def test_the_width_is_that_of_the_first_rows() -> None:
    model = ComponentTree()
    checked_rows(model, X, reset=True)
    with pytest.raises(ValueError, match="2 features, but ComponentTree is expecting 3"):
        checked_rows(model, X[:, :2], reset=False)
    checked_rows(model, X[:, :2], reset=True)
    assert model.n_features_in_ == 2


def test_gaps_are_refused_by_name() -> None:
    gaps = np.where(np.eye(4, 3) > 0, np.nan, X)
    with pytest.raises(ValueError, match="X of ComponentTree contains NaN"):
        checked_rows(ComponentTree(), gaps, reset=True)
