"""Calls that threads make together: one of them has begun, and the others take part."""

from __future__ import annotations

import _thread
import threading
import weakref
from collections.abc import Callable, Collection, Generator, Sequence
from queue import SimpleQueue
from typing import Any, Generic, Self, TypeVar

from everlearn.attic.inference_shifts import TAKEN, Shift, new_turns
from everlearn.errors import is_interrupt

Result = TypeVar("Result")
_LOOK = 1.0
"""Seconds after which somebody who waits for a call looks whether it is over."""


class Call(Generic[Result]):
    """A call that is made once, by whoever comes first, or by nobody if it is ended before.

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
        if not self._begun.acquire(blocking=False) or self.is_over:
            return False
        try:
            self._result = self._task(*self._given)
        except BaseException as error:
            self.error = error
        finally:
            self.is_over = True
            self._ended.release()
            del self  # an error knows this frame, and would keep itself alive
        return True

    def check(self) -> None:
        """Raise the error of the call, if it has failed; it is not kept."""
        if self.error is not None:
            error, self.error = self.error, None
            try:
                raise error
            finally:
                del error

    def result(self) -> Result:
        """What the call gives, when somebody has made it; it is not kept."""
        self.wait()
        self.check()
        result = self._result
        del self._result
        return result

    def end(self) -> None:
        """See to it that nobody begins any more."""
        if self._begun.acquire(blocking=False):
            self.is_over = True

    def wait(self) -> None:
        """Wait until somebody has made or ended the call; an interrupt is told after that."""
        interrupted = False
        while not self.is_over:  # it writes into arrays that may be about to be put right
            try:
                self._ended.acquire(timeout=_LOOK)
            except KeyboardInterrupt:
                interrupted = True
        if interrupted:
            raise KeyboardInterrupt


class Ending:
    """Ends calls when a block is left: they are not begun any more, and waited for if they are.

    To be entered twice at the same time: an interrupt on the way into the first ending leaves the
    second, so that nobody writes any more when it is told. `waits` may be turned off.
    """

    def __init__(self, calls: Collection[Call[Any]]) -> None:
        self.calls, self.waits = calls, True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for call in self.calls:
            call.end()
        interrupted = False
        for call in self.calls if self.waits else ():
            try:
                call.wait()
            except KeyboardInterrupt:
                interrupted = True
        if interrupted:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raise the error of a call that has failed, if there is one."""
        for call in self.calls:
            call.check()


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
        self._calls: SimpleQueue[Any] = SimpleQueue()
        self._gone: SimpleQueue[None] = SimpleQueue()
        self._shift = Shift(new_turns(), new_turns())

    def next_shift(self) -> Shift:
        """The turns that were to come, and those after them."""
        self._shift = Shift(self._shift.coming, new_turns())
        return self._shift

    def dismiss(self) -> None:
        """Let nobody linger any longer: the work to come begins, and there is none."""
        self.next_shift().turns[TAKEN] += 1

    def send(self, calls: Collection[Call[Any]]) -> None:
        """Leave the calls to the threads, of which there are as many as were ever needed."""
        while self._n_begun < min(len(calls), self._n_threads):
            lost = weakref.ref(self, self._calls.put)  # an interrupted `close` may not say goodbye
            _thread.start_new_thread(_work, (self._calls, self._gone, lost))
            self._n_begun += 1
        if self._n_begun:
            for call in calls:
                self._calls.put(call)

    def results(self, calls: Sequence[Call[Result]]) -> Generator[Result, None, None]:
        """Those of the calls, in their order; the caller, too, makes those that nobody has begun.

        Nobody waits for a thread to wake up that way while there is something to do.
        """
        ending = Ending(calls)
        with ending, ending:
            self.send(calls[1:])
            untried = iter(calls)
            for call in calls:
                while not call.is_over and (own := next((c for c in untried if c()), None)):
                    if own.error is not None and is_interrupt(own.error):
                        own.check()
                yield call.result()

    def close(self) -> None:
        """Send everybody home, and wait until they have gone."""
        n_begun, self._n_begun = self._n_begun, 0
        self._calls.put(None)
        self.dismiss()
        for _ in range(n_begun):
            self._gone.get()


def _work(calls: SimpleQueue[Any], gone: SimpleQueue[None], _: weakref.ref[Crew]) -> None:
    """Make calls until something else comes, which is left to the next thread."""
    try:
        while isinstance(call := calls.get(), Call):
            call()
            del call  # what it was given must not stay until the next one
    finally:
        calls.put(None)
        gone.put(None)
