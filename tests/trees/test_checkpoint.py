"""Files that are whole but say what no `TopicTree` says: a named error, never a model."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.estimator import saving as persistence
from everlearn.estimator.saving import load
from everlearn.store.archive import Checkpoint
from everlearn.testing.data import planted_tree
from everlearn.trees.estimator import TopicTree
from support.spoiling import FLOATS, SHAPES

INTEGERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "negative": lambda a: a - 100,
    "large": lambda a: a + 2**20,
    "fractions": lambda a: a.astype(float),
    "other size": lambda a: a.astype(np.int32 if a.dtype == np.int64 else np.int64),
}


@cache
def _content() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    counts = planted_tree(0, n_documents=60, n_tokens=30).counts
    model = TopicTree(random_state=0, batch_size=20, reservoir=25).partial_fit(counts)
    header, arrays = model.to_checkpoint()
    return {"estimator": model.checkpoint_key, **header}, arrays


def content() -> Checkpoint:
    header, arrays = _content()
    return Checkpoint(copy.deepcopy(header), {key: a.copy() for key, a in arrays.items()})


def refused(file: Checkpoint) -> str:
    with (
        mock.patch.object(persistence, "read_checkpoint", return_value=file),
        pytest.raises(CheckpointError) as caught,
    ):
        load("spoilt.evl")
    assert "does not make" not in str(caught.value)  # an error that nobody had thought of
    return str(caught.value)


@pytest.mark.parametrize("key", sorted(_content()[1]))
def test_every_member_is_checked(key: str) -> None:
    array = content().arrays[key]
    for change in (SHAPES | (FLOATS if array.dtype.kind == "f" else INTEGERS)).values():
        file = content()
        file.arrays[key] = change(file.arrays[key])
        assert any(name in refused(file) for name in file.arrays)
    file = content()
    del file.arrays[key]
    assert key in refused(file)


def test_strange_members_are_refused() -> None:
    file = content()
    file.arrays["tree/more"] = np.ones(3)
    assert "tree/more" in refused(file)


def swapped(key: str) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        file.arrays[key] = file.arrays[key][::-1].copy()

    return change


def scaled(key: str, factor: float) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        file.arrays[key] = (file.arrays[key] * factor).astype(file.arrays[key].dtype)

    return change


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (swapped("tree/parents"), "tree/parents"),
        (swapped("tree/counts"), "tree/counts"),
        (scaled("tree/counts", 2.0), "tree/counts"),
        (scaled("tree/counts", 0.1), "tree/counts"),
        (scaled("tree/slots", 1.5), "tree/slots"),
        (scaled("tree/alpha", -1.0), "tree/alpha"),
        (scaled("kept/counts", 3), "kept/"),
        (swapped("kept/words"), "kept/words"),
        (scaled("kept/leaves", 0), "kept/leaves"),
        (scaled("kept/ranks", 3.0), "kept/ranks"),
        (scaled("past/levels", -1.0), "past/levels"),
    ],
)
def test_parts_must_belong_together(change: Callable[[Checkpoint], None], name: str) -> None:
    file = content()
    change(file)
    assert name in refused(file)


@pytest.mark.parametrize("key", ["params", "state", "words", "bounds", "feature_names"])
def test_header_is_checked(key: str) -> None:
    file = content()
    del file.header[key]
    assert key in refused(file)
    file = content()
    file.header[key] = 3
    assert key in refused(file)


@pytest.mark.parametrize("key", sorted(_content()[0]["state"]))
@pytest.mark.parametrize("value", [-1, None, "much", 1e305])
def test_state_is_checked(key: str, value: Any) -> None:
    file = content()
    file.header["state"][key] = value
    assert key in refused(file)


def test_params_are_checked() -> None:
    file = content()
    file.header["params"]["depth"] = 2
    assert "tree/" in refused(file)
    file = content()
    file.header["params"]["moves"] = "none"
    assert "moves" in refused(file)
