"""Engines: the same bits from one thread and from many, and errors that are not swallowed."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info

from everlearn.inference.learners.memoized import lap
from everlearn.inference.local.tracking import Plan
from everlearn.runtime.engine import SerialEngine, ThreadEngine, open_engine
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
    with ThreadPoolExecutor(request.param) as pool:
        yield ThreadEngine(pool, 2)


class TestMap:
    @pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 13])
    def test_results_come_in_the_order_of_items(self, engine, n):
        found = engine.map(lambda shared, item: (shared, item), list(range(n)), "s")
        assert found == [("s", i) for i in range(n)]

    def test_the_caller_does_what_nobody_has_begun(self):
        """The only thread of the pool waits until the caller has done all the rest."""
        done, begun = threading.Event(), threading.Event()
        callers = []

        def task(_, item):
            if threading.current_thread() is not threading.main_thread():
                begun.set()
                assert done.wait(30)
            else:
                assert begun.wait(30)
                callers.append(item)
                if len(callers) == 4:
                    done.set()
            return item

        with ThreadPoolExecutor(1) as pool:
            assert ThreadEngine(pool, 2).map(task, list(range(5)), None) == list(range(5))
        assert callers == [0, 4, 3, 2]

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

        with ThreadPoolExecutor(4) as pool:
            summed, infos = ThreadEngine(pool, 2).map_sum(task, range(4), None)
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
