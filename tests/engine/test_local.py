"""Engines: the same bits from one thread and from many, and errors that are not swallowed."""

import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info

from everlearn.core.stats import total
from everlearn.engine.dask_data import grouped
from everlearn.engine.local import SerialEngine, ThreadEngine
from everlearn.engine.opening import open_engine
from everlearn.engine.protocol import Here, Piece, pieces, together
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
from support.threads import assert_gone, running


class Concat(tuple):
    """Addition that remembers the order and the grouping."""

    def __add__(self, other):
        return Concat((tuple(self), tuple(other)))


def spell(shared, item):
    return Concat((item,)), (shared, item)


def meet(engine):
    """Make a call in every thread of the engine at the same time."""
    meeting = threading.Barrier(engine.n_workers, timeout=30)
    engine.map(lambda *_: meeting.wait(), range(engine.n_workers), None)


class TestMap:
    @pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 13])
    def test_results_come_in_the_order_of_items(self, engine, n):
        found = engine.map(lambda shared, item: (shared, item), list(range(n)), "s")
        assert found == [("s", i) for i in range(n)]

    def test_the_caller_does_what_nobody_has_begun(self):
        """Both other threads wait until the caller has done all the rest."""
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

        with ThreadEngine(3) as engine:
            assert engine.map(task, list(range(5)), None) == list(range(5))
        assert callers == [0, 3, 4]

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


class TestPieces:
    """Runs of data that stay where they are."""

    def test_runs_do_not_cross_chunks(self, monkeypatch):
        monkeypatch.setattr("everlearn.engine.protocol.CHUNK_ROWS", 10)
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
        monkeypatch.setattr("everlearn.engine.protocol.CHUNK_ROWS", 3)
        found, infos = engine.map_sum(spell, pieces(tuple(range(7)), 1), None)
        one, two, three = (((0,),), ((1,),)), ((2,),), (((3,),), ((4,),))
        assert infos == [(None, (i,)) for i in range(7)]
        assert found == (((one, two), (three, ((5,),))), ((6,),))

    def test_what_is_kept_is_told_apart_by_chunk(self, engine, monkeypatch):
        monkeypatch.setattr("everlearn.engine.protocol.CHUNK_ROWS", 3)
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
        before = running()
        with ThreadEngine(3) as engine:
            meet(engine)
            threads = running() - before
        assert len(threads) == 2
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
        assert len(threads) == 2
        assert_gone(threads)
