"""Tasks grouped by the workers that hold their data, and what a task gets there."""

import cloudpickle
import numpy as np
import pytest

from everlearn.core.stats import total
from everlearn.engine.dask_data import InSlot, added, each, grouped
from everlearn.engine.local import SerialEngine
from everlearn.engine.protocol import Piece
from support.spelling import spell


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


class TestItems:
    """What a worker makes of a recipe is what the task gets in this process."""

    @pytest.mark.parametrize("along", [None, "x"])
    def test_a_run_with_its_companion(self, along):
        source = list(range(20))
        piece = Piece(source, slice(5, 15), slice(2, 6), along)
        slot = InSlot(1, piece.where, along)
        assert slot.unpacked(["other", source[5:15]]) == piece.load()

    def test_all_of_the_data(self):
        assert InSlot(0).unpacked(["whole"]) == "whole"

    def test_a_result_that_was_kept_with_its_sum(self):
        kept = ("sum", ["a", "b", "c"])
        assert InSlot(0, slice(1, 3), kept=True).unpacked([kept]) == ["b", "c"]

    def test_tasks_add_up_as_in_this_process(self):
        items = list(range(7))
        runs = [[3, (InSlot(0), 4)], [InSlot(0, slice(0, 2))]]
        plain = [3, (items, 4), items[:2]]
        call, recipe = cloudpickle.dumps((spell, "shared")), cloudpickle.dumps(runs)
        summed, infos = added(call, recipe, items)
        assert summed == (((3,), ((items, 4),)), (items[:2],))
        assert infos == [("shared", item) for item in plain]
        assert each(call, recipe, items) == (None, [spell("shared", item) for item in plain])
