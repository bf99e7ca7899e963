"""Batches that a model takes: records keep their origins through cuts, joins and refusals."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from everlearn.errors import MemoryBudgetError, UsageError
from everlearn.io.batches import Chunk
from everlearn.stream.layout import Layout
from everlearn.stream.prepared import (
    Origin,
    Origins,
    PreparedBatch,
    apply_to_good,
    join_batches,
    join_values,
    select_values,
)

FORMS = {
    "list": lambda n: [f"text {i}" for i in range(n)],
    "array": lambda n: np.arange(2.0 * n).reshape(n, 2),
    "csr": lambda n: sparse.csr_array(np.arange(2.0 * n).reshape(n, 2)),
}


def origins(n: int, source: int = 0) -> Origins:
    return Origins(np.full(n, source), np.arange(10, 10 * (n + 1), 10, np.uint64))


def batch(n: int, form: str = "array", y: Any = None, source: int = 0) -> PreparedBatch:
    places = origins(n, source)
    return PreparedBatch(FORMS[form](n), y, places, [], places, Layout("mixture"))


def plain(values: Any) -> list[Any]:
    return values if isinstance(values, list) else np.asarray(
        values.toarray() if sparse.issparse(values) else values
    ).tolist()  # fmt: skip


class TestOrigins:
    def test_those_of_a_batch_are_in_its_order(self) -> None:
        chunks = [Chunk(2, ["a", "b"], [5, 9]), Chunk(0, [], []), Chunk(1, ["c"], [2**63])]
        found = Origins.of(chunks)
        assert list(found) == [(2, 5), (2, 9), (1, 2**63)]
        assert found[2] == Origin(1, 2**63)  # as a place in a folder may be
        assert list(found.select([2, 0])) == [(1, 2**63), (2, 5)]

    def test_nothing_has_none(self) -> None:
        assert list(Origins.of([])) == []


class TestCuts:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("picked", [[], [2], [3, 0], range(1, 3), slice(1, 3)])
    def test_some_entries(self, form: str, picked: Any) -> None:
        whole = FORMS[form](4)
        wanted = range(4)[picked] if isinstance(picked, slice) else picked
        found = plain(select_values(whole, picked))
        assert found == [plain(whole)[i] for i in wanted]

    @pytest.mark.parametrize("form", FORMS)
    def test_labels_and_origins_are_cut_along(self, form: str) -> None:
        whole = batch(4, form, np.array(["p", "q", "r", "s"]))
        some = whole.select([3, 1])
        assert plain(some.X) == [plain(whole.X)[i] for i in (3, 1)]
        assert some.y is not None
        assert some.y.tolist() == ["s", "q"]
        assert list(some.origins) == [(0, 40), (0, 20)]
        assert len(some) == 2


class TestJoins:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("labelled", [False, True])
    def test_batches_one_after_the_other(self, form: str, labelled: bool) -> None:
        y = np.arange(3.0) if labelled else None
        one, two = batch(3, form, y), batch(3, form, y, source=1)
        both = join_batches([one, replace(two, layout=Layout("mixture", batch=7))])
        assert plain(both.X) == plain(one.X) + plain(two.X)
        assert list(both.origins) == [*one.origins, *two.origins]
        assert (both.y is None) if y is None else both.y.tolist() == [0.0, 1.0, 2.0] * 2  # type: ignore[union-attr]
        assert both.layout.batch == 7  # how records are read from now on

    def test_texts_and_counts_do_not_mix(self) -> None:
        with pytest.raises(UsageError, match="either texts or tables of word counts"):
            join_values([["a"], sparse.csr_array(np.ones((1, 2)))])

    def test_nothing_is_an_empty_list(self) -> None:
        assert join_values([]) == []

    @pytest.mark.parametrize(("n", "is_view"), [(100, True), (10, True), (1, False)])
    def test_a_small_part_of_a_large_array_does_not_keep_it_alive(
        self, n: int, is_view: bool
    ) -> None:
        whole = np.ones((100, 2))
        found = join_values([whole[:n]])
        assert (found.base is whole) == is_view
        np.testing.assert_array_equal(found, whole[:n])


class TestRefused:
    """A function takes rows one by one, but not those with a bad one among them."""

    @given(st.lists(st.booleans(), min_size=1, max_size=20), st.sampled_from(sorted(FORMS)))
    def test_exactly_the_bad_records_are_left_out(self, good: list[bool], form: str) -> None:
        whole = batch(len(good), form)
        places = [origin.place for origin in whole.origins]
        bad = {place for place, is_good in zip(places, good, strict=True) if not is_good}

        def learn(part: PreparedBatch) -> list[int]:
            found = [origin.place for origin in part.origins]
            if bad & set(found):
                raise ValueError("no such thing")
            return found

        results, refused = apply_to_good(whole, learn)
        assert [place for part in results for place in part] == [
            place for place in places if place not in bad
        ]
        assert [origin.place for origin, _ in refused] == sorted(bad)
        assert {fault.reason for _, fault in refused} <= {"no such thing"}

    def test_a_batch_without_a_bad_one_is_one_call(self) -> None:
        assert apply_to_good(batch(64), len) == ([64], [])

    @pytest.mark.parametrize("error", [MemoryBudgetError("too small"), UsageError("no such")])
    def test_no_record_is_to_blame(self, error: Exception) -> None:
        calls = []

        def learn(part: PreparedBatch) -> None:
            calls.append(len(part))
            raise error

        with pytest.raises(type(error)):
            apply_to_good(batch(8), learn)
        assert calls == [8]
