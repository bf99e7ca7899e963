"""Calls in other threads, by which these take part in what one of them has begun."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from everlearn.inference.shifts import TAKEN, Shift, new_turns

Result = TypeVar("Result")
_LOOK = 1.0
"""Seconds after which somebody who waits for a call looks whether it is over."""


class Call(Generic[Result]):
    """A call that is made once, by whoever comes first, and waited for unless nobody has begun it.

    Locks, because a future takes longer to tell than a small batch can afford.
    """

    __slots__ = ("_begun", "_ended", "_given", "_result", "_task", "error", "is_over")

    def __init__(self, task: Callable[..., Result], *given: Any) -> None:
        self._task, self._given = task, given
        self._begun = threading.RLock()  # whoever has it, and is interrupted, need not wait for it
        self._ended = threading.Lock()
        self._ended.acquire()
        self.is_over = False
        self.error: BaseException | None = None

    def __call__(self) -> bool:
        """Make the call, unless somebody has begun; whether it was made here."""
        if not self._begun.acquire(blocking=False):
            return False
        try:
            self._result = self._task(*self._given)
        except BaseException as error:
            self.error = error
        finally:
            self.is_over = True
            self._ended.release()
        return True

    def taken(self) -> Result:
        """The result, which is not kept, when somebody has made the call."""
        self._wait()
        if self.error is not None:
            raise self.error
        result = self._result
        del self._result
        return result

    def end(self, waits: bool) -> None:
        """See to it that there will be no beginning, or else wait for the end, come what may."""
        if not self._begun.acquire(blocking=False) and waits:
            self._wait()

    def _wait(self) -> None:
        interrupt: KeyboardInterrupt | None = None
        while not self.is_over:  # it writes into arrays that may be about to be put right
            try:
                self._ended.acquire(timeout=_LOOK)
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt


def end_all(calls: Sequence[Call[Any]], waits: bool) -> None:
    """End all of them, and tell of an interrupt after that."""
    interrupt: KeyboardInterrupt | None = None
    for call in calls:
        try:
            call.end(waits)
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


class Crew:
    """Threads that take call after call, for one caller.

    A call may linger at its end (`kernels.turns.linger`) until the next piece of work begins: the
    thread then takes the call that belongs to it at once, since whoever began has left the
    interpreter to others. Nobody depends on that: a call that is not begun in time is left out.

    Queues that are not written in Python, and bare threads: in those that are, an interrupt may
    leave a lock closed for ever.
    """

    def __init__(self, n_threads: int) -> None:
        self._n_threads, self._n_begun = n_threads, 0
        self._calls: SimpleQueue[Call[Any] | None] = SimpleQueue()
        self._gone: SimpleQueue[None] = SimpleQueue()
        self._shift = Shift(new_turns(), new_turns())

    def next_shift(self) -> Shift:
        """The turns that were to come, and those after them."""
        self._shift = Shift(self._shift.coming, new_turns())
        return self._shift

    def dismiss(self) -> None:
        """Let nobody linger any longer: the work to come begins, and there is none."""
        self.next_shift().turns[TAKEN] += 1

    def send(self, calls: Sequence[Call[Any]]) -> None:
        """Leave the calls to the threads, of which there are as many as were ever needed."""
        while self._n_begun < min(len(calls), self._n_threads):
            _thread.start_new_thread(self._work, ())
            self._n_begun += 1
        for call in calls:
            self._calls.put(call)

    def results(self, calls: Sequence[Call[Result]]) -> Iterator[Result]:
        """Those of the calls, in their order; the caller, too, makes those that nobody has begun.

        Nobody waits for a thread to wake up that way while there is something to do.
        """
        try:
            self.send(calls[1:])
            left = iter(calls)
            for call in calls:
                while not call.is_over and any(own() for own in left):
                    pass
                yield call.taken()
        finally:
            end_all(calls, waits=True)

    def close(self) -> None:
        """Send everybody home, and wait until they have gone."""
        self.dismiss()
        for _ in range(self._n_begun):
            self._calls.put(None)
        for _ in range(self._n_begun):
            self._gone.get()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # what it was given must not stay until the next one
        self._gone.put(None)
