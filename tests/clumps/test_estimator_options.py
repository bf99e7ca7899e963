"""`ClumpedTopicModel` with `track_documents`: the group of each document."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.errors import CheckpointError, ForcedJoinWarning, MemoryBudgetError
from everlearn.estimator.saving import load
from support.clumped_data import (
    FAMILIES,
    assert_same,
    bytes_in_file,
    content,
    documents,
    model_of,
    sums_of,
    taught,
)

every = pytest.mark.parametrize("family", FAMILIES)


@pytest.mark.parametrize("criterion", ["cosine", "free-energy"])
@every
def test_every_document_is_followed_through_merges(family: str, criterion: str) -> None:
    rng = np.random.default_rng(0)
    parts = [part[: rng.integers(5, 40)] for part in documents(family, 40)[0]]
    lengths = np.array([len(part) for part in parts])
    model = model_of(
        family,
        track_documents=True,
        options={"group_merge": criterion},
        memory_budget=9000,
        max_clumps=30,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForcedJoinWarning)
        for start in range(0, 40, 8):
            model.partial_fit(parts[start : start + 8])
            if start == 24:
                model.set_params(max_groups=5)
            groups = np.searchsorted(model.group_ids_, model.document_groups_)
            assert_array_equal(model.group_ids_[groups], model.document_groups_)
            assert groups.shape == (start + 8,)
            sizes = np.bincount(groups, minlength=len(model.group_ids_))
            assert_array_equal(sizes, model.group_sizes_)
            assert_array_equal(np.unique(groups, return_index=True)[1], model.group_ids_)
            # Points are counted where their document is said to be, whatever was compressed.
            points = np.bincount(groups, lengths[: start + 8], len(sizes))
            assert_array_equal(sums_of(model)[1], points)
            report = model.memory_report()
            assert report["documents"] == 4 * (start + 8)
            assert report["total"] == bytes_in_file(model) <= 9000
    assert len(model.group_ids_) == 5


def test_what_is_found_can_be_traced_to_documents() -> None:
    parts, truth = documents("full", 24)
    model = model_of(track_documents=True, max_groups=8).fit(parts)
    best = model.group_ids_[model.retrieve(parts[3], 1).positions[0]]
    found = np.flatnonzero(model.document_groups_ == best)
    topics = set(truth[3].tolist())
    assert any(set(truth[j].tolist()) == topics for j in found)


def test_groups_of_documents_change_nothing_else(tmp_path: Path) -> None:
    parts = documents("full", 12)[0]
    params: dict[str, Any] = {"max_clumps": 40, "max_groups": 5}
    plain, tracked = model_of(**params), model_of(track_documents=True, **params)
    plain.fit(parts), tracked.fit(parts)
    arrays = content(tracked)[1]
    del arrays["learned/state/document_groups"]
    assert_same((0, arrays), (0, content(plain)[1]))
    tracked.save(tmp_path / "model.evl")
    other = load(tmp_path / "model.evl")
    assert_array_equal(other.document_groups_, tracked.document_groups_)
    assert_same(content(other.partial_fit(parts)), content(tracked.partial_fit(parts)))


def test_groups_of_documents_can_be_given_up_but_not_be_had_later() -> None:
    parts = documents("full", 6)[0]
    model = model_of().fit(parts)
    assert not hasattr(model, "document_groups_")
    with pytest.raises(AttributeError, match="only with track_documents=True"):
        model.document_groups_  # noqa: B018
    with pytest.raises(ValueError, match=r"'track_documents' .* cannot change"):
        model.set_params(track_documents=True).partial_fit(parts)
    model.fit(parts).set_params(track_documents=False)
    assert model.memory_report()["documents"] == 0
    assert not hasattr(model.partial_fit(parts), "document_groups_")


def test_a_map_that_outgrows_the_budget_is_named() -> None:
    parts = [np.ones((1, 2)) for _ in range(200)]
    model = model_of(track_documents=True, memory_budget=1000, batch_size=None)
    with pytest.raises(MemoryBudgetError, match="beside the groups of 200 documents"):
        model.fit(parts)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda groups: groups[:-1],
        lambda groups: groups.astype(np.int64),
        lambda groups: groups + 1,
        lambda groups: groups - 1,
        lambda groups: groups[::-1].copy(),
        lambda groups: np.zeros_like(groups),
    ],
)
def test_a_map_that_cannot_be_is_refused(spoil: Any) -> None:
    header, arrays = content(taught(count=9, track_documents=True, max_groups=4))
    spoilt = arrays | {
        "learned/state/document_groups": spoil(arrays["learned/state/document_groups"])
    }
    with pytest.raises(CheckpointError, match="document_groups"):
        ClumpedTopicModel.from_checkpoint(header, spoilt)
