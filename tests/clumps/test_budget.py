"""Limits of a `ClumpedTopicModel` that change while it runs, and what compression costs."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.clumps import budget as clumped_budget
from everlearn.clumps.local import ClumpStep
from everlearn.engine.local import SerialEngine
from everlearn.errors import MemoryBudgetError
from support.clumped_data import (
    FAMILIES,
    WIDTH,
    assert_conserved,
    assert_same,
    assert_within_limits,
    content,
    documents,
    learn,
    model_of,
    taught,
)

PAST = "learned/state/past"
every = pytest.mark.parametrize("family", FAMILIES)
forced = pytest.mark.filterwarnings("ignore::everlearn.errors.ForcedJoinWarning")


@every
def test_lowering_a_limit_compresses_at_once_and_raising_uses_the_room(family):
    parts, _ = documents(family, 24)
    model = model_of(family, max_clumps=None, memory_budget="1MB").partial_fit(parts[:8])
    full = model.memory_report()["total"]
    assert model.memory_report()["n_single_points"] == 8 * 40  # everything fits
    model.set_params(memory_budget=full // 2)
    small = model.memory_report()["total"]
    assert full // 4 < small <= full // 2
    model.set_params(memory_budget=full)
    assert model.memory_report()["total"] <= small * 1.01  # there is nothing more to keep yet
    model.partial_fit(parts[8:16])
    assert model.memory_report()["total"] > 0.8 * full
    assert_within_limits(model)
    model.set_params(max_clumps=10)
    assert model.memory_report()["n_clumps"] + model.memory_report()["n_single_points"] == 10
    model.set_params(max_clumps=60).partial_fit(parts[16:])
    assert model.memory_report()["n_clumps"] + model.memory_report()["n_single_points"] == 60
    assert_conserved(model, parts)


@every
def test_items_are_few_unless_said(family, monkeypatch):
    monkeypatch.setattr(clumped_budget, "AUTO_ITEMS", 60)
    parts, _ = documents(family, 12)
    model = model_of(family).partial_fit(parts)
    report = model.memory_report()
    assert 2 * model.n_components_ < report["n_clumps"] + report["n_single_points"] == 60
    assert_within_limits(model)
    monkeypatch.setattr(clumped_budget, "AUTO_ITEMS", 2)
    model = model_of(family, topic_price=1.0).partial_fit(parts)
    report = model.memory_report()
    assert 4 < report["n_clumps"] + report["n_single_points"] <= 2 * model.n_components_
    assert_within_limits(model)


def test_items_that_were_twice_the_topics_stay_if_topics_are_joined_later(monkeypatch):
    monkeypatch.setattr(clumped_budget, "AUTO_ITEMS", 4)
    monkeypatch.setattr(clumped_budget, "AUTO_ITEMS_PER_TOPIC", 9)
    parts, _ = documents("full", 12)
    model = model_of().partial_fit(parts)
    before = content(model)[1]
    assert (
        len(before[f"{PAST}/clumps/mass"]) + len(before[f"{PAST}/singles"])
        == 9 * model.n_components_
    )
    monkeypatch.setattr(clumped_budget, "AUTO_ITEMS_PER_TOPIC", 6)  # as if a third had been joined
    model.set_params(max_groups=100)
    assert_same((0, content(model)[1]), (0, before))
    model.set_params(max_clumps=6 * model.n_components_)
    assert len(model._learned.state.past) <= 6 * model.n_components_


def test_limits_that_were_spoilt_can_be_mended():
    model = taught()
    model.memory_budget = "lots"
    model.set_params(memory_budget="1MB")
    assert_within_limits(model)


def test_a_budget_is_a_ceiling_that_is_filled_if_asked_for():
    """What docs/ask/clumps.md says first."""
    parts, _ = documents("diagonal", 12, points=600)
    model = model_of("diagonal", memory_budget="400kB").partial_fit(parts)
    assert len(model._learned.state.past) == 4000
    model.set_params(memory_budget="60MB").partial_fit(parts)
    small = model.memory_report()["total"]
    assert len(model._learned.state.past) == 4000
    model.set_params(max_clumps=None).partial_fit(parts)
    assert len(model._learned.state.past) == 4000 + 12 * 600
    assert model.memory_report()["total"] > small + 12 * 600 * 8 * 3


def test_a_budget_beyond_the_usual_is_room_for_more_clumps():
    parts, _ = documents("diagonal", 12, points=600)
    model = model_of("diagonal", max_clumps="auto", memory_budget="64MB").partial_fit(parts)
    report = model.memory_report()
    assert report["n_clumps"] + report["n_single_points"] == 4000
    model.set_params(memory_budget="96MB").partial_fit(parts)
    report = model.memory_report()
    assert report["n_clumps"] + report["n_single_points"] == 6000


@pytest.mark.parametrize("limits", [{}, {"memory_budget": None}, {"max_clumps": None},
                                    {"memory_budget": None, "max_clumps": None}])  # fmt: skip
@pytest.mark.parametrize("criterion", ["cosine", "free-energy"])
def test_groups_are_merged_at_once(criterion, limits):
    parts, _ = documents("diagonal", 12)
    model = model_of("diagonal", options={"group_merge": criterion}, **limits).partial_fit(parts)
    assert_array_equal(model.group_sizes_, np.ones(12))
    model.set_params(max_groups=5)
    assert len(model.group_sizes_) == len(model.group_ids_) == 5
    assert model.group_sizes_.sum() == 12
    assert (np.diff(model.group_ids_) > 0).all()
    assert_conserved(model, parts)
    model.partial_fit(parts[:3])
    assert len(model.group_sizes_) == 5
    assert_conserved(model, parts + parts[:3])


@pytest.mark.parametrize(
    ("criterion", "sizes"), [("cosine", [1, 1, 2]), ("free-energy", [2, 1, 1])]
)
def test_the_criterion_decides_which_groups_are_merged(criterion, sizes):
    """Two documents of a point each have little to lose; two large ones point the same way."""
    rng = np.random.default_rng(0)
    counts = [(1, 0), (0, 1), (500, 500), (420, 580)]
    parts = [rng.normal(np.repeat([[0.0, 0.0], [30.0, 0.0]], n, axis=0)) for n in counts]
    model = model_of(
        options={"group_merge": criterion},
        max_groups=3,
        max_clumps=None,
        batch_size=None,
        topic_price=100.0,
    )
    assert model.partial_fit(parts).n_components_ == 2
    assert_array_equal(model.group_sizes_, sizes)


def test_limits_that_cannot_be_are_refused_and_change_nothing():
    model = taught()
    before = content(model)
    for params in ({"memory_budget": "lots"}, {"max_clumps": 1}, {"max_groups": 0},
                   {"memory_budget": -5}, {"no_such": 1}):  # fmt: skip
        with pytest.raises((ValueError, TypeError), match="ClumpedTopicModel"):
            model.set_params(**params)
        assert_same(content(model), before)


@every
def test_what_fits_is_kept_as_it_came(family):
    parts, _ = documents(family, 8)
    model = model_of(family, max_clumps=None, memory_budget=None).partial_fit(parts)
    assert_array_equal(model._learned.state.past.singles, np.concatenate(parts))
    assert model.compression_loss_ == 0.0
    roomy = model_of(family, max_clumps=None, memory_budget="10MB").partial_fit(parts)
    assert roomy.memory_report()["n_single_points"] == 8 * 40
    assert abs(roomy.compression_loss_) < 1.0


@every
def test_the_loss_is_what_the_bound_loses(family):
    """Beliefs that no iteration betters any more: then only compression moves the bound."""
    parts, _ = documents(family, 6)
    rng = np.random.default_rng(0)
    blur = (lambda x: rng.binomial(x.astype(int), 0.2)) if family == "multinomial" else (
        lambda x: x + 5.0 * rng.normal(size=x.shape))  # fmt: skip
    parts = [blur(part) for part in parts]
    params = {"max_clumps": None, "memory_budget": None, "batch_size": None}
    model = model_of(family, topic_price=1.0, **params).partial_fit(parts)
    k = model.n_components_
    assert k > 1
    settle(model)
    before = model.bound_
    model.set_params(max_clumps=3 * k)
    assert model.n_components_ == k
    loss = model.compression_loss_
    assert loss > 0.01
    gained_since = loss - (before - model.bound_)  # by the iteration that follows
    assert -1e-6 <= gained_since < 0.25 * loss


def settle(model):
    """Iterate until nothing changes any more."""
    state = model._learned.state
    step, items = ClumpStep(state.model, SerialEngine()), state.past.items(state.model)
    topics = state.topics
    for _ in range(40):
        topics, _ = step.iterate(topics, state.sizes, items)
    model._learned = replace(model._learned, state=replace(state, topics=topics))


@every
def test_keeping_everything_costs_nothing(family):
    parts, _ = documents(family, 6)
    model = model_of(family, max_clumps=None, memory_budget="10MB").partial_fit(parts)
    assert model.memory_report()["n_single_points"] == model.n_points_seen_
    assert_allclose(model.compression_loss_, 0.0, atol=1e-9 * abs(model.bound_))


@every
def test_limits_that_are_met_change_nothing(family):
    parts, _ = documents(family, 6)
    model = model_of(family, max_clumps=20).partial_fit(parts)
    before = content(model)
    model.set_params(max_groups=50)  # more than there are
    model.set_params(max_clumps=20, max_groups=None)
    assert_same(content(model), before)


def test_groups_are_merged_even_if_nothing_is_said_of_them(monkeypatch):
    monkeypatch.setattr(clumped_budget, "DEFAULT_MAX_GROUPS", 5)
    parts, _ = documents("full", 12)
    model = model_of("full").partial_fit(parts)
    assert model.memory_report()["n_groups"] == 5


@every
def test_merging_documents_costs_bound(family):
    parts, _ = documents(family, 10)
    model = model_of(family, max_clumps=None, memory_budget=None).partial_fit(parts)
    before = model.bound_
    model.set_params(max_groups=2)
    assert model.bound_ < before
    assert model.compression_loss_ > 0


def test_the_budget_of_a_quarter_for_groups():
    parts, _ = documents("diagonal", 60, points=5)
    model = model_of("diagonal", memory_budget=6000, batch_size=10)
    learn(model, parts)
    assert len(model.group_ids_) < 60
    assert_within_limits(model)
    assert_conserved(model, parts)


@pytest.mark.parametrize("budget", [450, 500, 600, 700, 900])
def test_a_budget_that_holds_one_document_holds_a_stream_of_them(budget):
    """The last topic stays, and groups make way for it."""
    parts, _ = documents("full", 30, points=20)
    model = model_of("full", memory_budget=budget, max_clumps=None, batch_size=1)
    for i, part in enumerate(parts):
        learn(model, [part])
        assert_within_limits(model)
        assert_conserved(model, parts[: i + 1])


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"memory_budget": None, "max_clumps": 2}, "'max_clumps' .* 2 clumps"),
        ({"memory_budget": "1GB", "max_clumps": 5}, "'max_clumps' .* 5 clumps"),
        ({"memory_budget": 1500, "max_clumps": None}, "'memory_budget' .* 1,500 bytes"),
    ],
)
def test_what_is_too_small_is_named(params, named):
    parts, _ = documents("full", 12)
    with pytest.raises(MemoryBudgetError, match=named):
        model_of("full", on_budget="error", **params).partial_fit(parts)


@forced
def test_wide_points_fit_too():
    rng = np.random.default_rng(0)
    parts = [rng.normal(10 * rng.integers(3), 1, (20, 128)) for _ in range(12)]
    model = model_of("diagonal", memory_budget="60kB").partial_fit(parts)
    assert_within_limits(model)
    assert_conserved(model, parts)
    assert np.isfinite(model.bound_)
    assert WIDTH < 128 == model.n_features_in_


@pytest.mark.slow
def test_an_endless_stream_at_constant_memory():
    parts, _ = documents("full", 40, points=500)
    params = {"max_groups": 20, "batch_size": 10, "topic_price": 200.0}
    model = model_of("full", memory_budget=20_000, **params)
    totals = []
    for _ in range(25):
        learn(model, parts)
        assert_within_limits(model)
        totals.append(model.memory_report()["total"])
    assert model.n_points_seen_ == 25 * 40 * 500
    assert max(totals[5:]) <= 20_000
    assert_conserved(model, parts * 25)
