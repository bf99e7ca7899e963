"""Calls that the caller and other threads make: results in order, and nobody hangs."""

import sys
from contextlib import closing
from types import FrameType
from typing import Any
from weakref import WeakSet

import pytest

from everlearn.runtime.engine import ThreadEngine, crew
from everlearn.runtime.engine.crew import Call, Crew


def test_a_call_is_made_once() -> None:
    calls: list[int] = []
    call = Call(calls.append, 3)
    assert not call.is_over
    assert call()
    assert call.is_over
    with closing(Crew(1)) as others:
        others.send([call])
    assert call.taken() is None
    assert calls == [3]


def test_a_call_that_is_ended_is_never_made() -> None:
    calls: list[int] = []
    call = Call(calls.append, 3)
    call.end(waits=True)
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


class Interrupt:
    """A trace function that interrupts at the n-th line of the module that is run here."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != crew.__file__:
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        return self


def interrupted(n: int, task: Any) -> bool:
    """Whether an interrupt at line n came while the task was under way."""
    sys.settrace(Interrupt(n))
    try:
        task()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def test_an_interrupt_at_any_line_hangs_nobody() -> None:
    """The engine is of use after it, and closes."""
    n, seen = 0, 0
    while True:
        with ThreadEngine(2) as engine:
            work = [
                lambda: engine.map(lambda _, i: i, [1, 2, 3], None),
                lambda: engine.join(lambda _: None, None, 2),
                lambda: list(engine.as_they_come(lambda _, i: i, [1, 2, 3], lambda: None)),
            ]
            came = [interrupted(n, task) for task in work]
            assert engine.map(lambda _, i: i, [1, 2], None) == [1, 2]
        if not any(came):
            break
        n, seen = n + 1, seen + sum(came)
    assert seen > 50
