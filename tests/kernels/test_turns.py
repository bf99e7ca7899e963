"""Parts of a piece of work that threads take turns at: each is done once, by whomever."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from everlearn.attic.inference_kernels_turns import all_ended, ended, linger, run_of, taken
from everlearn.attic.inference_shifts import have_ended, new_turns
from everlearn.kernels.jit import kernel


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


@kernel()
def take_runs(turns, times):
    """Parts by runs, each marked before it is told that they have ended."""
    first, stop = run_of(taken(turns, 1), times.size)
    while first < times.size:
        times[first:stop] += 1
        ended(turns, stop - first)
        first, stop = run_of(taken(turns, 1), times.size)


@pytest.mark.parametrize("n_parts", [0, 1, 31, 32, 33, 35, 36, 37, 100, 256])
def test_runs_cover_all_parts(n_parts):
    times, turns = np.zeros(n_parts, np.int64), new_turns()
    take_runs(turns, times)
    np.testing.assert_array_equal(times, 1)
    assert all_ended(turns, n_parts)


@kernel()
def end(turns, n):
    return ended(turns, n)


def test_who_asks_before_the_end_is_told_so():
    turns = new_turns()
    assert all_ended(turns, 0)
    assert not all_ended(turns, 3)
    end(turns, 2)
    assert not all_ended(turns, 3)
    assert not have_ended(turns, 3)
    end(turns, 1)
    assert all_ended(turns, 3)
    assert have_ended(turns, 3)


@pytest.mark.parametrize("n_threads", [2, 5])
def test_what_has_ended_can_be_seen(n_threads):
    """Whoever is told that all parts have ended finds all of them done."""

    def look(turns, times):
        take_runs(turns, times)
        while not all_ended(turns, times.size):
            pass
        return times.copy()

    with ThreadPoolExecutor(n_threads) as pool:
        for _ in range(50):
            times, turns = np.zeros(300, np.int64), new_turns()
            seen = [pool.submit(look, turns, times) for _ in range(n_threads)]
            for found in seen:
                np.testing.assert_array_equal(found.result(), 1)


def test_who_lingers_is_told_when_the_work_to_come_begins():
    times, coming = np.zeros(3, np.int64), new_turns()
    mark(coming, 1, times)
    assert linger(coming)


def test_nobody_lingers_for_ever():
    coming = new_turns()
    assert not linger(coming)
    assert not coming.any()


def test_who_lingers_sees_the_beginning():
    """It is called again and again, since nobody knows how long a thread takes to begin."""
    coming, begun = new_turns(), threading.Event()

    def wait():
        found = linger(coming)
        begun.set()
        while not found:
            found = linger(coming)
        return found

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        assert begun.wait(30)
        assert not waiting.done()
        mark(coming, 1, np.zeros(3, np.int64))
        assert waiting.result(30)
