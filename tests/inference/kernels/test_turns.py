"""Parts of a piece of work that threads take turns at: each is done once, by whomever."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from everlearn.inference.kernels._jit import kernel
from everlearn.inference.kernels.turns import new_turns, taken


@kernel()
def mark(turns, run, times):
    """How many parts were taken by this call."""
    n = 0
    first = taken(turns, run)
    while first < times.size:
        for part in range(first, min(first + run, times.size)):
            times[part] += 1
            n += 1
        first = taken(turns, run)
    return n


@pytest.mark.parametrize("run", [1, 3, 64])
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_each_part_is_taken_once(run, n_threads):
    times, turns = np.zeros(200_001, np.int64), new_turns()
    with ThreadPoolExecutor(n_threads) as pool:
        shares = [pool.submit(mark, turns, run, times) for _ in range(n_threads)]
        assert sum(share.result() for share in shares) == times.size
    np.testing.assert_array_equal(times, 1)


def test_who_comes_late_finds_nothing_left():
    times, turns = np.zeros(10, np.int64), new_turns()
    assert mark(turns, 4, times) == 10
    assert mark(turns, 4, times) == 0
    assert mark(new_turns(), 4, times[:0]) == 0
