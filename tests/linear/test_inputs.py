"""Rows with targets, in whole batches wherever tables end."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from everlearn.linear.inputs import in_batches, visit_of

X = np.arange(46.0).reshape(23, 2) % 7
TARGETS = np.arange(46.0).reshape(23, 2)
KNOWN = TARGETS.copy()
KNOWN[[0, 4, 5, 22]] = np.nan
KNOWN[7, 0] = np.nan  # one target is enough
USEFUL = [i for i in range(23) if i not in (0, 4, 5, 22)]


def test_rows_without_target_are_left_out_of_a_visit() -> None:
    order = np.random.default_rng(0).permutation(23)
    visit = visit_of(X, KNOWN, order)
    assert visit.X is X
    assert_array_equal(visit.order, [i for i in order if i in USEFUL])
    assert len(visit_of(X, np.full((23, 2), np.nan), order).order) == 0
    assert_array_equal(visit_of(X, TARGETS, order[:3]).order, order[:3])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("cuts", [[], [1], [5, 5, 9], [0, 23], list(range(1, 23))])
@pytest.mark.parametrize("size", [1, 4, 19, 100])
def test_batches_do_not_depend_on_where_tables_end(form: Any, cuts: list[int], size: int) -> None:
    tables = [form(part) for part in np.split(X, cuts)]
    visits = list(in_batches("Model", tables, KNOWN, size))
    rows = [v.X.toarray() if sparse.issparse(v.X) else v.X for v in visits]
    assert_array_equal(np.concatenate(rows), X[USEFUL])
    assert_array_equal(np.concatenate([v.targets for v in visits]), KNOWN[USEFUL])
    for visit in visits:
        assert_array_equal(visit.order, np.arange(len(visit.targets)))
    assert all(len(v.targets) % size == 0 for v in visits[:-1])
    assert len(visits[-1].targets) == len(USEFUL) % size


def test_tables_are_read_one_by_one() -> None:
    """A table is learned before the next one is fetched."""
    read = []

    def tables() -> Any:
        for part in np.split(X, 23):
            read.append(1)
            yield part

    visits = in_batches("Model", tables(), TARGETS, 1)
    for number in range(1, 4):
        next(visits)
        assert len(read) == number


@pytest.mark.parametrize(("n", "got"), [(22, "more"), (24, "23"), (0, "more")])
def test_as_many_targets_as_rows(n: int, got: str) -> None:
    targets = np.zeros((n, 1))
    with pytest.raises(ValueError, match=rf"'y' of Model .* Got {n} entries and {got} rows"):
        list(in_batches("Model", np.split(X, [11]), targets, 4))


def test_no_tables_are_no_visits() -> None:
    assert list(in_batches("Model", [], np.zeros((0, 1)), 4)) == []
