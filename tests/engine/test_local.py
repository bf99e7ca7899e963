"""Engines: the same bits from one thread and from many, and errors that are not swallowed."""

import _thread
import faulthandler
import gc
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from unittest import mock
from weakref import WeakSet

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from everlearn.engine import local
from everlearn.engine.local import SerialEngine, ThreadEngine
from everlearn.mixture.local import Plan
from everlearn.mixture.memoized import lap
from oracles.cases import named
from oracles.runs import (
    RUNS,
    SMALL_BLOCKS,
    groups,
    lively,
    model_of,
    random_posterior,
    rows_of,
    runner_of,
    started,
)
from support.spelling import Concat, spell
from support.threads import assert_gone, running


def meet(engine):
    """Make a call in every thread of the engine at the same time."""
    meeting = threading.Barrier(engine.n_workers, timeout=30)
    engine.map(lambda *_: meeting.wait(), range(engine.n_workers), None)


class TestMap:
    @pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 13])
    def test_results_come_in_the_order_of_items(self, engine, n):
        found = engine.map(lambda shared, item: (shared, item), list(range(n)), "s")
        assert found == [("s", i) for i in range(n)]

    @pytest.mark.parametrize("bad", [0, 1, 4])
    def test_errors_reach_the_caller_and_leave_the_engine_usable(self, engine, bad):
        def task(_, item):
            if item == bad:
                raise RuntimeError("broken")
            return item

        with pytest.raises(RuntimeError, match="broken"):
            engine.map(task, list(range(5)), None)
        assert engine.map(lambda _, item: item, [1, 2], None) == [1, 2]


class TestMapSum:
    @pytest.mark.parametrize("n", [1, 2, 3, 8, 13])
    def test_sums_in_the_order_of_items(self, engine, n):
        summed, infos = engine.map_sum(spell, list(range(n)), "s")
        expected, _ = SerialEngine().map_sum(spell, list(range(n)), "s")
        assert summed == expected
        assert infos == [("s", i) for i in range(n)]

    def test_slow_items_do_not_change_the_order(self):
        """The first item waits for the last."""
        done = threading.Event()

        def task(shared, item):
            if item == 0:
                assert done.wait(10)
            if item == 3:
                done.set()
            return Concat((item,)), item

        with ThreadEngine(4) as engine:
            summed, infos = engine.map_sum(task, range(4), None)
        assert summed == (((0,), (1,)), ((2,), (3,)))
        assert infos == [0, 1, 2, 3]

    @pytest.mark.parametrize("bad", [0, 2])
    @pytest.mark.parametrize("n", [1, 3])
    def test_errors_reach_the_caller(self, engine, n, bad):
        def task(shared, item):
            if item == min(bad, n - 1):
                raise ZeroDivisionError(f"item {item}")
            return Concat((item,)), item

        with pytest.raises(ZeroDivisionError, match=f"item {min(bad, n - 1)}"):
            engine.map_sum(task, list(range(n)), None)
        assert engine.map_sum(spell, [7], None)[0] == (7,)

    def test_nothing_to_do(self, engine):
        with pytest.raises(ValueError, match="nothing to sum"):
            engine.map_sum(spell, [], None)


class TestSameBits:
    """Blocks are computed alike by whoever computes them."""

    @named(RUNS)
    def test_one_step(self, case, engine):
        rows = rows_of(case, weighted=True)
        plan = Plan(np.array([[0, 1], [2, 1]]), deletes=(2,))
        posterior = random_posterior(model_of(case), rows, 3)
        run = partial(runner_of, case, block_bytes=SMALL_BLOCKS)
        one, labels = run(SerialEngine()).run(posterior, plan, rows)
        other, same_labels = run(engine).run(posterior, plan, rows)
        for a, b in ((one.stats, other.stats), (one.deletes[0], other.deletes[0])):
            for name in ("n", "t", "h"):
                assert_array_equal(getattr(a, name), getattr(b, name))
        assert_array_equal(one.pair_loss, other.pair_loss)
        assert_array_equal(labels, same_labels)

    def test_a_run_with_moves(self, engine):
        case = replace(RUNS[2], X=groups(700, dim=3, seed=3))
        traces = []
        for own in (SerialEngine(), engine):
            runner = runner_of(case, own, block_bytes=SMALL_BLOCKS)
            state, trace = started(case, 2, 1, runner=runner), []
            for _ in range(3):
                state, info = lap(state, runner, lively())
                trace.append(info)
            traces.append((trace, state.total.t.tobytes()))
        assert traces[0] == traces[1]
        assert traces[0][0][-1].n_components > 1


class TestEnding:
    def test_threads_end_with_the_engine(self):
        before = running()
        with ThreadEngine(3) as engine:
            meet(engine)
            threads = running() - before
        assert len(threads) == 3
        assert_gone(threads)

    def test_errors_close_it_too(self):
        before, threads = running(), set()

        def work():
            with ThreadEngine(3) as engine:
                meet(engine)
                threads.update(running() - before)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            work()
        assert len(threads) == 3
        assert_gone(threads)


class Large:
    """Something of which there should never be many."""

    def __init__(self) -> None:
        ALIVE.add(self)

    def __add__(self, other):
        return Large()


ALIVE: WeakSet[Large] = WeakSet()


def fail(shared, item=None):
    raise ZeroDivisionError


class TestMemory:
    def test_results_do_not_pile_up(self):
        """Sums of 2, 4, 8 and so on are there at the same time, and no more parts."""
        alive = []

        def task(_, item):
            alive.append(len(ALIVE))
            return Large(), None

        SerialEngine().map_sum(task, list(range(64)), None)
        assert max(alive) < 10
        assert len(ALIVE) == 0

    @pytest.mark.parametrize("n_workers", [1, 2])
    @pytest.mark.parametrize(
        "work",
        [
            lambda engine, shared: engine.map(lambda shared, item: item, [1, 2, 3], shared),
            lambda engine, shared: engine.map(fail, [1, 2, 3], shared),
            lambda engine, shared: engine.map_sum(fail, [1, 2, 3], shared),
        ],
        ids=["map", "map that fails", "sum that fails"],
    )
    def test_what_was_shared_is_not_kept(self, n_workers, work):
        """Neither by tasks that have not begun, nor by errors, which would wait to be collected."""
        gc.disable()
        try:
            with ThreadEngine(n_workers) as engine:
                with suppress(ZeroDivisionError):
                    work(engine, Large())
                end = time.monotonic() + 30
                while len(ALIVE) and time.monotonic() < end:  # of tasks that are just ending
                    time.sleep(0.001)
                assert len(ALIVE) == 0
        finally:
            gc.enable()


class Interrupt:
    """A trace function that interrupts when so many lines of the engine have been run."""

    def __init__(self, n_lines):
        self.left = n_lines

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename != local.__file__:
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        return self


def interrupted(n_lines, work):
    """Whether work was under way when so many lines had been run, and was interrupted."""
    before, interrupt, raised = sys.gettrace(), Interrupt(n_lines), False
    sys.settrace(interrupt)
    try:
        work()
    except KeyboardInterrupt:
        raised = True
    except ZeroDivisionError:
        pass  # the task failed before it was interrupted
    finally:
        sys.settrace(before)
    assert raised == (interrupt.left < 0)
    return raised


WORK = {
    "map": lambda engine, task: engine.map(task, [1, 2, 3], None),
    "map_sum": lambda engine, task: engine.map_sum(lambda *given: (task(*given), 0), [1, 2], None),
    "map_sum_and_keep": lambda engine, task: engine.map_sum_and_keep(
        lambda *given: (task(*given), 0), [1, 2], None
    ),
}


class TestInterrupt:
    @pytest.mark.parametrize("fails", [False, True])
    @pytest.mark.parametrize("work", WORK.values(), ids=WORK)
    def test_an_interrupt_at_any_line_leaves_nothing_behind(self, work, fails):
        """No task still runs when the interrupt is raised, and the engine still works."""
        before, running_tasks, n_lines = running(), set(), 0

        def task(_, item):
            me = threading.get_ident()
            if fails and item == 2:
                raise ZeroDivisionError
            running_tasks.add(me)
            time.sleep(0.002)
            running_tasks.discard(me)
            return item

        def at(n_lines):
            with ThreadEngine(2) as engine:
                if not interrupted(n_lines, lambda: work(engine, task)):
                    return False
                if fails:
                    return True
                end = time.monotonic() + 30
                assert engine.map(lambda _, item: item, [1, 2], None) == [1, 2]
                assert time.monotonic() < end
            assert not running_tasks
            return True

        faulthandler.dump_traceback_later(600, exit=True)
        try:
            while at(n_lines):
                n_lines += 1
        finally:
            faulthandler.cancel_dump_traceback_later()
        assert n_lines > 10
        gc.collect()
        assert_gone(running() - before)

    def test_tasks_that_write_have_ended_before_an_interrupt_is_raised(self, interruptible):
        """What they write must not come after the caller has restored an array."""
        begun, ended = threading.Barrier(3, timeout=30), []

        def task(_, item):
            begun.wait()
            if item == 0:
                _thread.interrupt_main()
            time.sleep(0.3)
            ended.append(item)

        with ThreadEngine(3) as engine:
            with pytest.raises(KeyboardInterrupt):
                engine.map(task, [0, 1, 2], None)
            assert sorted(ended) == [0, 1, 2]

    def test_a_task_is_waited_for_although_an_interrupt_took_its_future(self):
        begun, ended = threading.Event(), []

        def task(_, item):
            begun.set()
            time.sleep(0.3)
            ended.append(item)

        with ThreadEngine(2) as engine:
            submit = engine._pools[0].submit

            def interrupted_submit(*args):
                submit(*args)
                begun.wait(30)
                raise KeyboardInterrupt

            with (
                mock.patch.object(engine._pools[0], "submit", interrupted_submit),
                pytest.raises(KeyboardInterrupt),
            ):
                engine.map(task, [0, 1], None)
            assert ended == [0]
            assert engine.map(lambda _, item: item, [1, 2], None) == [1, 2]

    def test_tasks_that_have_not_begun_never_do(self):
        both, ended = threading.Barrier(2, timeout=30), []

        def task(_, item):
            if item < 2:
                both.wait()
                raise ZeroDivisionError
            time.sleep(0.01)
            ended.append(item)

        with ThreadEngine(2) as engine:
            with pytest.raises(ZeroDivisionError):
                engine.map(task, list(range(400)), None)
            assert len(ended) < 390


@pytest.fixture
def interruptible():
    """Ctrl-C raises KeyboardInterrupt, even if the shell that runs the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
