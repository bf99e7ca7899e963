"""A budget in bytes becomes limits that grow with it, or a refusal that says what it takes."""

import re
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.errors import MemoryBudgetError
from everlearn.mixture.budget import least_budget, limits_within, stats_bytes

budgets = st.integers(0, 10**9)
n_stats = st.integers(1, 5000)
row_bytes = st.integers(1, 100_000)
wishes = st.integers(1, 10**6)


def needed(n_stats, row_bytes):
    """What the refusal of a hopeless budget asks for."""
    with pytest.raises(MemoryBudgetError) as refusal:
        limits_within(1, n_stats, row_bytes, 10**6, 10**6)
    need, got = re.search(r"at least ([\d,]+) bytes, got ([\d,]+):", str(refusal.value)).groups()
    assert got == "1"
    return int(need.replace(",", ""))


@given(budgets, budgets, n_stats, row_bytes, wishes, wishes)
def test_limits_shrink_with_the_budget(a, b, n_stats, row_bytes, rows, components):
    least = needed(n_stats, row_bytes)
    small, large = (
        limits_within(least + extra, n_stats, row_bytes, rows, components)
        for extra in sorted([a, b])
    )
    assert (np.array(astuple(small)) <= np.array(astuple(large))).all()
    assert min(astuple(small)) >= 1


@given(budgets, n_stats, row_bytes, wishes, wishes)
def test_limits_are_within_wishes_and_budget(extra, n_stats, row_bytes, rows, components):
    budget = needed(n_stats, row_bytes) + extra
    limits = limits_within(budget, n_stats, row_bytes, rows, components)
    assert limits.max_components <= components
    assert limits.window_rows <= rows
    assert limits.batch_rows <= limits.window_rows
    batches = -(-limits.window_rows // limits.batch_rows)
    statistics = (batches + 2) * limits.max_components * stats_bytes(n_stats)
    assert limits.window_rows * row_bytes + limits.block_bytes + statistics <= budget


@given(n_stats, row_bytes)
def test_a_refusal_names_the_bytes_that_would_do(n_stats, row_bytes):
    need = needed(n_stats, row_bytes)
    limits = limits_within(need, n_stats, row_bytes, 10**6, 10**6)
    assert limits.max_components >= 2
    with pytest.raises(MemoryBudgetError, match=f"got {need - 1:,}: two components.* 4 rows"):
        limits_within(need - 1, n_stats, row_bytes, 10**6, 10**6)


@given(n_stats, row_bytes, st.integers(4, 10**5), st.integers(2, 2000))
def test_the_least_budget_is_the_least(n_stats, row_bytes, rows, components):
    need = least_budget(n_stats, row_bytes, rows, components)
    limits = limits_within(need, n_stats, row_bytes, rows, components)
    assert (limits.window_rows, limits.max_components) == (rows, components)
    if need > least_budget(n_stats, row_bytes, 4, 2):
        less = limits_within(need - 1, n_stats, row_bytes, rows, components)
        assert (less.window_rows, less.max_components) != (rows, components)


@pytest.mark.parametrize("wanted", [(1, 1), (3, 1), (1, 50), (10**6, 1)])
def test_modest_wishes_are_granted(wanted):
    limits = limits_within(10**7, 20, 80, *wanted)
    assert limits.window_rows == min(wanted[0], limits.window_rows) >= 1
    assert limits.max_components == wanted[1]


def test_all_that_is_wanted_if_there_is_room():
    limits = limits_within(10**10, 20, 80, 10_000, 1000)
    assert (limits.window_rows, limits.max_components) == (10_000, 1000)


def test_bytes_of_a_component():
    assert stats_bytes(5) == 8 * (5 + 3)
