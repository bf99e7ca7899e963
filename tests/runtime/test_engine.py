"""Engines: the same bits from one thread and from many, and errors that are not swallowed."""

import _thread
import signal
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info

from everlearn.core.stats import total
from everlearn.inference.engine import Here, Piece, pieces, together
from everlearn.inference.learners.memoized import lap
from everlearn.inference.local.tracking import Plan
from everlearn.runtime.engine import SerialEngine, ThreadEngine, open_engine
from everlearn.runtime.engine.groups import Node, folded, grouped
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


class Concat(tuple):
    """Addition that remembers the order and the grouping."""

    def __add__(self, other):
        return Concat((tuple(self), tuple(other)))


def spell(shared, item):
    return Concat((item,)), (shared, item)


@pytest.fixture(params=["serial", 1, 2, 5])
def engine(request):
    if request.param == "serial":
        yield SerialEngine()
        return
    with ThreadEngine(request.param) as engine:
        yield engine


class TestMap:
    @pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 13])
    def test_results_come_in_the_order_of_items(self, engine, n):
        found = engine.map(lambda shared, item: (shared, item), list(range(n)), "s")
        assert found == [("s", i) for i in range(n)]

    def test_the_caller_does_what_nobody_has_begun(self):
        """Both threads of the pool wait until the caller has done all the rest."""
        done, all_begun = threading.Event(), threading.Barrier(3, timeout=30)
        callers = []

        def task(_, item):
            if threading.current_thread() is not threading.main_thread():
                all_begun.wait()
                assert done.wait(30)
            else:
                if item == 0:
                    all_begun.wait()
                callers.append(item)
                if len(callers) == 3:
                    done.set()
            return item

        with ThreadEngine(2) as engine:
            assert engine.map(task, list(range(5)), None) == list(range(5))
        assert callers == [0, 4, 3]

    @pytest.mark.parametrize("bad", [0, 1, 4])
    def test_errors_reach_the_caller_and_leave_the_engine_usable(self, engine, bad):
        def task(_, item):
            if item == bad:
                raise RuntimeError("broken")
            return item

        with pytest.raises(RuntimeError, match="broken"):
            engine.map(task, list(range(5)), None)
        assert engine.map(lambda _, item: item, [1, 2], None) == [1, 2]


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
            lambda engine: engine.map_sum(spell, [1, 2, 3], None),
            lambda engine: list(engine.as_they_come(spell, [1, 2, 3], lambda: None)),
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
        end = time.monotonic() + 30
        while thread in sys._current_frames() and time.monotonic() < end:
            time.sleep(0.001)
        assert thread not in sys._current_frames()


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


class TestPieces:
    """Runs of data that stay where they are."""

    def test_runs_do_not_cross_chunks(self, monkeypatch):
        monkeypatch.setattr("everlearn.inference.engine.CHUNK_ROWS", 10)
        found = pieces(list(range(23)), 4, lambda where: where.start)
        assert [p.here() for p in found] == [
            ([0, 1, 2, 3], 0), ([4, 5, 6, 7], 4), ([8, 9], 8),
            ([10, 11, 12, 13], 10), ([14, 15, 16, 17], 14), ([18, 19], 18),
            ([20, 21, 22], 20),
        ]  # fmt: skip
        assert [len(run) for run in together(found)] == [3, 3, 1]
        assert [p.whole.stop for p in found] == [4, 8, 10, 14, 18, 20, 23]

    def test_a_piece_of_a_chunk_elsewhere_is_the_same(self):
        near = Piece([5, 6, 7, 8, 9], slice(1, 5), slice(1, 3), "x")
        far = Piece(Here([6, 7, 8, 9]), None, slice(1, 3), "x")
        assert near.here() == far.here() == near.of([6, 7, 8, 9]) == ([7, 8], "x")

    def test_sums_are_made_within_chunks_first(self, engine, monkeypatch):
        monkeypatch.setattr("everlearn.inference.engine.CHUNK_ROWS", 3)
        found, infos = engine.map_sum(spell, pieces(tuple(range(7)), 1), None)
        one, two, three = (((0,),), ((1,),)), ((2,),), (((3,),), ((4,),))
        assert infos == [(None, (i,)) for i in range(7)]
        assert found == (((one, two), (three, ((5,),))), ((6,),))

    def test_what_is_kept_is_told_apart_by_chunk(self, engine, monkeypatch):
        monkeypatch.setattr("everlearn.inference.engine.CHUNK_ROWS", 3)
        items = pieces(tuple(range(7)), 2)
        found, kept = engine.map_sum_kept(spell, items, None)
        assert found == engine.map_sum(spell, items, None)[0]
        assert [len(handle.fetch()) for handle in kept] == [2, 2, 1]
        again = engine.map(lambda _, item: item, [(kept[0], 4), (kept[2], 5)], None)
        assert again[1] == ([(None, (6,))], 5)

    def test_results_as_they_come(self, engine):
        sent = iter(range(100))
        found = engine.as_they_come(lambda shared, item: (shared, item), [5, 6, 7], sent.__next__)
        assert sorted((n, item) for n, (_, item) in found) == [(0, 5), (1, 6), (2, 7)]
        assert next(sent) == 3


class TestGroups:
    @pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 29])
    @pytest.mark.parametrize("n_workers", [1, 2, 3])
    @pytest.mark.parametrize("placed", [False, True])
    def test_additions_do_not_depend_on_who_makes_them(self, n, n_workers, placed):
        workers = [f"w{i}" for i in range(n_workers)]
        rng = np.random.default_rng(n)
        homes = dict(enumerate(rng.choice(workers, n).tolist()))
        groups = grouped(range(n), workers, n_workers, homes.get if placed else lambda _: None)
        parts = [total([spell(None, i)[0] for run in group.runs for i in run]) for group in groups]
        heights = [group.height for group in groups]
        assert total(parts, heights) == SerialEngine().map_sum(spell, range(n), None)[0]
        for group in groups:
            assert group.home in workers
            if placed:
                assert {homes[i] for run in group.runs for i in run} == {group.home}

    @pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 29])
    @pytest.mark.parametrize("n_workers", [1, 2, 3])
    @pytest.mark.parametrize("n_threads", [1, 4])
    def test_a_worker_may_add_up_what_it_has_first(self, n, n_workers, n_threads):
        workers = [f"w{i}" for i in range(n_workers)]
        homes = {i: workers[i * n_workers // n] for i in range(n)}
        groups = grouped(range(n), workers, n_workers * n_threads, homes.get)
        nodes = []
        for worker in workers:
            nodes += folded(
                Node(g.start, g.height, total([spell(None, i)[0] for run in g.runs for i in run]))
                for g in groups
                if g.home == worker
            )
        expected = SerialEngine().map_sum(spell, range(n), None)[0]
        assert total((node.sum for node in nodes), [node.height for node in nodes]) == expected
        if n_workers == 1:
            assert len(nodes) == 1
        assert len(nodes) <= len(grouped(range(n), workers, n_workers, homes.get))

    def test_tasks_are_few_and_all_workers_have_some(self):
        groups = grouped(range(1000), ["a", "b", "c"], 3, lambda _: None)
        assert len(groups) <= 6
        assert {group.home for group in groups} == {"a", "b", "c"}

    def test_what_workers_of_one_thread_hold_is_one_task_each_where_the_tree_allows(self):
        workers = ["a", "b"]
        for n in (2, 8, 32):
            homes = dict(enumerate(["a"] * (n // 2) + ["b"] * (n // 2)))
            assert len(grouped(range(n), workers, 2, homes.get)) == 2
        assert len(grouped(range(32), workers, 8, homes.get)) == 16  # for four threads each


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


class TestOpening:
    @pytest.mark.parametrize("name", ["serial", "threads", None])
    def test_every_name_gives_the_same(self, name):
        with open_engine(name) as engine:
            assert engine.map_sum(spell, [1, 2, 3], 0) == SerialEngine().map_sum(
                spell, [1, 2, 3], 0
            )

    def test_names_mean_what_they_say(self):
        with open_engine("serial") as engine:
            assert isinstance(engine, SerialEngine)
        with open_engine("threads") as engine:
            assert isinstance(engine, ThreadEngine)

    @pytest.mark.parametrize("name", ["serial", "threads"])
    def test_linear_algebra_has_one_thread_meanwhile(self, name):
        def counts():
            return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

        before = counts()
        with open_engine(name):
            assert set(counts()) <= {1}
        assert counts() == before

    def test_threads_end_with_the_engine(self):
        before = threading.active_count()
        with open_engine("threads") as engine:
            engine.map_sum(spell, list(range(8)), 0)
        assert threading.active_count() == before

    def test_errors_close_it_too(self):
        def work():
            with open_engine("threads") as engine:
                engine.map_sum(spell, list(range(8)), 0)
                raise ZeroDivisionError

        before = threading.active_count()
        with pytest.raises(ZeroDivisionError):
            work()
        assert threading.active_count() == before
