"""Compression keeps all that was counted (M4), and what is kept stays within its limits (M5)."""

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import everlearn
from everlearn.errors import ForcedJoinWarning, MemoryBudgetError
from support.clumped_data import (
    FAMILIES,
    assert_conserved,
    assert_same,
    assert_within_limits,
    content,
    documents,
    learn,
    limit,
    model_of,
)

every = pytest.mark.parametrize("family", FAMILIES)
FEW = settings(max_examples=max(5, settings.default.max_examples // 6))


STEPS = st.one_of(
    st.tuples(st.just("epoch"), st.integers(1, 6)),
    st.tuples(st.just("memory_budget"), st.sampled_from([None, 3000, 5000, 12_000, "1MB"])),
    st.tuples(st.just("max_clumps"), st.sampled_from([None, "auto", 8, 20, 100])),
    st.tuples(st.just("max_groups"), st.sampled_from([None, 1, 2, 5])),
    st.tuples(
        st.just("options"),
        st.sampled_from([{"group_merge": "cosine"}, {"group_merge": "free-energy"}]),
    ),
    st.tuples(st.just("expected_points"), st.sampled_from([None, 1e6])),
)


@every
@FEW
@given(st.lists(STEPS, min_size=1, max_size=7), st.integers(0, 100))
def test_m4_and_m5_whatever_is_done_counts_stay_and_limits_hold(family, steps, seed):
    parts, _ = documents(family, 40, seed, points=15)
    model, seen = learn(model_of(family, memory_budget=20_000), parts[:2]), 2
    for name, value in steps:
        if name == "epoch":
            learn(model, parts[seen : seen + value])
            seen += value
        else:
            limit(model, **{name: value})
        assert_within_limits(model)
        assert_conserved(model, parts[:seen])


@every
@FEW
@given(st.integers(1500, 40_000), st.sampled_from([None, "auto", 6, 30]),
       st.sampled_from([None, 3]), st.integers(0, 50))  # fmt: skip
def test_m5_random_budgets_hold_after_every_epoch(family, budget, clumps, groups, seed):
    parts, _ = documents(family, 18, seed, points=20)
    model = model_of(family, memory_budget=budget, max_clumps=clumps, max_groups=groups)
    for start in range(0, 18, 3):
        learn(model, parts[start : start + 3])
        assert_within_limits(model)
        assert_conserved(model, parts[: start + 3])


@every
def test_m5_topics_are_joined_where_their_clumps_do_not_fit(family):
    parts, _ = documents(family, 12)
    free = model_of(family).partial_fit(parts)
    assert free.n_components_ >= 3
    model = model_of(family, max_clumps=2)
    with pytest.warns(ForcedJoinWarning, match="topics? of ClumpedTopicModel had to be joined"):
        model.partial_fit(parts)
    assert model.n_components_ <= 2
    assert_within_limits(model)
    assert_conserved(model, parts)


@every
def test_m5_or_the_budget_is_refused_and_nothing_changes(family):
    parts, _ = documents(family, 12)
    model = model_of(family, on_budget="error").partial_fit(parts[:6])
    before = content(model)
    for name, value in (("memory_budget", 400), ("max_clumps", 2)):
        with pytest.raises(MemoryBudgetError, match=f"'{name}' of ClumpedTopicModel"):
            model.set_params(**{name: value})
        assert_same(content(model), before)
    model.__dict__["memory_budget"] = 400  # as if there had been more room before
    with pytest.raises(MemoryBudgetError):
        model.partial_fit(parts[6:])
    model.__dict__["memory_budget"] = "64MB"
    assert_same(content(model), before)


@every
def test_m5_a_budget_for_nothing_is_refused(family):
    parts, _ = documents(family, 4)
    with pytest.raises(
        MemoryBudgetError, match=r"a group: 1 topic of 3 features, in 1 group, is too much for 100"
    ):
        learn(model_of(family, memory_budget=100), parts)


def test_the_report_is_what_python_holds() -> None:
    """A model of some size against tracemalloc."""
    parts, _ = documents("full", 12, points=3000)
    params: dict[str, Any] = {"memory_budget": None, "max_clumps": None, "topic_price": 2000.0}
    model_of(**params).partial_fit(parts[:2])
    ours = tracemalloc.Filter(True, f"{Path(everlearn.__file__).parent}/*", all_frames=True)
    tracemalloc.start(25)
    try:
        model = model_of(**params).partial_fit(parts)
        gc.collect()  # small tuples that the interpreter keeps for later are nobody's
        held = tracemalloc.take_snapshot().filter_traces([ours])  # not that of other threads
    finally:
        tracemalloc.stop()
    total = model.memory_report()["total"]
    assert total is not None
    assert total > 36_000 * 24
    size = sum(part.size for part in held.statistics("filename"))
    assert abs(size - total) <= 0.1 * total
