"""Epochs within a budget: how many documents are learned together."""

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest

from everlearn.errors import MemoryBudgetError
from support.clumped_data import FAMILIES, assert_same, content, documents, model_of

every = pytest.mark.parametrize("family", FAMILIES)


@every
def test_work_on_an_epoch_stays_within_its_budget(family: str) -> None:
    parts = documents(family, 40, points=800)[0]
    params: dict[str, Any] = {"batch_size": None, "topic_price": 100.0, "max_clumps": 1000}
    model_of(family, **params).fit(parts[:2])  # compiles
    peaks = {}
    for limit in (None, "4MB", "5MB"):
        model = model_of(family, epoch_budget=limit, **params)
        gc.collect()
        tracemalloc.start()
        try:
            model.fit(parts)
            peaks[limit] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert model.n_samples_seen_ == 40
        assert (len(model.bound_history_) == 1) == (limit is None)
    assert peaks["4MB"] <= 4e6
    assert peaks["5MB"] <= 5e6 < peaks[None]


def test_epochs_are_cut_between_documents_only() -> None:
    parts = documents("full", 8, points=3000)[0]
    model = model_of(epoch_budget="5MB", max_clumps=100, batch_size=None).fit(parts)
    steps = np.diff([0, *(point.rows for point in model.history_.points)])
    assert len(steps) > 1
    assert (steps % 3000 == 0).all()
    assert steps.sum() == 8 * 3000


def test_a_generous_budget_changes_nothing() -> None:
    parts = documents("full", 8)[0]
    one, two = model_of().fit(parts), model_of(epoch_budget="1GB").fit(parts)
    assert_same((0, content(one)[1]), (0, content(two)[1]))


def test_a_document_that_does_not_fit_is_refused_and_nothing_is_learned() -> None:
    parts = documents("full", 3)[0]
    model = model_of(epoch_budget="5MB").partial_fit(parts)
    before = content(model)
    large = documents("full", 1, points=20_000)[0]
    with pytest.raises(MemoryBudgetError, match=r"'epoch_budget' .* one of 20,000 points takes"):
        model.partial_fit([*parts, *large, *parts])
    assert_same(content(model), before)
