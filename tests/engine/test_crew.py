"""Calls that the caller and other threads make: results in order, and nobody hangs."""

import faulthandler
import gc
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from types import FrameType
from typing import Any
from weakref import WeakSet

import pytest

from everlearn.attic import runtime_engine_crew as crew
from everlearn.attic.runtime_engine_crew import Call, Crew
from everlearn.engine import local
from everlearn.engine.local import ThreadEngine
from support.threads import assert_gone, running


def test_a_call_is_made_once() -> None:
    calls: list[int] = []
    call = Call(calls.append, 3)
    assert not call.is_over
    assert call()
    assert call.is_over
    assert not call()
    with closing(Crew(1)) as others:
        others.send([call])
    assert call.result() is None
    assert calls == [3]


def test_a_call_that_is_ended_is_never_made() -> None:
    calls: list[int] = []
    call = Call(calls.append, 3)
    call.end()
    assert not call()
    with closing(Crew(1)) as others:
        others.send([call])
    assert calls == []


@pytest.mark.parametrize("n_threads", [0, 1, 3])
def test_what_fails_is_told_in_order(n_threads: int) -> None:
    def task(i: int) -> int:
        if i % 3 == 2:
            raise ValueError(i)
        return i

    found = []
    with closing(Crew(n_threads)) as others:
        results = others.results([Call(task, i) for i in range(7)])
        with pytest.raises(ValueError, match="2"):
            found.extend(results)
        assert found == [0, 1]
        assert list(others.results([Call(task, i) for i in (0, 1, 3)])) == [0, 1, 3]


def test_an_interrupt_of_the_caller_is_told_before_errors_of_others() -> None:
    """It makes no further call, either."""
    interrupt, made = threading.Event(), []

    def task(i: int) -> None:
        made.append(i)
        if i == 0:
            assert interrupt.wait(30)
            end = time.monotonic() + 30
            while not calls[-1].is_over and time.monotonic() < end:
                time.sleep(0.001)
            raise ValueError
        interrupt.set()
        raise KeyboardInterrupt

    calls = [Call(task, i) for i in range(5)]
    with closing(Crew(1)) as others:
        others.send(calls[:1])
        while not made:
            time.sleep(0.001)
        with pytest.raises(KeyboardInterrupt):
            list(others.results(calls))
    assert made == [0, 1]


class Large:
    """Something of which there should never be many."""

    def __init__(self) -> None:
        ALIVE.add(self)

    def __add__(self, other: "Large") -> "Large":
        return Large()


ALIVE: WeakSet[Large] = WeakSet()


def test_results_do_not_pile_up() -> None:
    """The caller makes all calls here; sums of 2, 4, 8 and so on are there at the same time."""
    alive = []

    def task(_: None, item: int) -> tuple[Large, None]:
        alive.append(len(ALIVE))
        return Large(), None

    with ThreadEngine(1) as engine:
        engine.map_sum(task, list(range(64)), None)
    assert max(alive) < 10
    assert len(ALIVE) == 0


def fail(shared: Large, item: Any = None) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("n_workers", [1, 2])
@pytest.mark.parametrize(
    "work",
    [
        lambda engine, shared: engine.map(lambda shared, item: item, [1, 2, 3], shared),
        lambda engine, shared: engine.map(fail, [1, 2, 3], shared),
        lambda engine, shared: engine.join(fail, shared, 2),
        lambda engine, shared: list(engine.as_they_come(fail, [1, 2], lambda: shared)),
    ],
    ids=["map", "map that fails", "join that fails", "one by one, failing"],
)
def test_what_was_shared_is_not_kept(n_workers: int, work: Any) -> None:
    """Neither by calls that nobody has taken, nor by errors, which would wait to be collected."""
    gc.disable()
    try:
        with ThreadEngine(n_workers) as engine:
            with suppress(ZeroDivisionError):
                work(engine, Large())
            end = time.monotonic() + 30
            while len(ALIVE) and time.monotonic() < end:  # of those that are just ending
                time.sleep(0.001)
            assert len(ALIVE) == 0
    finally:
        gc.enable()


class Interrupt:
    """A trace function that interrupts when so many lines of the engine have been run here."""

    def __init__(self, n_lines: int) -> None:
        self.left = n_lines

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in (crew.__file__, local.__file__):
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        return self


def interrupted(n_lines: int, work: Callable[[], object]) -> bool:
    """Whether work was under way when so many lines had been run, and the interrupt was told."""
    before, interrupt, told = sys.gettrace(), Interrupt(n_lines), False
    sys.settrace(interrupt)
    try:
        work()
    except KeyboardInterrupt:
        told = True
    except ZeroDivisionError:
        pass  # work that fails by itself has not been interrupted, as is looked at below
    finally:
        sys.settrace(before)
    assert told == (interrupt.left < 0)
    return told


WORK = {
    "map": lambda engine, task: engine.map(task, [1, 2, 3], None),
    "map_sum": lambda engine, task: engine.map_sum(lambda *given: (task(*given), 0), [1, 2], None),
    "join": lambda engine, task: engine.join(task, None, 2),
    "as_they_come": lambda engine, task: list(engine.as_they_come(task, [1, 2], lambda: None)),
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_an_interrupt_at_any_line_leaves_nothing_behind(work: Any, fails: bool) -> None:
    """No call that still runs, no thread, and nobody who waits; also after an error of the caller.

    It makes that error when others have begun.
    """
    before, under_way, n_lines = running(), set(), 0

    def task(_: None, item: int = 1) -> int:
        me = threading.get_ident()
        if fails and threading.current_thread() is threading.main_thread():
            end = time.monotonic() + 0.02
            while not under_way and time.monotonic() < end:
                time.sleep(1e-4)
            raise ZeroDivisionError
        under_way.add(me)
        time.sleep(0.002)
        under_way.discard(me)
        return item

    def at(n_lines: int) -> bool:
        with ThreadEngine(2) as engine:
            if not interrupted(n_lines, lambda: work(engine, task)):
                return False
            assert not under_way - {threading.get_ident()}
            under_way.clear()
            assert engine.map(lambda _, item: item, [1, 2], None) == [1, 2]
        return True

    faulthandler.dump_traceback_later(600, exit=True)
    try:
        while at(n_lines):
            n_lines += 1
    finally:
        faulthandler.cancel_dump_traceback_later()
    assert n_lines > 20
    gc.collect()
    assert_gone(running() - before)


def test_threads_leave_when_nobody_says_goodbye() -> None:
    before = running()
    others = Crew(2)
    meeting = threading.Barrier(2, timeout=30)
    others.send([Call(meeting.wait), Call(meeting.wait)])
    end = time.monotonic() + 30
    while len(threads := running() - before) < 2 and time.monotonic() < end:
        time.sleep(0.001)
    assert len(threads) == 2
    del others
    assert_gone(threads)


def test_closing_twice_waits_for_nobody() -> None:
    before, others = running(), Crew(1)
    others.send([Call(int)])
    others.close()
    closing_again = threading.Thread(target=others.close, daemon=True)
    closing_again.start()
    closing_again.join(30)
    assert not closing_again.is_alive()
    assert_gone(running() - before)
