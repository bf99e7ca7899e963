"""Threads that join in what one of them has begun, and linger for what comes next."""

import _thread
import signal
import threading
import time
from itertools import count

import pytest

from everlearn.engine.local import ThreadEngine
from support.threads import assert_gone


@pytest.fixture
def interruptible():
    """Whatever a shell that runs tests in the background has said about interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class TestJoin:
    """Calls that take turns at what is to be done."""

    def test_work_is_done_once_by_all_together(self, engine):
        left, done = list(range(1000)), []

        def task(shared):
            while shared:
                try:
                    done.append(shared.pop())
                except IndexError:
                    return

        engine.join(task, left, 8)
        assert sorted(done) == list(range(1000))

    def test_others_take_part_while_the_caller_is_at_it(self):
        meeting = threading.Barrier(3, timeout=30)
        with ThreadEngine(3) as engine:
            engine.join(lambda _: meeting.wait(), None, 8)
        assert not meeting.broken

    @pytest.mark.parametrize("most", [0, 1])
    def test_little_work_is_left_to_the_caller(self, most):
        callers = []
        with ThreadEngine(3) as engine:
            engine.join(lambda _: callers.append(threading.current_thread()), None, most)
        assert callers == [threading.main_thread()]

    def test_nobody_waits_for_a_call_that_has_not_begun(self):
        """The only other thread is busy until the caller has come back."""
        begun, done, callers = threading.Event(), threading.Event(), []

        def busy(_):
            if threading.current_thread() is not threading.main_thread():
                begun.set()
                assert done.wait(30)

        with ThreadEngine(2) as engine:
            with engine.joined(busy, None, 2, lambda: True):
                assert begun.wait(30)
            engine.join(callers.append, "here", 2)
            done.set()
        assert callers == ["here"]

    @pytest.mark.parametrize("in_caller", [True, False])
    def test_errors_reach_the_caller_after_all_have_ended(self, in_caller):
        both, ended = threading.Barrier(2, timeout=30), []

        def task(_):
            both.wait()
            if (threading.current_thread() is threading.main_thread()) == in_caller:
                raise ZeroDivisionError("broken")
            ended.append(1)

        with ThreadEngine(2) as engine:
            with pytest.raises(ZeroDivisionError, match="broken"):
                engine.join(task, None, 2)
            assert ended == [1]
            assert engine.map(lambda _, item: item, [1, 2], None) == [1, 2]

    def test_others_begin_before_the_caller_is_ready(self):
        begun, callers = threading.Event(), []

        def task(_):
            callers.append(threading.current_thread() is threading.main_thread())
            begun.set()

        with ThreadEngine(2) as engine, engine.joined(task, None, 2):
            assert begun.wait(30)
            assert callers == [False]
        assert callers == [False, True]

    def test_the_caller_joins_after_what_it_does_first(self, engine):
        done = []
        with engine.joined(done.append, "task", 1):
            done.append("first")
        assert done == ["first", "task"]

    def test_a_call_that_fails_is_told_to_whoever_asks(self):
        failed, asked = threading.Event(), []

        def task(_):
            failed.set()
            raise ZeroDivisionError("broken")

        def work(engine):
            with engine.joined(task, None, 2) as check:
                assert failed.wait(30)
                while True:
                    asked.append(1)
                    check()

        with ThreadEngine(2) as engine, pytest.raises(ZeroDivisionError, match="broken"):
            work(engine)
        assert asked

    @pytest.mark.parametrize("done", [lambda: True, None])
    def test_calls_are_waited_for_unless_all_is_done(self, done):
        begun, end, ended = threading.Event(), threading.Event(), []

        def task(_):
            if threading.current_thread() is not threading.main_thread():
                begun.set()
                end.wait(30 if done else 0.2)
                ended.append(1)

        with ThreadEngine(2) as engine:
            with engine.joined(task, None, 2, done):
                assert begun.wait(30)
            assert ended == ([] if done else [1])
            end.set()

    def test_parts_of_others_are_waited_for(self):
        """Until they are done, or one of the others has failed."""
        looks = []

        def done():
            looks.append(1)
            return len(looks) == 4

        with ThreadEngine(2) as engine, engine.joined(lambda _: None, None, 2, done):
            pass
        assert len(looks) == 4

        def fail(_):
            if threading.current_thread() is not threading.main_thread():
                raise ZeroDivisionError

        with (
            ThreadEngine(2) as engine,
            pytest.raises(ZeroDivisionError),
            engine.joined(fail, None, 2, lambda: False),
        ):
            pass

    def test_an_interrupt_waits_for_all_calls_that_write(self, interruptible):
        """What others write must not come after what is put right."""
        begun, ended, numbers = threading.Barrier(4, timeout=30), [], count()

        def task(_):
            if threading.current_thread() is not threading.main_thread():
                begun.wait()
                time.sleep(0.3)
                if next(numbers) == 0:
                    _thread.interrupt_main()
                time.sleep(0.3)
                ended.append(1)

        def work(engine):
            with engine.joined(task, None, 4):
                begun.wait()

        with ThreadEngine(4) as engine:
            with pytest.raises(KeyboardInterrupt):
                work(engine)
            assert ended == [1, 1, 1]

    def test_what_fails_after_all_is_done_is_nobodys_business(self):
        failed = threading.Event()

        def task(_):
            if threading.current_thread() is not threading.main_thread():
                failed.set()
                raise ZeroDivisionError

        with ThreadEngine(2) as engine, engine.joined(task, None, 2, lambda: True):
            assert failed.wait(30)
            time.sleep(0.1)

    def test_errors_of_what_the_caller_does_first(self):
        """Nobody is left behind, and the caller takes no part any more."""
        begun, ended = threading.Event(), []

        def task(_):
            begun.set()
            ended.append(threading.current_thread() is threading.main_thread())

        def work(engine):
            with engine.joined(task, None, 2):
                assert begun.wait(30)
                raise ZeroDivisionError

        with ThreadEngine(2) as engine:
            with pytest.raises(ZeroDivisionError):
                work(engine)
            assert ended == [False]


class TestLingering:
    """Whoever is done with a piece of work may wait for the next, which it then takes at once."""

    def lingering(self, coming, called):
        """A task of other threads, which wait until these turns begin, and the event of that."""
        begun = threading.Event()

        def task(_):
            if threading.current_thread() is not threading.main_thread():
                begun.set()
                end = time.monotonic() + 30
                while not coming.any() and time.monotonic() < end:
                    time.sleep(0.001)
                called.append((threading.get_ident(), bool(coming.any())))

        return task, begun

    def test_what_is_to_come_comes_next(self, engine):
        before = engine.shift()
        assert not before.turns.any()
        assert not before.coming.any()
        assert before.turns is not before.coming
        if isinstance(engine, ThreadEngine):
            assert engine.shift().turns is before.coming

    def test_the_same_thread_takes_the_next_call(self):
        called = []
        with ThreadEngine(2) as engine:
            task, begun = self.lingering(engine.shift().coming, called)
            with engine.joined(task, None, 2, lambda: True):
                assert begun.wait(30)
            shift = engine.shift()
            again, begun = self.lingering(shift.coming, called)
            with engine.joined(again, None, 2, lambda: True):
                assert not begun.wait(0.1)  # nothing calls it yet
                shift.turns[0] += 1
                assert begun.wait(30)
        (first, was_called), (second, _) = called
        assert was_called
        assert first == second

    @pytest.mark.parametrize(
        "work",
        [
            lambda engine: engine.join(lambda _: None, None, 2),
            lambda engine: engine.map(lambda _, item: item, [1, 2, 3], None),
            lambda engine: engine.map_sum(lambda _, item: (item, None), [1, 2, 3], None),
            lambda engine: list(engine.as_they_come(lambda _, item: item, [1, 2, 3], lambda: None)),
        ],
    )
    def test_nobody_lingers_while_there_is_other_work(self, work):
        called = []
        with ThreadEngine(2) as engine:
            coming = engine.shift().coming
            task, begun = self.lingering(coming, called)
            with engine.joined(task, None, 2, lambda: True):
                assert begun.wait(30)
            assert not coming.any()
            work(engine)
            assert coming.any()
            assert not engine.shift().turns.any()
        assert [was_called for _, was_called in called] == [True]

    def test_none_is_left_when_the_engine_is_closed(self):
        called = []
        with ThreadEngine(2) as engine:
            task, begun = self.lingering(engine.shift().coming, called)
            with engine.joined(task, None, 2, lambda: True):
                assert begun.wait(30)
        ((thread, was_called),) = called
        assert was_called
        assert_gone({thread})
