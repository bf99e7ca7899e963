"""Files whose parts contradict each other; `test_conformance.py` spoils each part alone."""

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from everlearn.store.archive import write_checkpoint
from everlearn.testing.data import planted_tree
from everlearn.trees.estimator import TopicTree
from everlearn.trees.stream import PAST

STATE = "learned/state"
TOPICS, RESERVOIR = f"{STATE}/topics", f"{STATE}/reservoir"
DOCUMENTS = f"{RESERVOIR}/documents"
Change = Callable[[dict[str, Any], dict[str, np.ndarray]], Any]


@cache
def _content() -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    counts = planted_tree(0, n_documents=60, n_tokens=30).counts
    model = TopicTree(random_state=0, batch_size=20, reservoir=25).partial_fit(counts)
    header, arrays = model.to_checkpoint()
    return {"estimator": model.checkpoint_key, **header}, arrays


def reverse(key: str) -> Change:
    return lambda header, arrays: arrays.update({key: arrays[key][::-1].copy()})


def scale(key: str, factor: float) -> Change:
    return lambda header, arrays: arrays.update(
        {key: (arrays[key] * factor).astype(arrays[key].dtype)}
    )


def first(key: str, value: float) -> Change:
    return lambda header, arrays: arrays[key].flat.__setitem__(0, value)


def set_state(**values: Any) -> Change:
    return lambda header, arrays: header["learned"]["state"].update(values)


def set_params(**values: Any) -> Change:
    return lambda header, arrays: header["params"].update(values)


def without_one_past_document(header: Any, arrays: dict[str, np.ndarray]) -> None:
    arrays[f"{STATE}/past"] = arrays[f"{STATE}/past"][1:].copy()


def smaller_vocabulary(header: Any, arrays: dict[str, np.ndarray]) -> None:
    header["learned"]["words"]["n_words"] -= 1


WRONG: list[tuple[str, Change, str]] = [
    ("parents of later nodes", reverse(f"{TOPICS}/tree/parents"), "tree/parents"),
    ("one id twice", first(f"{TOPICS}/tree/ids", 3), "tree/ids"),
    ("an id to come", lambda h, a: h["learned"]["state"]["topics"].update(next_id=2), "tree/ids"),
    ("too deep", lambda h, a: h["learned"]["state"]["topics"]["tree"].update(depth=2), "parents"),
    ("words at other places", reverse(f"{TOPICS}/counts"), "topics/counts"),
    ("more tokens than seen", scale(f"{TOPICS}/counts", 2.0), "topics/counts"),
    ("fewer tokens than kept", scale(f"{TOPICS}/counts", 0.1), "topics/counts"),
    ("more documents than seen", scale(f"{TOPICS}/slots", 1.5), "topics/slots"),
    ("documents at other nodes", reverse(f"{TOPICS}/slots"), "topics/slots"),
    ("no documents", scale(f"{TOPICS}/slots", 0.0), "topics/slots"),
    ("negative level prior", scale(f"{TOPICS}/alpha", -1.0), "topics/alpha"),
    ("more tokens than levels", scale(f"{DOCUMENTS}/counts", 3), "reservoir/levels"),
    ("words out of order", reverse(f"{DOCUMENTS}/words"), "documents/words"),
    ("an unknown word", first(f"{DOCUMENTS}/words", 10**6), "documents/words"),
    ("starts out of order", reverse(f"{DOCUMENTS}/indptr"), "documents/indptr"),
    ("a level below the last", first(f"{RESERVOIR}/levels", 3), "reservoir/levels"),
    ("leaves that are no leaves", scale(f"{RESERVOIR}/leaves", 0), "reservoir/leaves"),
    ("ranks above 1", scale(f"{RESERVOIR}/ranks", 3.0), "reservoir/ranks"),
    ("negative tokens", scale(f"{STATE}/past", -1.0), "past"),
    ("a document lost", without_one_past_document, "past"),
    ("fewer documents", set_state(n_documents=30), "topics/slots"),
    ("fewer tokens", set_state(n_tokens=100), "topics/counts"),
    ("another vocabulary", smaller_vocabulary, "topics/counts"),
    ("another depth", set_params(depth=2), "'depth'"),
    ("unknown option", set_params(options={"moves": "none"}), "'moves'"),
    ("endless options", set_params(options={"n_passes": 10**9}), "'n_passes'"),
    ("column names", lambda h, a: h.update(feature_names=["a"]), "feature_names"),
]


@pytest.mark.parametrize(("change", "words"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_contradictions_are_refused(change: Change, words: str, tmp_path: Path) -> None:
    header, arrays = copy.deepcopy(_content())
    change(header, arrays)
    write_checkpoint(tmp_path / "model.evl", header, arrays)
    with pytest.raises(CheckpointError, match=words) as caught:
        load(tmp_path / "model.evl")
    assert "does not make" not in str(caught.value)  # an error that no check raised


def test_no_document_may_be_lost() -> None:
    _, arrays = _content()
    kept = len(arrays[f"{RESERVOIR}/ranks"])
    assert 0 < len(arrays[f"{STATE}/past"]) == 60 - kept < PAST
